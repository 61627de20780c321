"""``python -m example_site.engine.selftest``: does the engine judge a client rightly? (M24)

A client of nothing but ``http.client`` sends what a good client sends, and what a bad one might.
Case numbers are those of the client conformance list. Prints one line per case; ends with 1 if
one fails.
"""

import http.client
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from example_site.engine.engine import Engine
from example_site.engine.loopback_site import LoopbackSite, Page
from example_site.engine.records import Answer

HOST = "www.example.com"
KEY = "0123456789abcdef0123456789abcdef"
JSON = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "selftest/1"}
# Any fixed moment; rules only see differences, and the day budget its UTC midnight.
NOON = 1_767_268_800.0


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer as the client sees it: lower-case header names, decoded body."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def rule(self) -> str:
        return self.headers.get("x-mock-rule", "")

    @property
    def error_code(self) -> str:
        return str(json.loads(self.body)["errorCode"])


@dataclass(frozen=True, kw_only=True)
class Bench:
    """An engine, a site with a right key file, and a client."""

    engine: Engine
    site: LoopbackSite

    def post(self, *paths: str, **fields: Any) -> Reply:
        """POST paths of the host; ``fields`` replace those of the payload, ``...`` drops one."""
        urls = [f"https://{HOST}{path}" for path in paths or ("/a/",)]
        location = f"https://{HOST}/{fields.get('key', KEY)}.txt"
        payload = {"host": HOST, "key": KEY, "keyLocation": location, "urlList": urls, **fields}
        kept = {name: value for name, value in payload.items() if value is not ...}
        return self.send("POST", "/indexnow", json.dumps(kept).encode())

    def send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = JSON,
    ) -> Reply:
        """Send a request on a connection of its own.

        :raises OSError, http.client.HTTPException: if there is no whole answer.
        """
        connection = http.client.HTTPConnection(urlsplit(self.engine.url).netloc, timeout=5)
        try:
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Reply(status=response.status, headers=headers, body=response.read().decode())
        finally:
            connection.close()


@contextmanager
def bench(profile: str = "lenient", **overrides: Any) -> Iterator[Bench]:
    """Give an engine and a site for one case."""
    with LoopbackSite() as site:
        site.serve_key(KEY)
        bases = {HOST: site.url, "example.com": site.url}
        with Engine(profile, bases, clock=lambda: NOON, **overrides) as engine:
            yield Bench(engine=engine, site=site)


Case = Callable[[], bool]
CASES: dict[str, Case] = {}


def case(title: str) -> Callable[[Case], Case]:
    """Register a case under its number and title."""

    def register(function: Case) -> Case:
        CASES[title] = function
        return function

    return register


@case("1 one URL is one accepted POST")
def _one() -> bool:
    with bench() as b:
        reply = b.post("/a/")
        record = b.engine.requests[0]
        return reply.status == 200 and not record.anomalies and b.engine.urls() == list(record.urls)


@case("2 keyLocation may be absent, not null")
def _no_location() -> bool:
    with bench() as b:
        return b.post(keyLocation=...).status == 200 and b.post(keyLocation=None).rule == "M7"


@case("3 three URLs keep their order")
def _order() -> bool:
    with bench() as b:
        b.post("/c/", "/a/", "/b/")
        return [url[-3:] for url in b.engine.urls()] == ["/c/", "/a/", "/b/"]


@case("4 10,000 URLs pass, 10,001 do not")
def _count() -> bool:
    with bench() as b:
        paths = [f"/{number}/" for number in range(10_001)]
        full, over = b.post(*paths[:10_000]), b.post(*paths)
        return (full.status, over.status, over.rule) == (200, 422, "M4")


@case("5, 6 www and apex are two hosts")
def _apex() -> bool:
    with bench() as b:
        mixed = b.post(urlList=[f"https://{HOST}/", "https://example.com/"])
        return (mixed.status, mixed.rule) == (422, "M5") and b.engine.urls() == []


@case("7 http and https of one host go together")
def _schemes() -> bool:
    with bench() as b:
        return b.post(urlList=[f"https://{HOST}/", f"http://{HOST}/"]).status == 200


@case("10 a GET submits one escaped URL")
def _get() -> bool:
    with bench() as b:
        url = f"https://{HOST}/a?b=1&c=%20%2B"
        reply = b.send("GET", f"/indexnow?url={quote(url, safe='')}&key={KEY}")
        return reply.status == 200 and b.engine.urls() == [url]


@case("15 an IDN host equals its punycode")
def _idn() -> bool:
    with bench(check_keys=False) as b:
        reply = b.post(
            host="bücher.example",
            keyLocation=f"https://xn--bcher-kva.example/{KEY}.txt",
            urlList=["https://xn--bcher-kva.example/"],
        )
        return reply.status == 200


@case("21 URLs that are no http(s) URLs are refused")
def _bad_urls() -> bool:
    with bench() as b:
        bad = ("ftp://www.example.com/", "mailto:a@example.com", "/a/", "https:///a", "")
        return all(b.post(urlList=[url]).rule == "M3" for url in bad)


@case("24 key length and alphabet")
def _key_schema() -> bool:
    with bench(check_keys=False) as b:
        bad = ("a" * 7, "a" * 129, "a_345678", "a=345678", "a 345678", "a345678\n", "ä2345678")
        good = ("a" * 8, "a" * 128, "A-b90000")
        refused = all(b.post(key=key, keyLocation=f"https://{HOST}/k").rule == "M4" for key in bad)
        return refused and all(b.post(key=key).status == 200 for key in good)


