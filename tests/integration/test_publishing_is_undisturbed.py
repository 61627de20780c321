"""What a publish pays for the app, and what reaches the editor when a part of it is away."""

import logging
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import dramatiq
import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from dramatiq.brokers.redis import RedisBroker

from tests.factories import make_page, publish
from wagtail_indexnow import tasks
from wagtail_indexnow.models import Intent
from wagtail_indexnow.relay.dispatch import run_maintenance
from wagtail_indexnow.relay.senders import DramatiqCourier
from wagtail_indexnow.relay.worker_thread import survive

pytestmark = pytest.mark.django_db(transaction=True)
URL = "https://www.example.com/en/news/"
SOON = timedelta(minutes=1)


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


@pytest.fixture
def without_ledger() -> Iterator[None]:
    """New code before `migrate`: the table of intents is not there yet."""
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE wagtail_indexnow_intent RENAME TO intent_elsewhere")
    yield
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE intent_elsewhere RENAME TO wagtail_indexnow_intent")


def queries_of_a_publish(page: Any) -> list[str]:
    page = type(page).objects.get(pk=page.pk)
    with CaptureQueriesContext(connection) as captured:
        page.save_revision().publish()
    return [query["sql"] for query in captured]


@pytest.mark.parametrize("in_transaction", [False, True], ids=["autocommit", "transaction"])
def test_publish_costs_at_most_four_queries(indexnow: Any, news: Any, in_transaction: bool) -> None:
    indexnow.configure(ENABLED=False)
    for _time in range(3):  # whatever Wagtail asks for at first only, it has asked for then
        publish(news)

    def measure() -> list[str]:
        if not in_transaction:
            return queries_of_a_publish(news)
        with transaction.atomic():
            return queries_of_a_publish(news)

    without = measure()
    indexnow.configure(ENABLED=True)
    with_app = measure()

    assert len(with_app) - len(without) <= 4, with_app
    assert Intent.objects.count() == 1


def test_scheduled_publish_costs_at_most_four_queries(indexnow: Any, news: Any) -> None:
    def measure() -> list[str]:
        page = type(news).objects.get(pk=news.pk)
        page.go_live_at = timezone.now() + timedelta(hours=1)
        revision = page.save_revision()
        indexnow.configure(ENABLED=True)
        revision.publish()
        indexnow.configure(ENABLED=not is_without)
        indexnow.travel_to(page.go_live_at)
        revision = type(revision).objects.get(pk=revision.pk)
        with CaptureQueriesContext(connection) as captured:
            revision.publish()
        return [query["sql"] for query in captured]

    publish(news)
    is_without = True
    without = measure()
    is_without = False
    with_app = measure()

    assert len(with_app) - len(without) <= 4, with_app
    assert Intent.objects.filter(kind="go_live", run_at__lte=timezone.now() + SOON).exists()
    assert not Intent.objects.filter(kind="publish", created_at=timezone.now()).exists()


def test_b33_publish_touches_no_socket(
    indexnow: Any, news: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a publish opened a socket")

    if connection.vendor == "sqlite":
        monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(dramatiq.Broker, "enqueue", refuse, raising=False)
    monkeypatch.setattr(tasks.announce.broker, "enqueue", refuse)

    publish(news)

    assert Intent.objects.get().state == "planned"


@pytest.mark.usefixtures("without_ledger")
@pytest.mark.parametrize("in_transaction", [False, True], ids=["autocommit", "transaction"])
def test_missing_table_costs_the_row_and_never_the_publish(
    indexnow: Any, news: Any, in_transaction: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if in_transaction:
        with transaction.atomic():
            page = publish(news)
            page.move(page.get_parent().add_child(instance=type(page)(title="S", slug="s")))
            assert type(page).objects.get(pk=page.pk).live
    else:
        page = publish(news)

    assert type(page).objects.get(pk=page.pk).live
    assert "not_planned" in caplog.text


def test_page_lost_by_the_ledger_is_found_again(
    indexnow: Any, news: Any, without_ledger: None
) -> None:
    publish(news)
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE intent_elsewhere RENAME TO wagtail_indexnow_intent")

    run_maintenance()
    told = indexnow.settled()

    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE wagtail_indexnow_intent RENAME TO intent_elsewhere")
    assert told == [URL]


def test_rolled_back_publish_leaves_nothing(indexnow: Any, news: Any) -> None:
    with transaction.atomic():
        publish(news)
        transaction.set_rollback(True)

    assert not Intent.objects.exists()
    assert indexnow.settled() == []


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A socket that listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def dead_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@pytest.mark.parametrize("kind", ["silent", "down"])
def test_d16_broker_that_is_away_delays_and_loses_nothing(
    indexnow: Any,
    news: Any,
    silent_port: int,
    dead_port: int,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = silent_port if kind == "silent" else dead_port
    timeouts = "socket_timeout=0.2&socket_connect_timeout=0.2"
    broker = RedisBroker(url=f"redis://127.0.0.1:{port}/0?{timeouts}", middleware=[])
    monkeypatch.setattr(tasks.announce, "broker", broker)
    broker.actors[tasks.announce.actor_name] = tasks.announce

    publish(news)
    indexnow.travel_to(Intent.objects.get().run_at)
    with caplog.at_level(logging.WARNING):
        survive(DramatiqCourier())

    assert "interrupted" in caplog.text
    untouched = Intent.objects.get()
    assert (untouched.state, untouched.handed_at, untouched.handed_count) == ("planned", None, 0)
    assert indexnow.settled() == [URL]
    broker.close()


def test_publish_is_not_slowed_by_a_silent_broker(
    indexnow: Any, news: Any, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = RedisBroker(url=f"redis://127.0.0.1:{silent_port}/0", middleware=[])
    asked: list[Any] = []
    monkeypatch.setattr(broker, "enqueue", asked.append)
    monkeypatch.setattr(tasks.announce, "broker", broker)

    publish(news)
    call_command("publish_scheduled")

    assert asked == []
