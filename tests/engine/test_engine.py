"""M18, M19, M22, M23 and the engine as an object: records, admin, page, crawl, bounds."""

import http.client
import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from example_site.engine import Answer, Engine, crawl
from example_site.engine.loopback_site import Page
from example_site.engine.selftest import HOST, JSON, KEY, NOON, Bench
from tests.engine.conftest import Start


def steer(b: Bench, name: str, value: Any = None) -> Any:
    """POST to an admin action, or GET it if there is nothing to say; return status and JSON."""
    method = "GET" if value is None else "POST"
    body = None if value is None else json.dumps(value).encode()
    reply = b.send(method, f"/_engine/{name}", body)
    return reply.status, json.loads(reply.body)


def test_a_record_has_all_there_is_to_know(start: Start) -> None:
    b = start()

    b.post("/a/")

    record = b.engine.requests[0]
    assert (record.number, record.at, record.method, record.path) == (1, NOON, "POST", "/indexnow")
    assert record.headers["content-type"] == JSON["Content-Type"]
    assert json.loads(record.raw) == record.parsed
    assert (record.status, record.rule, record.reason, record.host) == (200, "", "", HOST)
    assert record.client_address == "127.0.0.1"
    assert b.engine.submissions == [record]


def test_urls_can_be_asked_for_one_host(start: Start) -> None:
    b = start(check_keys=False)
    b.post("/a/")
    b.post(host="example.com", urlList=["https://example.com/b/"], keyLocation=...)

    assert b.engine.urls("EXAMPLE.com") == ["https://example.com/b/"]
    assert len(b.engine.urls()) == 2


def test_repeated_headers_are_joined(start: Start) -> None:
    b = start()
    connection = http.client.HTTPConnection(urlsplit(b.engine.url).netloc)
    connection.putrequest("GET", "/indexnow")
    connection.putheader("X-Many", "1")
    connection.putheader("X-Many", "2")
    connection.endheaders()
    connection.getresponse().read()
    connection.close()

    assert b.engine.requests[0].headers["x-many"] == "1, 2"


