"""Give a host a new IndexNow key."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from wagtail_indexnow import hosts
from wagtail_indexnow.submission import keys


class Command(BaseCommand):
    help = (
        "Make a new key for a host. The former one stays in use until the file of the new one is "
        "verified, and its file stays for a week after that."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host", help="Host name, as it stands in the site's URLs.")
        parser.add_argument(
            "--revoke",
            action="store_true",
            help="End the file of the former key at once, because it leaked. Nothing is submitted "
            "until the new file is verified. For a host in KEYS, end the file of the key before.",
        )
        parser.add_argument("--dry-run", action="store_true", help="Only say what would happen.")

    def handle(self, *args: Any, **options: Any) -> None:
        host = hosts.normalise_host(options["host"])
        known = keys.known_hosts()
        if host not in known:
            names = ", ".join(sorted(known))
            raise CommandError(f"{options['host']} is not a host of this site: {names}")
        is_configured = keys.configured_key(host) is not None
        if is_configured and not options["revoke"]:
            raise CommandError(f"The key of {host} is set in WAGTAIL_INDEXNOW['KEYS'].")
        if options["dry_run"]:
            self._explain(host, is_configured, options["revoke"])
            return
        if not is_configured:
            self.stdout.write(f"{host} has a new key: {keys.mask(keys.rotate(host))}.")
        if options["revoke"]:
            keys.revoke(host)
            self.stdout.write(f"The file of the former key of {host} has ended.")

    def _explain(self, host: str, is_configured: bool, is_revoking: bool) -> None:
        if not is_configured:
            former = keys.mask(keys.newest_key(host)) or "none"
            self.stdout.write(f"Would make a new key for {host}; the present one is {former}.")
        if is_revoking:
            self.stdout.write(f"Would end the file of the former key of {host} at once.")
