"""What a publish pays for the app, and what reaches the editor when a part of it is away."""

import logging
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from wagtail_indexnow.relay.senders import DramatiqCourier
from wagtail_indexnow.relay.worker_thread import tick_and_log_faults

pytestmark = pytest.mark.django_db(transaction=True)
URL = "https://www.example.com/en/news/"


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


@contextmanager
def ledger_away() -> Iterator[None]:
    """New code before `migrate`: the table of intents is not there yet."""
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE wagtail_indexnow_intent RENAME TO intent_elsewhere")
    yield
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE intent_elsewhere RENAME TO wagtail_indexnow_intent")


@pytest.fixture
def without_ledger() -> Iterator[None]:
    with ledger_away():
        yield


def queries_of_a_publish(page: Any) -> list[str]:
    page = type(page).objects.get(pk=page.pk)
    with CaptureQueriesContext(connection) as captured:
        page.save_revision().publish()
    return [query["sql"] for query in captured]


def cost_of(indexnow: Any, measure: Callable[[], list[str]]) -> list[str]:
    """Return the statements that the app adds to what `measure` does twice."""
    indexnow.configure(ENABLED=False)
    without = Counter(map(_shape, measure()))
    indexnow.configure(ENABLED=True)
    return list((Counter(map(_shape, measure())) - without).elements())


def _shape(statement: str) -> str:
    """Return what a statement does, whatever the values."""
    return re.sub(r"'[^']*'|\d+|%s", "?", statement)


@pytest.mark.parametrize("in_transaction", [False, True], ids=["autocommit", "transaction"])
def test_r37_publish_costs_its_row_and_touches_no_other(
    indexnow: Any, news: Any, in_transaction: bool
) -> None:
    """R37: a publish never waits for a row that a worker holds; it only adds its own."""
    news.go_live_at = timezone.now() + timedelta(hours=1)
    news.save_revision().publish()
    publish(news, go_live_at=None)
    for _time in range(3):  # whatever Wagtail asks for at first only, it has asked for then
        publish(news)
    rows = Intent.objects.count()

    def measure() -> list[str]:
        indexnow.travel_to(timezone.now() + timedelta(seconds=1))
        if not in_transaction:
            return queries_of_a_publish(news)
        with transaction.atomic():
            return queries_of_a_publish(news)

    found = cost_of(indexnow, measure)

    ours = [query for query in found if "indexnow" in query]
    assert len(ours) == 1, found
    assert ours[0].startswith("INSERT"), ours
    assert len(found) <= 3, found  # its savepoint, or its transaction, aside
    assert Intent.objects.count() == rows + 1


def test_r37_publish_of_a_schedule_leaves_its_go_live_alone(indexnow: Any, news: Any) -> None:
    """R37: a worker may be ending the go-lives that are due, in whatever order."""
    news.go_live_at = timezone.now() + timedelta(hours=1)
    revision = news.save_revision()
    revision.publish()
    indexnow.travel_to(news.go_live_at)
    [before] = Intent.objects.values()
    with CaptureQueriesContext(connection) as captured:
        type(revision).objects.get(pk=revision.pk).publish()

    ours = [query["sql"] for query in captured if "indexnow" in query["sql"]]
    assert [query.split()[0] for query in ours] == ["INSERT"], ours
    assert Intent.objects.get(kind="go_live").version == before["version"]
    assert list(Intent.objects.filter(kind="go_live").values()) == [before]


@pytest.mark.parametrize("change", ["move", "rename", "unpublish", "restrict"])
def test_other_changes_cost_at_most_three_queries(
    indexnow: Any, news: Any, site: Any, change: str
) -> None:
    shelves = [publish(make_page(site.root_page, slug)) for slug in ("shelf-0", "shelf-1")]
    pages = iter([publish(make_page(shelf, "page")) for shelf in shelves])
    targets = iter([publish(make_page(site.root_page, slug)) for slug in ("new-0", "new-1")])

    def measure() -> list[str]:
        page = type(news).objects.get(pk=next(pages).pk)
        with CaptureQueriesContext(connection) as captured:
            if change == "move":
                page.move(type(news).objects.get(pk=next(targets).pk), pos="last-child")
            elif change == "rename":
                page.slug = "other"
                page.save()
            elif change == "unpublish":
                page.unpublish()
            else:
                page.view_restrictions.create(restriction_type="login")
        return [query["sql"] for query in captured]

    assert len(cost_of(indexnow, measure)) <= 3


def test_scheduling_costs_at_most_four_queries(indexnow: Any, news: Any) -> None:
    def measure() -> list[str]:
        page = type(news).objects.get(pk=news.pk)
        page.go_live_at = timezone.now() + timedelta(hours=1)
        with CaptureQueriesContext(connection) as captured:
            page.save_revision().publish()
        indexnow.travel_to(timezone.now() + timedelta(minutes=1))
        return [query["sql"] for query in captured]

    publish(news)
    measure()
    found = cost_of(indexnow, measure)

    assert len(found) <= 4, found
    assert Intent.objects.filter(kind="go_live").count() >= 1


def test_r54_deleting_a_section_costs_at_most_two_statements_a_page(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    """R54: besides the savepoint of its row."""
    sections = []
    for slug in ("first", "second"):
        section = publish(make_page(site.root_page, slug))
        for number in range(39):
            publish(make_page(section, f"page-{number}"))
        sections.append(section)
    indexnow.settle()
    pending = iter(sections)

    def measure() -> list[str]:
        section = type(sections[0]).objects.get(pk=next(pending).pk)
        with CaptureQueriesContext(connection) as captured:
            section.delete()
        return [query["sql"] for query in captured]

    found = [query for query in cost_of(indexnow, measure) if "SAVEPOINT" not in query]

    assert len(found) <= 80, found
    assert Intent.objects.filter(kind="remove").count() == 40


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


def test_r12_page_lost_by_the_ledger_is_found_by_the_audit(indexnow: Any, news: Any) -> None:
    indexnow.audit()
    with ledger_away():
        publish(news)

    indexnow.audit()

    assert indexnow.settled() == [URL]


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
    events = Intent.objects.filter(kind="publish")
    indexnow.travel_to(events.get().run_at)
    with caplog.at_level(logging.WARNING):
        tick_and_log_faults(DramatiqCourier())

    assert "interrupted" in caplog.text
    untouched = events.get()
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
