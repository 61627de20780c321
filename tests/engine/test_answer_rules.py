"""M14 to M17, M20, M21: bodies, pace, scripted answers, rule ids and remarks."""

import http.client
import json
import threading
import time
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from example_site.engine import Answer
from example_site.engine.rules import RULES
from example_site.engine.selftest import HOST, JSON, KEY, NOON
from tests.engine.conftest import Start

BODIES = {
    "bing": ("", "application/json; charset=utf-8"),
    "yandex": ('{"success": true}', "application/json; charset=utf-8"),
    "seznam": ("OK", "text/plain; charset=utf-8"),
    "naver": ("", None),
    "lenient": ("", "application/json; charset=utf-8"),
}
RATED = {"rate_limit": 2, "rate_window_s": 60.0, "check_keys": False}


def test_m14_each_engine_has_its_own_bodies(start: Start, profile: str) -> None:
    b = start(profile, check_keys=False)

    success, refusal = b.post(), b.post(key="short")

    success_body, refusal_type = BODIES[profile]
    assert success.body == success_body
    assert refusal.headers.get("content-type") == refusal_type


def test_m14_bing_names_code_message_and_details(start: Start) -> None:
    b = start("bing")

    body = json.loads(b.post(key="short").body)
    bare = json.loads(b.send("PUT", "/indexnow").body)

    assert set(body) == {"errorCode", "message", "details"}
    assert body["errorCode"] == "InvalidRequestParameters"
    assert body["details"] == [{"target": "key", "message": body["message"]}]
    assert bare["details"] is None


def test_m15_requests_are_counted_not_urls(start: Start, profile: str) -> None:
    b = start(profile, **RATED)

    replies = [b.post("/a/", "/b/", "/c/") for _ in range(3)]

    assert [reply.status for reply in replies] == [200, 200, 429]
    assert replies[2].rule == "M15"
    assert "retry-after" not in replies[2].headers
    if profile == "bing":
        assert replies[2].error_code == "TooManyRequests"


def test_m15_only_lenient_has_no_limit(start: Start, profile: str) -> None:
    b = start(profile, check_keys=False)

    statuses = [b.post().status for _ in range(6)]

    assert statuses[5] == (200 if profile == "lenient" else 429)


def test_m15_the_window_slides_and_refusals_do_not_count(start: Start) -> None:
    b = start(**RATED)
    b.post()
    b.engine.advance(30)
    b.post()
    refused = b.post().status
    b.engine.advance(30)

    assert (refused, b.post().status, b.post().status) == (429, 200, 429)


def test_m15_a_limit_of_none_at_all_refuses_everything(start: Start) -> None:
    b = start(rate_limit=0, retry_after="seconds")

    assert b.post().headers["retry-after"] == "86400"


def test_m15_malformed_requests_do_not_count(start: Start) -> None:
    b = start(**RATED)
    for _ in range(3):
        b.post(key="short")

    assert b.post().status == 200


def test_m15_the_rate_comes_before_the_key(start: Start, profile: str) -> None:
    b = start(profile, rate_limit=0)

    assert b.post().rule == "M15"
    assert b.site.visits == []
    assert b.engine.keys == {}


def test_m15_a_day_budget_ends_at_the_engines_midnight(start: Start, profile: str) -> None:
    b = start(profile, day_budget=1, rate_limit=None, check_keys=False, retry_after="seconds")
    first, second = b.post(), b.post()
    b.engine.advance(12 * 3600 - 1)
    last_second = b.post()
    b.engine.advance(1)
    midnight = b.post()

    statuses = [reply.status for reply in (first, second, last_second, midnight)]
    assert statuses == [200, 429, 429, 200]
    assert second.headers["retry-after"] == str(12 * 3600)


def test_m15_a_new_day_has_its_whole_budget(start: Start) -> None:
    b = start(day_budget=2, check_keys=False)
    b.post()
    b.post()
    b.engine.advance(12 * 3600)

    assert [b.post().status for _ in range(3)] == [200, 200, 429]


@pytest.mark.parametrize("mode", ["seconds", "date", "garbage"])
def test_m15_retry_after_comes_in_three_forms(start: Start, mode: str) -> None:
    b = start(**RATED, retry_after=mode)
    b.post()
    b.engine.advance(10.5)
    b.post()

    value = b.post().headers["retry-after"]

    if mode == "garbage":
        assert value == "in a while"
    elif mode == "seconds":
        assert value == "50"
    else:
        assert parsedate_to_datetime(value).timestamp() == int(NOON + 60.5)


