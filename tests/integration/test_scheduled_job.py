"""The seven points of a scheduled job, on a real Redis where the queue matters."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker
from wagtail.models import PageViewRestriction

from tests.factories import make_page, make_site, publish
from wagtail_indexnow import payloads, tasks, worker
from wagtail_indexnow.models import Intent
from wagtail_indexnow.payloads import IntentRef, announcement
from wagtail_indexnow.relay.dispatch import tick
from wagtail_indexnow.relay.senders import DramatiqCourier

pytestmark = pytest.mark.django_db(transaction=True)
URL = "https://www.example.com/en/news/"
T1 = datetime(2026, 12, 1, 9, 10, tzinfo=UTC)
T2 = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


@pytest.fixture
def broker(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisBroker]:
    """The actors on a real Redis, in a namespace of the test's own."""
    broker = RedisBroker(url=redis_url, namespace=f"wagtail-indexnow-{os.getpid()}", middleware=[])
    for actor in (tasks.announce, tasks.submit):
        monkeypatch.setattr(actor, "broker", broker)
        broker.declare_actor(actor)
    broker.flush_all()
    yield broker
    broker.flush_all()
    broker.close()


def schedule(page: Any, at: datetime) -> Any:
    page = type(page).objects.get(pk=page.pk)
    page.go_live_at = at
    return page.save_revision().publish()


def publish_scheduled_at(indexnow: Any, moment: datetime) -> None:
    indexnow.travel_to(moment)
    call_command("publish_scheduled")


def parked(broker: RedisBroker) -> list[Message[Any]]:
    stored = broker.client.hgetall(f"{broker.namespace}:default.DQ.msgs")
    return [Message.decode(value) for value in stored.values()]


def message_for(intent: Intent) -> dict[str, Any]:
    ref = IntentRef(
        key=intent.key, page_id=intent.page_id, expected_at=payloads.iso(intent.expected_at)
    )
    return announcement([ref], {})


# 1


def test_delay_of_the_message_ends_when_the_page_is_due(
    indexnow: Any, news: Any, broker: RedisBroker
) -> None:
    schedule(news, T1)

    tick(DramatiqCourier())

    [message] = parked(broker)
    due_ms = int(T1.timestamp() * 1000)
    assert abs(message.options["eta"] - due_ms) <= 2
    [payload] = message.args
    assert payload["intents"] == [
        {
            "key": f"page:{news.pk}:go_live:2026-12-01T09:10:00.000000+00:00",
            "page_id": news.pk,
            "expected_at": "2026-12-01T09:10:00.000000+00:00",
        }
    ]
    assert set(payload) == {"v", "intents", "meta"}
    assert "example.com" not in str(payload)


def test_message_is_parked_once_however_often_the_relay_looks(
    indexnow: Any, news: Any, broker: RedisBroker
) -> None:
    schedule(news, T1)

    for _look in range(3):
        tick(DramatiqCourier())

    assert len(parked(broker)) == 1


def test_page_scheduled_200_days_ahead_puts_no_message_into_redis(
    indexnow: Any, news: Any, broker: RedisBroker
) -> None:
    schedule(news, timezone.now() + timedelta(days=200))

    tick(DramatiqCourier())

    stored = broker.client.keys(f"{broker.namespace}:default*")
    assert stored == []
    assert Intent.objects.planned().count() == 1


# 2


def test_drafts_and_public_content_plan_no_job(indexnow: Any, news: Any) -> None:
    news.go_live_at = T2
    news.save_revision()  # a draft with a date is not scheduled
    live = publish(make_page(news, "live"))
    live.title = "A draft of a live page"
    live.save_revision()

    assert not Intent.objects.filter(kind="go_live").exists()


# 3 and 4


def test_same_page_and_time_is_the_same_job(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    schedule(news, T1)

    [intent] = Intent.objects.all()
    assert intent.expected_at == T1


def test_another_time_is_another_job(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    schedule(news, T2)

    assert {intent.expected_at for intent in Intent.objects.all()} == {T1, T2}
    assert len({intent.key for intent in Intent.objects.all()}) == 2


# 5


def test_w04_outdated_message_sends_nothing_and_the_new_time_does(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    outdated = message_for(Intent.objects.get())
    schedule(news, T2)

    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))
    worker.handle_announcement(outdated)

    assert indexnow.settled(minutes=1) == []
    assert Intent.objects.get(expected_at=T1).reason == "schedule_changed"
    publish_scheduled_at(indexnow, T2 + timedelta(seconds=1))
    assert indexnow.settled() == [URL]


def test_w04_page_moved_to_an_earlier_time_is_told_then(indexnow: Any, news: Any) -> None:
    schedule(news, T2)
    schedule(news, T1)

    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))
    assert indexnow.settled() == [URL]

    indexnow.travel_to(T2 + timedelta(minutes=1))
    assert indexnow.settled() == []


