"""Submission against a real engine on loopback: claim, pace, POST, answer, outcome."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from example_site.engine import Answer, Engine
from wagtail_indexnow import clock
from wagtail_indexnow.constants import Change, KeyFile, Reason, UrlState
from wagtail_indexnow.ledger import channels, tracked_urls
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import Channel, HostKey, Intent, PublicUrl, Submission, TrackedUrl
from wagtail_indexnow.relay import maintenance
from wagtail_indexnow.submission import claims, client, key_files, keys
from wagtail_indexnow.submission.submitting import submit_channel as submit
from wagtail_indexnow.views import key_file as key_file_view

pytestmark = pytest.mark.django_db(transaction=True)

HOST = "www.example.com"
START = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)


@pytest.fixture
def at() -> Iterator[Any]:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


@pytest.fixture
def engine(at: Any) -> Iterator[Engine]:
    with Engine(check_keys=False, clock=lambda: timezone.now().timestamp()) as running:
        yield running


@pytest.fixture
def configure(engine: Engine) -> Iterator[Callable[..., None]]:
    overrides = []

    def change(**values: Any) -> None:
        setting = {
            "ENABLED": True,
            "RELAY_INTERVAL": 0,
            "ENDPOINTS": {"one": engine.endpoint},
            "VERIFY_KEY_FILE": False,
            **values,
        }
        override = override_settings(WAGTAIL_INDEXNOW=setting)
        override.enable()
        overrides.append(override)

    change()
    yield change
    for override in reversed(overrides):
        override.disable()


@pytest.fixture(autouse=True)
def public(configure: Any, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Page ids that count as public; every page of these tests by default."""
    pages = set(range(100))
    monkeypatch.setattr("wagtail_indexnow.pages.facts.still_public", lambda ids: pages & set(ids))
    return pages


def url(path: str, host: str = HOST) -> str:
    return f"https://{host}/{path}"


def mark(*paths: str, host: str = HOST, change: str = Change.ADDED, page_id: int = 1) -> None:
    marks = [
        Marked(url=url(path, host), host=host, change=change, page_id=page_id) for path in paths
    ]
    tracked_urls.mark(marks, now=clock.now())
    rows = PublicUrl.objects.filter(url_hash__in=[marked.url_hash for marked in marks])
    rows.delete()  # the inventory, as converge leaves it
    PublicUrl.objects.bulk_create(
        PublicUrl(page_id=page_id, url=marked.url, url_hash=marked.url_hash, host=host)
        for marked in marks
        if change != Change.REMOVED and page_id is not None
    )


def row(path: str, endpoint: str = "one") -> TrackedUrl:
    return TrackedUrl.objects.get(url__endswith=f"/{path}", endpoint=endpoint)


def channel(host: str = HOST, endpoint: str = "one") -> Channel:
    return Channel.objects.get(endpoint=endpoint, host=host)


def urls_of(submission: Submission) -> list[str]:
    return [entry["url"] for entry in submission.urls]


def bodies(engine: Engine) -> list[dict[str, Any]]:
    return [json.loads(record.raw) for record in engine.requests]


def test_c01_one_url_goes_out_in_one_post_with_exactly_four_fields(engine: Engine) -> None:
    mark("a/")

    outcome = submit("one", HOST)

    key = HostKey.objects.get(host=HOST).key
    [record] = engine.requests
    assert outcome == "accepted"
    assert (record.method, record.path) == ("POST", "/indexnow")
    assert record.headers["content-type"] == "application/json; charset=utf-8"
    assert json.loads(record.raw) == {
        "host": HOST,
        "key": key,
        "keyLocation": f"https://{HOST}/{key}.txt",
        "urlList": [url("a/")],
    }
    assert record.anomalies == ()


def test_c35_an_accepted_url_is_accepted_and_proves_the_key(engine: Engine) -> None:
    mark("a/")

    submit("one", HOST)

    sent = row("a/")
    assert (sent.state, sent.reason, sent.last_status) == (UrlState.ACCEPTED, "", 200)
    assert (sent.sent_at, sent.not_before, sent.last_status_at) == (START, None, START)
    submission = Submission.objects.get()
    assert sent.submission == submission.pk
    assert (channel().verified_at, channel().lease_until, channel().ready_at) == (START, None, None)
    assert (submission.status, submission.state, submission.reason) == (200, "accepted", "")
    assert urls_of(submission) == [url("a/")]


def test_c08_nothing_ready_sends_nothing(engine: Engine) -> None:
    assert submit("one", HOST) == "idle"
    assert engine.requests == []


def test_c03_urls_of_one_host_go_out_oldest_first_in_one_post(engine: Engine, at: Any) -> None:
    mark("c/")
    at.shift(1)
    mark("a/")
    at.shift(1)
    mark("b/")

    submit("one", HOST)

    assert bodies(engine)[0]["urlList"] == [url("c/"), url("a/"), url("b/")]


