"""What no signal announced is found within the hour, and nothing is found twice."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from wagtail.models import PageViewRestriction, Revision

from tests.factories import make_page, publish
from tests.testapp.models import BrokenPage
from wagtail_indexnow.ledger import heartbeats, intents
from wagtail_indexnow.models import Heartbeat, Intent, TrackedUrl
from wagtail_indexnow.pages import audits
from wagtail_indexnow.relay import reconciliation
from wagtail_indexnow.relay.dispatch import run_maintenance

pytestmark = pytest.mark.django_db(transaction=True)
NEWS = "https://www.example.com/en/news/"
T1 = datetime(2026, 12, 1, 9, 10, tzinfo=UTC)  # ten minutes after the tests begin


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


@pytest.fixture(autouse=True)
def first_audit_is_over(clock_at: Any, site: Any, indexnow: Any) -> None:
    run_maintenance()
    indexnow.work()
    assert audits.last_audit() is not None


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


def test_schedule_due_within_two_hours_is_found_within_a_minute(indexnow: Any, news: Any) -> None:
    approve(news, T1)
    run_maintenance()
    assert planned() == 0

    later(indexnow, minutes=1)
    run_maintenance()

    assert Intent.objects.get(kind="go_live").expected_at == T1
    indexnow.travel_to(T1 + timedelta(seconds=5))
    call_command("publish_scheduled")
    assert indexnow.settled() == [NEWS]


def test_schedule_far_ahead_is_found_two_hours_before(indexnow: Any, news: Any) -> None:
    at = T1 + timedelta(days=100)
    approve(news, at)
    indexnow.travel_to(at - timedelta(hours=2, seconds=1))
    run_maintenance()
    assert not Intent.objects.filter(kind="go_live").exists()

    later(indexnow, minutes=1)
    run_maintenance()

    assert Intent.objects.get(kind="go_live").expected_at == at


def test_schedule_that_cron_has_not_published_in_time_is_found(indexnow: Any, news: Any) -> None:
    approve(news, T1)
    indexnow.travel_to(T1 + timedelta(minutes=30))
    run_maintenance()
    indexnow.work()
    assert Intent.objects.get(kind="go_live").reason == "not_published_yet"

    call_command("publish_scheduled")
    assert indexnow.settled() == [NEWS]


def test_known_schedule_is_not_planned_again(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    version = Intent.objects.get(kind="go_live").version

    later(indexnow, hours=1)
    run_maintenance()

    assert Intent.objects.get(kind="go_live").version == version


def test_schedule_that_came_back_unseen_is_reopened(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    revision = Revision.objects.get(approved_go_live_at=T1)
    Revision.objects.filter(pk=revision.pk).update(approved_go_live_at=None)
    indexnow.travel_to(T1)
    indexnow.settle(minutes=5)
    assert Intent.objects.get(kind="go_live").reason == "schedule_cancelled"
    Revision.objects.filter(pk=revision.pk).update(approved_go_live_at=T1)

    later(indexnow, minutes=5)
    run_maintenance()

    assert planned() == 1


def test_schedule_cancelled_by_a_person_stays_cancelled(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    intents.cancel([Intent.objects.get(kind="go_live").pk])

    later(indexnow, hours=1)
    run_maintenance()
    assert planned() == 0
    call_command("publish_scheduled")
    later(indexnow, hours=1)
    run_maintenance()

    assert indexnow.settled() == []
    ended = Intent.objects.exclude(page_id=None).values_list("kind", "state", "reason")
    assert set(ended) == {
        ("go_live", "cancelled", "cancelled"),
        ("publish", "skipped", "cancelled"),
    }


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


def test_b21_publish_that_left_no_event_is_found_once(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.settled()
    later(indexnow, hours=1)
    publish_unseen(news)

    run_maintenance()

    assert indexnow.settled() == [NEWS]
    rows = Intent.objects.count()
    for _hour in range(3):
        later(indexnow, hours=1)
        run_maintenance()
    assert Intent.objects.count() == rows


def test_publishing_time_that_was_taken_away_is_found_once(indexnow: Any, news: Any) -> None:
    """Times are compared for equality only; none equals none."""
    publish(news)
    indexnow.settled()
    later(indexnow, hours=1)
    type(news).objects.filter(pk=news.pk).update(last_published_at=None)

    run_maintenance()
    assert indexnow.settled() == [NEWS]

    later(indexnow, hours=1)
    run_maintenance()
    assert planned() == 0


def test_publish_whose_event_is_open_is_left_to_it(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.settled()
    later(indexnow, hours=1)
    publish(news)

    run_maintenance()

    assert not Intent.objects.filter(kind="audit", page_id=news.pk).exists()


def test_publish_below_an_open_subtree_is_left_to_it(indexnow: Any, news: Any, site: Any) -> None:
    publish(news)
    indexnow.settled()
    later(indexnow, hours=1)
    publish_unseen(news)
    PageViewRestriction.objects.create(page=site.root_page, restriction_type="login")

    run_maintenance()

    assert not Intent.objects.filter(kind="audit", page_id=news.pk).exists()


def test_publish_that_was_given_up_is_not_found_again(indexnow: Any, site: Any) -> None:
    page = publish(make_page(site.root_page, "broken", model=BrokenPage, broken=False))
    indexnow.settled()
    later(indexnow, hours=1)
    publish(page, broken=True)
    indexnow.settle(minutes=8 * 24 * 60)
    assert Intent.objects.filter(page_id=page.pk, state="failed").exists()
    rows = Intent.objects.filter(page_id=page.pk).count()

    later(indexnow, hours=1)
    run_maintenance()

    assert Intent.objects.filter(page_id=page.pk).count() == rows


def test_page_that_was_never_checked_is_left_to_the_audit(indexnow: Any, news: Any) -> None:
    publish_unseen(news)
    later(indexnow, hours=1)
    run_maintenance()
    assert indexnow.settled() == []

    later(indexnow, days=1)
    run_maintenance()

    assert indexnow.settled() == [NEWS]


def test_before_the_first_audit_has_ended_nothing_is_found(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.settled()
    Intent.objects.filter(page_id=None).delete()
    later(indexnow, hours=1)
    publish_unseen(news)

    run_maintenance()

    assert planned() == 0


def make_differing(indexnow: Any, site: Any, count: int) -> list[Any]:
    """Make live pages that the inventory knows, and publish them past all signals."""
    pages = [make_page(site.root_page, f"page-{number}", live=True) for number in range(count)]
    audits.record()
    later(indexnow, hours=1)
    publish_unseen(*pages)
    return pages


def test_ten_differences_are_planned_one_by_one(indexnow: Any, site: Any) -> None:
    make_differing(indexnow, site, 10)

    run_maintenance()

    assert planned() == 10
    assert len(indexnow.settled()) == 10


@pytest.mark.parametrize("interval", [86_400, 0])
def test_more_than_ten_differences_bring_an_audit_forward(
    indexnow: Any, site: Any, interval: int
) -> None:
    indexnow.configure(AUDIT_INTERVAL=interval)
    make_differing(indexnow, site, 11)

    run_maintenance()
    assert planned() == 0
    run_maintenance()

    assert [row.kind for row in Intent.objects.planned()] == ["audit"]
    assert len(indexnow.settled()) == 11


def test_mass_change_that_stands_is_not_audited_every_hour(indexnow: Any, site: Any) -> None:
    pages = [make_page(site.root_page, f"page-{number}", live=True) for number in range(20)]
    audits.record()
    type(pages[0]).objects.filter(pk__in=[page.pk for page in pages]).update(live=False)
    indexnow.audit()
    assert audits.last_audit().reason == "mass_change"

    for _hour in range(2):
        later(indexnow, hours=1)
        run_maintenance()

    assert planned() == 0
    assert indexnow.settled() == []


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


@pytest.mark.parametrize("aliases", [False, True])
def test_aliases_are_found_only_where_they_are_announced(
    indexnow: Any, news: Any, aliases: bool
) -> None:
    publish(news)
    alias = type(news).objects.get(pk=news.pk).create_alias(update_slug="alias")
    indexnow.settled()
    audits.record([alias.pk])
    indexnow.configure(ALIASES=aliases)
    later(indexnow, hours=1)
    publish_unseen(alias)

    run_maintenance()

    assert Intent.objects.filter(page_id=alias.pk).count() == aliases


def test_removals_at_hosts_that_are_not_served_are_not_planned(
    indexnow: Any, news: Any, settings: Any
) -> None:
    publish(news)
    indexnow.settled()
    settings.ALLOWED_HOSTS = ["elsewhere.example"]
    type(news).objects.filter(pk=news.pk).update(live=False)

    later(indexnow, hours=1)
    run_maintenance()

    assert planned() == 0


def test_go_live_far_ahead_hides_no_removal(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.settled()
    schedule(type(news).objects.get(pk=news.pk), T1 + timedelta(days=365))
    type(news).objects.filter(pk=news.pk).update(live=False)

    later(indexnow, hours=1)
    run_maintenance()

    assert indexnow.settled() == [NEWS]


def test_many_schedules_are_planned_a_slice_at_a_time_without_a_pause(
    indexnow: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciliation, "SLICE", 4)
    monkeypatch.setattr(reconciliation, "BATCH", 3)
    for number in range(10):
        approve(make_page(site.root_page, f"page-{number}"), T1 + timedelta(hours=1))
    later(indexnow, minutes=1)

    counts = []
    for _slice in range(4):
        run_maintenance()
        counts.append(planned())

    assert counts == [4, 8, 10, 10]


def test_a_job_is_one_processs_turn(indexnow: Any) -> None:
    jobs = {"work": timedelta(minutes=1)}

    assert heartbeats.claim_due_jobs(jobs) == ["work"]
    assert heartbeats.claim_due_jobs(jobs) == []
    later(indexnow, minutes=1)
    assert heartbeats.claim_due_jobs(jobs) == ["work"]
    heartbeats.release_job("work")
    assert heartbeats.claim_due_jobs(jobs) == ["work"]


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_processes_at_once_one_gets_the_turn(
    indexnow: Any, is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one reads before, and writes after us."""
    jobs = {"work": timedelta(minutes=1)}
    if not is_first:
        heartbeats.claim_due_jobs(jobs)
        later(indexnow, minutes=1)
    usual = heartbeats._claim

    def overtaken(*args: Any) -> bool:
        monkeypatch.setattr(heartbeats, "_claim", usual)
        assert heartbeats.claim_due_jobs(jobs) == ["work"]
        return usual(*args)

    monkeypatch.setattr(heartbeats, "_claim", overtaken)
    assert heartbeats.claim_due_jobs(jobs) == []
    assert Heartbeat.objects.filter(name="work").count() == 1
