"""Several workers at once, on databases that have them. SQLite has one writer by design."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
import time_machine
from django.db import connection, connections, transaction  # noqa: F401 - for skipif
from django.utils import timezone

from wagtail_indexnow import clock
from wagtail_indexnow.constants import Change, Reason, SubmissionState
from wagtail_indexnow.ledger import channels, tracked_urls
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import Channel, HostKey, Submission, TrackedUrl
from wagtail_indexnow.submission import claims, keys
from wagtail_indexnow.submission.claims import Batch, Claim
from wagtail_indexnow.submission.responses import Answer, Verdict

DATABASE_NOW = clock.now  # before a fixture replaces it
HOST = "www.example.com"
WORKERS = 4

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor == 'sqlite'", reason="one writer at a time"),
]

Result = TypeVar("Result")


def at_once(work: Callable[[int], Result], workers: int = WORKERS) -> list[Result]:
    """Run in several threads that begin together, and return what each came to."""
    barrier = threading.Barrier(workers)

    def run(number: int) -> Result:
        try:
            barrier.wait(10)
            return work(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(run, range(workers)))


def marks(count: int, change: str = Change.ADDED) -> list[Marked]:
    return [
        Marked(url=f"https://{HOST}/{number}/", host=HOST, change=change, page_id=number)
        for number in range(count)
    ]


def row(host: str = HOST, endpoint: str = "indexnow") -> Channel:
    return Channel.objects.get(endpoint=endpoint, host=host)


def batch(host: str = HOST, endpoint: str = "indexnow") -> Batch:
    return claims.read(row(host, endpoint), now=clock.now())


def test_c59_no_url_is_claimed_by_two_workers() -> None:
    """They have read the same URLs, before any of them claims."""
    tracked_urls.mark(marks(400), now=clock.now())
    read = batch()

    claimed = at_once(lambda number: claims.claim(read, key=""))

    assert sum(isinstance(found, Claim) for found in claimed) == 1
    assert Submission.objects.get().url_count == 400


def test_c60_one_slot_goes_to_one_worker() -> None:
    for round_number in range(10):
        endpoint = f"endpoint{round_number}"
        channels.ensure([(endpoint, ""), (endpoint, HOST)])
        read = batch(endpoint=endpoint)

        claimed = at_once(lambda number, read=read: claims.claim(read, key=""))  # type: ignore[misc]

        assert sum(isinstance(found, Claim) for found in claimed) == 1


def test_a_slot_of_an_endpoint_goes_to_one_of_several_hosts() -> None:
    hosts = [f"{number}.example.com" for number in range(WORKERS)]
    channels.ensure([("one", ""), *(("one", host) for host in hosts)])
    batches = [batch(host, "one") for host in hosts]

    claimed = at_once(lambda number: claims.claim(batches[number], key=""))

    assert sum(isinstance(found, Claim) for found in claimed) == 1
    assert Channel.objects.filter(lease_until__isnull=False).count() == 1
    # The others learn when the next slot is.
    assert sum(isinstance(found, datetime) for found in claimed) == WORKERS - 1


def test_one_worker_takes_over_what_another_left() -> None:
    tracked_urls.mark(marks(10), now=clock.now())
    claims.claim(batch(), key="")
    Channel.objects.exclude(host="").update(lease_until=clock.now() - timedelta(seconds=1))

    taken = at_once(lambda number: claims.take_over(row().pk))

    assert sum(found is not None for found in taken) == 1


def test_marking_in_any_order_while_settling_never_deadlocks(settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {
        "ENABLED": True,
        "RATE_LIMIT": 1_000_000,
        "HOST_INTERVAL": 0,
        "RESUBMIT_AFTER": 0,
    }
    now = clock.now()
    tracked_urls.mark(marks(300), now=now)

    def work(number: int) -> None:
        shuffled = marks(300, Change.UPDATED)
        for _ in range(10):
            random.shuffle(shuffled)
            if number % 2:
                with transaction.atomic():
                    tracked_urls.mark(shuffled[:200], now=clock.now())
            elif isinstance(claimed := claims.claim(batch(), key=""), Claim):
                verdict = Verdict(state=SubmissionState.ACCEPTED, proven=True)
                claims.record_response(claimed, Answer(status=200), verdict)
                claims.settle(claimed.submission.pk, claimed.channel.pk, claimed.token)

    at_once(work)

    assert Channel.objects.get(host=HOST).lease_until is None
    assert channels.compare() == 0


def test_lost_updates_of_ready_at_are_prevented_by_a_second_statement(settings: Any) -> None:
    """recompute: whoever waited for a channel's lock must see what was written meanwhile."""
    tracked_urls.mark(marks(40), now=clock.now())

    def work(number: int) -> None:
        for _ in range(10):
            change = random.choice([Change.ADDED, Change.REMOVED])
            tracked_urls.mark(marks(40, change)[number * 10 : number * 10 + 10], now=clock.now())

    at_once(work)

    assert channels.compare() == 0


