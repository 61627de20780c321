"""Requests of crawlers in access logs of several kinds, some of them written by strangers."""

import io
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from wagtail_indexnow.visits.access_logs import (
    BLOCK_BYTES,
    MAX_LINE_BYTES,
    LoggedRequest,
    Tally,
    read_requests,
)

BINGBOT = "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"
BROWSER = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/131.0 Safari/537.36"
NOON = datetime(2026, 12, 1, 12, 0, 3, tzinfo=UTC)


def line(
    target: str = "/en/news/",
    *,
    agent: str = BINGBOT,
    method: str = "GET",
    status: object = 200,
    at: str = "01/Dec/2026:13:00:03 +0100",
    before: str = "203.0.113.9 - -",
    referer: str = "-",
) -> str:
    request = f"{method} {target} HTTP/1.1"
    return f'{before} [{at}] "{request}" {status} 5120 "{referer}" "{agent}"\n'


def read(*lines: str | bytes) -> tuple[list[LoggedRequest], Tally]:
    tally = Tally()
    whole = b"".join(text.encode() if isinstance(text, str) else text for text in lines)
    return list(read_requests(io.BytesIO(whole), tally)), tally


def test_combined_line_of_a_crawler() -> None:
    [request], tally = read(line(), line(agent=BROWSER))

    assert request == LoggedRequest("Bingbot", "", "", "/en/news/", NOON, 200)
    assert (tally.named, tally.bad) == (1, 0)


@pytest.mark.parametrize(
    ("text", "host", "target"),
    [
        (line(before="www.example.com:443 203.0.113.9 - -"), "www.example.com:443", "/en/news/"),
        (line(before="www.example.com 2001:db8::9 - jo"), "www.example.com", "/en/news/"),
        (line(before="203.0.113.9 - jo doe"), "", "/en/news/"),
        (line("https://www.example.com/en/?page=2"), "www.example.com", "/en/?page=2"),
        (line("https://www.example.com"), "www.example.com", "/"),
        (line(referer=r"https://search.example/?q=\"news\""), "", "/en/news/"),
        (line().rstrip("\n"), "", "/en/news/"),
        (line().replace('bot.htm)"\n', 'bot.htm)" "198.51.100.7" 0.004\n'), "", "/en/news/"),
    ],
    ids=["host", "host without port", "user", "address", "bare address", "quotes", "end", "more"],
)
def test_combined_line_with_something_more(text: str, host: str, target: str) -> None:
    [request], tally = read(text)

    assert (request.host, request.target, request.status) == (host, target, 200)
    assert request.visited_at == NOON
    assert tally.bad == 0


@pytest.mark.parametrize(
    "entry",
    [
        {
            "time_iso8601": "2026-12-01T13:00:03+01:00", "host": "www.example.com",
            "request_method": "GET", "request_uri": "/en/news/", "status": 200,
            "http_user_agent": BINGBOT, "scheme": "https",
        },
        {
            "time_local": "01/Dec/2026:13:00:03 +0100", "http_host": "www.example.com",
            "request": "GET /en/news/ HTTP/2.0", "status": "200", "http_user_agent": BINGBOT,
            "scheme": "https",
        },
        {
            "ts": 1796126403.0, "status": 200,
            "request": {
                "method": "GET", "host": "www.example.com", "uri": "/en/news/",
                "headers": {"User-Agent": [BINGBOT]},
            },
            "scheme": "https",
        },
        {
            "EdgeStartTimestamp": 1796126403000000000, "ClientRequestHost": "www.example.com",
            "ClientRequestMethod": "GET", "ClientRequestURI": "/en/news/",
            "EdgeResponseStatus": 200, "ClientRequestUserAgent": BINGBOT,
            "ClientRequestScheme": "https",
        },
        {
            "StartUTC": "2026-12-01T12:00:03", "RequestHost": "www.example.com",
            "RequestMethod": "GET", "RequestPath": "/en/news/", "DownstreamStatus": 200,
            "request_User-Agent": BINGBOT, "RequestScheme": "https",
        },
        {
            "timestamp": "2026-12-01T12:00:03Z",
            "httpRequest": {
                "requestMethod": "GET", "requestUrl": "https://www.example.com/en/news/",
                "status": 200, "userAgent": BINGBOT,
            },
        },
    ],
    ids=["nginx", "nginx request", "Caddy", "Cloudflare", "Traefik", "Google Cloud"],
)  # fmt: skip
def test_json_line_of_a_crawler(entry: dict[str, Any]) -> None:
    [request], tally = read(json.dumps(entry))

    assert request == LoggedRequest("Bingbot", "https", "www.example.com", "/en/news/", NOON, 200)
    assert tally.bad == 0