@case("29 an exact key file proves the key, fetched once")
def _key_file() -> bool:
    with bench() as b:
        statuses = [b.post(f"/{number}/").status for number in range(3)]
        return statuses == [200] * 3 and b.site.visits == [(HOST, f"/{KEY}.txt")]


@case("30 any other key file is refused")
def _bad_key_files() -> bool:
    with bench(newline_tolerant=False) as b:
        pages = (
            Page(status=404),
            Page(status=500, body=KEY.encode()),
            Page(status=301, headers={"Location": f"https://{HOST}/k"}),
            Page(body=b"<p>" + KEY.encode()),
            Page(body=b"\xef\xbb\xbf" + KEY.encode()),
            Page(body=KEY.encode() + b"\n"),
            Page(body=b"x" * 2000),
        )
        for page in pages:
            b.site.pages[f"/{KEY}.txt"] = page
            if (reply := b.post()).status != 403 or reply.rule != "M9":
                return False
        return True


@case("31 a keyLocation on another host is refused unseen")
def _foreign_location() -> bool:
    with bench() as b:
        reply = b.post(keyLocation=f"https://example.com/{KEY}.txt")
        return (reply.status, reply.rule) == (422, "M7") and not b.site.visits


@case("32 a key file in a folder covers that folder")
def _scope() -> bool:
    with bench(check_keys=False) as b:
        location = f"https://{HOST}/sub/{KEY}.txt"
        inside, outside = b.post("/sub/a", keyLocation=location), b.post(keyLocation=location)
        return (inside.status, outside.status, outside.rule) == (200, 422, "M7")


@case("37, 38 a new key is pending, then proved")
def _lazy() -> bool:
    with bench("bing") as b:
        return [b.post().status, b.post().status] == [202, 200]


@case("40, 41 Bing says which part is wrong")
def _details() -> bool:
    with bench("bing") as b:
        reply = b.post(keyLocation="nowhere")
        details = json.loads(reply.body)["details"]
        return reply.status == 400 and details[0]["target"] == "keyLocation"


@case("42 403 while the key is being verified")
def _verifying() -> bool:
    with bench("bing", pending_answer="refuse_all") as b:
        first, second = b.post(), b.post()
        code = "SiteVerificationNotCompleted"
        return (first.status, first.error_code, second.status) == (403, code, 200)


@case("44 a burned key stays refused, a new one works")
def _burned() -> bool:
    with bench("bing") as b:
        b.site.pages.clear()
        b.post()
        b.site.serve_key(KEY)
        burned = b.post()
        b.site.serve_key("f" * 32)
        fresh = [b.post(key="f" * 32).status for _ in range(2)]
        refused = (burned.status, burned.rule, burned.error_code)
        return refused == (403, "M11", "UserForbiddedToAccessSite") and fresh == [202, 200]


@case("45 a refusal in plain text")
def _plain() -> bool:
    with bench("seznam") as b:
        b.site.pages.clear()
        reply = b.post()
        return reply.status == 403 and reply.headers["content-type"].startswith("text/plain")


@case("46 other paths and methods")
def _endpoint() -> bool:
    with bench() as b:
        return (b.send("POST", "/other", b"{}").status, b.send("PUT", "/indexnow").status) == (
            404,
            405,
        )


@case("49, 50 too many requests, with and without Retry-After")
def _too_many() -> bool:
    for mode, wanted in (("none", None), ("seconds", "60")):
        with bench("naver", rate_limit=1, retry_after=mode) as b:
            first, second = b.post(), b.post()
            if (first.status, second.status, second.headers.get("retry-after")) != (
                200,
                429,
                wanted,
            ):
                return False
    return True


@case("52 a scripted 503, then normal again")
def _scripted() -> bool:
    with bench() as b:
        b.engine.answer(Answer(status=503, headers={"Retry-After": "7"}))
        down, up = b.post(), b.post()
        return (down.status, down.headers["retry-after"], up.status) == (503, "7", 200)


@case("53 no answer at all, and half an answer")
def _broken() -> bool:
    with bench() as b:
        b.engine.answer(Answer(drop=True), Answer(body=b"half", truncate=True))
        for _ in range(2):
            try:
                b.post()
            except (OSError, http.client.HTTPException):
                continue
            return False
        return [record.status for record in b.engine.requests] == [0, 200]


@case("54 a scripted redirect")
def _redirect() -> bool:
    with bench() as b:
        b.engine.answer(Answer(status=308, redirect_to="https://elsewhere.example/"))
        reply = b.post()
        return (reply.status, reply.headers["location"]) == (308, "https://elsewhere.example/")


@case("56 the same URL inside the gap is marked")
def _too_soon() -> bool:
    with bench() as b:
        b.post("/a/")
        b.engine.advance(599)
        b.post("/a/")
        b.engine.advance(600)
        b.post("/a/")
        return [len(record.too_soon) for record in b.engine.requests] == [0, 1, 0]


def main() -> int:
    """Run every case; return the exit status."""
    failed = 0
    for title, run in CASES.items():
        try:
            passed = run()
        except Exception as error:  # A case that breaks has failed; the others still run.
            title, passed = f"{title} ({type(error).__name__}: {error})", False
        failed += not passed
        print("ok    " if passed else "FAILED", title)
    print(f"{len(CASES)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
