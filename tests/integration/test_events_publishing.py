"""Publishing and scheduling, through every door: what arrives at the engine, and when."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction
from django.utils import timezone
from wagtail.models import (
    GroupApprovalTask,
    Page,
    Revision,
    Workflow,
    WorkflowPage,
    WorkflowState,
    WorkflowTask,
)

from tests.factories import make_page, make_site, publish
from wagtail_indexnow.constants import Kind
from wagtail_indexnow.ledger import intents
from wagtail_indexnow.models import Intent, Submission, TrackedUrl
from wagtail_indexnow.relay.dispatch import run_maintenance, tick
from wagtail_indexnow.relay.senders import InlineCourier

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = "https://www.example.com/en/"
NEWS = f"{ROOT}news/"
T1 = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
T2 = datetime(2026, 12, 2, 8, 30, tzinfo=UTC)


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    """A draft that nobody has seen."""
    return make_page(site.root_page, "news")


@pytest.fixture
def live(site: Any, clock_at: Any, indexnow: Any) -> Any:
    """A page that engines know in its presubmitted version."""
    page = publish(make_page(site.root_page, "news"))
    assert indexnow.settled() == [NEWS]
    return page


def schedule(page: Any, at: datetime) -> Any:
    """Schedule a page by the model API and return the approved revision."""
    page = Page.objects.get(pk=page.pk).get_latest_revision_as_object()
    page.go_live_at = at
    revision = page.save_revision()
    revision.publish()
    return revision


def run_publish_scheduled(indexnow: Any, at: datetime) -> None:
    indexnow.travel_to(at)
    call_command("publish_scheduled")


def endings() -> list[tuple[str, str, str]]:
    rows = Intent.objects.order_by("pk").values_list("kind", "state", "reason")
    return [(kind, state, reason) for kind, state, reason in rows]


def test_published_in_the_admin_is_told_once(indexnow: Any, editor: Any, news: Any) -> None:
    editor.publish(news)

    assert indexnow.settled() == [NEWS]
    assert indexnow.settled() == []


def test_created_and_published_in_one_click_is_told_once(
    indexnow: Any, editor: Any, site: Any, clock_at: Any
) -> None:
    editor.create(site.root_page, "news", publish=True)

    assert indexnow.settled() == [NEWS]


def test_published_again_unchanged_is_told_again(indexnow: Any, editor: Any, live: Any) -> None:
    editor.publish(live)

    assert indexnow.settled() == [NEWS]


def test_b01_draft_is_not_told_and_scheduled_page_only_when_live(
    indexnow: Any, editor: Any, news: Any, site: Any
) -> None:
    editor.edit(news, title="Draft")
    later = editor.create(site.root_page, "later", go_live_at=T1, publish=True)

    assert indexnow.settled(minutes=60) == []
    run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))
    assert indexnow.settled() == [f"{ROOT}{later.slug}/"]


def test_draft_of_a_live_page_is_not_told(indexnow: Any, editor: Any, live: Any) -> None:
    editor.edit(live, title="Not yet", slug="not-yet")

    assert indexnow.settled() == []


def test_w01_never_published_page_is_planned_and_nothing_is_sent(
    indexnow: Any, editor: Any, news: Any
) -> None:
    editor.publish(news, go_live_at=T1)

    assert indexnow.settled() == []
    intent = Intent.objects.get()
    assert (intent.kind, intent.state, intent.run_at) == ("go_live", "planned", T1)
    assert intent.scheduled_by == f"user:{editor.user.pk}"
    run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))
    assert indexnow.settled() == [NEWS]
    assert endings() == [("go_live", "announced", ""), ("publish", "announced", "")]


@pytest.mark.parametrize("was_live", [False, True], ids=["never_live", "live"])
def test_w03_cancelled_schedule_sends_nothing(
    was_live: bool, indexnow: Any, editor: Any, site: Any, clock_at: Any
) -> None:
    """R75: for a live page, its end does not speak of another version either."""
    page = make_page(site.root_page, "news")
    if was_live:
        page = publish(page)
        indexnow.settled()
    editor.publish(page, go_live_at=T1)
    editor.unschedule(page)

    indexnow.travel_to(T1)
    assert indexnow.settled() == []
    assert endings()[-1] == ("go_live", "skipped", "schedule_cancelled")


@pytest.mark.parametrize(("first", "then"), [(T1, T2), (T2, T1)], ids=["later", "earlier"])
def test_w04_rescheduled_page_is_told_once_at_the_new_time(
    first: datetime, then: datetime, indexnow: Any, news: Any
) -> None:
    schedule(news, first)
    schedule(news, then)

    for moment in sorted([first, then]):
        run_publish_scheduled(indexnow, moment + timedelta(seconds=20))
        assert indexnow.settled() == ([NEWS] if moment == then else [])
    ended = dict(Intent.objects.filter(kind="go_live").values_list("expected_at", "reason"))
    reason = "schedule_changed" if first < then else "published_otherwise"
    assert ended == {first: reason, then: ""}


def test_schedule_changed_away_and_back_reopens_its_first_row(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    version = Intent.objects.get().version
    schedule(news, T2)
    third = schedule(news, T1)

    assert Intent.objects.count() == 2
    row = Intent.objects.get(expected_at=T1)
    assert (row.state, row.revision_id, row.run_at) == ("planned", third.pk, T1)
    assert row.version > version
    run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))
    assert indexnow.settled() == [NEWS]
    indexnow.travel_to(T2 + timedelta(seconds=20))
    assert indexnow.settled() == []
    go_lives = Intent.objects.filter(kind="go_live").values_list("expected_at", "state", "reason")
    assert set(go_lives) == {
        (T1, "announced", ""),
        (T2, "skipped", "published_otherwise"),
    }


def test_schedule_for_a_time_that_ended_before_reopens_its_row(
    indexnow: Any, editor: Any, news: Any
) -> None:
    schedule(news, T1)
    Intent.objects.update(
        state="cancelled", reason="cancelled", run_at=None, finished_at=timezone.now()
    )
    schedule(news, T1)

    row = Intent.objects.get()
    assert (row.state, row.reason, row.run_at, row.finished_at) == ("planned", "", T1, None)
    run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))
    assert indexnow.settled() == [NEWS]


def test_w05_published_now_over_a_schedule_is_told_now_and_not_again(
    indexnow: Any, news: Any
) -> None:
    schedule(news, T1)
    indexnow.travel_to(timezone.now() + timedelta(seconds=1))
    page = Page.objects.get(pk=news.pk).get_latest_revision_as_object()
    page.go_live_at = None
    page.save_revision().publish()

    assert indexnow.settled() == [NEWS]
    indexnow.travel_to(T1)
    assert indexnow.settled() == []
    assert endings() == [
        ("go_live", "skipped", "published_otherwise"),
        ("publish", "announced", ""),
    ]


def test_w06_waits_for_a_late_publish_scheduled_and_is_told_once(indexnow: Any, news: Any) -> None:
    schedule(news, T1)

    indexnow.travel_to(T1)
    assert indexnow.settled(minutes=49) == []
    intent = Intent.objects.get()
    assert (intent.state, intent.reason) == ("planned", "not_published_yet")
    run_publish_scheduled(indexnow, T1 + timedelta(minutes=50))
    assert indexnow.settled() == [NEWS]
    assert endings() == [("go_live", "announced", ""), ("publish", "announced", "")]
    assert Intent.objects.get(kind="go_live").waits >= 3


def test_w07_never_published_page_ends_after_seven_days(indexnow: Any, news: Any) -> None:
    schedule(news, T1)

    indexnow.travel_to(T1 + timedelta(hours=3))
    indexnow.work()
    row = Intent.objects.get()
    assert Intent.objects.overdue(timezone.now(), timedelta(hours=2)).get() == row
    assert list(Intent.objects.overdue(timezone.now(), timedelta(hours=2))) == [row]
    indexnow.travel_to(T1 + timedelta(days=7))
    assert indexnow.settled() == []
    assert endings() == [("go_live", "skipped", "never_published")]


def test_w08_page_that_publish_scheduled_fails_on_ends_and_others_are_told(
    indexnow: Any, news: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_page(site.root_page, "other")
    schedule(news, T1)
    schedule(other, T1 + timedelta(minutes=1))
    save = Page.save

    def failing(self: Any, *args: Any, **kwargs: Any) -> None:
        if self.pk == news.pk:
            raise RuntimeError("the slug is taken")
        save(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Page, "save", failing)
        with pytest.raises(RuntimeError):
            run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))
    run_publish_scheduled(indexnow, T1 + timedelta(minutes=2))

    assert indexnow.settled() == [f"{ROOT}other/"]
    assert ("go_live", "skipped", "schedule_cancelled") in endings()
    publish(news)
    assert indexnow.settled() == [NEWS]


def test_b08_six_saves_in_five_minutes_are_one_send_after_the_gap(
    indexnow: Any, editor: Any, live: Any
) -> None:
    start = timezone.now()
    editor.publish(live)
    assert indexnow.settled(minutes=1) in ([], [NEWS])
    for _save in range(6):
        indexnow.travel_to(timezone.now() + timedelta(seconds=50))
        editor.publish(live)
        indexnow.work()

    indexnow.told()
    assert indexnow.settled(minutes=60) == [NEWS]
    assert timezone.now() >= start + timedelta(seconds=600)


def test_mid_publish_window_is_checked_twice(indexnow: Any, news: Any) -> None:
    """Wagtail clears the approval, and commits that, before the page turns live."""
    revision = schedule(news, T1)
    Revision.objects.filter(pk=revision.pk).update(approved_go_live_at=None)
    indexnow.travel_to(T1)
    tick(InlineCourier())
    row = Intent.objects.get()
    assert (row.state, row.reason) == ("planned", "schedule_cancelled")

    Revision.objects.filter(pk=revision.pk).update(approved_go_live_at=T1)
    run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))

    assert indexnow.settled() == [NEWS]
    assert endings() == [("go_live", "announced", ""), ("publish", "announced", "")]


def test_page_that_was_live_for_a_moment_only_is_not_told(indexnow: Any, news: Any) -> None:
    """Between two checks: engines never heard of it."""
    news.expire_at = T1 + timedelta(minutes=30)
    news.save_revision()
    schedule(news, T1)
    # A cron that slept: the first run publishes, the next one expires.
    run_publish_scheduled(indexnow, T1 + timedelta(hours=1))
    call_command("publish_scheduled")

    assert indexnow.settled() == []
    assert not TrackedUrl.objects.exists()
    assert ("go_live", "skipped", "expired") in endings()


def test_deleted_before_go_live_is_skipped(indexnow: Any, editor: Any, news: Any) -> None:
    schedule(news, T1)
    editor.delete(news)

    indexnow.travel_to(T1)
    assert indexnow.settled() == []
    assert ("go_live", "skipped", "page_deleted") in endings()


def test_cancelled_by_a_person_ends_as_such_when_the_page_goes_live(
    indexnow: Any, news: Any
) -> None:
    schedule(news, T1)
    assert intents.cancel([Intent.objects.get().pk]) == 1
    indexnow.travel_to(T1)
    tick(InlineCourier())
    run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))

    assert indexnow.settled(minutes=120) == []
    assert endings() == [
        ("go_live", "cancelled", "cancelled"),
        ("publish", "skipped", "cancelled"),
    ]


def test_scheduled_page_that_moved_is_told_with_the_url_that_is_true_then(
    indexnow: Any, editor: Any, news: Any, site: Any
) -> None:
    section = publish(make_page(site.root_page, "section"))
    indexnow.settled()
    schedule(news, T1)
    Page.objects.get(pk=news.pk).move(section, pos="last-child")

    assert indexnow.settled() == []
    run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))
    assert indexnow.settled() == [f"{ROOT}section/news/"]


def test_legacy_save_revision_with_approval_is_planned(indexnow: Any, news: Any) -> None:
    news.save_revision(approved_go_live_at=T1)

    run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))
    assert indexnow.settled() == [NEWS]


def test_same_publish_has_one_event_and_is_told_once(indexnow: Any, live: Any) -> None:
    intents.plan_publish(page=live, revision_id=None)

    assert indexnow.settled() == []
    assert endings() == [("publish", "announced", "")]


def test_version_that_was_told_is_not_told_by_another_event(indexnow: Any, live: Any) -> None:
    intents.plan(Kind.VISIBILITY, page=live)

    assert indexnow.settled() == []
    assert endings()[-1] == ("visibility", "announced", "")


def test_w20_bulk_publish_is_told_like_single_ones(indexnow: Any, editor: Any, news: Any) -> None:
    other = make_page(news.get_parent(), "other")
    for page in (news, other):
        page.save_revision()
    editor.bulk("publish", [news, other])

    assert indexnow.settled() == [NEWS, f"{ROOT}other/"]


def test_w20_bulk_publish_of_a_scheduled_live_page_keeps_its_schedule(
    indexnow: Any, editor: Any, live: Any
) -> None:
    editor.publish(live, go_live_at=T1)
    editor.bulk("publish", [live])

    assert indexnow.settled() == []
    run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))
    assert indexnow.settled() == [NEWS]


@pytest.mark.parametrize("at", [None, T1], ids=["now", "scheduled"])
def test_workflow_approval_publishes_or_schedules(
    at: datetime | None, indexnow: Any, editor: Any, news: Any
) -> None:
    workflow = Workflow.objects.create(name="Check")
    task = GroupApprovalTask.objects.create(name="Approve")
    WorkflowTask.objects.create(workflow=workflow, task=task, sort_order=1)
    WorkflowPage.objects.create(workflow=workflow, page=Page.objects.get(pk=news.pk))
    if at:
        editor.edit(news, go_live_at=at)
    else:
        editor.edit(news)
    page = Page.objects.get(pk=news.pk)
    workflow.start(page, editor.user)
    assert indexnow.settled() == []
    state = WorkflowState.objects.get()
    editor.do("workflow_action", page, "approve", state.current_task_state.pk)

    if at:
        assert indexnow.settled() == []
        run_publish_scheduled(indexnow, at + timedelta(seconds=20))
    assert indexnow.settled() == [NEWS]


def test_w34_rolled_back_publish_is_not_told(indexnow: Any, news: Any) -> None:
    with transaction.atomic():
        publish(news)
        transaction.set_rollback(True)

    assert indexnow.settled() == []
    assert not Intent.objects.exists()


def test_w32_page_made_live_past_all_signals_is_found_by_the_audit(
    indexnow: Any, news: Any
) -> None:
    indexnow.audit()
    Page.objects.filter(pk=news.pk).update(
        live=True, first_published_at=timezone.now(), last_published_at=timezone.now()
    )
    assert indexnow.settled() == []

    indexnow.audit()
    assert indexnow.settled() == [NEWS]
    indexnow.audit()
    assert indexnow.settled() == []


def test_b21_reconciliation_repeats_nothing(indexnow: Any, live: Any) -> None:
    indexnow.audit()
    for _hour in range(3):
        indexnow.travel_to(timezone.now() + timedelta(hours=2))
        run_maintenance()
        assert indexnow.settled() == []


def test_reconciliation_finds_a_schedule_that_no_signal_told_of(indexnow: Any, news: Any) -> None:
    revision = news.save_revision()
    Revision.objects.filter(pk=revision.pk).update(approved_go_live_at=T1)
    indexnow.travel_to(T1 - timedelta(hours=2))
    run_maintenance()

    assert ("go_live", "planned", "") in endings()
    run_publish_scheduled(indexnow, T1 + timedelta(seconds=20))
    assert indexnow.settled() == [NEWS]


def test_reconciliation_finds_a_page_that_vanished_past_all_signals(
    indexnow: Any, live: Any
) -> None:
    indexnow.audit()
    Page.objects.filter(pk=live.pk).update(live=False)
    indexnow.travel_to(timezone.now() + timedelta(hours=2))
    run_maintenance()

    assert indexnow.settled() == [NEWS]
    indexnow.travel_to(timezone.now() + timedelta(hours=2))
    run_maintenance()
    assert indexnow.settled() == []


def test_many_pages_in_one_transaction_become_one_post(indexnow: Any, news: Any) -> None:
    home = news.get_parent()
    pages = [make_page(home, f"page-{number}") for number in range(30)]
    with transaction.atomic():
        for page in pages:
            publish(page)

    assert indexnow.settled() == sorted(f"{ROOT}page-{number}/" for number in range(30))
    assert Submission.objects.count() == 1


def test_b15_pages_of_two_hosts_are_told_with_their_own_hosts(indexnow: Any, news: Any) -> None:
    other = make_site("second.example.com")
    publish(news)
    publish(make_page(other.root_page, "news"))

    indexnow.settle()

    told = {record.parsed["host"]: record.parsed["urlList"] for record in indexnow.engine.requests}
    assert told == {
        "www.example.com": [NEWS],
        "second.example.com": ["https://second.example.com/en/news/"],
    }
