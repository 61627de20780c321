"""Explain why a page's URLs were submitted, wait, or were skipped."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder

from wagtail_indexnow.constants import Reason
from wagtail_indexnow.diagnostics.explanation import (
    ExplainedEvent,
    ExplainedUrl,
    Explanation,
    Guard,
    explain,
)
from wagtail_indexnow.diagnostics.formatting import format_time
from wagtail_indexnow.management.page_lookup import find_page

_URL_FIELDS = (
    "endpoint", "url", "change", "state", "reason", "not_before", "sent_at", "last_status",
)  # fmt: skip
_EVENT_FIELDS = (
    "key", "kind", "state", "reason", "error", "run_at", "expected_at", "created_at",
    "finished_at", "scheduled_by",
)  # fmt: skip


class Command(BaseCommand):
    help = "Explain what was submitted for a page, what is pending, and why."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("page", help="Id, URL or path of a page.")
        parser.add_argument("--json", action="store_true", help="Write JSON, for monitoring.")

    def handle(self, *args: Any, **options: Any) -> None:
        page_id = find_page(options["page"])
        if page_id is None:
            raise CommandError(f"No page and no submitted URL matches {options['page']}.")
        found = explain(page_id)
        if options["json"]:
            text = json.dumps(_as_json(found), cls=DjangoJSONEncoder, ensure_ascii=False, indent=2)
            self.stdout.write(text)
        else:
            self._show(found)

    def _show(self, found: Explanation) -> None:
        refusal = found.refusal
        nothing = [f"none: {refusal.reason.label}" if refusal else "none"]
        self.stdout.write(f"Page {found.page_id}: {found.title}")
        self._part("Conditions", [_guard_line(guard) for guard in found.guards])
        self._part("Current URLs", found.urls or nothing)
        self._part("Submissions", [_url_line(url) for url in found.tracked] or ["none"])
        self._part(
            "Planned events", [_event_line(event) for event in found.open_events] or ["none"]
        )
        self._part("Past events", [_event_line(event) for event in found.past_events] or ["none"])

    def _part(self, title: str, lines: Any) -> None:
        self.stdout.write(f"{title}:")
        for line in lines:
            self.stdout.write(f"  {line}")


def _as_json(found: Explanation) -> dict[str, Any]:
    return {
        "page_id": found.page_id,
        "title": found.title,
        "reason": found.refusal.reason if found.refusal else "",
        "guards": [
            {"reason": guard.reason, "passed": guard.passed, "detail": guard.detail}
            for guard in found.guards
        ],
        "urls": found.urls,
        "tracked": [
            {name: getattr(url.row, name) for name in _URL_FIELDS}
            | {"why": url.wait.why, "waits_until": url.wait.until}
            for url in found.tracked
        ],
        "open_events": [_event_as_json(event) for event in found.open_events],
        "past_events": [_event_as_json(event) for event in found.past_events],
    }


def _event_as_json(event: ExplainedEvent) -> dict[str, Any]:
    fields = {name: getattr(event.row, name) for name in _EVENT_FIELDS}
    return fields | {"decision": event.decision}


def _guard_line(guard: Guard) -> str:
    if guard.passed:
        return f"[ok] {guard.reason}: {guard.detail}".removesuffix(": ")
    parts = [str(guard.reason.meaning), guard.detail, str(guard.reason.remedy)]
    return f"[no] {guard.reason}: {' '.join(filter(None, parts))}"


def _url_line(url: ExplainedUrl) -> str:
    row = url.row
    parts = [f"{row.endpoint} {row.url}: {row.change}, {row.state}"]
    if row.sent_at is not None:
        parts.append(f"last accepted {format_time(row.sent_at)}, response {row.last_status or '–'}")
    if str(url.wait):
        parts.append(str(url.wait))
    return "; ".join(parts)


def _event_line(event: ExplainedEvent) -> str:
    row = event.row
    parts = [f"{row.kind} of {format_time(row.created_at)}: {row.state}"]
    if row.expected_at is not None:
        parts.append(f"due {format_time(row.expected_at)}")
    if row.run_at is not None:
        parts.append(f"next check {format_time(row.run_at)}, would now {event.decision}")
    if row.scheduled_by:
        parts.append(f"by {row.scheduled_by}")
    return "; ".join([*parts, *filter(None, [Reason.label_of(row.reason), row.error])])
