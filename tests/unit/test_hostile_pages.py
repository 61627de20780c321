"""Pages made to slow a reader down, to fill its memory, or to be misunderstood."""

import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from wagtail_indexnow.constants import FetchedAs
from wagtail_indexnow.submission.page_markup import read_markup
from wagtail_indexnow.submission.page_responses import PageResponse, read_page
from wagtail_indexnow.submission.robots import Robots

SIZE = 512 * 1024
URL = "https://www.example.com/en/news/"
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
NOINDEX = b'<meta name="robots" content="noindex">'


#: The promise is half a second on a quiet machine; quadratic work would take minutes.
LIMIT_S = 5.0


def filled(piece: str | bytes, before: str | bytes = b"", after: str | bytes = b"") -> bytes:
    """Return a piece over and over, as much as is read of a page."""
    piece, before, after = (
        part.encode() if isinstance(part, str) else part for part in (piece, before, after)
    )
    room = SIZE - len(before) - len(after)
    return before + (piece * (room // len(piece) + 1))[:room] + after


PAGES: dict[str, bytes] = {
    # nesting
    "divs": filled("<div>"),
    "spans": filled("<span>"),
    "links": filled("<a href=x>"),
    "formatting": filled("<b><i><u>"),
    "tables": filled("<table><tr><td>"),
    "lists": filled("<ul><li>"),
    "templates": filled("<template>"),
    "forms": filled("<form>"),
    "svg": filled("<svg>"),
    "foreign": filled("<svg><foreignObject><math><mtext>"),
    "noscripts": filled("<noscript>"),
    "select": filled("<option>", "<select>"),
    "paragraphs": filled("<p>"),
    "closed in the wrong order": filled("<b><p></b></p>"),
    "ends only": filled("</div>"),
    "heads": filled("<head>"),
    "bodies": filled("<body class=a>"),
    "html": filled("<html lang=en>"),
    "custom elements": filled("<x-y>"),
    "iframes": filled("<iframe>"),
    # half tags
    "brackets": filled("<"),
    "half tags": filled("<a"),
    "half attributes": filled("<a href='"),
    "quotes": filled("'\""),
    "comments that open": filled("<!--"),
    "comments that nearly end": filled("<!-- -- "),
    "declarations": filled("<!"),
    "instructions": filled("<?"),
    "sections": filled("<![CDATA["),
    "a script without an end": filled("a", "<script>"),
    "a title without an end": filled("<", "<title>"),
    "scripts that nearly end": filled("</scrip", "<script>"),
    "doctypes": filled("<!DOCTYPE html>"),
    # bombs
    "attributes": filled(" a", "<meta", ">"),
    "different attributes": b"<meta "
    + b" ".join(b"a%d=1" % number for number in range(60_000))
    + b">",
    "a long attribute": filled("a", '<meta name="robots" content="', '">'),
    "entities": filled("&amp;"),
    "entities without an end": filled("&a"),
    "numbers": filled("&#1114111;"),
    "entity definitions": filled('<!ENTITY a "&b;&b;">', "<!DOCTYPE html ["),
    "metas": filled('<meta name="robots" content="index">'),
    "canonicals": filled('<link rel="canonical" href="/en/news/">'),
    "bases": filled('<base href="/a/b/../">'),
    "refreshes": filled('<meta http-equiv="refresh" content="0; url=/en/news/">'),
    "directives": filled("unavailable_after: 1 Jan, ", '<meta name="robots" content="', '">'),
    "versions": filled('<meta name="indexnow-published-at" content="2026-13-45">'),
    "a long word": filled("x", "<p>"),
    # charsets
    "zeros": filled(b"\0"),
    "zeros in tags": filled(b"<m\0eta>"),
    "bad UTF-8": filled(b"\xff\xc0<"),
    "overlong UTF-8": filled(b"\xc0\xbc"),
    "UTF-16": b"\xff\xfe" + filled("<div>".encode("utf-16-le")),
    "odd UTF-16": b"\xfe\xff" + filled(b"<\xd8\0"),
    "shift states": filled(b"\x1b$B<a", '<meta charset="iso-2022-jp">'),
    "charsets": filled('<meta charset="gb18030">'),
    "codecs": filled('<meta charset="idna"><meta charset="zlib">'),
}
HEADERS: dict[str, list[tuple[str, str]]] = {
    "links": [("Link", "<a>; rel=canonical, " * 5_000)],
    "link parameters": [("Link", "<a>" + "; rel" * 20_000)],
    "robots": [("X-Robots-Tag", "unavailable_after: 1 Jan 2026, " * 5_000)],
    "agents": [("X-Robots-Tag", "a:" * 50_000)] * 10,
    "charset": [("Content-Type", "text/html" + "; charset=idna" * 10_000)],
    "location": [("Location", "http://" + "[" * 50_000)],
}


def read(body: bytes, headers: list[tuple[str, str]] | None = None, status: int = 200) -> FetchedAs:
    response = PageResponse(status=status, headers=headers or [], body=body, is_cut_off=True)
    return read_page(response, URL, now=NOW, markup=read_markup(response)).fetched_as


def took_s(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@pytest.mark.parametrize("name", PAGES)
def test_hostile_page_is_read_in_half_a_second(name: str) -> None:
    """Fifty pages and more, each as long as what is read of one; by the time of the processor."""
    body = PAGES[name][: SIZE + 3]

    assert min(took_s(lambda: read(body)) for _ in range(2)) < LIMIT_S


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_header_is_read_in_half_a_second(name: str) -> None:
    for status in (200, 302):
        assert took_s(lambda: read(b"", HEADERS[name], status)) < LIMIT_S  # noqa: B023


@pytest.mark.parametrize(
    "name", [name for name in PAGES if name not in {"UTF-16", "odd UTF-16", "zeros in tags"}]
)
def test_noindex_is_found_before_whatever_is_hostile(name: str) -> None:
    """A page cannot hide what it says by what it says afterwards."""
    assert read(b"<!doctype html><html><head>" + NOINDEX + PAGES[name]) == FetchedAs.NOINDEX


_MEASURE = """
import base64, json, resource, sys
from datetime import UTC, datetime
import django
django.setup()
from wagtail_indexnow.submission.page_markup import read_markup
from wagtail_indexnow.submission.page_responses import PageResponse, read_page

def peak_kb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def read(body):
    response = PageResponse(status=200, body=body, is_cut_off=True)
    read_page(
        response, "https://www.example.com/", now=datetime.now(UTC), markup=read_markup(response)
    )

read(b"<p>warm up")
grown = {}
for line in sys.stdin:
    name, body = json.loads(line)
    body = base64.b64decode(body)
    del line
    before = peak_kb()
    read(body)
    grown[name] = (peak_kb() - before) / 1024
print(json.dumps(grown))
"""


@pytest.mark.slow
def test_hostile_pages_take_little_memory() -> None:
    """20 MB each: by the peak of a process that reads one after the other."""
    lines = [json.dumps([name, base64.b64encode(body).decode()]) for name, body in PAGES.items()]

    run = subprocess.run(
        [sys.executable, "-c", _MEASURE],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        env={"DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": "."},
    )
    grown = json.loads(run.stdout)

    assert grown.keys() == PAGES.keys()
    assert sum(grown.values()) < 20, {name: mb for name, mb in grown.items() if mb > 1}


@pytest.mark.parametrize(
    "text",
    [
        "User-agent: *\n" + "Disallow: /" + "a*" * 100_000,
        "User-agent: *\n" + "Disallow: /*a*a*a*a*a*a*a*a*b$\n" * 10_000,
        "User-agent: *\n" * 30_000,
        "".join(f"User-agent: a{number}\nDisallow: /{number}\n" for number in range(10_000)),
        "\0" * SIZE,
    ],
    ids=["wildcards", "rules", "agents", "groups", "zeros"],
)
def test_hostile_robots_txt_is_read_in_half_a_second(text: str) -> None:
    url = "https://www.example.com/" + "a" * 2_000

    assert min(took_s(lambda: Robots(text[:SIZE]).forbids(url)) for _ in range(2)) < LIMIT_S
