"""Requests of crawlers in access logs: combined format or JSON, one request a line. Pure.

Only lines that name a crawler are taken apart, which is what makes this quick. Lines are the
input of strangers: longer ones than 16 KB are passed over, wherever they end.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

from .crawlers import TOKENS, named_in

MAX_LINE_BYTES = 16_384
BLOCK_BYTES = 1 << 20
_TOKENS = [token.encode() for token in TOKENS]
_QUOTED = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"')  # unrolled: ten times as quick
_MONTHS = ["", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
#: Where servers and CDNs write what is wanted here; a dot leads into an object.
_FIELDS = {
    "user_agent": (
        "http_user_agent", "user_agent", "userAgent", "request_user_agent",
        "ClientRequestUserAgent", "request_User-Agent", "request.headers.User-Agent",
        "httpRequest.userAgent", "cs(User-Agent)",
    ),
    "request": ("request", "request_line"),
    "method": (
        "request_method", "method", "ClientRequestMethod", "RequestMethod", "request.method",
        "httpRequest.requestMethod", "cs-method",
    ),
    "target": (
        "request_uri", "ClientRequestURI", "RequestPath", "request.uri",
        "httpRequest.requestUrl", "url", "uri", "path", "cs-uri-stem",
    ),
    "host": (
        "host", "http_host", "vhost", "ClientRequestHost", "RequestHost", "request.host",
        "x-host-header", "server_name",
    ),
    "scheme": ("scheme", "ClientRequestScheme", "RequestScheme"),
    "status": (
        "status", "status_code", "response_status", "EdgeResponseStatus", "DownstreamStatus",
        "httpRequest.status", "sc-status",
    ),
    "time": (
        "time_iso8601", "time", "@timestamp", "timestamp", "ts", "time_local", "datetime",
        "EdgeStartTimestamp", "StartUTC", "msec",
    ),
}  # fmt: skip


class LoggedRequest(NamedTuple):
    """One GET of a crawler. `host` and `scheme` are empty where the line does not name them."""

    crawler: str
    scheme: str
    host: str
    target: str  # path and query, as requested
    visited_at: datetime
    status: int


@dataclass(kw_only=True)
class Tally:
    """How much was read: bytes, lines that name a crawler, and how many of those make no sense."""

    size: int = 0
    named: int = 0
    bad: int = 0


def read_requests(stream: BinaryIO, tally: Tally) -> Iterator[LoggedRequest]:
    """Yield the GET requests of crawlers in a log, and count what was read."""
    for line in _lines_naming_crawlers(stream, tally):
        tally.named += 1
        try:
            found = _parse_json(line) if line.lstrip()[:1] == b"{" else _parse_combined(line)
        except (ValueError, LookupError, OverflowError, RecursionError):
            tally.bad += 1
            continue
        if found is not None:
            yield found


def _lines_naming_crawlers(stream: BinaryIO, tally: Tally) -> Iterator[bytes]:
    for block in _whole_lines(stream, tally):
        lowered = block.lower()
        spans = {span for token in _TOKENS for span in _spans_of(token, block, lowered)}
        for start, end in sorted(spans):
            if end - start > MAX_LINE_BYTES:
                tally.bad += 1
            else:
                yield block[start:end]


def _whole_lines(stream: BinaryIO, tally: Tally) -> Iterator[bytes]:
    """Yield blocks that end with a line, without holding a line that does not end."""
    rest = b""
    is_skipping = False
    while block := stream.read(BLOCK_BYTES):
        tally.size += len(block)
        if is_skipping:
            block = block[block.find(b"\n") + 1 :] if b"\n" in block else b""
            is_skipping = not block
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            yield whole + newline
        if len(rest) > MAX_LINE_BYTES:
            tally.bad += 1
            rest, is_skipping = b"", True
    if rest:
        yield rest + b"\n"


def _spans_of(token: bytes, block: bytes, lowered: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each line that holds a token begins and ends."""
    end = 0
    while (at := lowered.find(token, end)) != -1:
        # Never back beyond the last one, so that this takes time by length and not by its square.
        start = max(block.rfind(b"\n", end, at) + 1, end)
        end = block.find(b"\n", at)
        yield start, end


