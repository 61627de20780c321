"""Record visits of crawlers from access logs, for sites whose pages a CDN or cache answers."""

import gzip
import sys
import zlib
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError

from wagtail_indexnow import hosts
from wagtail_indexnow.models import Channel
from wagtail_indexnow.visits import recording
from wagtail_indexnow.visits.access_logs import LoggedRequest, Tally, read_requests
from wagtail_indexnow.visits.recording import SeenUrl

STDIN = "-"
BATCH = 500
SCHEMES = ("https", "http")
_GZIP = b"\x1f\x8b"


class Command(BaseCommand):
    help = (
        "Record which crawlers came after a submission, from access logs in combined format or "
        "JSON, also compressed with gzip. Reading a log twice changes nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="+", metavar="FILE", help='A log, or "-" for stdin.')
        parser.add_argument("--host", help="The host of lines that name none.")
        parser.add_argument(
            "--dry-run", action="store_true", help="Only count what would be read and recorded."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        host = self._host(options["host"])
        tally, count = Tally(), 0
        for name in options["file"]:
            try:
                with _opened(name) as stream:
                    for batch in _batches(read_requests(stream, tally), host):
                        count += recording.record(batch, is_dry_run=options["dry_run"])
            except (OSError, EOFError, zlib.error) as error:
                raise CommandError(f"{name}: {error}") from error
        if not options["dry_run"]:
            recording.note_logs_were_read()
        verb = "Would record" if options["dry_run"] else "Recorded"
        self.stdout.write(
            f"Read {tally.size / 1e6:.1f} MB with {tally.named} lines that name a crawler, "
            f"{tally.bad} of them unreadable. {verb} {count} visits."
        )

    def _host(self, named: str | None) -> str:
        """Return the host of lines that name none: the only one there is, if none was given."""
        if named is not None:
            host = hosts.normalise_host(named)
            if host is None:
                raise CommandError(f"{named} is not a host name.")
            return host
        known = list(Channel.objects.exclude(host="").values_list("host", flat=True).distinct()[:2])
        return known[0] if len(known) == 1 else ""


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open a log for reading, through gzip if it begins like that."""
    if name == STDIN:
        yield _unpacked(sys.stdin.buffer)
        return
    with Path(name).open("rb") as stream:
        yield _unpacked(stream)


def _unpacked(stream: Any) -> BinaryIO:
    is_packed = stream.peek(len(_GZIP))[: len(_GZIP)] == _GZIP
    return gzip.GzipFile(fileobj=stream) if is_packed else stream  # type: ignore[return-value]


def _batches(requests: Iterable[LoggedRequest], host: str) -> Iterator[Sequence[SeenUrl]]:
    requests = iter(requests)
    while batch := list(islice(requests, BATCH)):
        yield [
            SeenUrl(urls, request.crawler, request.status, request.visited_at)
            for request in batch
            if (urls := _spellings(request, request.host or host))
        ]


def _spellings(request: LoggedRequest, host: str) -> list[str]:
    """Return a request's URL in normal form, with each scheme that the line leaves open."""
    schemes = [request.scheme] if request.scheme in SCHEMES else SCHEMES
    urls = [hosts.normalise(f"{scheme}://{host}{request.target}") for scheme in schemes]
    return [url for url in urls if url is not None]
