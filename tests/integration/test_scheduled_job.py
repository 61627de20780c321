"""A scheduled job and its message, on a real Redis where the queue matters."""

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

from tests.factories import make_page, publish
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


def test_drafts_and_public_content_plan_no_job(indexnow: Any, news: Any) -> None:
    news.go_live_at = T2
    news.save_revision()  # a draft with a date is not scheduled
    live = publish(make_page(news, "live"))
    live.title = "A draft of a live page"
    live.save_revision()

    assert not Intent.objects.filter(kind="go_live").exists()


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


def test_w29_page_that_became_private_is_not_sent(indexnow: Any, news: Any) -> None:
    section = make_page(news.get_parent(), "members")
    news = make_page(section, "news")
    schedule(news, T1)
    PageViewRestriction.objects.create(page=section, restriction_type="login")

    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))

    assert indexnow.settled() == []
    assert Intent.objects.get(kind="go_live").reason == "private"


def test_w02_update_of_a_live_page_is_told_once_it_is_live(
    indexnow: Any, editor: Any, news: Any
) -> None:
    publish(news)
    indexnow.settled()
    editor.publish(news, go_live_at=T1, title="Fresh")

    assert indexnow.settled(minutes=1) == []
    publish_scheduled_at(indexnow, T1 + timedelta(seconds=1))
    assert indexnow.settled() == [URL]
    assert indexnow.settled() == []
    ended = Intent.objects.order_by("pk").values_list("kind", "state")[1:]
    assert list(ended) == [("go_live", "announced"), ("publish", "announced")]