def test_going_back_to_the_first_time_reopens_its_job(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    first = Intent.objects.get().revision_id
    schedule(news, T2)
    schedule(news, T1)

    reopened = Intent.objects.get(expected_at=T1)
    assert reopened.revision_id != first
    assert reopened.state == "planned"
    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))
    assert indexnow.settled() == [URL]
    indexnow.travel_to(T2 + timedelta(minutes=1))
    assert indexnow.settled() == []
    assert Intent.objects.get(expected_at=T2).reason == "published_otherwise"


def test_duplicate_and_late_messages_tell_once(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    message = message_for(Intent.objects.get())
    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))
    indexnow.travel_to(T1 + timedelta(days=1))

    worker.handle_announcement(message)
    worker.handle_announcement(message)

    assert indexnow.settled() == [URL]
    worker.handle_announcement(message)
    assert indexnow.settled() == []


def test_w03_cancelled_schedule_sends_nothing(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    revision = news.revisions.get(approved_go_live_at__isnull=False)
    revision.approved_go_live_at = None
    revision.save(update_fields=["approved_go_live_at"])

    indexnow.travel_to(T1 + timedelta(minutes=1))

    assert indexnow.settled() == []
    assert Intent.objects.get().reason == "schedule_cancelled"


def test_w05_publishing_over_a_schedule_tells_at_once_and_only_then(
    indexnow: Any, news: Any
) -> None:
    schedule(news, T1)
    publish(type(news).objects.get(pk=news.pk), go_live_at=None)

    assert indexnow.settled(minutes=2) == [URL]

    indexnow.travel_to(T1 + timedelta(minutes=1))
    assert indexnow.settled() == []
    assert Intent.objects.get(kind="go_live").reason == "published_otherwise"


# 6


def test_w18_url_is_the_one_that_is_true_when_the_page_goes_live(indexnow: Any, news: Any) -> None:
    section = publish(make_page(news.get_parent(), "section"))
    indexnow.settled()
    schedule(news, T1)
    type(news).objects.get(pk=news.pk).move(section, pos="last-child")

    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))

    assert indexnow.settled() == ["https://www.example.com/en/section/news/"]


def test_scheduled_slug_is_used_only_from_go_live_on(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.settled()
    renamed = type(news).objects.get(pk=news.pk)
    renamed.slug = "renamed"
    renamed.go_live_at = T1
    renamed.save_revision().publish()
    assert indexnow.settled(minutes=1) == []

    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))

    assert indexnow.settled() == [URL, "https://www.example.com/en/renamed/"]


# 7


def test_w29_page_that_became_private_is_not_sent(indexnow: Any, news: Any) -> None:
    section = make_page(news.get_parent(), "members")
    news = make_page(section, "news")
    schedule(news, T1)
    PageViewRestriction.objects.create(page=section, restriction_type="login")

    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))

    assert indexnow.settled() == []
    assert Intent.objects.get(kind="go_live").reason == "private"


def test_deleted_page_is_not_sent(indexnow: Any, news: Any) -> None:
    schedule(news, T1)
    type(news).objects.get(pk=news.pk).delete()

    indexnow.travel_to(T1 + timedelta(minutes=1))

    assert indexnow.settled() == []
    assert Intent.objects.get().reason == "page_deleted"


# waiting for publish_scheduled


def test_w02_update_of_a_live_page_is_told_once_it_is_live(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.settled()
    live = type(news).objects.get(pk=news.pk)
    live.title = "Updated"
    live.go_live_at = T1
    live.save_revision().publish()

    assert indexnow.settled(minutes=1) == []
    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))
    assert indexnow.settled() == [URL]
    assert indexnow.settled() == []


def test_w06_late_cron_is_waited_for(indexnow: Any, news: Any) -> None:
    schedule(news, T1)

    indexnow.travel_to(T1 + timedelta(seconds=1))
    indexnow.work()
    waiting = Intent.objects.get()
    assert (waiting.state, waiting.reason) == ("planned", "not_published_yet")
    assert indexnow.settled(minutes=40) == []

    publish_scheduled_at(indexnow, T1 + timedelta(minutes=50))
    assert indexnow.settled() == [URL]
    assert indexnow.settled() == []


def test_w07_page_that_never_goes_live_is_given_up_after_seven_days(
    indexnow: Any, news: Any
) -> None:
    schedule(news, T1)
    indexnow.travel_to(T1 + timedelta(seconds=1))
    indexnow.work()

    indexnow.travel_to(T1 + timedelta(hours=3))
    indexnow.work()
    [overdue] = Intent.objects.overdue(timezone.now(), timedelta(hours=2))
    assert overdue.page_id == news.pk

    indexnow.travel_to(T1 + timedelta(days=7, minutes=1))
    assert indexnow.settled() == []
    assert Intent.objects.get().reason == "never_published"


def test_b15_pages_of_two_sites_are_told_by_their_own_hosts(
    indexnow: Any, news: Any, site: Any
) -> None:
    other = make_site("blog.example.com", is_default_site=False)
    schedule(news, T1)
    schedule(make_page(other.root_page, "post"), T1)

    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))
    indexnow.settle()

    told = {record.parsed["host"]: record.parsed["urlList"] for record in indexnow.engine.requests}
    assert told == {
        "www.example.com": [URL],
        "blog.example.com": ["https://blog.example.com/en/post/"],
    }
