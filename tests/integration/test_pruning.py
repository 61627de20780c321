"""Old history goes, a batch at a time and once a day; what engines know stays."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from example_site.engine import Answer
from tests.factories import make_page, publish
from tests.schedules import add_history, add_schedules
from wagtail_indexnow.ledger import tracked_urls
from wagtail_indexnow.models import Intent, Submission, TrackedUrl
from wagtail_indexnow.relay import maintenance
from wagtail_indexnow.relay.dispatch import run_maintenance

pytestmark = pytest.mark.django_db(transaction=True)


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
    assert (Intent.objects.count(), Submission.objects.count()) == (2, 1)
    later(indexnow, days=2)
    run_maintenance()

    assert [intent.state for intent in Intent.objects.all()] == ["planned"]
    assert not Submission.objects.exists()
    known = TrackedUrl.objects.get()
    assert (known.state, known.intent_id, known.submission_id) == ("accepted", None, None)


def test_retention_is_a_setting(indexnow: Any, clock_at: Any, transactional_db: None) -> None:
    indexnow.configure(RETENTION_DAYS=1)
    add_history(3)

    later(indexnow, days=2)
    run_maintenance()

    assert not Intent.objects.exists()


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
        left.append(Intent.objects.count())

    assert left == [8, 2, 0]


def test_history_is_looked_at_once_a_day(
    indexnow: Any, clock_at: Any, transactional_db: None
) -> None:
    run_maintenance()
    add_history(1)
    Intent.objects.update(finished_at=timezone.now() - timedelta(days=100))

    later(indexnow, hours=23)
    run_maintenance()
    assert Intent.objects.exists()
    later(indexnow, hours=1)
    run_maintenance()
    assert not Intent.objects.exists()


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
    assert (given_up.state, given_up.reason) == ("failed", "expired")


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

    assert not Intent.objects.exists()
