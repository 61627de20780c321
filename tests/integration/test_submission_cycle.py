"""What holds the submission cycle together, one guard at a time.

Each test stands for a statement or condition that was once left out in a simulation, and fails
when it is taken away; its docstring says what happened then. Three guards are shown elsewhere:
"coalesce" in `test_channels`, "locks by primary key" in `test_tracked_urls`, and with
"recompute in a second statement" by threads in `test_concurrency`.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from example_site.engine import Answer, Engine
from wagtail_indexnow import clock
from wagtail_indexnow.constants import Change, Reason, SubmissionState, UrlState
from wagtail_indexnow.ledger import channels, tracked_urls
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import Channel, PublicUrl, Submission, TrackedUrl
from wagtail_indexnow.relay.dispatch import Tick, tick
from wagtail_indexnow.relay.senders import DramatiqCourier
from wagtail_indexnow.submission import claims, client, submitting
from wagtail_indexnow.submission.claims import Batch, Claim
from wagtail_indexnow.submission.responses import Answer as Response
from wagtail_indexnow.submission.responses import PauseScope, Verdict
from wagtail_indexnow.submission.submitting import submit_channel as submit

pytestmark = pytest.mark.django_db(transaction=True)


class KilledError(BaseException):
    """Stands for a SIGKILL: nothing of ours catches it."""


HOST, OTHER = "www.example.com", "shop.example.com"
START = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
ACCEPTED = Verdict(state=SubmissionState.ACCEPTED, proven=True)
LIMITED = Verdict(
    state=SubmissionState.PENDING,
    reason=Reason.RATE_LIMITED,
    pause=PauseScope.ENDPOINT,
    pause_until=START + timedelta(hours=1),
)


@pytest.fixture(autouse=True)
def at() -> Iterator[Any]:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


@pytest.fixture(autouse=True)
def engine(settings: Any) -> Iterator[Engine]:
    with Engine(check_keys=False, clock=lambda: timezone.now().timestamp()) as running:
        settings.WAGTAIL_INDEXNOW = {
            "ENABLED": True,
            "RELAY_INTERVAL": 0,
            "ENDPOINTS": {"one": running.endpoint},
            "VERIFY_KEY_FILE": False,
            "HOST_INTERVAL": 0,
        }
        yield running


def mark(*paths: str, host: str = HOST, change: str = Change.ADDED) -> None:
    marks = [
        Marked(url=f"https://{host}/{path}", host=host, change=change, page_id=None)
        for path in paths
    ]
    tracked_urls.mark(marks, now=clock.now())


def row(path: str = "a/") -> TrackedUrl:
    return TrackedUrl.objects.get(url__endswith=f"/{path}")


def channel(host: str = HOST) -> Channel:
    return Channel.objects.get(endpoint="one", host=host)


def read(host: str = HOST) -> Batch:
    return claims.read(channel(host), now=clock.now())


def claim(batch: Batch) -> Claim:
    claimed = claims.claim(batch, key="")
    assert isinstance(claimed, Claim)
    return claimed


def finish(claimed: Claim, verdict: Verdict = ACCEPTED) -> None:
    assert claims.record_response(claimed, Response(status=200), verdict)
    assert claims.settle(claimed.submission.pk, claimed.channel.pk, claimed.token)


@pytest.fixture
def during_post(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen while the next POST is under way."""
    post_urls = client.post_urls

    def set_up(happening: Callable[[], object]) -> None:
        def post_meanwhile(*args: Any, **values: Any) -> Any:
            monkeypatch.setattr(client, "post_urls", post_urls)
            happening()
            return post_urls(*args, **values)

        monkeypatch.setattr(client, "post_urls", post_meanwhile)

    return set_up


def test_not_before_as_seen_before_the_rows_refuses_what_another_worker_has_sent(at: Any) -> None:
    """102 versions were sent again with 5 % duplicate messages; older versions were sent last."""
    mark("a/")
    stale = read()
    finish(claim(read()))
    at.shift(60)

    assert claims.claim(stale, key="") is None

    assert Submission.objects.count() == 1


def test_withdrawn_row_becomes_removed_at_settlement(
    engine: Engine, at: Any, during_post: Any
) -> None:
    """33 URLs were kept by engines."""
    mark("a/")
    during_post(lambda: mark("a/", change=Change.REMOVED))

    assert submit("one", HOST) == "accepted"

    revived = row()
    assert (revived.state, revived.change, revived.reason) == (UrlState.PENDING, "removed", "")
    assert revived.not_before == channel().ready_at == START + timedelta(seconds=600)
    at.shift(600)
    assert submit("one", HOST) == "accepted"
    assert row().state == UrlState.ACCEPTED
    assert [entry["change"] for entry in Submission.objects.latest("pk").urls] == ["removed"]


def test_withdrawn_row_that_the_inventory_names_again_becomes_updated(during_post: Any) -> None:
    def withdraw_and_return() -> None:
        mark("a/", change=Change.REMOVED)
        held = {"url": row().url, "url_hash": row().url_hash, "host": HOST}
        PublicUrl.objects.create(page_id=7, **held)

    mark("a/")
    during_post(withdraw_and_return)

    submit("one", HOST)

    assert (row().state, row().change) == (UrlState.PENDING, Change.UPDATED)


