"""What no signal told of is found, a slice at a time, and nothing is found twice."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from wagtail.models import PageViewRestriction, Revision

from tests.factories import make_page, publish
from wagtail_indexnow.ledger import heartbeats, intents
from wagtail_indexnow.models import Heartbeat, Intent, TrackedUrl
from wagtail_indexnow.relay import reconciliation
from wagtail_indexnow.relay.dispatch import run_maintenance

pytestmark = pytest.mark.django_db(transaction=True)
NEWS = "https://www.example.com/en/news/"
T1 = datetime(2026, 12, 1, 9, 10, tzinfo=UTC)  # ten minutes after the tests begin


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


@pytest.fixture(autouse=True)
def wide_look_is_over(clock_at: Any, transactional_db: None) -> None:
    run_maintenance()


def approve(page: Any, at: datetime) -> Revision:
    """Schedule a page past all signals."""
    revision = page.save_revision()
    Revision.objects.filter(pk=revision.pk).update(approved_go_live_at=at)
    return revision


def schedule(page: Any, at: datetime) -> None:
    page.go_live_at = at
    page.save_revision().publish()


def publish_unseen(*pages: Any) -> None:
    now = timezone.now()
    for page in pages:
        type(page).objects.filter(pk=page.pk).update(
            live=True, first_published_at=now, last_published_at=now
        )


def later(indexnow: Any, **amount: float) -> None:
    indexnow.travel_to(timezone.now() + timedelta(**amount))


def planned() -> int:
    return Intent.objects.planned().count()


def test_schedule_within_the_horizon_is_found_within_a_minute(indexnow: Any, news: Any) -> None:
    approve(news, T1)
    run_maintenance()
    assert planned() == 0

    later(indexnow, minutes=1)
    run_maintenance()

    assert Intent.objects.get().expected_at == T1
    indexnow.travel_to(T1 + timedelta(seconds=5))
    call_command("publish_scheduled")
    assert indexnow.settled() == [NEWS]


def test_schedule_beyond_the_horizon_is_found_within_an_hour(indexnow: Any, news: Any) -> None:
    approve(news, T1 + timedelta(days=100))
    later(indexnow, minutes=1)
    run_maintenance()
    assert planned() == 0

    later(indexnow, hours=1)
    run_maintenance()

    assert planned() == 1


def test_schedule_that_cron_has_not_published_in_time_is_found(indexnow: Any, news: Any) -> None:
    approve(news, T1)
    indexnow.travel_to(T1 + timedelta(minutes=30))
    run_maintenance()
    indexnow.work()
    assert Intent.objects.get().reason == "not_published_yet"

    call_command("publish_scheduled")
    assert indexnow.settled() == [NEWS]


def test_known_schedule_is_not_planned_again(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    version = Intent.objects.get().version

    later(indexnow, hours=1)
    run_maintenance()

    assert Intent.objects.get().version == version


def test_schedule_that_came_back_unseen_is_reopened(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    revision = Revision.objects.get(approved_go_live_at=T1)
    Revision.objects.filter(pk=revision.pk).update(approved_go_live_at=None)
    indexnow.travel_to(T1)
    indexnow.settle(minutes=5)
    assert Intent.objects.get().reason == "schedule_cancelled"
    Revision.objects.filter(pk=revision.pk).update(approved_go_live_at=T1)

    later(indexnow, minutes=5)
    run_maintenance()

    assert planned() == 1


def test_schedule_cancelled_by_a_person_stays_cancelled(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    intents.cancel([Intent.objects.get().pk])

    later(indexnow, hours=1)
    run_maintenance()
    assert planned() == 0
    call_command("publish_scheduled")
    later(indexnow, hours=1)
    run_maintenance()

    assert indexnow.settled() == []
    assert [intent.reason for intent in Intent.objects.all()] == ["cancelled"]


def test_page_that_was_found_private_is_not_found_again(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    PageViewRestriction.objects.create(page=news, restriction_type="login")
    indexnow.travel_to(T1 + timedelta(seconds=5))
    call_command("publish_scheduled")
    indexnow.settle()
    rows = Intent.objects.count()

    for _hour in range(3):
        later(indexnow, hours=1)
        run_maintenance()

    assert Intent.objects.count() == rows


def test_b21_publishes_of_the_last_two_days_are_found_older_ones_not(
    indexnow: Any, news: Any, site: Any
) -> None:
    old = make_page(site.root_page, "old")
    publish_unseen(old)
    later(indexnow, hours=49)
    publish_unseen(news)

    later(indexnow, hours=2)
    run_maintenance()

    assert indexnow.settled() == [NEWS]


def test_release_that_was_lost_is_found(indexnow: Any, news: Any) -> None:
    """The page is live, its go-live still waits: nobody told us of the publish."""
    schedule(news, T1)
    indexnow.travel_to(T1 + timedelta(seconds=1))
    indexnow.work()
    indexnow.configure(ENABLED=False)
    call_command("publish_scheduled")
    indexnow.configure(ENABLED=True)

    assert indexnow.settled() == [NEWS]


def test_page_deleted_past_all_signals_is_removed(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.settled()
    indexnow.configure(ENABLED=False)
    type(news).objects.get(pk=news.pk).delete()
    indexnow.configure(ENABLED=True)

    later(indexnow, hours=1)
    run_maintenance()

    assert indexnow.settled() == [NEWS]
    assert TrackedUrl.objects.get().change == "removed"
    rows = Intent.objects.count()
    later(indexnow, hours=1)
    run_maintenance()
    assert Intent.objects.count() == rows


def test_urls_at_an_endpoint_that_is_gone_are_not_removed_every_hour(
    indexnow: Any, news: Any
) -> None:
    publish(news)
    indexnow.settled()
    type(news).objects.filter(pk=news.pk).update(live=False)
    TrackedUrl.objects.update(endpoint="gone")

    later(indexnow, hours=1)
    run_maintenance()

    assert planned() == 0


@pytest.mark.parametrize("aliases", [False, True])
def test_aliases_are_found_only_where_they_are_announced(
    indexnow: Any, news: Any, aliases: bool
) -> None:
    publish(news)
    alias = type(news).objects.get(pk=news.pk).create_alias(update_slug="alias")
    Intent.objects.all().delete()
    publish_unseen(alias)
    indexnow.configure(ALIASES=aliases)

    later(indexnow, hours=1)
    run_maintenance()

    assert Intent.objects.filter(page_id=alias.pk).count() == aliases


def test_large_import_is_planned_a_slice_at_a_time_without_a_pause(
    indexnow: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciliation, "SLICE", 4)
    monkeypatch.setattr(reconciliation, "BATCH", 3)
    pages = [make_page(site.root_page, f"page-{number}") for number in range(20)]
    for page in pages[:10]:
        approve(page, T1 + timedelta(days=1))
    publish_unseen(*pages[10:])
    later(indexnow, hours=1)

    counts = []
    for _look in range(4):
        run_maintenance()
        counts.append(planned())

    assert counts == [8, 16, 20, 20]


def test_a_look_is_one_processs_turn(indexnow: Any) -> None:
    turns = {"work": timedelta(minutes=1)}

    assert heartbeats.claim_due_jobs(turns) == ["work"]
    assert heartbeats.claim_due_jobs(turns) == []
    later(indexnow, minutes=1)
    assert heartbeats.claim_due_jobs(turns) == ["work"]
    heartbeats.release_job("work")
    assert heartbeats.claim_due_jobs(turns) == ["work"]


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_processes_at_once_one_gets_the_turn(
    indexnow: Any, is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one reads before, and writes after us."""
    turns = {"work": timedelta(minutes=1)}
    if not is_first:
        heartbeats.claim_due_jobs(turns)
        later(indexnow, minutes=1)
    usual = heartbeats._take

    def overtaken(*args: Any) -> bool:
        monkeypatch.setattr(heartbeats, "_take", usual)
        assert heartbeats.claim_due_jobs(turns) == ["work"]
        return usual(*args)

    monkeypatch.setattr(heartbeats, "_take", overtaken)
    assert heartbeats.claim_due_jobs(turns) == []
    assert Heartbeat.objects.filter(name="work").count() == 1