def _parse_combined(line: bytes) -> LoggedRequest | None:
    """Read a line of Apache's and nginx's usual format, perhaps with the host in front."""
    request, _referer, user_agent, *_more = _QUOTED.findall(line)
    crawler = named_in(user_agent.decode(errors="replace"))
    if crawler is None:  # named in the address, or by a page that led here
        return None
    before, _quote, after = line.partition(b'"')
    client, _bracket, time = before.partition(b"[")
    status = after[len(request) + 1 :].split(maxsplit=1)[0]
    return _request(
        crawler,
        request=request.decode(errors="replace"),
        host=_virtual_host(client.split()).decode(errors="replace"),
        status=int(status),
        visited_at=_parse_local_time(time.partition(b"]")[0].decode(errors="replace")),
    )


def _virtual_host(words: list[bytes]) -> bytes:
    """Return the host that stands before address, identity and user, if one does."""
    has_host = len(words) > 3 and words[1] != b"-" and words[2] == b"-"
    return words[0] if has_host else b""


def _parse_json(line: bytes) -> LoggedRequest | None:
    entry = json.loads(line)
    crawler = named_in(_text(entry, "user_agent"))
    if crawler is None:
        return None
    request = _text(entry, "request") or f"{_text(entry, 'method')} {_text(entry, 'target')} -"
    return _request(
        crawler,
        request=request,
        scheme=_text(entry, "scheme"),
        host=_text(entry, "host"),
        status=int(_text(entry, "status")),
        visited_at=_parse_time(_text(entry, "time")),
    )


def _request(
    crawler: str, *, request: str, host: str, status: int, visited_at: datetime, scheme: str = ""
) -> LoggedRequest | None:
    method, target, _protocol = request.split()
    if method != "GET":
        return None
    if not target.startswith("/"):  # a whole address, as proxies are asked and some logs write
        parts = urlsplit(target)
        scheme, host = parts.scheme, parts.netloc
        target = parts._replace(scheme="", netloc="").geturl() or "/"
    return LoggedRequest(crawler, scheme.lower(), host, target, visited_at, status)


def _text(entry: Any, name: str) -> str:
    """Return the first of a field's names that an entry has, as text; empty if none."""
    for path in _FIELDS[name]:
        value = _lookup(entry, path.split("."))
        if isinstance(value, str | int | float):
            return str(value)
    return ""


def _lookup(entry: Any, path: Iterable[str]) -> Any:
    for name in path:
        if not isinstance(entry, Mapping) or name not in entry:
            return None
        entry = entry[name]
    return entry[0] if isinstance(entry, list) and entry else entry


def _parse_time(text: str) -> datetime:
    try:
        number = float(text)
    except ValueError:
        return _parse_local_time(text) if text[2:3] == "/" else _with_zone(text)
    for _unit in ("milliseconds", "microseconds", "nanoseconds"):
        if number > 1e11:
            number /= 1000
    return datetime.fromtimestamp(number, UTC)


def _with_zone(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


@lru_cache(maxsize=1024)  # a busy server writes many lines in a second
def _parse_local_time(text: str) -> datetime:
    """Read `01/Dec/2026:18:00:03 +0100`. By hand: `strptime` reads months by the locale."""
    date, _space, zone = text.partition(" ")
    day, month, rest = date.split("/")
    year, hour, minute, second = rest.split(":")
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5]))
    return datetime(
        int(year),
        _MONTHS.index(month),
        int(day),
        int(hour),
        int(minute),
        int(second),
        tzinfo=timezone(-offset if zone[0] == "-" else offset),
    )