def test_withdrawn_row_of_a_dry_run_stays_withdrawn(settings: Any) -> None:
    mark("a/")
    claimed = claim(read())
    mark("a/", change=Change.REMOVED)

    finish(claimed, Verdict(state=SubmissionState.SKIPPED, reason=Reason.DRY_RUN))

    assert (row().state, row().reason) == (UrlState.SKIPPED, Reason.WITHDRAWN)


def test_moved_rows_get_submission_and_sent_at(during_post: Any) -> None:
    """17 wrong withdrawals, 2 sent again within `RESUBMIT_AFTER`."""
    mark("a/")
    during_post(lambda: mark("a/", change=Change.UPDATED))

    submit("one", HOST)

    moved = row()
    assert (moved.state, moved.version) == (UrlState.PENDING, 2)
    assert (moved.submission, moved.sent_at) == (Submission.objects.get().pk, START)
    assert moved.not_before == channel().ready_at == START + timedelta(seconds=600)
    mark("a/", change=Change.REMOVED)
    assert (row().state, row().change) == (UrlState.PENDING, Change.REMOVED)


def test_lease_until_as_a_fence_lets_nobody_post_meanwhile(engine: Engine, at: Any) -> None:
    """2 POSTs of one channel at once, 28 sent again."""
    mark("a/")
    claim(read())
    mark("b/")
    at.shift(60)

    assert claims.claim(read(), key="") is None
    assert submit("one", HOST) == "not_yet"
    assert engine.requests == []


def test_the_value_of_lease_until_as_a_token_stops_a_settlement_that_was_taken_over(
    at: Any,
) -> None:
    mark("a/")
    claimed = claim(read())
    at.shift(120)
    assert claims.record_response(claimed, Response(status=200), ACCEPTED)
    left = claims.take_over(claimed.channel.pk)

    assert not claims.settle(claimed.submission.pk, claimed.channel.pk, claimed.token)
    assert (row().state, row().submission) == (UrlState.PENDING, None)

    assert left == (claimed.submission.pk, channel().lease_until)
    assert claims.settle(claimed.submission.pk, claimed.channel.pk, left[1])
    assert row().state == UrlState.ACCEPTED


