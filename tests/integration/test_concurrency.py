"""Several workers at once, on databases that have them. SQLite has one writer by design."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
import time_machine
from django.db import connection, connections, transaction
from django.utils import timezone

from wagtail_indexnow import clock
from wagtail_indexnow.constants import Change, Reason, UrlState
from wagtail_indexnow.ledger import channels, tracked_urls
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import Channel, HostKey, Submission, TrackedUrl
from wagtail_indexnow.relay import maintenance
from wagtail_indexnow.submission import claims, keys
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


def test_c59_no_url_is_claimed_by_two_workers() -> None:
    tracked_urls.mark(marks(400), now=clock.now())

    def claim(number: int) -> list[str]:
        taken: list[str] = []
        while claimed := claims.claim("indexnow", HOST, now=clock.now(), limit=30):
            taken += claimed.urls
        return taken

    taken = [url for urls in at_once(claim) for url in urls]

    assert len(taken) == len(set(taken)) == 400
    assert sum(len(submission.urls) for submission in Submission.objects.all()) == 400


def test_where_rows_cannot_be_skipped_over_no_url_is_claimed_twice_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features = type(connection.features)
    monkeypatch.setattr(features, "has_select_for_update_skip_locked", False)
    tracked_urls.mark(marks(200), now=clock.now())

    def claim(number: int) -> list[str]:
        claimed = claims.claim("indexnow", HOST, now=clock.now(), limit=100)
        return claimed.urls if claimed else []

    taken = [url for urls in at_once(claim, 2) for url in urls]

    assert len(taken) == len(set(taken)) >= 100


def test_c60_one_slot_goes_to_one_worker() -> None:
    for round_number in range(10):
        endpoint = f"endpoint{round_number}"
        channels.ensure(endpoint, [HOST])

        def take(number: int, endpoint: str = endpoint) -> Any:
            return channels.take_slot(endpoint, HOST)

        assert sum(slot is not None for slot in at_once(take)) == 1


def test_a_slot_of_an_endpoint_goes_to_one_of_several_hosts() -> None:
    hosts = [f"{number}.example.com" for number in range(WORKERS)]
    channels.ensure("one", hosts)

    slots = at_once(lambda number: channels.take_slot("one", hosts[number]))

    assert sum(slot is not None for slot in slots) == 1
    waiting = Channel.objects.exclude(host="").exclude(not_before=None)
    assert waiting.count() == 1


def test_marking_in_any_order_while_settling_never_deadlocks() -> None:
    now = clock.now()
    tracked_urls.mark(marks(300), now=now)

    def work(number: int) -> None:
        shuffled = marks(300, Change.UPDATED)
        for _ in range(5):
            random.shuffle(shuffled)
            if number % 2:
                with transaction.atomic():
                    tracked_urls.mark(shuffled[:200], now=now)
            elif claimed := claims.claim("indexnow", HOST, now=now, limit=150):
                claims.record(
                    claimed,
                    Answer(status=500),
                    Verdict(
                        url_state=UrlState.PENDING,
                        reason=Reason.SERVER_ERROR,
                        retry=timedelta(0),
                    ),
                    now=now,
                )

    at_once(work)

    assert TrackedUrl.objects.filter(lease_until=None).count() == 300


def test_marking_while_history_is_pruned_never_deadlocks(settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {**settings.WAGTAIL_INDEXNOW, "RETENTION_DAYS": 1}
    now = clock.now()
    tracked_urls.mark(marks(400), now=now)
    for pk in TrackedUrl.objects.order_by("-pk").values_list("pk", flat=True):
        # Written last to first: that is the order in which a plain UPDATE would find them.
        TrackedUrl.objects.filter(pk=pk).update(attempts=1)

    def work(number: int) -> None:
        for _ in range(5):
            if number % 2:
                tracked_urls.mark(marks(400, Change.UPDATED), now=now)
            else:
                make_old_history(now - timedelta(days=2))
                maintenance.prune()

    at_once(work)

    assert not Submission.objects.exists()


def make_old_history(then: datetime) -> None:
    """Make a submission that all URLs name."""
    with transaction.atomic():  # as a claim does: nobody may prune it before
        submission = Submission.objects.create(
            endpoint="indexnow", host=HOST, started_at=then, urls=[]
        )
        tracked_urls.lock_still(TrackedUrl.objects.all(), pks()).update(submission=submission)


def pks() -> list[int]:
    return list(TrackedUrl.objects.values_list("pk", flat=True))


def test_new_urls_marked_by_two_workers_in_any_order_are_one_row_each() -> None:
    def work(number: int) -> None:
        shuffled = marks(300)
        random.shuffle(shuffled)
        tracked_urls.mark(shuffled, now=clock.now())

    at_once(work)

    assert TrackedUrl.objects.count() == 300
    assert set(TrackedUrl.objects.values_list("version", flat=True)) == {WORKERS}


def test_holds_of_two_workers_lose_no_strike() -> None:
    channels.ensure("one", [])
    until = clock.now()

    at_once(lambda number: channels.hold("one", "", reason=Reason.RATE_LIMITED, until=until))

    assert Channel.objects.get().strikes == WORKERS


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
    channels.ensure("one", hosts)

    assert channels.take_slot("one", hosts[0])
    with time_machine.travel(datetime.now(UTC) + timedelta(seconds=90)):
        assert not channels.take_slot("one", hosts[1])