def test_a_hundred_kept_connections_are_served(start: Start) -> None:
    b = start()
    body = json.dumps({"host": HOST, "key": KEY, "urlList": [f"https://{HOST}/"]}).encode()
    statuses: list[int] = []

    def post_thrice() -> None:
        connection = http.client.HTTPConnection(urlsplit(b.engine.url).netloc, timeout=20)
        for _ in range(3):
            connection.request("POST", "/indexnow", body, JSON)
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
        connection.close()

    threads = [threading.Thread(target=post_thrice) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert statuses == [200] * 300
    assert [record.number for record in b.engine.requests] == list(range(1, 301))


def test_a_body_of_five_megabytes_is_taken(start: Start) -> None:
    b = start(check_keys=False)

    reply = b.post(*(f"/{number}/{'x' * 470}" for number in range(10_000)))

    assert reply.status == 200
    assert len(b.engine.requests[0].raw) > 5_000_000


def test_stopping_ends_kept_connections_and_keeps_the_records() -> None:
    engine = Engine().start()
    connection = http.client.HTTPConnection(urlsplit(engine.url).netloc, timeout=5)
    connection.request("GET", "/indexnow")
    connection.getresponse().read()

    engine.stop()
    engine.stop()

    assert connection.sock.recv(1) == b""
    connection.close()
    assert len(engine.requests) == 1
    with pytest.raises(RuntimeError):
        _ = engine.url


def test_an_engine_starts_once_at_a_time_and_again_after_a_stop() -> None:
    with Engine() as engine:
        with pytest.raises(RuntimeError):
            engine.start()
        assert engine.endpoint == engine.url + "/indexnow"
    with engine:
        assert engine.url


def test_a_fault_of_the_engine_shows_its_traceback(
    start: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    b = start()
    b.engine._clock = lambda: 1 / 0

    with pytest.raises(http.client.RemoteDisconnected):
        b.post()

    assert "ZeroDivisionError" in capfd.readouterr().err


def test_an_engine_can_listen_on_ipv6() -> None:
    try:
        engine = Engine(address="::1").start()
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert engine.url.startswith("http://[::1]:")
    engine.stop()


def test_m18_requests_urls_and_keys_can_be_read(start: Start) -> None:
    b = start()
    b.post("/a/")
    b.send("POST", "/indexnow", b"\xff")

    status, records = steer(b, "requests")
    assert (status, [record["status"] for record in records]) == (200, [200, 400])
    assert records[0]["parsed"]["urlList"] == records[0]["urls"] == [f"https://{HOST}/a/"]
    assert records[1]["raw"] == "\\xff"
    assert steer(b, "requests?limit=1")[1] == records[1:]
    assert steer(b, "urls")[1] == [f"https://{HOST}/a/"]
    assert steer(b, "urls?host=example.com")[1] == []
    keys = steer(b, "keys")[1]
    assert (keys[0]["host"], keys[0]["key"], keys[0]["status"]) == (HOST, KEY, "verified")


def test_m18_admin_requests_are_not_recorded(start: Start) -> None:
    b = start()

    steer(b, "requests")
    b.send("GET", "/")
    b.send("GET", "/engine.css")
    b.send("GET", "/favicon.ico")

    assert b.engine.requests == []


def test_m18_the_engine_can_be_steered_from_outside(start: Start) -> None:
    b = start()
    answers = [{"status": 503, "headers": {"X-A": "b"}, "body": "down"}]

    assert steer(b, "answers", {"answers": answers, "host": HOST}) == (200, {"ok": True})
    scripted = b.post()
    assert (scripted.status, scripted.headers["x-a"], scripted.body) == (503, "b", "down")

    steer(b, "map", {"host": "new.example", "base_url": b.site.url})
    new = b.post(host="new.example", urlList=["https://new.example/"], keyLocation=...)
    assert new.status == 200

    steer(b, "clock", {"now": 1000})
    steer(b, "clock", {"advance_s": 5})
    assert b.engine.now() == 1005.0
    steer(b, "clock", {"now": None})
    assert b.engine.now() != 1005.0

    steer(b, "reset", {})
    assert (b.engine.requests, b.engine.keys) == ([], {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("answers", {}),
        ("answers", {"answers": [{"code": 1}]}),
        ("answers", {"answers": [{"status": "1"}]}),
        ("clock", {}),
        ("clock", {"now": "noon"}),
        ("map", {"host": "www.bing.com", "base_url": "http://127.0.0.1"}),
        ("reset", []),
        ("requests?limit=x", None),
    ],
)
def test_m18_a_wrong_admin_request_says_why(start: Start, name: str, value: Any) -> None:
    b = start()

    status, reply = steer(b, name, value)

    assert status == 400
    assert reply["error"]


@pytest.mark.parametrize(
    ("method", "name", "status"),
    [("GET", "nothing", 404), ("POST", "keys", 405), ("GET", "reset", 405), ("PUT", "keys", 405)],
)
def test_m18_other_admin_actions_do_not_exist(
    start: Start, method: str, name: str, status: int
) -> None:
    b = start()

    assert b.send(method, f"/_engine/{name}").status == status


def test_m18_the_page_shows_what_came_and_escapes_it(start: Start) -> None:
    b = start("bing")
    b.post("/<script>alert(1)</script>")
    b.post("/a/", "/a/")
    b.post("/a/", key="bad<b>")
    b.engine.answer(Answer(status=202), Answer(drop=True))
    b.post(*(f"/{number}/" for number in range(15)))
    with pytest.raises(http.client.RemoteDisconnected):
        b.post()

    page = b.send("GET", "/")

    assert page.status == 200
    assert page.headers["content-security-policy"] == "default-src 'none'; style-src 'self'"
    assert "<script" not in page.body
    assert "style=" not in page.body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.body
    assert KEY not in page.body
    for text in ("and 5 more", "dropped", "duplicate_url", "verified", ">M4<", "too soon"):
        assert text in page.body
    assert page.body.index("dropped") < page.body.index("alert(1)")


def test_half_a_surrogate_pair_breaks_nothing(start: Start, profile: str) -> None:
    b = start(profile, check_keys=False, crawl=True)

    statuses = [b.post("/\ud800").status, b.post(urlList=["\ud800"]).status]

    assert b.engine.wait_crawled()
    assert statuses == [200, 422]
    assert "\\ud800" in b.send("GET", "/").body
    assert steer(b, "urls")[1] == [f"https://{HOST}/\ud800"]


def test_m18_an_empty_page_says_so_and_brings_its_style(start: Start) -> None:
    b = start()

    assert b.send("GET", "/").body.count("Nothing yet.") == 2
    style = b.send("GET", "/engine.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "body {" in style.body
    assert b.send("HEAD", "/").status == 200


def test_m19_time_is_the_engines_clock(start: Start) -> None:
    b = start()
    b.engine.set_clock(1000)
    b.post()
    b.engine.set_clock(lambda: 2000.0)
    b.post()
    b.engine.advance(0.5)
    b.post()

    assert [record.at for record in b.engine.requests] == [1000.0, 2000.0, 2000.5]


def test_m22_a_crawl_shows_what_the_urls_answer(start: Start) -> None:
    b = start(crawl=True, key_check="eager")
    b.site.pages |= {
        "/live/": Page(body=b"<p>Hello"),
        "/moved/": Page(status=301, headers={"Location": "/live/"}),
        "/gone/": Page(status=410),
        "/hidden/": Page(body=b'<meta name="robots" content="noindex">'),
        "/header/": Page(headers={"X-Robots-Tag": "noindex"}),
    }
    paths = ["/live/", "/moved/", "/gone/", "/hidden/", "/header/", "/missing/"]

    b.post(*paths)
    b.post("/missing/", key="short")

    assert b.engine.wait_crawled()
    seen = [b.engine.sightings[1, f"https://{HOST}{path}"] for path in paths]
    assert seen == ["200", "301", "410", "noindex", "noindex", "404"]
    assert len(b.engine.sightings) == len(paths)
    page = b.send("GET", "/").body
    assert '<span class="badge moved">301</span>' in page
    assert '<span class="badge gone">410</span>' in page


def test_m22_a_crawl_stays_in_the_map_and_survives_silence(start: Start) -> None:
    b = start(crawl=True, check_keys=False)
    b.post(host="other.example", urlList=["https://other.example/"], keyLocation=...)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        b.engine.map_host(HOST, f"http://127.0.0.1:{free.getsockname()[1]}")
        b.post()
        b.engine.wait_crawled()

    assert b.engine.wait_crawled()
    assert list(b.engine.sightings.values()) == ["not mapped", "no answer"]


def test_m22_a_reset_forgets_the_crawl(start: Start) -> None:
    b = start(crawl=True, check_keys=False)
    b.post()
    b.engine.wait_crawled()

    b.engine.reset()

    assert b.engine.sightings == {}


def test_m22_a_reset_ends_a_long_crawl(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    b = start(crawl=True, check_keys=False)
    looking, go_on = threading.Event(), threading.Event()

    def sight(_url: str, _host_map: object) -> str:
        looking.set()
        go_on.wait(5)
        return "200"

    monkeypatch.setattr(crawl, "sight", sight)
    b.post(*(f"/{number}/" for number in range(1000)))
    looking.wait(5)
    b.engine.reset()
    go_on.set()

    assert b.engine.wait_crawled()
    assert b.engine.sightings == {}


def test_m22_there_is_no_crawl_unless_asked_for(start: Start) -> None:
    b = start(check_keys=False)

    b.post()

    assert b.engine.wait_crawled(0)
    assert b.site.visits == []


@pytest.mark.parametrize(
    "host",
    [
        "api.indexnow.org",
        "indexnow.org",
        "www.bing.com",
        "WWW.BING.COM.",
        "yandex.com",
        "search.seznam.cz",
        "searchadvisor.naver.com",
        "indexnow.yep.com",
        "indexnow.amazonbot.amazon",
    ],
)
def test_m23_a_map_that_names_a_real_engine_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="real engine"):
        Engine(host_map={host: "http://127.0.0.1:8000"})
    with pytest.raises(ValueError, match="real engine"):
        Engine().map_host(host, "http://127.0.0.1:8000")


@pytest.mark.parametrize(
    "base_url",
    [
        "http://192.0.2.1:8000",
        "http://0.0.0.0:8000",
        "http://www.example.com",
        "http://a.localhost:8000",
        "http://127.0.0.1@192.0.2.1/",
        "http://127.0.0.1:8000/path",
        "http://127.0.0.1:8000?query",
        "ftp://127.0.0.1",
        "127.0.0.1:8000",
        "",
    ],
)
def test_m08_a_map_target_is_a_loopback_base_url(base_url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- the messages differ by what is wrong
        Engine(host_map={"www.example.com": base_url})


@pytest.mark.parametrize(
    "base_url", ["http://localhost:8000", "http://127.0.0.1:8000/", "https://[::1]:8443"]
)
def test_m08_loopback_targets_are_taken(base_url: str) -> None:
    assert Engine(host_map={"www.example.com": base_url})


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_m18_other_addresses_than_loopback_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="loopback"):
        Engine(address=address)


def test_an_unknown_profile_or_override_is_refused() -> None:
    with pytest.raises(ValueError, match="google"):
        Engine("google")
    with pytest.raises(TypeError):
        Engine(speed=5)