def test_m16_a_url_inside_the_gap_is_marked(start: Start, profile: str) -> None:
    b = start(profile, check_keys=False)
    b.post("/a/")
    b.engine.advance(599)
    b.post("/a/", "/b/")
    b.engine.advance(600)
    b.post("/a/")

    marks = [record.too_soon for record in b.engine.requests]
    assert marks == [(), (f"https://{HOST}/a/",), ()]
    assert len(b.engine.submissions) == 3


def test_m16_a_refused_url_starts_no_gap(start: Start) -> None:
    b = start()
    pages = dict(b.site.pages)
    b.site.pages.clear()
    b.post("/a/")
    b.site.pages.update(pages)

    b.post("/a/")

    assert b.engine.requests[1].too_soon == ()


def test_m16_a_url_inside_the_gap_can_be_refused(start: Start, profile: str) -> None:
    b = start(profile, check_keys=False, refuse_too_soon=True, retry_after="seconds")
    b.post("/a/")
    b.engine.advance(100)

    again, other = b.post("/a/"), b.post("/b/")

    assert (again.status, again.rule, again.headers["retry-after"]) == (429, "M16", "500")
    assert other.status == 200


def test_m17_scripted_answers_come_first_and_once(start: Start, profile: str) -> None:
    b = start(profile, check_keys=False)
    b.engine.answer(Answer(status=503, headers={"Retry-After": "7"}, body=b"down"))

    scripted, normal = b.post("/a/"), b.post("/b/")

    assert (scripted.status, scripted.body, scripted.headers["retry-after"]) == (503, "down", "7")
    assert scripted.rule == "M17"
    assert normal.status == 200
    assert b.engine.urls() == [f"https://{HOST}/b/"]


@pytest.mark.parametrize("status", [200, 202])
def test_m17_a_scripted_acceptance_counts_its_urls(start: Start, status: int) -> None:
    b = start()
    b.site.pages.clear()
    b.engine.answer(Answer(status=status))

    b.post("/a/", "/b/")

    assert len(b.engine.urls()) == 2
    assert b.site.visits == []
    assert b.engine.requests[0].rule == "M17"


def test_m17_answers_can_be_kept_for_one_host(start: Start) -> None:
    b = start(check_keys=False)
    b.engine.answer(Answer(status=500), host="Example.com")

    www = b.post()
    apex = b.post(host="example.com", urlList=["https://example.com/"], keyLocation=...)

    assert (www.status, apex.status) == (200, 500)


def test_m17_answers_can_be_kept_for_one_path(start: Start) -> None:
    b = start(check_keys=False)
    b.engine.answer(Answer(status=418, body=b"pot"), path="/elsewhere")

    assert b.post().status == 200
    assert b.send("GET", "/elsewhere").body == "pot"
    assert b.send("GET", "/elsewhere").status == 404


def test_m17_other_paths_use_up_no_response(start: Start) -> None:
    b = start()
    b.engine.answer(Answer(status=500))

    assert b.send("GET", "/elsewhere").status == 404
    assert b.post().status == 500


def test_m17_a_dropped_connection_counts_nothing(start: Start) -> None:
    b = start()
    b.engine.answer(Answer(drop=True))

    with pytest.raises(http.client.RemoteDisconnected):
        b.post()

    assert [record.status for record in b.engine.requests] == [0]
    assert b.engine.urls() == []


def test_m17_an_applied_drop_counts_what_the_rules_accept(start: Start) -> None:
    b = start()
    b.engine.answer(Answer(drop=True, apply=True), Answer(status=500, apply=True))

    with pytest.raises(http.client.RemoteDisconnected):
        b.post("/a/")
    broken = b.post("/b/")

    assert broken.status == 500
    assert [record.status for record in b.engine.submissions] == [0, 500]
    assert len(b.engine.urls()) == 2
    assert len(b.site.visits) == 1


def test_m17_an_applied_acceptance_counts_nothing_the_rules_refuse(start: Start) -> None:
    b = start()
    b.engine.answer(Answer(status=200, apply=True))

    assert b.post("/a/", key="short").status == 200
    assert b.engine.urls() == []


