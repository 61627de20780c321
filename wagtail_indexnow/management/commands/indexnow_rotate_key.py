"""Give a host a new IndexNow key."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from wagtail_indexnow import hosts
from wagtail_indexnow.conf import conf
from wagtail_indexnow.diagnostics.health import hosts_here
from wagtail_indexnow.models import HostKey
from wagtail_indexnow.submission import keys


class Command(BaseCommand):
    help = (
        "Create a new key for a host. The former key stays in use until the new key file is "
        "verified."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host", help="Host name, as it appears in the site's URLs.")
        parser.add_argument("--dry-run", action="store_true", help="Only show what would happen.")

    def handle(self, *args: Any, **options: Any) -> None:
        host = _known(options["host"])
        if host in {hosts.normalise_host(name) for name in conf.keys}:
            raise CommandError(f"The key of {host} is set in WAGTAIL_INDEXNOW['KEYS'].")
        if options["dry_run"]:
            row = HostKey.objects.filter(host=host).first()
            former = keys.mask(row.key) if row else "none"
            self.stdout.write(f"Would create a new key for {host}. Current key: {former}.")
        else:
            self.stdout.write(f"{host} has a new key: {keys.mask(keys.rotate(host))}.")


def _known(name: str) -> str:
    host = hosts.normalise_host(name)
    known = set(hosts_here()) | set(HostKey.objects.values_list("host", flat=True))
    if host is None or host not in known:
        raise CommandError(f"{name} is not a host of this site. Hosts: {', '.join(sorted(known))}")
    return host