def test_no_post_after_half_a_lease(
    engine: Engine, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6 POSTs at once, 4 URLs last seen in an old version."""
    take = claims.claim

    def stand_still_after(*args: Any, **values: Any) -> Any:
        claimed = take(*args, **values)
        at.shift(60)
        return claimed

    mark("a/")
    monkeypatch.setattr(claims, "claim", stand_still_after)

    assert submit("one", HOST) == "unsent"

    assert engine.requests == []
    assert (row().attempts, row().submission) == (0, None)
    assert not Submission.objects.exists()
    assert (channel().lease_until, channel().ready_at) == (None, START)
    monkeypatch.setattr(claims, "claim", take)
    assert submit("one", HOST) == "accepted"


def test_unsent_after_somebody_took_the_channel_over_changes_nothing(at: Any) -> None:
    mark("a/")
    claimed = claim(read())
    at.shift(120)
    claims.take_over(claimed.channel.pk)

    claims.unsend(claimed)

    assert channel().submission == Submission.objects.get().pk


def test_lease_in_ready_at_keeps_the_relay_from_handing_over_what_is_in_flight(at: Any) -> None:
    """4.38 messages a POST, 33 % of the slots."""
    mark("a/")
    claim(read())
    at.shift(60)
    assert tick(DramatiqCourier()) == Tick()
    mark("b/")
    assert tick(DramatiqCourier()) == Tick()
    at.shift(60)
    assert tick(DramatiqCourier()) == Tick(channels=1)


def test_pause_with_the_response_both_are_written_or_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2 pauses were lost."""
    mark("a/")
    claimed = claim(read())

    def die(rows: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(channels, "recompute", die)
        with pytest.raises(KilledError):
            claims.record_response(claimed, Response(status=429), LIMITED)
    assert Submission.objects.get().finished_at is None
    assert channel("").pause_reason == ""

    assert claims.record_response(claimed, Response(status=429), LIMITED)
    assert Submission.objects.get().status == 429
    assert channel("").not_before == START + timedelta(hours=1)


def test_strikes_by_paused_at_count_one_for_posts_of_one_episode(engine: Engine, at: Any) -> None:
    """4 strikes for one episode."""
    mark("a/")
    mark("a/", host=OTHER)
    first = claim(read())
    at.shift(10)
    second = claim(read(OTHER))

    for claimed in (first, second):
        finish(claimed, LIMITED)
    assert channel("").strikes == 1

    at.move_to(START + timedelta(hours=1))
    finish(claim(read()), LIMITED)
    assert channel("").strikes == 2


def test_resume_to_a_slot_keeps_the_pace(engine: Engine, at: Any) -> None:
    """The pace was exceeded four times over."""
    engine.answer(*[Answer(status=429)] * 4)
    for number in range(5):
        mark("a/", host=f"{number}.example.com")

    posts = 0
    for number in range(5):
        posts += submit("one", f"{number}.example.com") not in ("not_yet", "idle")
        channels.resume("one")
        at.shift(1)

    assert posts == len(engine.requests) == 1
    assert channel("").not_before == START + timedelta(seconds=5)


def test_rows_settled_before_are_skipped(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts were counted twice."""
    mark("a/", "b/", "c/")
    claimed = claim(read())
    failed = Verdict(state=SubmissionState.PENDING, reason=Reason.SERVER_ERROR)
    claims.record_response(claimed, Response(status=500), failed)
    monkeypatch.setattr(claims, "SETTLE_CHUNK", 2)
    renew, calls = claims._renew, []

    def die_at_the_second(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise KilledError
        return renew(*args)

    with monkeypatch.context() as patched:
        patched.setattr(claims, "_renew", die_at_the_second)
        with pytest.raises(KilledError):
            claims.settle(claimed.submission.pk, claimed.channel.pk, claimed.token)
    at.shift(121)
    left = claims.take_over(claimed.channel.pk)

    assert left
    assert claims.settle(left[0], claimed.channel.pk, left[1])
    assert set(TrackedUrl.objects.values_list("attempts", flat=True)) == {1}


def test_r32_a_worker_killed_at_each_post_counts_and_spaces_its_attempts(
    engine: Engine, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R32: it was a POST every two minutes for a week."""

    def die(*args: Any, **values: Any) -> Any:
        posts.append(int((timezone.now() - START).total_seconds()))
        raise KilledError

    posts: list[int] = []
    monkeypatch.setattr(client, "post_urls", die)
    mark("a/")
    for _second in range(0, 9_000, 30):
        with suppress(KilledError):
            submit("one", HOST)
        at.shift(30)

    # A lease of two minutes, then 60, 300, 900 s and an hour.
    assert posts == [0, 180, 600, 1_620, 5_340]
    assert row().attempts == 5


def test_a_late_response_is_dropped(at: Any) -> None:
    """Somebody else took the channel, and settled this POST as one of unknown fate."""
    mark("a/")
    claimed = claim(read())
    at.shift(120)
    left = claims.take_over(claimed.channel.pk)

    assert not claims.record_response(claimed, Response(status=429), LIMITED)

    assert channel("").pause_reason == ""
    assert Submission.objects.get().reason == Reason.NO_RESPONSE
    assert left
    claims.settle(left[0], claimed.channel.pk, left[1])
    assert (row().reason, row().attempts) == (Reason.NO_RESPONSE, 1)


def test_a_late_response_is_logged_as_such(
    engine: Engine, at: Any, during_post: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def take_over() -> None:
        at.shift(120)
        claims.take_over(channel().pk)

    mark("a/")
    during_post(take_over)

    with caplog.at_level("INFO", logger="wagtail_indexnow"):
        assert submit("one", HOST) == "not_yet"

    assert "state=late" in caplog.text


# The slot


@pytest.fixture
def sleeps(at: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let sleeping move the clock, and return how long each sleep was."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        at.shift(seconds)

    monkeypatch.setattr(submitting, "SLOT_WAIT", timedelta(seconds=3))
    monkeypatch.setattr("time.sleep", sleep)
    return slept


def test_a_worker_waits_for_a_slot_that_comes_in_a_moment(
    engine: Engine, sleeps: list[float]
) -> None:
    mark("a/")
    mark("a/", host=OTHER)
    submit("one", HOST)

    assert submit("one", OTHER) == "accepted"

    assert sleeps == [2.5]


def test_no_worker_waits_longer_than_three_seconds(
    engine: Engine, at: Any, sleeps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark("a/")
    Channel.objects.filter(host="").update(not_before=START + timedelta(seconds=2))
    take = claims.claim

    def late(*args: Any, **values: Any) -> Any:
        # Another worker is faster each time.
        soon = timezone.now() + timedelta(seconds=2)
        Channel.objects.filter(host="").update(not_before=soon)
        return take(*args, **values)

    monkeypatch.setattr(claims, "claim", late)
    Channel.objects.exclude(host="").update(handed_at=START)

    assert submit("one", HOST) == "not_yet"

    assert sleeps == [2.0]
    assert channel().handed_at is None
    assert not Submission.objects.exists()


def test_half_a_slot_late_does_not_move_the_next(at: Any) -> None:
    channels.ensure([("one", ""), ("one", HOST)])
    Channel.objects.filter(host="").update(not_before=START)
    at.shift(2.5)
    mark("a/")

    finish(claim(read()))

    assert channel("").not_before == START + timedelta(seconds=5)


def test_a_channel_that_is_gone_is_no_fault(engine: Engine, caplog: Any) -> None:
    """R60: a message can make the app check a channel once more, and make no row."""
    assert submit("one", "elsewhere.example.com") == "idle"
    assert submit("one", "") == "idle"

    assert not Channel.objects.exists()


def test_a_channel_that_says_ready_although_nothing_waits_is_put_right(engine: Engine) -> None:
    mark("a/")
    TrackedUrl.objects.update(not_before=None)

    assert submit("one", HOST) == "idle"

    assert channel().ready_at is None
