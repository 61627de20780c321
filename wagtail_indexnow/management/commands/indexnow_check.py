"""Say what works and what does not, with a fix for each; for persons and monitors."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from wagtail_indexnow.diagnostics.findings import Finding, trouble
from wagtail_indexnow.diagnostics.health import findings

MARKS = {True: "ok", None: "--", False: "!!"}


class Command(BaseCommand):
    help = (
        "Look at settings, key files, broker, workers, holds and last answers. "
        "Exits with 1 if a person has to do something."
    )
    requires_system_checks = []  # it runs them itself, and shows them beside the rest

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="Write JSON, for a monitor.")

    def handle(self, *args: Any, **options: Any) -> None:
        found = findings()
        bad = trouble(found)
        if options["json"]:
            report = {"ok": not bad, "findings": [asdict(finding) for finding in found]}
            self.stdout.write(json.dumps(report, ensure_ascii=False, indent=2))
        else:
            for finding in found:
                self._show(finding)
        if bad:
            raise CommandError(f"{len(bad)} of {len(found)} findings need a person.")

    def _show(self, finding: Finding) -> None:
        subject = f" {finding.subject}" if finding.subject else ""
        style = {True: self.style.SUCCESS, None: self.style.NOTICE, False: self.style.ERROR}
        mark = style[finding.ok](MARKS[finding.ok])
        self.stdout.write(f"{mark} {finding.name}{subject}: {finding.message}")
        if finding.fix and not finding.ok:
            self.stdout.write(f"     {finding.fix}")