def test_c04_10_001_urls_are_two_posts_each_with_its_own_record(engine: Engine, at: Any) -> None:
    mark(*(f"{number:05}/" for number in range(10_001)))

    submit("one", HOST)
    at.shift(60)
    submit("one", HOST)

    assert [len(body["urlList"]) for body in bodies(engine)] == [10_000, 1]
    assert [len(submission.urls) for submission in Submission.objects.order_by("pk")] == [10_000, 1]
    assert not TrackedUrl.objects.exclude(state=UrlState.ACCEPTED).exists()


@pytest.mark.parametrize("other", ["shop.example.com", "example.com"], ids=["c05", "c06"])
def test_c05_c06_b15_each_host_is_posted_with_its_own_key(
    engine: Engine, at: Any, other: str
) -> None:
    mark("a/")
    mark("a/", host=other)

    submit("one", HOST)
    at.shift(5)
    submit("one", other)

    for body, host in zip(bodies(engine), (HOST, other), strict=True):
        key = HostKey.objects.get(host=host).key
        assert (body["host"], body["key"]) == (host, key)
        assert body["keyLocation"] == f"https://{host}/{key}.txt"
        assert body["urlList"] == [url("a/", host)]


def test_c07_http_and_https_of_one_host_are_one_post(engine: Engine) -> None:
    urls = [f"https://{HOST}/a/", f"http://{HOST}/b/"]
    tracked_urls.mark(
        [Marked(url=found, host=HOST, change=Change.ADDED, page_id=1) for found in urls],
        now=clock.now(),
    )

    submit("one", HOST)

    assert sorted(bodies(engine)[0]["urlList"]) == sorted(urls)


def test_c09_a_body_never_grows_past_5_mb(
    engine: Engine, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "MAX_BODY_BYTES", 100_000)
    mark(*(f"{number:01000}/" for number in range(150)))

    for _ in range(2):
        submit("one", HOST)
        at.shift(60)

    assert sum(len(body["urlList"]) for body in bodies(engine)) == 150
    assert len(engine.requests) == 2
    assert all(len(record.raw) <= 100_000 for record in engine.requests)


def test_c15_c16_an_idn_host_is_the_same_in_every_field(engine: Engine) -> None:
    host = "xn--mnchen-3ya.example"
    mark("stra%C3%9Fe/%C3%BC?q=%C3%A4%20b", host=host)

    submit("one", host)

    [body] = bodies(engine)
    assert body["host"] == host
    assert body["keyLocation"].startswith(f"https://{host}/")
    assert body["urlList"] == [f"https://{host}/stra%C3%9Fe/%C3%BC?q=%C3%A4%20b"]


def test_c37_c38_202_is_told_and_proves_the_key_only_with_a_later_200(
    engine: Engine, at: Any
) -> None:
    engine.answer(Answer(status=202))
    mark("a/")
    submit("one", HOST)
    assert (row("a/").state, row("a/").last_status) == (UrlState.ACCEPTED, 202)
    assert channel().verified_at is None

    at.shift(60)
    mark("b/")
    submit("one", HOST)

    assert channel().verified_at == START + timedelta(seconds=60)
    assert bodies(engine)[1]["urlList"] == [url("b/")]


def test_c39_202_for_days_is_no_failure_and_never_sent_again(engine: Engine, at: Any) -> None:
    engine.answer(Answer(status=202))
    mark("a/")
    submit("one", HOST)

    for _ in range(9):
        at.shift(86_400)
        assert submit("one", HOST) == "idle"

    assert (row("a/").state, row("a/").reason) == (UrlState.ACCEPTED, "")


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, b'{"errorCode":"InvalidRequestParameters"}', Reason.BAD_REQUEST),
        (422, b"", Reason.UNPROCESSABLE),
    ],
    ids=["c40", "c47"],
)
def test_c40_c47_a_rejection_is_final_and_keeps_what_the_engine_said(
    engine: Engine, at: Any, status: int, body: bytes, reason: str
) -> None:
    engine.answer(Answer(status=status, body=body))
    mark("a/", "b/")

    assert submit("one", HOST) == reason
    at.shift(86_400)
    assert submit("one", HOST) == "idle"

    for path in ("a/", "b/"):
        assert (row(path).state, row(path).reason) == (UrlState.REJECTED, reason)
    submission = Submission.objects.get()
    assert (submission.status, submission.excerpt) == (status, body.decode())
    assert channel().pause_reason == ""


def test_c41_a_rejection_of_the_key_holds_the_host_and_keeps_its_urls(
    engine: Engine, at: Any
) -> None:
    engine.answer(Answer(status=422, body=b"keyLocation: wrong"))
    mark("a/")
    mark("a/", host="shop.example.com")

    submit("one", HOST)
    at.shift(60)

    assert (row_of(HOST).state, row_of(HOST).reason) == (UrlState.PENDING, Reason.BAD_KEY)
    assert submit("one", HOST) == "not_yet"
    assert submit("one", "shop.example.com") == "accepted"


