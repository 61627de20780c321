"""Old and new code share a queue and a database during a deploy."""

from typing import Any

import dramatiq
import pytest
from django.db import connection
from django.utils import timezone
from wagtail.models import Page

from tests.factories import make_page, publish
from wagtail_indexnow import tasks, worker
from wagtail_indexnow.models import Heartbeat, Intent

pytestmark = pytest.mark.django_db(transaction=True)
NEWS = "https://www.example.com/en/news/"


@pytest.fixture
def intent(indexnow: Any, site: Any, clock_at: Any) -> Intent:
    publish(make_page(site.root_page, "news"))
    row = Intent.objects.get()
    indexnow.travel_to(row.run_at)
    return row


def test_actor_names_are_what_messages_in_a_queue_say() -> None:
    assert tasks.announce.actor_name == "wagtail_indexnow.announce"
    assert tasks.submit.actor_name == "wagtail_indexnow.submit"
    assert tasks.announce.queue_name == tasks.submit.queue_name == "default"


def test_d17_actors_declare_nothing_that_a_site_may_lack() -> None:
    assert tasks.announce.options == tasks.submit.options == {}
    # A broker without any middleware takes them.
    bare = dramatiq.get_broker().__class__(middleware=[])
    for actor in (tasks.announce, tasks.submit):
        bare.declare_actor(actor)


def test_version_0_is_understood(indexnow: Any, intent: Intent) -> None:
    """The version before this one, as a test defines it: no `meta`, and times only to seconds."""
    worker.handle_announcement(
        {
            "v": 0,
            "intents": [
                {
                    "key": intent.key,
                    "page_id": str(intent.page_id),
                    "expected_at": "2026-12-01T09:00:05+00:00",
                }
            ],
        }
    )
    worker.handle_submission({"v": 0, "channel": {"endpoint": "engine", "host": "www.example.com"}})

    assert indexnow.told() == [NEWS]


def test_unknown_fields_are_ignored(indexnow: Any, intent: Intent) -> None:
    ref = {"key": intent.key, "page_id": intent.page_id, "priority": 3}
    worker.handle_announcement({"v": 1, "intents": [ref], "meta": {"tenant": "a"}, "trace": "b"})
    channel = {"endpoint": "engine", "host": "www.example.com", "region": "eu"}
    worker.handle_submission({"v": 1, "channel": channel, "trace": "b"})

    assert indexnow.told() == [NEWS]


@pytest.mark.parametrize(
    "payload",
    [
        {"v": 2, "batch": []},
        {"v": "1"},
        {"v": None},
        {},
        [],
        None,
        "text",
        {"v": 1},
        {"v": 1, "intents": None},
        {"v": 1, "intents": [{}]},
        {"v": 1, "intents": [{"key": "a", "page_id": "b"}]},
        {"v": 1, "channel": {}},
        {"v": 1, "channel": None},
    ],
    ids=str,
)
def test_what_a_worker_does_not_understand_is_logged_noted_and_left_open(
    indexnow: Any, intent: Intent, payload: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker.handle_announcement(payload)
    worker.handle_submission(payload)

    assert caplog.text.count("left_alone") == 2
    assert Heartbeat.objects.get(name="payload_refused").seen_at == timezone.now()
    assert Intent.objects.get().state == "planned"
    assert indexnow.settled() == [NEWS]  # the worker that understands it


def test_old_code_works_on_a_newer_schema(indexnow: Any, intent: Intent) -> None:
    """The next release has added a column, nullable as a rolling deploy needs it."""
    tables = ("intent", "trackedurl", "submission", "channel")
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE wagtail_indexnow_{table} ADD COLUMN later integer NULL")
    try:
        assert indexnow.settled() == [NEWS]
        publish(make_page(Page.objects.get(pk=intent.page_id).get_parent(), "other"))
        assert indexnow.settled() == ["https://www.example.com/en/other/"]
    finally:
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(f"ALTER TABLE wagtail_indexnow_{table} DROP COLUMN later")


def test_row_of_a_kind_that_only_newer_code_knows_is_looked_at_like_any_other(
    indexnow: Any, intent: Intent
) -> None:
    Intent.objects.update(kind="refresh")

    assert indexnow.settled() == [NEWS]
