"""M8 to M13: the key file, when it is looked at, and what is remembered."""

import socket
import threading

import pytest

from example_site.engine.loopback_site import Page
from example_site.engine.selftest import HOST, KEY, NOON, Bench
from tests.engine.conftest import Start

LAZY = ("bing", "yandex")
OTHER_KEY = "f" * 32


def settled(b: Bench) -> tuple[int, str]:
    """Return status and rule once the engine has looked: at once, or on the second request."""
    reply = b.post()
    if reply.status == 202:
        reply = b.post()
    return reply.status, reply.rule


def test_m08_the_file_is_fetched_through_the_map_under_its_own_name(
    start: Start, profile: str
) -> None:
    b = start(profile)

    b.post()

    assert b.site.visits == [(HOST, f"/{KEY}.txt")]


def test_m08_a_written_port_stays_in_the_host_header(start: Start) -> None:
    b = start()

    b.post(keyLocation=f"http://{HOST}:8000/{KEY}.txt?a=b")

    assert b.site.visits == [(f"{HOST}:8000", f"/{KEY}.txt?a=b")]


def test_m08_a_host_outside_the_map_is_never_contacted(start: Start, profile: str) -> None:
    b = start(profile, newline_tolerant=True)
    post = {"host": "other.example", "urlList": ["https://other.example/"], "keyLocation": ...}

    reply = b.post(**post)
    if profile in LAZY:
        assert reply.status == 202
        reply = b.post(**post)

    assert (reply.status, reply.rule) == (403, "M11" if profile == "bing" else "M8")
    assert b.site.visits == []


def test_m08_a_site_that_is_down_is_a_refusal(start: Start) -> None:
    b = start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        b.engine.map_host(HOST, f"http://127.0.0.1:{free.getsockname()[1]}")

        reply = b.post()

    assert (reply.status, reply.rule) == (403, "M9")


def test_m08_a_site_that_only_speaks_plain_http_fails_over_https(start: Start) -> None:
    b = start()
    b.engine.map_host(HOST, b.site.url.replace("http:", "https:"))

    assert b.post().rule == "M9"


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (Page(status=404), "answered 404"),
        (Page(status=500, body=KEY.encode()), "answered 500"),
        (Page(status=302, headers={"Location": f"https://{HOST}/k"}), "answered 302"),
        (Page(body=KEY.upper().encode()), "exactly"),
        (Page(body=b" " + KEY.encode()), "exactly"),
        (Page(body=b""), "exactly"),
        (Page(body=b"\xef\xbb\xbf" + KEY.encode()), "byte order mark"),
        (Page(body=b"<!doctype html>" + KEY.encode()), "HTML"),
        (Page(body=KEY.encode() + b"\n" * 2000), "longer"),
    ],
    ids=["404", "500", "redirect", "case", "space", "empty", "bom", "html", "long"],
)
def test_m09_another_answer_than_the_key_is_refused(
    start: Start, profile: str, page: Page, why: str
) -> None:
    b = start(profile, negative_cache=False)
    b.site.pages[f"/{KEY}.txt"] = page

    assert settled(b) == (403, "M9")
    assert why in b.engine.keys[HOST, KEY].reason


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_m09_a_newline_passes_where_it_is_tolerated(start: Start, profile: str, end: bytes) -> None:
    b = start(profile, negative_cache=False)
    b.site.serve_key(KEY, KEY.encode() + end)

    is_tolerant = profile in ("bing", "lenient")
    assert settled(b) == ((200, "") if is_tolerant else (403, "M9"))


def test_m09_the_content_type_is_noted_only(start: Start, profile: str) -> None:
    b = start(profile)
    b.site.pages[f"/{KEY}.txt"] = Page(body=KEY.encode(), headers={"Content-Type": "image/png"})

    assert settled(b) == (200, "")
    assert b.engine.keys[HOST, KEY].content_type == "image/png"


def test_m09_redirects_are_followed_on_demand(start: Start, profile: str) -> None:
    b = start(profile, follow_redirects=True)
    b.site.pages[f"/{KEY}.txt"] = Page(status=301, headers={"Location": "/k"})
    b.site.pages["/k"] = Page(body=KEY.encode())

    assert settled(b) == (200, "")


@pytest.mark.parametrize(
    ("target", "rule"), [(f"/{KEY}.txt", "M9"), ("http://other.example/", "M8")]
)
def test_m09_a_followed_redirect_stays_in_bounds(start: Start, target: str, rule: str) -> None:
    b = start(follow_redirects=True)
    b.site.pages[f"/{KEY}.txt"] = Page(status=301, headers={"Location": target})

    assert b.post().rule == rule