def row_of(host: str, endpoint: str = "one") -> TrackedUrl:
    return TrackedUrl.objects.get(host=host, endpoint=endpoint)


def test_c42_a_key_under_verification_waits_without_a_burst(engine: Engine, at: Any) -> None:
    body = b'{"errorCode":"SiteVerificationNotCompleted"}'
    engine.answer(*[Answer(status=403, body=body)] * 2)
    mark("a/")

    sent_at = []
    for second in range(0, 1_000, 20):
        if submit("one", HOST) not in ("not_yet", "idle"):
            sent_at.append(second)
        at.shift(20)

    assert sent_at == [0, 300, 900]
    assert row("a/").state == UrlState.ACCEPTED
    assert channel().pause_reason == ""


def test_c42_c55_what_waits_for_verification_too_long_expires(engine: Engine, at: Any) -> None:
    # The list gives up on a key after 24 h; the design after GIVE_UP_AFTER.
    engine.answer(*[Answer(status=403, body=b'{"errorCode":"SiteVerificationNotCompleted"}')] * 999)
    mark("a/")

    for _ in range(24 * 7 + 1):
        submit("one", HOST)
        at.shift(3_600)
    maintenance.give_up()

    assert (row("a/").state, row("a/").reason) == (UrlState.FAILED, Reason.GAVE_UP)


def test_c46_c54_a_redirect_holds_the_endpoint_and_the_key_goes_nowhere_else(
    engine: Engine, at: Any
) -> None:
    engine.answer(Answer(status=308, redirect_to=f"{engine.url}/IndexNow"))
    mark("a/")
    mark("a/", host="shop.example.com")

    assert submit("one", HOST) == Reason.ENDPOINT_WRONG
    at.shift(60)

    assert submit("one", "shop.example.com") == "not_yet"
    assert len(engine.requests) == 1
    assert row_of(HOST).state == UrlState.PENDING
    assert channel("").pause_reason == Reason.ENDPOINT_WRONG


def test_c49_c50_b07_no_request_reaches_a_limiting_engine_before_its_time(
    engine: Engine, at: Any
) -> None:
    engine.answer(Answer(status=429, headers={"Retry-After": "7200"}))
    mark("a/")
    mark("b/", host="shop.example.com")

    assert submit("one", HOST) == Reason.RATE_LIMITED
    for _ in range(119):
        at.shift(60)
        assert submit("one", HOST) == submit("one", "shop.example.com") == "not_yet"
    at.shift(60)

    assert submit("one", HOST) == "accepted"
    assert row("a/").state == UrlState.ACCEPTED
    assert channel("").pause_reason == ""
    assert channel("").strikes == 0


def test_c50_without_a_header_the_hold_doubles_and_nothing_is_lost(
    engine: Engine, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)
    engine.answer(*[Answer(status=429)] * 3)
    mark("a/")

    waited = []
    for _ in range(3):
        submit("one", HOST)
        held_until = channel("").not_before
        assert held_until
        waited.append(held_until - timezone.now())
        at.move_to(held_until)

    hour = timedelta(hours=1)
    assert waited == [1.05 * hour, 2.1 * hour, 4.2 * hour]
    assert row("a/").attempts == 3
    assert submit("one", HOST) == "accepted"


def test_c49_b13_several_endpoints_go_their_own_ways(configure: Any, engine: Engine) -> None:
    with Engine(check_keys=False) as other:
        configure(ENDPOINTS={"one": engine.endpoint, "two": other.endpoint})
        other.answer(Answer(status=429))
        mark("a/")

        assert submit("two", HOST) == Reason.RATE_LIMITED
        assert submit("one", HOST) == "accepted"

    assert row_of(HOST, "one").state == UrlState.ACCEPTED
    assert row_of(HOST, "two").state == UrlState.PENDING
    assert channel(HOST, "two").pause_reason == channel("", "one").pause_reason == ""


def test_c52_b29_faults_are_tried_again_after_60_300_900_s_then_hourly(
    engine: Engine, at: Any
) -> None:
    engine.answer(*[Answer(status=status) for status in (500, 502, 503, 504, 500)])
    mark("a/")

    sent_at = []
    for second in range(0, 9_000, 60):
        if submit("one", HOST) == Reason.SERVER_ERROR:
            sent_at.append(second)
        at.shift(60)

    assert sent_at == [0, 60, 360, 1_260, 4_860]
    assert row("a/").state == UrlState.ACCEPTED


def test_c53_a_dropped_connection_keeps_the_urls(engine: Engine) -> None:
    engine.answer(Answer(drop=True))
    mark("a/")

    assert submit("one", HOST) == Reason.NO_RESPONSE

    kept = row("a/")
    assert (kept.state, kept.reason, kept.attempts) == (UrlState.PENDING, Reason.NO_RESPONSE, 1)
    assert kept.not_before == channel().ready_at == START + timedelta(seconds=60)
    assert channel().lease_until is None
    submission = Submission.objects.get()
    assert (submission.status, submission.finished_at) == (None, START)
    assert submission.error_code


