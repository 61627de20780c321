"""Pace and holds: one time on a row that all workers share."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from wagtail_indexnow.constants import Change, Reason, UrlState
from wagtail_indexnow.ledger import channels
from wagtail_indexnow.ledger.channels import (
    ENDPOINT,
    confirm_slot,
    ensure,
    hold,
    is_open,
    take_slot,
)
from wagtail_indexnow.models import Channel, TrackedUrl

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
    ensure("one", [A, B])
    ensure("two", [A])


def row(host: str = ENDPOINT, endpoint: str = "one") -> Channel:
    return Channel.objects.get(endpoint=endpoint, host=host)


def test_ensuring_makes_each_row_once() -> None:
    ensure("one", [A, B, A])

    found = Channel.objects.filter(endpoint="one").values_list("host", flat=True)
    assert sorted(found) == ["", A, B]


def test_the_first_slot_is_free_and_the_next_is_a_host_interval_later(at: Any) -> None:
    assert take_slot("one", A)
    at.shift(59.9)
    assert not take_slot("one", A)
    at.shift(0.1)
    assert take_slot("one", A)


def test_c60_slots_of_an_endpoint_are_evenly_spaced_over_its_hosts(at: Any) -> None:
    assert take_slot("one", A)
    at.shift(4.9)
    assert not take_slot("one", B)
    at.shift(0.1)
    assert take_slot("one", B)


def test_c60_no_sliding_minute_ever_has_more_posts_than_the_limit(at: Any, settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {"RATE_LIMIT": 12, "HOST_INTERVAL": 0}
    taken: list[float] = []
    for tenth in range(3_000):
        if take_slot("one", (A, B)[tenth % 2]):
            taken.append(tenth / 10)
        at.shift(0.1)

    assert len(taken) == 60
    for start in taken:
        assert sum(start <= moment < start + 60 for moment in taken) <= 12


def test_another_endpoint_has_a_pace_of_its_own() -> None:
    assert take_slot("one", A)
    assert take_slot("two", A)


def test_a_host_that_must_wait_takes_nothing_from_the_endpoint(at: Any) -> None:
    take_slot("one", A)
    at.shift(10)
    before = row().not_before

    assert not take_slot("one", A)

    assert row().not_before == before
    assert take_slot("one", B)


def test_a_held_endpoint_takes_nothing_from_the_host() -> None:
    hold("one", ENDPOINT, reason=Reason.RATE_LIMITED, until=START + MINUTE)

    assert not take_slot("one", A)

    assert row(A).not_before is None


def test_a_confirmed_slot_counts_from_the_moment_of_the_post(at: Any) -> None:
    slot = take_slot("one", A)
    at.shift(7)

    assert slot
    assert confirm_slot(slot)

    assert row().not_before == START + timedelta(seconds=7 + 5)
    assert row(A).not_before == START + timedelta(seconds=7 + 60)


def test_a_slot_that_somebody_else_passed_is_gone(at: Any) -> None:
    slot = take_slot("one", A)
    at.shift(6)
    other = take_slot("one", B)

    assert slot
    assert not confirm_slot(slot)
    assert other
    assert confirm_slot(other)
    assert row(A).not_before == START + timedelta(seconds=60)


@pytest.mark.parametrize("host", [ENDPOINT, A])
def test_a_hold_that_opened_meanwhile_takes_the_slot_away(host: str) -> None:
    slot = take_slot("one", A)
    until = START + timedelta(hours=1)
    hold("one", host, reason=Reason.RATE_LIMITED, until=until)

    assert slot
    assert not confirm_slot(slot)

    assert row(host).not_before == until


def test_c49_a_held_endpoint_stops_its_hosts_and_no_other_endpoint(at: Any) -> None:
    hold("one", ENDPOINT, reason=Reason.RATE_LIMITED, until=START + 2 * MINUTE)

    assert not is_open("one", A, START)
    assert not is_open("one", B, START)
    assert is_open("two", A, START)
    assert is_open("one", A, START + 2 * MINUTE)


def test_a_held_host_stops_no_other_host() -> None:
    hold("one", A, reason=Reason.KEY_FILE, until=START + MINUTE)

    assert not is_open("one", A, START)
    assert is_open("one", B, START)
    assert take_slot("one", B)


def test_a_hold_is_raised_and_never_lowered() -> None:
    hold("one", A, reason=Reason.KEY_REFUSED, until=START + 5 * MINUTE)
    hold("one", A, reason=Reason.KEY_FILE, until=START + MINUTE)

    assert row(A).not_before == START + 5 * MINUTE
    assert row(A).pause_reason == Reason.KEY_FILE


def test_renewing_a_hold_counts_strikes_and_another_reason_starts_anew(at: Any) -> None:
    for _ in range(3):
        hold("one", A, reason=Reason.KEY_REFUSED, until=START)
    assert channels.standing("one", A) == (Reason.KEY_REFUSED, 3)
    at.shift(60)

    hold("one", A, reason=Reason.KEY_FILE, until=START)

    assert channels.standing("one", A) == (Reason.KEY_FILE, 1)
    assert row(A).paused_at == START + MINUTE


def test_two_requests_under_way_at_once_are_one_strike(at: Any) -> None:
    at.shift(5)
    for started in (0, 4):
        began = START + timedelta(seconds=started)
        hold("one", ENDPOINT, reason=Reason.RATE_LIMITED, until=START, started_at=began)

    assert row().strikes == 1


def test_an_unknown_channel_stands_well() -> None:
    assert channels.standing("three", A) == ("", 0)


def test_opening_a_hold_logs_one_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="wagtail_indexnow"):
        for _ in range(3):
            hold("one", ENDPOINT, reason=Reason.RATE_LIMITED, until=START)

    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "endpoint=one host=* reason=rate_limited" in errors[0].getMessage()


def test_a_success_clears_an_older_hold_but_lowers_no_time(at: Any) -> None:
    hold("one", A, reason=Reason.KEY_REFUSED, until=START + 5 * MINUTE)

    channels.clear("one", A, before=START)

    held = row(A)
    assert (held.pause_reason, held.strikes, held.paused_at) == ("", 0, None)
    assert held.not_before == START + 5 * MINUTE


def test_a_success_leaves_a_hold_that_opened_after_it_began() -> None:
    hold("one", A, reason=Reason.KEY_REFUSED, until=START)

    channels.clear("one", A, before=START - MINUTE)

    assert row(A).pause_reason == Reason.KEY_REFUSED


def test_clearing_can_be_limited_to_reasons() -> None:
    hold("one", A, reason=Reason.KEY_REFUSED, until=START)

    channels.clear("one", A, before=START, reasons=[Reason.KEY_FILE])
    assert row(A).pause_reason == Reason.KEY_REFUSED

    channels.clear("one", A, before=START, reasons=[Reason.KEY_REFUSED])
    assert row(A).pause_reason == ""


def waiting(host: str, *, sent_at: datetime | None = None, reason: str) -> TrackedUrl:
    return TrackedUrl.objects.create(
        endpoint="one",
        host=host,
        url=f"https://{host}/",
        url_hash=host + str(sent_at) + reason,
        change=Change.UPDATED,
        state=UrlState.PENDING,
        reason=reason,
        not_before=START + timedelta(hours=1),
        sent_at=sent_at,
    )


def test_a_person_ends_a_hold_and_what_waited_for_it_is_due() -> None:
    hold("one", A, reason=Reason.KEY_REFUSED, until=START + timedelta(hours=1))
    due = waiting(A, reason=Reason.KEY_REFUSED)
    in_gap = waiting(A, reason=Reason.KEY_REFUSED, sent_at=START - MINUTE)
    other_host = waiting(B, reason=Reason.KEY_REFUSED)
    other_reason = waiting(A, reason=Reason.SERVER_ERROR)

    channels.release("one", A)

    assert take_slot("one", A)
    assert channels.standing("one", A) == ("", 0)
    for url in (due, in_gap, other_host, other_reason):
        url.refresh_from_db()
    assert due.not_before == START
    assert {in_gap.not_before, other_host.not_before, other_reason.not_before} == {
        START + timedelta(hours=1)
    }


def test_releasing_an_endpoint_frees_the_urls_of_all_its_hosts() -> None:
    hold("one", ENDPOINT, reason=Reason.RATE_LIMITED, until=START + timedelta(hours=1))
    urls = [waiting(host, reason=Reason.RATE_LIMITED) for host in (A, B)]

    channels.release("one")

    for url in urls:
        url.refresh_from_db()
        assert url.not_before == START


def test_releasing_what_is_not_held_or_not_there_changes_no_url() -> None:
    url = waiting(A, reason="")

    channels.release("one", A)
    channels.release("three", A)

    url.refresh_from_db()
    assert url.not_before == START + timedelta(hours=1)


def test_a_channel_is_handed_back_and_verified() -> None:
    Channel.objects.filter(host=A).update(handed_at=START)

    channels.handed_back("one", A)
    channels.verified("one", A)

    assert (row(A).handed_at, row(A).verified_at) == (None, START)
    assert row(A, "two").handed_at == START
