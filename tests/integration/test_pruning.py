"""Old history goes, a batch at a time and once a day; what engines know stays."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from example_site.engine import Answer
from tests.factories import make_page, publish
from tests.schedules import add_history, add_schedules
from wagtail_indexnow.ledger import tracked_urls
from wagtail_indexnow.models import Channel, Intent, Submission, TrackedUrl
from wagtail_indexnow.relay import maintenance
from wagtail_indexnow.relay.dispatch import run_maintenance

pytestmark = pytest.mark.django_db(transaction=True)


def events() -> Any:
    """Return all events but the audits, which maintenance plans too."""
    return Intent.objects.exclude(kind="audit")


def later(indexnow: Any, **amount: float) -> None:
    indexnow.travel_to(timezone.now() + timedelta(**amount))


def test_history_goes_after_retention_days_and_tracked_urls_stay(
    indexnow: Any, clock_at: Any, site: Any
) -> None:
    publish(make_page(site.root_page, "news"))
    indexnow.settle()
    add_schedules(1, within_s=86_400 * 200)

    later(indexnow, days=89)
    run_maintenance()
    assert (events().count(), Submission.objects.count()) == (2, 1)
    later(indexnow, days=2)
    run_maintenance()

    assert [intent.state for intent in events()] == ["planned"]
    assert not Submission.objects.exists()
    known = TrackedUrl.objects.get()
    # It still says that it was in a POST.
    assert (known.state, known.submission is None) == ("accepted", False)


def test_retention_is_a_setting(indexnow: Any, clock_at: Any, transactional_db: None) -> None:
    indexnow.configure(RETENTION_DAYS=1)
    add_history(3)

    later(indexnow, days=2)
    run_maintenance()

    assert not events().exists()


def test_much_history_goes_in_several_looks_without_a_pause(
    indexnow: Any, clock_at: Any, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "BATCH", 3)
    monkeypatch.setattr(maintenance, "BATCHES", 2)
    add_history(14)
    later(indexnow, days=91)

    left = []
    for _look in range(3):
        run_maintenance()
        left.append(events().count())

    assert left == [8, 2, 0]


def test_history_is_looked_at_once_a_day(
    indexnow: Any, clock_at: Any, transactional_db: None
) -> None:
    run_maintenance()
    add_history(1)
    events().update(finished_at=timezone.now() - timedelta(days=100))

    later(indexnow, hours=23)
    run_maintenance()
    assert events().exists()
    later(indexnow, hours=1)
    run_maintenance()
    assert not events().exists()


def test_urls_that_waited_too_long_are_given_up_within_a_minute(
    indexnow: Any, clock_at: Any, site: Any
) -> None:
    publish(make_page(site.root_page, "news"))
    indexnow.engine.answer(Answer(status=503))
    indexnow.work()
    assert TrackedUrl.objects.get().state == "pending"

    later(indexnow, days=7)
    run_maintenance()

    given_up = TrackedUrl.objects.get()
    assert (given_up.state, given_up.reason) == ("failed", "gave_up")


def test_fault_of_one_piece_of_housework_does_not_cost_another_its_turn(
    indexnow: Any, clock_at: Any, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_history(1)
    later(indexnow, days=91)

    def fail(now: Any) -> int:
        raise OperationalError("deadlock detected")

    monkeypatch.setattr(tracked_urls, "give_up", fail)
    with pytest.raises(OperationalError, match="deadlock"):
        run_maintenance()

    assert not events().exists()


def test_r53_submissions_of_many_urls_are_pruned_a_few_at_a_time_and_no_url_is_touched(
    indexnow: Any, clock_at: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R53"""
    monkeypatch.setattr(maintenance, "BATCH_URLS", 50)
    for urls in (20, 20, 20, 120, 1):
        then = timezone.now() - timedelta(days=100)
        entries = [{"id": number} for number in range(urls)]
        Submission.objects.create(endpoint="engine", host="a", started_at=then, urls=entries)

    with CaptureQueriesContext(connection) as queries:
        maintenance.prune()

    assert not Submission.objects.exists()
    deletes = [query["sql"] for query in queries if query["sql"].startswith("DELETE")]
    assert len(deletes) == 4  # of 2, 1, 1 and 1 submissions
    assert not [query for query in queries if "trackedurl" in query["sql"]]


def test_what_a_channel_says_of_its_urls_is_compared_once_an_hour(
    indexnow: Any, clock_at: Any, site: Any
) -> None:
    publish(make_page(site.root_page, "news"))
    indexnow.settle()
    run_maintenance()
    Channel.objects.exclude(host="").update(ready_at=timezone.now())

    later(indexnow, minutes=59)
    run_maintenance()
    assert Channel.objects.filter(ready_at__isnull=False).exists()
    later(indexnow, minutes=1)
    run_maintenance()
    assert not Channel.objects.filter(ready_at__isnull=False).exists()