@pytest.mark.parametrize("body", [b"", b"some body"])
def test_m17_a_truncated_answer_breaks_off(start: Start, body: bytes) -> None:
    b = start()
    b.engine.answer(Answer(body=body, truncate=True))

    with pytest.raises(http.client.IncompleteRead) as caught:
        b.post()

    assert caught.value.partial == body


@pytest.mark.parametrize(("status", "sent"), [(200, 302), (308, 308)])
def test_m17_a_redirect_has_a_location(start: Start, status: int, sent: int) -> None:
    b = start()
    b.engine.answer(Answer(status=status, redirect_to="https://elsewhere.example/"))

    reply = b.post()

    assert (reply.status, reply.headers["location"]) == (sent, "https://elsewhere.example/")
    assert b.engine.urls() == []


def test_m17_a_slow_drip_arrives_whole(start: Start) -> None:
    b = start()
    b.engine.answer(Answer(slow_drip_s=0.0001), Answer(body=b"slowly", slow_drip_s=0.0001))

    assert b.post().body == " " * 64
    assert b.post().body == "slowly"


@pytest.mark.parametrize(
    "answer", [Answer(delay_s=300), Answer(slow_drip_s=300)], ids=["delay", "drip"]
)
def test_m17_a_wait_ends_when_the_engine_stops(start: Start, answer: Answer) -> None:
    b = start()
    b.engine.answer(answer)
    faults: list[Exception] = []

    def post() -> None:
        try:
            b.post()
        except (OSError, http.client.HTTPException) as error:
            faults.append(error)

    client = threading.Thread(target=post)
    began = time.monotonic()
    client.start()
    while not b.engine.requests:
        pass
    b.engine.stop()
    client.join()

    assert time.monotonic() - began < 4
    assert answer.delay_s or faults


def test_m20_every_refusal_names_a_known_rule(start: Start, profile: str) -> None:
    b = start(profile)
    b.post(key="short")
    b.post(urlList=["x"])
    b.post(host="example.com")
    b.send("PUT", "/indexnow")

    for record in b.engine.requests:
        assert record.rule in RULES
        assert record.reason


def test_m20_an_acceptance_names_none(start: Start, profile: str) -> None:
    b = start(profile)

    assert b.post().rule == ""


CLEAN: dict[str, Any] = {"host": HOST, "key": KEY, "urlList": [f"https://{HOST}/a?b=%C3%A4&c=1"]}


@pytest.mark.parametrize(
    ("fields", "headers", "target", "found"),
    [
        ({}, {}, "", ()),
        ({}, {"Content-Type": "application/json"}, "", ("missing_charset",)),
        ({}, {"Content-Type": "text/plain; charset=utf-8"}, "", ("content_type",)),
        ({}, {"User-Agent": ""}, "", ("missing_user_agent",)),
        ({}, {"Cookie": "a=b"}, "", ("cookie",)),
        ({}, {}, "?noreping", ("noreping",)),
        ({"siteUrl": 1}, {}, "", ("unknown_field:siteUrl",)),
        ({"urlList": [f"https://{HOST}/ä b"]}, {}, "", ("unescaped_url",)),
        ({"urlList": [f"https://{HOST}/%zz"]}, {}, "", ("unescaped_url",)),
        ({"urlList": [f"https://{HOST}/#top"]}, {}, "", ("fragment",)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) and value else None,
)
def test_m21_oddities_are_remarked_not_refused(
    start: Start,
    fields: dict[str, Any],
    headers: dict[str, str],
    target: str,
    found: tuple[str, ...],
) -> None:
    b = start(check_keys=False)

    body = json.dumps(CLEAN | fields).encode()
    reply = b.send("POST", f"/indexnow{target}", body, JSON | headers)

    assert reply.status == 200
    assert b.engine.requests[0].anomalies == found


def test_m21_a_get_with_a_body_is_remarked(start: Start) -> None:
    b = start(check_keys=False)

    b.send("GET", f"/indexnow?url=https%3A%2F%2F{HOST}%2F&key={KEY}&noreping=", b"body")

    assert b.engine.requests[0].anomalies == ("get_with_body", "noreping")
    assert b.engine.requests[0].raw == b"body"


def test_m21_remarks_survive_a_body_of_another_shape(start: Start) -> None:
    b = start()

    b.post(urlList="text")

    assert b.engine.requests[0].anomalies == ()
