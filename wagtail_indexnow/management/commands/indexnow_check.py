"""Check everything that IndexNow needs, with a remedy for each problem."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from wagtail_indexnow.diagnostics.findings import Finding, Severity, needing_action
from wagtail_indexnow.diagnostics.health import check_all


class Command(BaseCommand):
    help = (
        "Check settings, key files, broker, workers, pauses and last responses. "
        "Exits with 1 if something needs action."
    )
    requires_system_checks = []  # it runs them itself, and shows them with the rest

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="Write JSON, for monitoring.")

    def handle(self, *args: Any, **options: Any) -> None:
        found = check_all()
        bad = needing_action(found)
        if options["json"]:
            report = {"ok": not bad, "findings": [asdict(finding) for finding in found]}
            self.stdout.write(json.dumps(report, ensure_ascii=False, indent=2))
        else:
            for finding in found:
                self._show(finding)
        if bad:
            raise CommandError(f"{len(bad)} of {len(found)} findings need action.")

    def _show(self, finding: Finding) -> None:
        styles = {
            Severity.OK: self.style.SUCCESS,
            Severity.INFO: self.style.NOTICE,
            Severity.ACTION: self.style.ERROR,
        }
        mark = styles[finding.severity](f"[{finding.severity.label}]")
        subject = f" {finding.subject}" if finding.subject else ""
        self.stdout.write(f"{mark} {finding.name}{subject}: {finding.message}")
        if finding.remedy and finding.severity != Severity.OK:
            self.stdout.write(f"     {finding.remedy}")
