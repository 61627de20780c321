"""Say why a page's URLs were sent, wait, or were not sent."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder

from wagtail_indexnow.diagnostics.explanation import (
    Explanation,
    Guard,
    PlannedLook,
    Tracked,
    explain,
)
from wagtail_indexnow.diagnostics.formatting import moment
from wagtail_indexnow.management.page_lookup import find_page


class Command(BaseCommand):
    help = "Explain what search engines were told of a page, what waits, and why."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("page", help="Id, URL or path of a page.")
        parser.add_argument("--json", action="store_true", help="Write JSON, for a monitor.")

    def handle(self, *args: Any, **options: Any) -> None:
        page_id = find_page(options["page"])
        if page_id is None:
            raise CommandError(f"There is no page {options['page']}, and engines know none.")
        found = explain(page_id)
        if options["json"]:
            text = json.dumps(asdict(found), cls=DjangoJSONEncoder, ensure_ascii=False, indent=2)
            self.stdout.write(text)
        else:
            self._show(found)

    def _show(self, found: Explanation) -> None:
        self.stdout.write(f"Page {found.page_id}: {found.title}")
        self._part("Guards", [_guard(guard) for guard in found.guards])
        self._part("URLs now", found.urls or [f"none: {found.message}"])
        self._part("Told", [_tracked(row) for row in found.tracked] or ["nothing"])
        self._part("Planned", [_look(item) for item in found.open_intents] or ["nothing"])
        self._part("Ended", [_look(item) for item in found.past_intents] or ["nothing"])

    def _part(self, title: str, lines: Any) -> None:
        self.stdout.write(f"{title}:")
        for line in lines:
            self.stdout.write(f"  {line}")


def _guard(guard: Guard) -> str:
    return f"{'ok' if guard.passed else '!!'} {guard.name}: {guard.message}"


def _tracked(row: Tracked) -> str:
    parts = [f"{row.endpoint} {row.url}: {row.change}, {row.state}"]
    if row.sent_at is not None:
        parts.append(f"sent {moment(row.sent_at)}, answer {row.last_status or '–'}")
    if row.waits_until is not None:
        parts.append(f"waits until {moment(row.waits_until)}")
    return "; ".join([*parts, *filter(None, [row.message])])


def _look(item: PlannedLook) -> str:
    parts = [f"{item.kind} of {moment(item.created_at)}: {item.state}"]
    if item.expected_at is not None:
        parts.append(f"due {moment(item.expected_at)}")
    if item.run_at is not None:
        parts.append(f"next look {moment(item.run_at)}, would now {item.verdict}")
    if item.scheduled_by:
        parts.append(f"by {item.scheduled_by}")
    return "; ".join([*parts, *filter(None, [item.message, item.error])])