@pytest.mark.parametrize(
    "text",
    [
        line(method="POST"),
        line(method="HEAD"),
        line(agent=BROWSER, referer="https://example.org/bingbot/2.0"),
        line("/bingbot/2.0", agent=BROWSER),
        json.dumps({"http_user_agent": BROWSER, "note": "bingbot/2.0"}),
    ],
    ids=["post", "head", "referer", "address", "elsewhere in JSON"],
)
def test_line_that_is_no_visit_of_a_crawler_is_not_bad(text: str) -> None:
    found, tally = read(text)

    assert (found, tally.bad) == ([], 0)


@pytest.mark.parametrize(
    "text",
    [
        "bingbot/2.0\n",
        line(status="-"),
        line(at="yesterday"),
        line(at="01/Foo/2026:13:00:03 +0100"),
        line(at="41/Dec/2026:13:00:03 +0100"),
        line().replace("GET /en/news/ HTTP/1.1", "-"),
        line("/a b"),
        '{"http_user_agent": "bingbot/2.0"\n',
        '{"http_user_agent": "bingbot/2.0", "request": "GET / HTTP/1.1", "status": 200}\n',
        '{"http_user_agent": "bingbot/2.0", "ts": 1e300, "request": "GET / -", "status": 2}\n',
        '{"http_user_agent": "bingbot/2.0", "ts": Infinity, "request": "GET / -", "status": 2}\n',
        '{"a":' * 5_000 + '"bingbot/2.0"\n',
        line("/" + "a" * MAX_LINE_BYTES),
    ],
    ids=[
        "nothing else", "status", "time", "month", "day", "request", "target", "JSON",
        "no time", "far time", "no time ever", "nesting", "too long",
    ],
)  # fmt: skip
def test_bad_line_is_counted_and_does_no_harm(text: str) -> None:
    found, tally = read(line(), text, line())

    assert len(found) == 2
    assert tally.bad == 1


def test_line_without_an_end_is_not_held_in_memory() -> None:
    endless = b"bingbot/2.0 " * (3 * BLOCK_BYTES // 12)

    found, tally = read(line(), endless, b"\n", line(), endless)

    assert len(found) == 2
    assert tally.bad == 2
    assert tally.size == 2 * len(endless) + 2 * len(line()) + 1


def test_line_across_two_blocks_is_read_once() -> None:
    filling = line(agent=BROWSER)
    lines = [filling] * (BLOCK_BYTES // len(filling)) + [line(), filling]

    found, _tally = read(*lines)

    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 1.0], ids=["usual", "crawlers only"])
def test_log_of_crawlers_only_takes_time_by_its_length(share: float) -> None:
    """50 MB/s on logs as they are; measured on a quiet machine by the benchmark `visits`."""
    lines = 40_000
    every = round(1 / share)
    log = "".join(line(agent=BINGBOT if n % every == 0 else BROWSER) for n in range(lines)).encode()

    def took(whole: bytes) -> float:
        started = time.perf_counter()
        assert sum(1 for _found in read_requests(io.BytesIO(whole), Tally()))
        return time.perf_counter() - started

    once = min(took(log) for _ in range(3))
    assert min(took(log * 4) for _ in range(3)) < 8 * once