def test_m09_a_site_that_does_not_answer_in_time_is_a_refusal(start: Start) -> None:
    b = start(key_file_timeout_s=0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        b.engine.map_host(HOST, f"http://127.0.0.1:{silent.getsockname()[1]}")

        assert b.post().rule == "M9"


def test_m09_no_time_left_is_a_refusal(start: Start) -> None:
    b = start(key_file_timeout_s=0.0)

    assert b.post().rule == "M9"
    assert b.site.visits == []


def test_m10_a_new_key_is_pending_only_where_checks_are_lazy(start: Start, profile: str) -> None:
    b = start(profile)

    statuses = [b.post().status, b.post().status]

    assert statuses == ([202, 200] if profile in LAZY else [200, 200])


def test_m10_a_wrong_key_is_seen_at_once_or_at_the_second_request(
    start: Start, profile: str
) -> None:
    b = start(profile)
    b.site.pages.clear()

    statuses = [b.post().status, b.post().status]

    assert statuses == ([202, 403] if profile in LAZY else [403, 403])


@pytest.mark.parametrize("lazy", LAZY)
def test_m10_a_delayed_check_waits_for_the_clock(start: Start, lazy: str) -> None:
    b = start(lazy, key_check_delay_s=60)

    before = [b.post().status, b.post().status]
    b.engine.advance(59)
    assert b.site.visits == []
    b.engine.advance(1)

    assert before == [202, 202]
    assert len(b.site.visits) == 1
    assert b.engine.keys[HOST, KEY].checked_at == NOON + 60
    assert b.post().status == 200


def test_m10_a_delayed_check_is_made_by_the_next_request_if_nothing_else_did(
    start: Start,
) -> None:
    times = iter([NOON, NOON + 60])
    b = start("bing", key_check_delay_s=60)
    b.engine.set_clock(lambda: NOON)
    b.post()
    b.engine._clock = lambda: next(times, NOON + 60)

    assert [b.post().status, b.post().status] == [202, 200]
    assert len(b.site.visits) == 1


@pytest.mark.parametrize("lazy", LAZY)
@pytest.mark.parametrize(
    ("mode", "statuses"),
    [("accept", [202, 202]), ("refuse_repeats", [202, 403]), ("refuse_all", [403, 403])],
)
def test_m10_what_is_answered_until_the_check_is_a_choice(
    start: Start, lazy: str, mode: str, statuses: list[int]
) -> None:
    b = start(lazy, key_check_delay_s=60, pending_answer=mode)

    replies = [b.post(), b.post()]

    assert [reply.status for reply in replies] == statuses
    if statuses[1] == 403:
        assert replies[1].rule == "M10"
    if statuses[1] == 403 and lazy == "bing":
        assert replies[1].error_code == "SiteVerificationNotCompleted"


def test_m11_only_bing_remembers_a_refusal(start: Start, profile: str) -> None:
    b = start(profile)
    b.site.pages.clear()
    b.post()
    b.site.serve_key(KEY)

    reply = b.post()

    assert (reply.status, reply.rule) == ((403, "M11") if profile == "bing" else (200, ""))


def test_m11_a_new_key_or_a_reset_helps(start: Start) -> None:
    b = start("bing")
    b.site.pages.clear()
    b.post()
    b.site.serve_key(KEY)
    b.site.serve_key(OTHER_KEY)
    assert b.post().error_code == "UserForbiddedToAccessSite"

    fresh = [b.post(key=OTHER_KEY).status for _ in range(2)]
    b.engine.reset()
    again = [b.post().status for _ in range(2)]

    assert fresh == again == [202, 200]


def test_m11_the_memory_can_be_switched_off(start: Start) -> None:
    b = start("bing", negative_cache=False)
    b.site.pages.clear()
    b.post()
    b.site.serve_key(KEY)

    assert b.post().status == 200


def test_m12_only_yandex_looks_again_at_each_request(start: Start, profile: str) -> None:
    b = start(profile)

    for _ in range(4):
        b.post()

    assert len(b.site.visits) == (4 if profile == "yandex" else 1)
    assert b.engine.keys[HOST, KEY].checks == len(b.site.visits)


def test_m12_a_file_that_vanishes_is_noticed_where_each_request_looks(
    start: Start, profile: str
) -> None:
    b = start(profile)
    settled(b)
    b.site.pages.clear()

    assert b.post().status == (403 if profile == "yandex" else 200)


def test_m12_parallel_first_requests_fetch_once(start: Start) -> None:
    b = start()
    threads = [threading.Thread(target=b.post) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [record.status for record in b.engine.requests] == [200] * 20
    assert len(b.site.visits) == 1


@pytest.mark.parametrize("is_bound", [True, False])
def test_m13_a_key_can_be_bound_to_its_first_host(
    start: Start, profile: str, is_bound: bool
) -> None:
    b = start(profile, bind_key_to_host=is_bound)
    b.post()

    other = b.post(host="example.com", urlList=["https://example.com/"], keyLocation=...)

    taken = 202 if profile in LAZY else 200
    assert other.status == (403 if is_bound else taken)
    assert other.rule == ("M13" if is_bound else "")


def test_unchecked_keys_are_taken_without_a_look(start: Start, profile: str) -> None:
    b = start(profile, check_keys=False)
    b.site.pages.clear()

    assert [b.post().status, b.post().status] == [200, 200]
    assert b.engine.keys[HOST, KEY].status == "unchecked"
    assert b.site.visits == []