def test_urls_of_one_post_wait_by_their_own_number_of_tries(engine: Engine, at: Any) -> None:
    engine.answer(*[Answer(status=500)] * 2)
    mark("a/")
    submit("one", HOST)
    at.shift(60)
    mark("b/")
    submit("one", HOST)

    assert row("a/").not_before == timezone.now() + timedelta(seconds=300)
    assert row("b/").not_before == timezone.now() + timedelta(seconds=60)


def test_b31_a_failed_send_is_no_send(engine: Engine, at: Any) -> None:
    engine.answer(Answer(drop=True))
    mark("a/")
    submit("one", HOST)
    at.shift(10)
    mark("a/", change=Change.UPDATED)
    at.shift(50)

    assert submit("one", HOST) == "accepted"


def test_a_post_that_is_too_large_is_sent_in_two_halves(engine: Engine, at: Any) -> None:
    engine.answer(Answer(status=413))
    mark("a/", "b/", "c/")

    assert submit("one", HOST) == Reason.TOO_LARGE
    at.shift(60)
    mark("new/")
    for _ in range(3):
        assert submit("one", HOST) == "accepted"
        at.shift(60)

    assert [len(body["urlList"]) for body in bodies(engine)] == [3, 2, 1, 1]
    assert not TrackedUrl.objects.exclude(state=UrlState.ACCEPTED).exists()


def test_a_half_that_is_too_large_is_rejected_and_the_other_half_still_tried(
    engine: Engine, at: Any
) -> None:
    engine.answer(*[Answer(status=413)] * 2)
    mark("a/", "b/", "c/")

    for _ in range(3):
        submit("one", HOST)
        at.shift(60)

    states = TrackedUrl.objects.order_by("state").values_list("state", flat=True)
    assert list(states) == [UrlState.ACCEPTED, UrlState.REJECTED, UrlState.REJECTED]


# Pace


def test_c58_many_changes_in_a_minute_are_one_post(engine: Engine, at: Any) -> None:
    mark("first/")
    submit("one", HOST)
    for number in range(50):
        mark(f"{number}/")
        submit("one", HOST)
        at.shift(1)
    at.shift(10)
    submit("one", HOST)

    assert [len(body["urlList"]) for body in bodies(engine)] == [1, 50]


def test_c60_b26_an_endpoints_pace_holds_over_hosts_and_nothing_stays_behind(
    engine: Engine, at: Any, configure: Any
) -> None:
    configure(RATE_LIMIT=6, HOST_INTERVAL=0)
    hosts = [f"{letter}.example.com" for letter in "abc"]
    for host in hosts:
        mark("x/", host=host)

    posts = []
    for second in range(30):
        for host in hosts:
            if submit("one", host) == "accepted":
                posts.append(second)
        at.shift(1)

    # A slot may be taken half a slot late, so after a pause the second one comes sooner.
    assert posts == [0, 5, 15]


def test_c56_b08_many_edits_of_one_page_are_two_sends_the_last_at_the_gaps_end(
    engine: Engine, at: Any
) -> None:
    mark("a/")
    submit("one", HOST)
    sent_at = []
    for second in range(10, 1_500, 10):
        at.shift(10)
        if second <= 300 and second % 60 == 0:
            mark("a/", change=Change.UPDATED)
        if submit("one", HOST) == "accepted":
            sent_at.append(second)

    assert sent_at == [600]
    assert engine.requests[1].too_soon == ()


def test_c57_a_page_deleted_within_the_gap_is_still_told(
    engine: Engine, at: Any, public: set[int]
) -> None:
    mark("a/")
    submit("one", HOST)
    at.shift(60)
    public.clear()
    mark("a/", change=Change.REMOVED)
    assert submit("one", HOST) == "idle"
    at.shift(540)

    assert submit("one", HOST) == "accepted"


