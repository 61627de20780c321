"""Compare every page with the inventory now, and announce what differs."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from wagtail_indexnow.conf import conf
from wagtail_indexnow.constants import Reason
from wagtail_indexnow.management import progress
from wagtail_indexnow.models import Intent
from wagtail_indexnow.pages import audits
from wagtail_indexnow.pages.audits import Figures


class Command(BaseCommand):
    help = (
        "Check every page against the inventory of public URLs now, for changes that sent no "
        "signal: imports, bulk updates, changed Sites and settings. What differs becomes an event "
        "for each page, which workers announce. The first audit records what is public and "
        "announces nothing. Exits with 1 if a host changed too much at once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="Only show what differs; write nothing."
        )
        parser.add_argument(
            "--apply",
            action="store_true",
            help="Announce whatever differs, even if it is more than a tenth of a host.",
        )
        parser.add_argument("--json", action="store_true", help="Write JSON, for a monitor.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            self._show(self._compare(), options)
            return
        if not conf.enabled:
            raise CommandError("IndexNow is switched off here: see WAGTAIL_INDEXNOW['ENABLED'].")
        intent = self._run(apply=options["apply"])
        self._show(intent.detail, options)
        if intent.reason == Reason.MASS_CHANGE:
            raise CommandError(
                "Too many changes at once: nothing was planned for "
                f"{', '.join(intent.detail['blocked'])}. Check Sites and settings; if the changes "
                "are meant, run indexnow_audit --apply."
            )

    def _compare(self) -> dict[str, Any]:
        figures = Figures({})
        count = audits.page_count()
        for figures in audits.differences():
            progress.draw(self.stderr, figures.detail["checked"], count)
        return {**figures.detail, "blocked": sorted(figures.blocked())}

    def _run(self, *, apply: bool) -> Intent:
        opened = audits.open_audit()
        if opened is not None and apply != bool(opened.detail.get("apply")):
            raise CommandError("Another audit is in progress: try again when it has ended.")
        intent = opened or audits.plan_audit(apply=apply)
        assert intent is not None  # noqa: S101 - none was open
        count = audits.page_count()
        intent.refresh_from_db()
        while intent.run_at is not None:
            audits.audit_site(intent, progress=lambda done: progress.draw(self.stderr, done, count))
            intent.refresh_from_db()
        return intent

    def _show(self, detail: dict[str, Any], options: dict[str, Any]) -> None:
        if options["json"]:
            shown = {name: detail.get(name) for name in ("checked", "hosts", "blocked")}
            self.stdout.write(json.dumps(shown, ensure_ascii=False, indent=2))
            return
        self.stdout.write(f"{detail['checked']} pages checked.")
        for host, found in sorted(detail["hosts"].items()):
            self.stdout.write(
                f"{host}: {found['changed']} added or updated, {found['removed']} removed"
            )
            for example in found["examples"]:
                self.stdout.write(f"  {example['change']:8} {example['url']}")
        if not detail["hosts"]:
            self.stdout.write("Nothing differs from the inventory.")