def test_several_channels_marked_in_any_order_never_deadlock() -> None:
    def work(number: int) -> None:
        for _ in range(5):
            several = [
                Marked(url=f"https://{host}/{n}/", host=host, change=Change.UPDATED, page_id=n)
                for host in (f"{letter}.example.com" for letter in "abcdef")
                for n in range(20)
            ]
            random.shuffle(several)
            with transaction.atomic():
                tracked_urls.mark(several[:80], now=clock.now())

    at_once(work)

    assert channels.compare() == 0


def test_new_urls_marked_by_two_workers_in_any_order_are_one_row_each() -> None:
    def work(number: int) -> None:
        shuffled = marks(300)
        random.shuffle(shuffled)
        tracked_urls.mark(shuffled, now=clock.now())

    at_once(work)

    assert TrackedUrl.objects.count() == 300
    assert set(TrackedUrl.objects.values_list("version", flat=True)) == {WORKERS}


def test_pauses_of_several_workers_lose_no_strike() -> None:
    channels.ensure([("one", ""), ("one", HOST)])
    until = clock.now()

    at_once(lambda number: channels.pause_host("one", HOST, reason=Reason.KEY_FILE, until=until))

    assert row(endpoint="one").strikes == WORKERS


def test_workers_agree_on_one_key() -> None:
    found = at_once(lambda number: keys.key_for(HOST))

    assert set(found) == {HostKey.objects.get().key}


def test_the_clock_is_the_databases_however_wrong_a_workers_own_is() -> None:
    right = DATABASE_NOW()

    with time_machine.travel(datetime(2030, 1, 1, tzinfo=UTC), tick=False):
        there = DATABASE_NOW()

    assert timedelta(0) <= there - right < timedelta(seconds=60)


def test_without_use_tz_the_clock_is_the_sites_whatever_zone_an_editor_has(settings: Any) -> None:
    settings.USE_TZ = False

    with timezone.override("Pacific/Kiritimati"):
        seen = DATABASE_NOW()

    assert abs(seen - DATABASE_NOW()) < timedelta(seconds=60)
    assert timezone.is_naive(seen)


def test_c60_workers_whose_clocks_are_90_s_apart_keep_one_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock, "now", DATABASE_NOW)
    hosts = ["a.example.com", "b.example.com"]
    channels.ensure([("one", ""), *(("one", host) for host in hosts)])
    batches = [batch(host, "one") for host in hosts]

    assert isinstance(claims.claim(batches[0], key=""), Claim)
    with time_machine.travel(datetime.now(UTC) + timedelta(seconds=90)):
        assert isinstance(claims.claim(batches[1], key=""), datetime)


def test_r38_an_editors_clock_that_is_ahead_makes_nothing_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R38: a web server ten minutes ahead marks, pauses, resumes and resubmits."""
    monkeypatch.setattr(clock, "now", DATABASE_NOW)
    with time_machine.travel(datetime.now(UTC) + timedelta(minutes=10)):
        tracked_urls.mark(marks(2, Change.REMOVED), now=clock.now())
        channels.pause_host("indexnow", HOST, reason=Reason.KEY_FILE, until=clock.now())
        channels.resume("indexnow", HOST)
        tracked_urls.resubmit(pks(), now=clock.now())

    soon = DATABASE_NOW() + timedelta(minutes=1, seconds=5)  # *Resume* keeps the host's pace
    assert row().ready_at is not None
    assert row().ready_at <= soon
    assert not TrackedUrl.objects.filter(not_before__gt=DATABASE_NOW()).exists()


def pks() -> list[int]:
    return list(TrackedUrl.objects.values_list("pk", flat=True))
