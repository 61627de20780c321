"""Pace and pauses: times on rows that all workers share."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from wagtail_indexnow.constants import Change, Reason
from wagtail_indexnow.ledger import channels, tracked_urls
from wagtail_indexnow.ledger.channels import ENDPOINT
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import Channel, Submission, TrackedUrl
from wagtail_indexnow.submission import claims
from wagtail_indexnow.submission.claims import Batch, Claim

pytestmark = pytest.mark.django_db

START = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
A, B = "a.example.com", "b.example.com"


@pytest.fixture(autouse=True)
def at() -> Iterator[Any]:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


@pytest.fixture(autouse=True)
def rows() -> None:
    channels.ensure([("one", ENDPOINT), ("one", A), ("one", B), ("two", ENDPOINT), ("two", A)])


def row(host: str = ENDPOINT, endpoint: str = "one") -> Channel:
    return Channel.objects.get(endpoint=endpoint, host=host)


def claim(host: str, endpoint: str = "one") -> Claim | datetime | None:
    """Claim for a POST of a host, and end the lease at once as its settlement does."""
    claimed = claims.claim(Batch(channel=row(host, endpoint), rows=[]), key="")
    if isinstance(claimed, Claim):
        claims.settle(claimed.submission.pk, claimed.channel.pk, claimed.token)
    return claimed


def is_claimed(host: str, endpoint: str = "one") -> bool:
    return isinstance(claim(host, endpoint), Claim)


def pause(host: str, reason: str, until: datetime, **values: Any) -> bool:
    return channels.pause(row(host), reason=reason, until=until, now=START, **values)


def waiting(host: str = A, *, not_before: datetime = START, **values: Any) -> TrackedUrl:
    return TrackedUrl.objects.create(
        endpoint="one",
        host=host,
        url=f"https://{host}/",
        url_hash=host,
        change=Change.UPDATED,
        channel=row(host).pk,
        not_before=not_before,
        **values,
    )


def test_ensuring_makes_each_row_once() -> None:
    again = channels.ensure([("one", A), ("one", B), ("one", A)])

    assert again == {("one", A): row(A).pk, ("one", B): row(B).pk}
    assert Channel.objects.filter(endpoint="one").count() == 3


def test_the_first_slot_is_free_and_a_hosts_next_is_its_interval_later(at: Any) -> None:
    assert is_claimed(A)
    at.shift(59.9)
    assert not is_claimed(A)
    at.shift(0.1)
    assert is_claimed(A)


def test_c60_slots_of_an_endpoint_are_evenly_spaced_over_its_hosts(at: Any) -> None:
    assert is_claimed(A)
    at.shift(10)
    assert is_claimed(B)
    Channel.objects.exclude(host="").update(not_before=START)
    at.shift(2.4)  # the slot before was taken late, so that the next one comes 2.5 s later
    assert claim(A) == START + timedelta(seconds=12.5)
    at.shift(0.1)
    assert is_claimed(A)
    at.shift(4.9)
    assert not is_claimed(B)


def test_c60_no_span_ever_has_more_than_one_post_beyond_the_limit(at: Any, settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {"RATE_LIMIT": 12, "HOST_INTERVAL": 0}
    taken: list[float] = []
    for tenth in range(3_000):
        if is_claimed((A, B)[tenth % 2]):
            taken.append(tenth / 10)
        at.shift(0.1)

    assert len(taken) == 61
    for start in taken:
        # A slot may be taken half a slot late without moving the next one.
        assert sum(start <= moment < start + 60 for moment in taken) <= 12 + 1


def test_another_endpoint_has_a_pace_of_its_own() -> None:
    assert is_claimed(A)
    assert is_claimed(A, "two")


def test_a_host_that_must_wait_takes_nothing_from_the_endpoint(at: Any) -> None:
    claim(A)
    at.shift(10)
    before = row().not_before

    assert claim(A) is None

    assert row().not_before == before
    assert is_claimed(B)
    assert Submission.objects.count() == 2


def test_a_paused_endpoint_takes_nothing_from_the_host() -> None:
    pause(ENDPOINT, Reason.RATE_LIMITED, START + MINUTE)
    before = row(A).not_before

    assert claim(A) == START + MINUTE

    assert row(A).not_before == before
    assert not is_claimed(B)
    assert is_claimed(A, "two")


def test_a_paused_host_stops_no_other_host() -> None:
    pause(A, Reason.KEY_FILE, START + MINUTE)

    assert not is_claimed(A)
    assert is_claimed(B)


def test_a_pause_is_raised_and_never_lowered() -> None:
    pause(A, Reason.KEY_REFUSED, START + 5 * MINUTE)
    pause(A, Reason.KEY_FILE, START + MINUTE)

    assert row(A).not_before == START + 5 * MINUTE
    assert row(A).pause_reason == Reason.KEY_FILE


def test_renewing_a_pause_counts_strikes_and_another_reason_starts_again() -> None:
    for _ in range(3):
        pause(A, Reason.KEY_REFUSED, START)
    assert channels.history("one", A) == (Reason.KEY_REFUSED, 3)

    pause(A, Reason.KEY_FILE, START)

    assert channels.history("one", A) == (Reason.KEY_FILE, 1)


def test_strikes_by_paused_at_posts_of_one_episode_are_one_strike() -> None:
    """Four POSTs under way at once are all refused; each later one is a strike of its own."""
    for started in (-4, -3, -2, -1):
        began = START + timedelta(seconds=started)
        pause(ENDPOINT, Reason.RATE_LIMITED, START, started_at=began)
        assert channels.history("one", ENDPOINT, started_at=began) == (Reason.RATE_LIMITED, 0)
    assert row().strikes == 1

    began = START + MINUTE
    later = {"until": START, "now": START + 2 * MINUTE, "started_at": began}
    channels.pause(row(), reason=Reason.RATE_LIMITED, **later)
    channels.pause(row(), reason=Reason.RATE_LIMITED, **later)

    assert row().strikes == 2
    assert row().paused_at == START + 2 * MINUTE


def test_an_unknown_channel_has_no_history() -> None:
    assert channels.history("three", A) == ("", 0)
    channels.pause_host("three", A, reason=Reason.KEY_FILE, until=START)
    channels.clear_host("three", A, [Reason.KEY_FILE])
    assert not Channel.objects.filter(endpoint="three").exists()


def test_opening_a_pause_logs_one_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="wagtail_indexnow"):
        for _ in range(3):
            channels.pause_host("one", A, reason=Reason.KEY_FILE, until=START)

    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert f"endpoint=one host={A} reason=key_file" in errors[0].getMessage()


def test_a_success_clears_an_older_pause_but_lowers_no_time() -> None:
    pause(A, Reason.KEY_REFUSED, START + 5 * MINUTE)

    channels.clear(row(A), before=START)

    cleared = row(A)
    assert (cleared.pause_reason, cleared.strikes, cleared.paused_at) == ("", 0, None)
    assert cleared.not_before == START + 5 * MINUTE


def test_a_success_leaves_a_pause_that_opened_after_it_began() -> None:
    pause(A, Reason.KEY_REFUSED, START)

    channels.clear(row(A), before=START - MINUTE)

    assert row(A).pause_reason == Reason.KEY_REFUSED


def test_clearing_can_be_limited_to_reasons() -> None:
    pause(A, Reason.KEY_REFUSED, START)

    channels.clear_host("one", A, [Reason.KEY_FILE])
    assert row(A).pause_reason == Reason.KEY_REFUSED

    channels.clear_host("one", A, [Reason.KEY_REFUSED])
    assert row(A).pause_reason == ""


# Resume


def test_resume_ends_a_pause_and_makes_ready_what_waited_for_it(at: Any) -> None:
    waiting()
    channels.pause_host("one", A, reason=Reason.KEY_REFUSED, until=START + 60 * MINUTE)
    assert row(A).ready_at == START + 60 * MINUTE
    at.shift(120)

    channels.resume("one", A)

    assert channels.history("one", A) == ("", 0)
    assert row(A).ready_at == START + 2 * MINUTE
    assert is_claimed(A)


@pytest.mark.parametrize(
    ("host", "next_at"),
    [(ENDPOINT, START + timedelta(seconds=5)), (A, START + timedelta(seconds=60))],
    ids=["endpoint", "host"],
)
def test_resume_keeps_the_pace_of_the_post_that_raised_the_pause(
    at: Any, host: str, next_at: datetime
) -> None:
    waiting()
    pause(host, Reason.RATE_LIMITED, START + 60 * MINUTE)
    at.shift(1)

    channels.resume("one", host)

    assert row(host).not_before == next_at


def test_resuming_what_is_not_paused_or_not_there_changes_nothing(at: Any) -> None:
    claim(A)
    before = row(A).not_before

    channels.resume("one", A)
    channels.resume("three", A)

    assert row(A).not_before == before


def test_a_host_is_resumed_at_every_endpoint_for_the_reasons_that_are_over() -> None:
    for endpoint, reason in (("one", Reason.KEY_REFUSED), ("two", Reason.FOREIGN_HOST)):
        channels.pause_host(endpoint, A, reason=reason, until=START + MINUTE)

    channels.resume_host(A, [Reason.KEY_REFUSED])

    assert (row(A).pause_reason, row(A, "two").pause_reason) == ("", Reason.FOREIGN_HOST)


# When a channel is next to be taken


def test_ready_at_is_the_later_of_the_first_due_url_and_the_channels_own_time() -> None:
    assert row(A).ready_at is None
    waiting(not_before=START + MINUTE)
    channels.refresh(row(A).pk)
    assert row(A).ready_at == START + MINUTE

    channels.pause_host("one", A, reason=Reason.KEY_FILE, until=START + 5 * MINUTE)
    assert row(A).ready_at == START + 5 * MINUTE

    TrackedUrl.objects.update(not_before=None)
    channels.refresh(row(A).pk)
    assert row(A).ready_at is None


def test_ready_at_is_the_leases_end_while_one_is_held() -> None:
    waiting()
    batch = claims.read(row(A), now=START)
    claimed = claims.claim(batch, key="")
    assert isinstance(claimed, Claim)

    marked = Marked(url=f"https://{A}/new/", host=A, change=Change.ADDED, page_id=None)
    tracked_urls.mark([marked], now=START)

    assert row(A).ready_at == row(A).lease_until == claimed.token


def test_a_new_endpoint_has_a_slot_at_once() -> None:
    """coalesce: a time that was never set must not compare as later than now."""
    channels.ensure([("new", ENDPOINT), ("new", A)])

    assert is_claimed(A, "new")


def test_the_hourly_comparison_repairs_what_differs_and_logs_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting()
    channels.refresh(row(A).pk)
    assert channels.compare() == 0
    Channel.objects.filter(pk=row(A).pk).update(ready_at=None)
    Channel.objects.filter(pk=row(B).pk).update(ready_at=START)

    with caplog.at_level(logging.WARNING, logger="wagtail_indexnow"):
        assert channels.compare() == 2

    assert (row(A).ready_at, row(B).ready_at) == (START, None)
    assert caplog.text.count("repaired channel=") == 2


def test_what_was_put_right_before_the_lock_is_no_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting()
    monkeypatch.setattr(channels, "_differing", lambda pks: [row(B).pk])

    assert channels.compare() == 0


def test_a_message_that_came_to_nothing_lets_the_channel_be_handed_over_again() -> None:
    Channel.objects.filter(host=A).update(handed_at=START)

    channels.drop(row(A).pk)

    assert row(A).handed_at is None
    assert row(A, "two").handed_at == START


def test_a_url_waits_at_its_hosts_front_end_until_it_is_verified() -> None:
    assert channels.home_of("one", A, is_verified=True) == ("one", A)
    assert channels.home_of("one", A, is_verified=False) == (channels.FRONT_END, A)
