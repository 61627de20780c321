"""Old and new code share a queue and a database during a deploy."""

from typing import Any

import dramatiq
import pytest
from django.db import connection
from dramatiq.middleware import Shutdown, TimeLimitExceeded
from wagtail.models import Page

from tests.factories import make_page, publish
from wagtail_indexnow import tasks, worker
from wagtail_indexnow.models import Channel, Intent

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
def test_what_a_worker_does_not_understand_is_logged_and_left_open(
    indexnow: Any, intent: Intent, payload: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker.handle_announcement(payload)
    worker.handle_submission(payload)

    assert caplog.text.count("left_alone") == 2
    assert Intent.objects.get().state == "planned"
    assert indexnow.settled() == [NEWS]  # the worker that understands it


HOSTILE: dict[str, Any] = {
    "a version that is a list": {"v": [1], "intents": []},
    "a page id without end": {"v": 1, "intents": [{"key": "k", "page_id": float("inf")}]},
    "half a character": {"v": 1, "intents": [{"key": "\ud800", "page_id": 1}]},
    "300,000 intents": {"v": 1, "intents": [{"key": "k", "page_id": 1}] * 300_000},
    "a million digits": {"v": 1, "intents": [{"key": "k", "page_id": "9" * 1_000_000}]},
    "the endpoint itself": {"v": 1, "channel": {"endpoint": "engine", "host": ""}},
    "an unknown host": {"v": 1, "channel": {"endpoint": "engine", "host": "evil.example.net"}},
    "an unknown engine": {"v": 1, "channel": {"endpoint": "evil", "host": "www.example.com"}},
    "line breaks": {"v": "1\n2026-12-01 wagtail_indexnow: all is well"},
}


@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE)
def test_r60_r61_a_hostile_message_costs_one_short_line(
    indexnow: Any, intent: Intent, payload: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """R60, R61: nothing changes, no row is made, nothing is raised for a broker to retry."""
    before = list(Intent.objects.values()), list(Channel.objects.values())

    worker.handle_announcement(payload)
    worker.handle_submission(payload)

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert all(len(line) < 800 and line.isprintable() for line in lines)
    assert (list(Intent.objects.values()), list(Channel.objects.values())) == before
    assert indexnow.settled() == [NEWS]


@pytest.mark.parametrize("fault", [ZeroDivisionError, TimeLimitExceeded, Shutdown])
def test_r61_no_exception_leaves_an_actor(
    indexnow: Any,
    intent: Intent,
    fault: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R61: what fails is left to the relay, not to the broker's retries."""

    def fail(*args: Any, **kwargs: Any) -> None:
        raise fault("x" * 5_000)

    with monkeypatch.context() as patched:
        patched.setattr(worker, "announce_intents", fail)
        tasks.announce(
            {"v": 1, "intents": [{"key": intent.key, "page_id": intent.page_id}], "meta": {}}
        )

    [record] = caplog.records
    assert record.exc_info is None
    assert fault.__name__ in record.getMessage()
    assert len(record.getMessage()) < 800
    assert indexnow.settled() == [NEWS]


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