def test_a_change_during_the_post_goes_out_at_the_gaps_end(
    engine: Engine, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    post_urls = client.post_urls

    def submit_while_editing(*args: Any, **values: Any) -> Any:
        monkeypatch.setattr(client, "post_urls", post_urls)
        mark("a/", change=Change.UPDATED)
        return post_urls(*args, **values)

    mark("a/", "b/")
    monkeypatch.setattr(client, "post_urls", submit_while_editing)

    submit("one", HOST)

    assert row("b/").state == UrlState.ACCEPTED
    moved = row("a/")
    assert (moved.state, moved.sent_at) == (UrlState.PENDING, START)
    assert moved.not_before == START + timedelta(seconds=600)
    at.shift(600)
    assert submit("one", HOST) == "accepted"
    assert bodies(engine)[1]["urlList"] == [url("a/")]


@pytest.mark.parametrize(("status", "wait_s"), [(500, 60), (429, 0), (422, 0)])
def test_a_change_during_a_failing_post_waits_as_long_as_the_rest(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, status: int, wait_s: int
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.0)
    engine.answer(Answer(status=status))
    post_urls = client.post_urls

    def submit_while_editing(*args: Any, **values: Any) -> Any:
        mark("a/", change=Change.UPDATED)
        return post_urls(*args, **values)

    mark("a/")
    monkeypatch.setattr(client, "post_urls", submit_while_editing)

    submit("one", HOST)

    moved = row("a/")
    assert (moved.state, moved.attempts, moved.sent_at) == (UrlState.PENDING, 0, None)
    assert moved.not_before == START + timedelta(seconds=wait_s)


# Crashes


class WorkerKilled(BaseException):
    """Stands for a SIGKILL: nothing of ours catches it."""


def kill(*args: Any, **values: Any) -> Any:
    raise WorkerKilled


@contextmanager
def killed_at(module: Any, name: str, replacement: Callable[..., Any] = kill) -> Iterator[None]:
    """Expect the worker to die at a function of ours."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, name, replacement)
        with pytest.raises(WorkerKilled):
            yield


def test_d03_d17_a_worker_killed_after_the_answer_sends_nothing_again(
    engine: Engine, at: Any
) -> None:
    mark("a/", "b/")
    with killed_at(claims, "settle"):
        submit("one", HOST)
    assert row("a/").state == UrlState.PENDING

    at.shift(119)
    assert submit("one", HOST) == "not_yet"
    at.shift(61)
    assert submit("one", HOST) == "idle"

    assert len(engine.requests) == 1
    assert (row("a/").state, row("a/").sent_at) == (UrlState.ACCEPTED, START)
    assert (row("b/").last_status, channel().lease_until) == (200, None)


def test_a_worker_killed_while_settling_leaves_the_rest_to_the_next(
    engine: Engine, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark(*(f"{number}/" for number in range(5)))
    monkeypatch.setattr(claims, "SETTLE_CHUNK", 2)
    settle = claims._settle_rows
    chunks = iter([settle, settle, kill])
    with killed_at(claims, "_settle_rows", lambda *args: next(chunks)(*args)):
        submit("one", HOST)
    assert TrackedUrl.objects.filter(state=UrlState.ACCEPTED).count() == 4

    at.shift(180)
    assert submit("one", HOST) == "idle"

    assert TrackedUrl.objects.filter(state=UrlState.ACCEPTED).count() == 5
    assert len(engine.requests) == 1


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        (422, UrlState.REJECTED, Reason.UNPROCESSABLE),
        (400, UrlState.REJECTED, Reason.BAD_REQUEST),
        (500, UrlState.PENDING, Reason.SERVER_ERROR),
        (413, UrlState.PENDING, Reason.TOO_LARGE),
    ],
)
def test_a_crash_after_any_other_answer_keeps_what_it_said(
    engine: Engine, at: Any, status: int, state: str, reason: str
) -> None:
    engine.answer(Answer(status=status))
    mark("a/", "b/")
    with killed_at(claims, "settle"):
        submit("one", HOST)
    at.shift(180)

    left = claims.take_over(channel().pk)
    assert left
    claims.settle(left[0], channel().pk, left[1])

    assert (row("a/").state, row("a/").reason) == (state, reason)


def test_a_crash_after_a_429_forgets_no_retry_after(engine: Engine, at: Any) -> None:
    """The pause is written with the response, in one transaction."""
    engine.answer(Answer(status=429, headers={"Retry-After": "900"}))
    mark("a/")
    with killed_at(claims, "settle"):
        submit("one", HOST)

    at.shift(899)
    assert submit("one", HOST) == "not_yet"
    at.shift(2)
    assert submit("one", HOST) == "accepted"

    assert len(engine.requests) == 2


def test_c59_b27_a_worker_killed_before_the_answer_returns_its_urls_after_a_lease(
    engine: Engine, at: Any
) -> None:
    mark("a/")
    with killed_at(client, "post_urls"):
        submit("one", HOST)

    at.shift(119)
    assert submit("one", HOST) == "not_yet"
    at.shift(1)
    assert submit("one", HOST) == "idle"
    assert (row("a/").attempts, row("a/").reason) == (1, Reason.NO_RESPONSE)
    at.shift(60)
    assert submit("one", HOST) == "accepted"

    lost, done = Submission.objects.order_by("pk")
    assert (lost.state, lost.reason) == ("pending", Reason.NO_RESPONSE)
    assert lost.finished_at == START + timedelta(seconds=120)
    assert done.state == "accepted"


def test_a_lease_outlasts_the_longest_exchange(configure: Any) -> None:
    assert claims.lease() == timedelta(seconds=120)
    configure(TIMEOUT=60)
    assert claims.lease() == timedelta(seconds=150)


@pytest.mark.parametrize(("fault", "handed_at"), [(False, None), (True, START)])
def test_a_channel_may_be_handed_over_again_at_once_but_after_a_fault_of_ours_not(
    engine: Engine, fault: bool, handed_at: datetime | None
) -> None:
    """The lease of a hand-over then spaces the attempts."""
    mark("a/")
    Channel.objects.update(handed_at=START)

    if fault:
        with killed_at(claims, "claim"):
            submit("one", HOST)
    else:
        submit("one", HOST)

    assert channel().handed_at == handed_at


def test_the_network_is_never_inside_a_transaction(engine: Engine) -> None:
    mark("a/")

    with pytest.raises(RuntimeError, match="transaction"), transaction.atomic():
        submit("one", HOST)

    assert engine.requests == []


# What is not sent


def test_c72_switched_off_sends_nothing_and_leaves_the_rows(engine: Engine, configure: Any) -> None:
    mark("a/")
    configure(ENABLED=False)

    assert submit("one", HOST) == Reason.DISABLED

    assert engine.requests == []
    assert (row("a/").state, row("a/").not_before) == (UrlState.PENDING, START)


def test_c72_b05_debug_alone_switches_off(engine: Engine, configure: Any, settings: Any) -> None:
    mark("a/")
    configure(ENABLED=None)
    settings.DEBUG = True

    assert submit("one", HOST) == Reason.DISABLED


def test_c22_c72_b05_a_host_that_is_not_served_here_is_held_and_its_urls_kept(
    engine: Engine, configure: Any, at: Any
) -> None:
    mark("a/")
    configure(HOSTS=["staging.example.com"])

    assert submit("one", HOST) == Reason.FOREIGN_HOST

    assert engine.requests == []
    assert row("a/").state == UrlState.PENDING
    assert channel().pause_reason == Reason.FOREIGN_HOST

    configure(HOSTS=[HOST])
    at.shift(300)
    assert submit("one", HOST) == "accepted"
    assert channel().pause_reason == ""


@pytest.mark.parametrize("host", ["localhost", "10.0.0.5", "site.local", "www.example.com:8443"])
def test_c23_b06_private_hosts_are_not_told_to_a_real_engine(
    configure: Any, engine: Engine, host: str
) -> None:
    mark("a/", host=host)
    configure(HOSTS=[host], ENDPOINTS={"one": "https://api.indexnow.org/indexnow"})

    assert submit("one", host) == Reason.FOREIGN_HOST


def test_c23_private_hosts_are_told_to_an_engine_on_loopback(
    configure: Any, engine: Engine
) -> None:
    mark("a/", host="localhost:8000")
    configure(HOSTS=["localhost:8000"])

    assert submit("one", "localhost:8000") == "accepted"
    assert bodies(engine)[0]["host"] == "localhost:8000"


def test_an_endpoint_that_is_gone_ends_its_urls(engine: Engine, configure: Any) -> None:
    mark("a/")
    configure(ENDPOINTS={"two": engine.endpoint})

    assert submit("one", HOST) == Reason.ENDPOINT_GONE

    gone = row("a/")
    assert (gone.state, gone.reason) == (UrlState.SKIPPED, Reason.ENDPOINT_GONE)
    assert gone.not_before is None


def test_c73_a_dry_run_ends_rows_without_key_check_or_post(
    engine: Engine, configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The list leaves states untouched; the design ends them, so that switching it off floods
    # nobody. The would-be list of URLs is in the submission.
    configure(DRY_RUN=True, VERIFY_KEY_FILE=True)
    monkeypatch.setattr(client, "fetch_key_file", kill)
    mark("a/")

    assert submit("one", HOST) == Reason.DRY_RUN

    assert engine.requests == []
    dry = row("a/")
    assert (dry.state, dry.reason, dry.sent_at) == (UrlState.SKIPPED, Reason.DRY_RUN, None)
    submission = Submission.objects.get()
    assert (submission.state, submission.reason) == ("skipped", Reason.DRY_RUN)
    assert urls_of(submission) == [url("a/")]
    assert dry.submission is None  # it was in no POST
    configure()
    assert submit("one", HOST) in ("idle", "not_yet")


def test_a_url_whose_page_was_hidden_meanwhile_waits_for_the_check_of_its_page(
    engine: Engine, at: Any, public: set[int]
) -> None:
    mark("hidden/", page_id=1)
    mark("public/", page_id=2)
    mark("loose/", page_id=None)  # type: ignore[arg-type]
    public.discard(1)

    assert submit("one", HOST) == "accepted"

    assert sorted(bodies(engine)[0]["urlList"]) == [url("loose/"), url("public/")]
    hidden = row("hidden/")
    assert (hidden.state, hidden.reason) == (UrlState.PENDING, Reason.NOT_PUBLIC_YET)
    assert (hidden.change, hidden.attempts) == (Change.ADDED, 0)
    assert hidden.not_before == channel().ready_at == START + timedelta(seconds=60)
    assert not Intent.objects.exists()
    assert urls_of(Submission.objects.get()) == bodies(engine)[0]["urlList"]


def test_r52_a_batch_that_is_refused_whole_is_one_update_and_no_submission(
    engine: Engine, at: Any, public: set[int]
) -> None:
    """R52"""
    mark(*(f"{number}/" for number in range(300)))
    public.clear()

    with CaptureQueriesContext(connection) as queries:
        assert submit("one", HOST) == "idle"

    writes = [query["sql"] for query in queries if query["sql"].startswith(("UPDATE", "INSERT"))]
    assert sum("trackedurl" in sql for sql in writes) == 1
    assert not Submission.objects.exists()
    assert not Intent.objects.exists()
    at.shift(60)
    public.add(1)
    assert submit("one", HOST) == "accepted"


def test_a_url_that_was_marked_again_since_it_was_read_is_not_refused(
    engine: Engine, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hide_while_checking(page_ids: Any) -> set[int]:
        mark("a/", change=Change.REMOVED)
        return set()

    mark("a/")
    submit("one", HOST)
    at.shift(600)
    mark("a/", change=Change.UPDATED)
    monkeypatch.setattr("wagtail_indexnow.pages.facts.still_public", hide_while_checking)

    submit("one", HOST)

    assert (row("a/").change, row("a/").not_before) == (Change.REMOVED, timezone.now())


def test_a_removed_url_is_sent_although_its_page_is_gone(engine: Engine, public: set[int]) -> None:
    public.clear()
    mark("a/", change=Change.REMOVED)

    assert submit("one", HOST) == "accepted"


def test_a_pause_that_opens_while_urls_are_read_refuses_the_claim(
    engine: Engine, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark("a/")
    read = claims.read

    def slow_read(*args: Any, **values: Any) -> Any:
        found = read(*args, **values)
        until = START + timedelta(seconds=90)
        channels.pause_host("one", HOST, reason=Reason.KEY_FILE, until=until)
        return found

    monkeypatch.setattr(claims, "read", slow_read)

    assert submit("one", HOST) == "not_yet"

    assert engine.requests == []
    assert row("a/").attempts == 0
    assert not Submission.objects.exists()
    assert channel().ready_at == START + timedelta(seconds=90)


# Keys


@pytest.fixture
def key_file(configure: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What key files answer, first to last; the last stays. Sites are not asked."""
    configure(VERIFY_KEY_FILE=True, CONNECT_TO={HOST: "http://127.0.0.1:9"})
    results: list[Any] = [KeyFile.OK]

    def check(host: str, scheme: str, *, fresh: bool = False) -> Any:
        result = results.pop(0) if len(results) > 1 else results[0]
        return keys.Proof(key=keys.key_for(host), result=result)

    monkeypatch.setattr(keys, "check_key_file", check)
    return results


def test_c29_the_key_file_is_proved_before_the_first_post(
    engine: Engine, key_file: list[Any]
) -> None:
    mark("a/")

    assert submit("one", HOST) == "accepted"


@pytest.mark.parametrize(
    "result",
    [result for result in KeyFile if result not in (KeyFile.OK, KeyFile.OTHER_INSTALLATION)],
)
def test_c30_b22_without_a_right_key_file_nothing_is_sent_for_that_host(
    engine: Engine, at: Any, key_file: list[Any], result: str
) -> None:
    key_file[:] = [result, KeyFile.OK]
    mark("a/")

    assert submit("one", HOST) == Reason.KEY_FILE
    assert engine.requests == []
    assert channel().pause_reason == Reason.KEY_FILE
    assert channel().not_before == START + timedelta(minutes=5)
    assert row("a/").state == UrlState.PENDING

    at.shift(300)
    assert submit("one", HOST) == "accepted"
    assert channel().pause_reason == ""


def test_c30_a_missing_key_file_is_looked_at_again_after_5_minutes_to_an_hour(
    engine: Engine, at: Any, key_file: list[Any]
) -> None:
    key_file[:] = [KeyFile.NOT_FOUND]
    mark("a/")

    looked_at = []
    for minute in range(200):
        if submit("one", HOST) == Reason.KEY_FILE:
            looked_at.append(minute)
        at.shift(60)

    assert looked_at == [0, 5, 15, 35, 75, 135, 195]


def test_b05_another_installations_host_is_held_5_minutes_and_then_hourly(
    engine: Engine, at: Any, key_file: list[Any]
) -> None:
    key_file[:] = [KeyFile.OTHER_INSTALLATION]
    mark("a/")

    looked_at = []
    for minute in range(130):
        if submit("one", HOST) == Reason.OTHER_INSTALLATION:
            looked_at.append(minute)
        at.shift(60)

    assert looked_at == [0, 5, 65, 125]
    assert engine.requests == []


def test_c43_after_a_refusal_a_failing_key_file_is_waited_for(
    engine: Engine, at: Any, key_file: list[Any]
) -> None:
    key_file[:] = [KeyFile.OK, KeyFile.NOT_FOUND, KeyFile.NOT_FOUND, KeyFile.OK]
    engine.answer(Answer(status=403))
    mark("a/")

    assert submit("one", HOST) == Reason.KEY_FILE
    at.shift(300)
    assert submit("one", HOST) == Reason.KEY_FILE
    at.shift(600)
    assert submit("one", HOST) == "accepted"
    assert len(engine.requests) == 2


def test_c44_after_a_refusal_of_a_right_key_urls_are_kept_and_a_rotation_is_asked_for(
    engine: Engine, at: Any, key_file: list[Any]
) -> None:
    engine.answer(*[Answer(status=403, body=b'{"errorCode":"UserForbiddedToAccessSite"}')] * 4)
    mark("a/")

    sent_at = []
    for hour in range(50):
        if submit("one", HOST) == Reason.KEY_REFUSED:
            sent_at.append(hour)
        at.shift(3_600)

    assert sent_at == [0, 1, 7, 31]
    assert (row("a/").state, row("a/").reason) == (UrlState.PENDING, Reason.KEY_REFUSED)
    assert row("a/").last_status == 403

    new = keys.rotate(HOST)
    assert submit("one", HOST) == "accepted"
    assert bodies(engine)[-1]["key"] == new


def test_c44_where_key_files_are_not_verified_a_refusal_is_taken_at_its_word(
    engine: Engine,
) -> None:
    engine.answer(Answer(status=403))
    mark("a/")

    assert submit("one", HOST) == Reason.KEY_REFUSED


def test_c34_posts_use_the_old_key_until_the_new_file_answers(
    engine: Engine, at: Any, key_file: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = keys.key_for(HOST)
    new = keys.rotate(HOST)
    key_file[:] = [KeyFile.NOT_FOUND, KeyFile.OK]
    monkeypatch.setattr(
        keys, "_check", lambda row, scheme, key: keys.Proof(key=key, result=KeyFile.OK)
    )

    for path in ("a/", "b/"):
        mark(path)
        submit("one", HOST)
        at.shift(60)

    assert [body["key"] for body in bodies(engine)] == [old, new]
    assert [body["keyLocation"] for body in bodies(engine)] == [
        f"https://{HOST}/{key}.txt" for key in (old, new)
    ]


def test_c33_behind_tls_the_key_file_has_the_scheme_of_the_setting(
    engine: Engine, configure: Any
) -> None:
    configure(SCHEME="https")
    tracked_urls.mark(
        [Marked(url=f"http://{HOST}/a/", host=HOST, change=Change.ADDED, page_id=1)],
        now=clock.now(),
    )

    submit("one", HOST)

    assert bodies(engine)[0]["keyLocation"].startswith("https://")


def test_c74_no_log_line_has_the_key(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    key = keys.key_for(HOST)
    engine.answer(Answer(status=400, body=f"bad value {key}".encode()))
    mark("a/")

    with caplog.at_level(logging.DEBUG, logger="wagtail_indexnow"):
        submit("one", HOST)

    assert "reason=bad_request" in caplog.text
    assert key not in caplog.text
    assert key not in Submission.objects.get().excerpt


def test_b33_b29_an_engine_that_is_away_never_raises(configure: Any) -> None:
    configure(ENDPOINTS={"one": "http://127.0.0.1:9/indexnow"})
    mark("a/")

    assert submit("one", HOST) == Reason.NO_RESPONSE


def test_a_right_submission_satisfies_an_engine_that_checks_everything(
    at: Any, live_server: Any, configure: Any
) -> None:
    """The key file is served by our view, fetched by us and then by the engine."""
    base = live_server.url
    with Engine("seznam", host_map={HOST: base}) as strict:
        configure(
            ENDPOINTS={"one": strict.endpoint},
            VERIFY_KEY_FILE=True,
            CONNECT_TO={HOST: base},
        )
        mark("a/")

        assert submit("one", HOST) == "not_yet"  # web processes do not know the new key yet
        at.shift(15)
        assert submit("one", HOST) == "accepted"

        assert strict.urls(HOST) == [url("a/")]
        assert strict.requests[0].anomalies == ()
    assert HostKey.objects.get().check_result == KeyFile.OK


def test_promise_7_a_copied_database_on_another_server_sends_nothing(
    engine: Engine, live_server: Any, configure: Any, settings: Any
) -> None:
    """Production answers for the host; this server has its database but not its secret."""
    configure(VERIFY_KEY_FILE=True, CONNECT_TO={HOST: live_server.url})
    production = settings.SECRET_KEY
    token = key_files.token_under(production, HOST)
    mark("a/")
    keys.key_for(HOST)
    HostKey.objects.update(created_at=clock.now() - timedelta(hours=1))
    keys.check_key_file(HOST, "http")
    settings.SECRET_KEY = "staging"
    settings.SECRET_KEY_FALLBACKS = []

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_file_view, "instance_token", lambda host: token)
        assert submit("one", HOST) == Reason.OTHER_INSTALLATION

    assert engine.requests == []
