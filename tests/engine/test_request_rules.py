"""M1 to M7: what a request must be before rate and key are looked at."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from example_site.engine.selftest import HOST, KEY
from tests.engine.conftest import Start

UNCHECKED = {"check_keys": False, "rate_limit": None}


def test_m01_both_spellings_and_a_final_slash_are_one_endpoint(start: Start, profile: str) -> None:
    b = start(profile, **UNCHECKED)
    body = json.dumps({"host": HOST, "key": KEY, "urlList": [f"https://{HOST}/"]}).encode()

    paths = ("/indexnow", "/indexnow/", "/IndexNow", "/IndexNow/")
    replies = [b.send("POST", path, body) for path in paths]

    assert [reply.status for reply in replies] == [200] * 4


@pytest.mark.parametrize("path", ["/", "/INDEXNOW", "/indexnow/x", "/indexnow//"])
def test_m01_other_paths_are_not_found(start: Start, profile: str, path: str) -> None:
    b = start(profile)

    reply = b.send("POST", path, b"{}")

    assert (reply.status, reply.rule) == (404, "M1")
    assert b.engine.requests[0].path == path


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "OPTIONS", "PROPFIND"])
def test_m01_other_methods_are_not_allowed(start: Start, profile: str, method: str) -> None:
    b = start(profile)

    reply = b.send(method, "/indexnow")

    assert (reply.status, reply.rule, reply.headers["allow"]) == (405, "M1", "GET, POST")


def test_m03_an_overlong_body_is_refused_but_kept(start: Start, profile: str) -> None:
    b = start(profile, max_body_bytes=100)

    reply = b.send("POST", "/indexnow", b"x" * 101)

    assert (reply.status, reply.rule) == (413, "M3")
    assert b.engine.requests[0].raw == b"x" * 101


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"text"', b"null", b"\xff{}", b"[" * 100_000],
    ids=["empty", "cut", "list", "string", "null", "not utf-8", "deep"],
)
def test_m03_a_body_that_is_no_json_object_is_refused(
    start: Start, profile: str, body: bytes
) -> None:
    b = start(profile)

    reply = b.send("POST", "/indexnow", body)

    assert (reply.status, reply.rule) == (400, "M3")
    assert b.engine.requests[0].parsed is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Transfer-Encoding": "chunked"}, 400),
        ({"Content-Length": "many"}, 400),
        ({"Content-Length": str(2**40)}, 413),
    ],
    ids=["chunked", "no number", "huge"],
)
def test_m03_a_body_that_cannot_be_read_ends_the_connection(
    start: Start, headers: dict[str, str], status: int
) -> None:
    b = start()

    reply = b.send("POST", "/indexnow", None, headers)

    assert (reply.status, reply.rule) == (status, "M3")
    assert reply.headers["connection"] == "close"


def test_m03_a_body_that_ends_early_is_refused(start: Start) -> None:
    b = start()
    target = urlsplit(b.engine.url)
    with socket.create_connection((target.hostname, target.port), timeout=5) as connection:
        connection.sendall(b"POST /indexnow HTTP/1.1\r\nContent-Length: 10\r\n\r\n{}")
        connection.shutdown(socket.SHUT_WR)

        answer = connection.makefile("rb").readline()

    assert b" 400 " in answer
    assert b.engine.requests[0].reason == "The body cannot be read: it ended early."


@pytest.mark.parametrize(
    ("urls", "rule"),
    [
        ("https://www.example.com/", "M3"),
        ({"a": 1}, "M3"),
        ([f"https://{HOST}/", 5], "M3"),
        ([f"https://{HOST}/", None], "M3"),
        ([], "M3"),
    ],
    ids=["string", "object", "number", "null", "empty"],
)
def test_m03_a_list_that_is_no_list_of_urls_is_refused(
    start: Start, profile: str, urls: object, rule: str
) -> None:
    b = start(profile)

    reply = b.post(urlList=urls)

    assert (reply.status, reply.rule) == (400 if profile == "bing" else 422, rule)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/a/",
        "a/",
        "//www.example.com/",
        "ftp://www.example.com/",
        "mailto:a@example.com",
        "https:///a",
        "https://www.example.com:port/",
        "https://www.example.com:/",
        "https://www.example.com\\@example.org/",
        "https://user@www.example.com/",
    ],
)
def test_m03_a_url_that_is_not_absolute_http_refuses_all(
    start: Start, profile: str, url: str
) -> None:
    b = start(profile)

    reply = b.post(urlList=[f"https://{HOST}/a/", url])

    assert (reply.status, reply.rule) == (422, "M3")
    assert b.engine.urls() == []


def test_m03_the_first_broken_rule_in_order_is_named(start: Start, profile: str) -> None:
    b = start(profile, rate_limit=0, max_urls=1, max_body_bytes=1000)
    b.site.pages.clear()
    foreign = ["https://example.com/"]
    steps: list[tuple[dict[str, Any], int | str]] = [
        ({"key": ..., "host": ..., "urlList": ["x" * 1000]}, 413),
        ({"host": ..., "key": "short"}, "M4"),
        ({"key": "short", "urlList": "no list"}, "M4"),
        ({"urlList": [1, 2]}, "M3"),
        ({"urlList": ["no", "urls"]}, "M4"),
        ({"urlList": ["no url"], "host": "http://x"}, "M3"),
        ({"urlList": foreign, "keyLocation": "nowhere"}, "M5"),
        ({"keyLocation": "nowhere"}, "M7"),
        ({"keyLocation": f"https://{HOST}/sub/k.txt"}, "M7"),
        ({}, "M15"),
    ]

    found = [b.post(**fields) for fields, _ in steps]

    assert [r.status if r.status == 413 else r.rule for r in found] == [want for _, want in steps]


@pytest.mark.parametrize("field", ["host", "key", "urlList"])
@pytest.mark.parametrize("value", [..., None, ""], ids=["absent", "null", "empty"])
def test_m04_a_missing_field_is_named(
    start: Start, profile: str, field: str, value: object
) -> None:
    b = start(profile)

    reply = b.post(**{field: value})

    wanted = 422 if profile in ("yandex", "seznam") else 400
    assert (reply.status, reply.rule) == (wanted, "M4")
    assert field in b.engine.requests[0].reason


@pytest.mark.parametrize("query", ["", "key=" + KEY, f"url=https%3A%2F%2F{HOST}%2F"])
def test_m04_a_get_needs_url_and_key(start: Start, profile: str, query: str) -> None:
    b = start(profile)

    reply = b.send("GET", f"/indexnow?{query}")

    wanted = 422 if profile in ("yandex", "seznam") else 400
    assert (reply.status, reply.rule) == (wanted, "M4")


@pytest.mark.parametrize(
    "key",
    ["a" * 7, "a" * 129, "a_345678", "a=345678", "a 345678", "a345678\n", "ä2345678", 12345678],
)
def test_m04_a_key_of_another_form_is_refused(start: Start, profile: str, key: object) -> None:
    b = start(profile)

    reply = b.post(key=key, keyLocation=...)

    assert (reply.status, reply.rule) == (422, "M4")


@pytest.mark.parametrize("key", ["a" * 8, "a" * 128, "A-b90000"])
def test_m04_every_allowed_key_form_passes(start: Start, profile: str, key: str) -> None:
    b = start(profile, **UNCHECKED)

    assert b.post(key=key).status == 200


def test_m04_ten_thousand_urls_are_the_most(start: Start, profile: str) -> None:
    b = start(profile, **UNCHECKED)
    paths = [f"/{number}/" for number in range(10_001)]

    full, over = b.post(*paths[:10_000]), b.post(*paths)

    assert full.status == 200
    assert (over.status, over.rule) == (400 if profile == "bing" else 422, "M4")
    assert len(b.engine.urls()) == 10_000


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/",
        "https://en.www.example.com/",
        "https://www.example.com.evil.example/",
        "https://www.example.org/",
    ],
)
def test_m05_one_foreign_url_refuses_the_whole_post(start: Start, profile: str, url: str) -> None:
    b = start(profile)

    reply = b.post(urlList=[f"https://{HOST}/a/", url])

    assert (reply.status, reply.rule) == (422, "M5")
    assert b.engine.urls() == []
    assert b.engine.submissions == []


@pytest.mark.parametrize(
    "host",
    ["https://www.example.com", "www.example.com/", "user@www.example.com", "www. example.com", 5],
)
def test_m05_host_is_a_bare_name(start: Start, profile: str, host: object) -> None:
    b = start(profile)

    reply = b.post(host=host)

    assert (reply.status, reply.rule) == (422, "M5")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("WWW.Example.com", "https://www.example.COM/"),
        ("www.example.com.", "https://www.example.com/"),
        ("bücher.example", "https://xn--bcher-kva.example/"),
        ("xn--bcher-kva.example", "https://BÜCHER.example/"),
        ("www.example.com", "https://www.example.com:443/"),
        ("www.example.com", "http://www.example.com:80/"),
        ("www.example.com", "http://www.example.com:8000/"),
        ("localhost", "http://localhost:8000/"),
        ("127.0.0.1:8000", "http://127.0.0.1:9000/"),
        ("unmapped.example:8000", "http://unmapped.example:8000/"),
        ("[::1]", "http://[::1]:8000/"),
    ],
)
def test_m05_one_host_in_two_spellings_matches(start: Start, host: str, url: str) -> None:
    b = start(**UNCHECKED)

    assert b.post(host=host, urlList=[url], keyLocation=...).status == 200


@pytest.mark.parametrize("url", ["http://unmapped.example:8000/", "https://unmapped.example:80/"])
def test_m05_a_port_counts_on_a_host_outside_the_map(start: Start, url: str) -> None:
    b = start(**UNCHECKED)

    reply = b.post(host="unmapped.example", urlList=[url], keyLocation=...)

    assert (reply.status, reply.rule) == (422, "M5")


def test_m06_both_schemes_go_together(start: Start, profile: str) -> None:
    b = start(profile, **UNCHECKED)
    urls = [f"https://{HOST}/", f"http://{HOST}/"]

    assert b.post(urlList=urls).status == 200
    assert b.engine.urls() == urls


def test_m06_a_repeat_counts_once_and_is_flagged(start: Start, profile: str) -> None:
    b = start(profile, **UNCHECKED)

    b.post("/a/", "/b/", "/a/")
    b.post("/a/")

    assert [url[-3:] for url in b.engine.urls()] == ["/a/", "/b/", "/a/"]
    assert ["duplicate_url" in record.anomalies for record in b.engine.requests] == [True, False]


def test_m07_key_location_on_another_host_is_refused(start: Start, profile: str) -> None:
    b = start(profile)

    reply = b.post(keyLocation=f"https://example.com/{KEY}.txt")

    assert (reply.status, reply.rule) == (422, "M7")
    assert b.site.visits == []


@pytest.mark.parametrize("location", ["nowhere", "", None, 5, f"ftp://{HOST}/{KEY}.txt"])
def test_m07_a_malformed_key_location_is_refused(
    start: Start, profile: str, location: object
) -> None:
    b = start(profile)

    reply = b.post(keyLocation=location)

    assert (reply.status, reply.rule) == (400 if profile == "bing" else 422, "M7")
    if profile == "bing":
        assert json.loads(reply.body)["details"][0]["target"] == "keyLocation"


@pytest.mark.parametrize(
    ("path", "is_covered"),
    [
        ("/sub/", True),
        ("/sub/a/b", True),
        ("/sub/./a/", True),
        ("/sub", False),
        ("/subway/", False),
        ("/", False),
        ("/sub/../a", False),
    ],
)
def test_m07_a_key_file_covers_its_own_folder(
    start: Start, profile: str, path: str, is_covered: bool
) -> None:
    b = start(profile, **UNCHECKED)

    reply = b.post(path, keyLocation=f"https://{HOST}/sub/{KEY}.html")

    assert (reply.status, reply.rule) == ((200, "") if is_covered else (422, "M7"))


def test_m07_without_key_location_the_file_is_at_the_root(start: Start, profile: str) -> None:
    b = start(profile)

    b.post(keyLocation=...)

    assert b.site.visits == [(HOST, f"/{KEY}.txt")]


def test_m07_a_get_may_name_the_key_location(start: Start) -> None:
    b = start()
    b.site.pages["/k.html"] = b.site.pages[f"/{KEY}.txt"]
    location = f"https%3A%2F%2F{HOST}%2Fk.html"

    reply = b.send(
        "GET", f"/indexnow?url=https%3A%2F%2F{HOST}%2Fa&key={KEY}&keyLocation={location}"
    )

    assert reply.status == 200
    assert b.site.visits == [(HOST, "/k.html")]
