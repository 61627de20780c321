"""What is due reaches Dramatiq, in lists, once for each lease, whatever gets lost there."""

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import dramatiq
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from dramatiq import Message, Worker
from dramatiq.brokers.stub import StubBroker

from tests.factories import make_page, publish
from tests.schedules import FIRST_PAGE_ID, add_schedules
from tests.testapp.models import ArticlePage
from wagtail_indexnow import worker
from wagtail_indexnow.constants import Change, Kind, Reason
from wagtail_indexnow.ledger import channels, intents, tracked_urls
from wagtail_indexnow.ledger.intents import PlannedWrite
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import Channel, Heartbeat, Intent
from wagtail_indexnow.relay import dispatch, worker_thread
from wagtail_indexnow.relay.dispatch import (
    UNCLAIMED_MESSAGES,
    Tick,
    next_due,
    run_maintenance,
    run_until_idle,
    tick,
)
from wagtail_indexnow.relay.senders import DramatiqCourier, InlineCourier
from wagtail_indexnow.relay.worker_thread import RelayMiddleware, relay_until, tick_and_log_faults
from wagtail_indexnow.submission import submitting

pytestmark = pytest.mark.django_db(transaction=True)
NEWS = "https://www.example.com/en/news/"
NOTHING = Tick()
Payload = dict[str, Any]


@pytest.fixture(autouse=True)
def broker(clock_at: Any) -> Iterator[StubBroker]:
    """The site's broker, without a worker: what was sent stays and can be read."""
    broker = dramatiq.get_broker()
    assert isinstance(broker, StubBroker)
    broker.flush_all()
    yield broker
    broker.flush_all()


@pytest.fixture
def news(site: Any) -> Any:
    return make_page(site.root_page, "news")


def take(broker: StubBroker, queue: str = "default") -> list[Payload]:
    """Return and forget the payloads in a queue."""
    messages = broker.queues[queue].queue
    payloads = [Message.decode(message).args[0] for message in messages]
    broker.flush(queue)
    return payloads


def take_parked(broker: StubBroker) -> list[Payload]:
    return take(broker, "default.DQ")


def keys_of(payload: Payload) -> list[str]:
    return [ref["key"] for ref in payload["intents"]]


def due_pages(count: int, **fields: Any) -> list[Intent]:
    """Plan intents, due now, of pages that are nowhere."""
    for number in range(count):
        intents.plan(Kind.REMOVE, page_id=FIRST_PAGE_ID + number, run_at=timezone.now(), **fields)
    return list(Intent.objects.order_by("pk"))


def wait(intent: Intent, until: datetime) -> None:
    """Let an event wait, as an actor does whose page cannot be announced yet."""
    waiting = PlannedWrite(intent=intent, state="planned", reason="copying", run_at=until)
    intents.write([waiting], now=timezone.now())


def mark_of(host: str) -> Marked:
    url = f"https://{host}/en/news/"
    return Marked(url=url, host=host, change=Change.ADDED, page_id=None)


def ready_url(host: str = "www.example.com") -> None:
    tracked_urls.mark([mark_of(host)], now=timezone.now())


def later(indexnow: Any, **amount: float) -> None:
    indexnow.travel_to(timezone.now() + timedelta(**amount))


# Lists


def test_what_is_due_travels_in_lists_of_100(broker: StubBroker) -> None:
    planned = due_pages(250)

    assert tick(DramatiqCourier()) == Tick(intents=250)

    lists = [keys_of(payload) for payload in take(broker)]
    assert [len(keys) for keys in lists] == [100, 100, 50]
    assert [key for keys in lists for key in keys] == [intent.key for intent in planned]


def test_10_000_go_lives_due_in_one_minute_are_100_messages(
    indexnow: Any, broker: StubBroker
) -> None:
    add_schedules(10_000, within_s=60, after_s=0)
    later(indexnow, seconds=61)

    handed = [tick(DramatiqCourier()).intents for _ in range(3)]

    assert handed == [5_000, 5_000, 0]
    assert len(take(broker)) == 100


def test_a_subtree_travels_alone(broker: StubBroker) -> None:
    due_pages(2)
    due_pages(1, subtree=True)

    tick(DramatiqCourier())

    assert [len(keys_of(payload)) for payload in take(broker)] == [2, 1]


def test_overdue_go_lives_travel_in_lists_too(indexnow: Any, broker: StubBroker) -> None:
    add_schedules(3, within_s=10, after_s=0)
    later(indexnow, hours=1)

    tick(DramatiqCourier())

    assert [len(keys_of(payload)) for payload in take(broker)] == [3]
    assert take_parked(broker) == []


# Parking


def test_d08_nearest_500_are_parked_and_the_rest_wait_as_rows(
    indexnow: Any, broker: StubBroker
) -> None:
    add_schedules(700, within_s=890, after_s=300)
    add_schedules(100, within_s=250, after_s=60)

    assert tick(DramatiqCourier()) == Tick(parked=500)
    assert tick(DramatiqCourier()) == NOTHING

    parked = {keys_of(payload)[0] for payload in take_parked(broker)}
    nearest = Intent.objects.order_by("run_at").values_list("key", flat=True)[:500]
    assert parked == set(nearest)
    # Room comes as they get due; the ones of then are handed over in lists.
    later(indexnow, seconds=251)
    assert tick(DramatiqCourier()).parked == 100


def test_each_parked_go_live_travels_alone_and_only_within_the_horizon(
    indexnow: Any, broker: StubBroker
) -> None:
    indexnow.configure(SCHEDULE_HORIZON=120)
    add_schedules(2, within_s=100)
    add_schedules(2, within_s=1_000, after_s=500)

    tick(DramatiqCourier())

    assert [len(keys_of(payload)) for payload in take_parked(broker)] == [1, 1]


def test_a_go_live_that_waits_is_not_parked_but_handed_over_when_due(
    indexnow: Any, news: Any, broker: StubBroker
) -> None:
    news.go_live_at = timezone.now() + timedelta(seconds=60)
    news.save_revision().publish()
    later(indexnow, seconds=61)
    tick(InlineCourier())
    assert Intent.objects.get().reason == "not_published_yet"

    assert tick(DramatiqCourier()) == NOTHING
    later(indexnow, seconds=60)
    assert tick(DramatiqCourier()) == Tick(intents=1)


# Leases


def test_what_is_not_ended_is_handed_over_again_after_60_s_doubling_to_an_hour(
    indexnow: Any,
) -> None:
    due_pages(1)
    tick(DramatiqCourier())

    for lease_s in (60, 120, 240, 480, 960, 1_920, 3_600, 3_600):
        later(indexnow, seconds=lease_s - 1)
        assert tick(DramatiqCourier()) == NOTHING, lease_s
        later(indexnow, seconds=1)
        assert tick(DramatiqCourier()) == Tick(intents=1), lease_s


def test_the_lease_of_a_parked_go_live_counts_from_its_time(indexnow: Any) -> None:
    add_schedules(1, within_s=600, after_s=600)
    tick(DramatiqCourier())

    later(indexnow, seconds=659)
    assert tick(DramatiqCourier()) == NOTHING
    later(indexnow, seconds=1)
    assert tick(DramatiqCourier()) == Tick(intents=1)


def test_d05_planning_again_ends_the_hand_over(indexnow: Any, news: Any) -> None:
    publish(news)
    later(indexnow, seconds=5)
    tick(DramatiqCourier())
    intent = Intent.objects.get()

    wait(intent, timezone.now())

    assert tick(DramatiqCourier()) == Tick(intents=1)


def test_message_that_came_early_is_sent_again_when_its_row_is_due(
    indexnow: Any, broker: StubBroker
) -> None:
    """A worker's clock is 90 s ahead of the database's."""
    add_schedules(1, within_s=600, after_s=600)
    tick(DramatiqCourier())
    [early] = take_parked(broker)

    later(indexnow, seconds=510)
    worker.handle_announcement(early)

    assert Intent.objects.get().state == "planned"
    assert tick(DramatiqCourier()) == NOTHING
    later(indexnow, seconds=90)
    assert tick(DramatiqCourier()) == Tick(intents=1)


# Several relays, and brokers that fail


class Interrupted(DramatiqCourier):
    """Does something else right before each message is sent."""

    def __init__(self, interruption: Callable[[], object]) -> None:
        super().__init__()
        self._interruption = interruption

    def announce(self, payload: Payload, *, delay_ms: int = 0) -> None:
        self._interruption()
        super().announce(payload, delay_ms=delay_ms)

    def submit(self, payload: Payload) -> None:
        self._interruption()
        super().submit(payload)


class BrokerAwayError(Exception):
    pass


def fail() -> None:
    raise BrokerAwayError


def test_two_relays_hand_each_row_over_once(broker: StubBroker) -> None:
    planned = due_pages(250)
    ready_url()

    tick(Interrupted(lambda: tick(DramatiqCourier())))

    payloads = take(broker)
    keys = [key for payload in payloads if "intents" in payload for key in keys_of(payload)]
    assert sorted(keys) == sorted(intent.key for intent in planned)
    assert sum("channel" in payload for payload in payloads) == 1


def test_two_relays_park_each_go_live_once(broker: StubBroker) -> None:
    add_schedules(20, within_s=600)

    tick(Interrupted(lambda: tick(DramatiqCourier())))

    assert len(take_parked(broker)) == 20


def test_row_that_somebody_moved_since_it_was_read_is_left(broker: StubBroker) -> None:
    moved = due_pages(101)[-1]
    until = timezone.now() + timedelta(minutes=5)

    tick(Interrupted(lambda: wait(moved, until)))

    assert moved.key not in [key for payload in take(broker) for key in keys_of(payload)]
    moved.refresh_from_db()
    assert (moved.run_at, moved.handed_at, moved.handed_count) == (until, None, 0)


def test_failed_send_restores_the_rows_and_ends_the_tick(indexnow: Any, broker: StubBroker) -> None:
    due_pages(150)
    tick(DramatiqCourier())
    take(broker)
    before = list(Intent.objects.values_list("handed_at", "handed_count"))
    later(indexnow, seconds=60)

    with pytest.raises(BrokerAwayError):
        tick(Interrupted(fail))

    assert list(Intent.objects.values_list("handed_at", "handed_count")) == before
    assert tick(DramatiqCourier()) == Tick(intents=150)


def test_failed_send_of_a_channel_restores_it(broker: StubBroker) -> None:
    ready_url()

    with pytest.raises(BrokerAwayError):
        tick(Interrupted(fail))

    assert Channel.objects.get(host="www.example.com").handed_at is None
    assert tick(DramatiqCourier()) == Tick(channels=1)


# Channels


def test_channel_with_ready_urls_is_handed_over_once_for_each_lease(
    indexnow: Any, broker: StubBroker
) -> None:
    ready_url()

    assert tick(DramatiqCourier()) == Tick(channels=1)
    assert tick(DramatiqCourier()) == NOTHING
    later(indexnow, seconds=60)
    assert tick(DramatiqCourier()) == Tick(channels=1)
    assert take(broker)[0] == {
        "v": 1,
        "channel": {"endpoint": "engine", "host": "www.example.com"},
    }


def test_a_paused_endpoint_is_left_until_its_pause_ends(indexnow: Any) -> None:
    ready_url()
    until = timezone.now() + timedelta(minutes=10)
    Channel.objects.filter(host="").update(not_before=until)

    assert tick(DramatiqCourier()) == NOTHING
    indexnow.travel_to(until)
    assert tick(DramatiqCourier()) == Tick(channels=1)


def test_a_paused_host_is_left_until_its_pause_ends_and_no_other(
    indexnow: Any, broker: StubBroker
) -> None:
    ready_url()
    ready_url("other.example.com")
    until = timezone.now() + timedelta(minutes=10)
    channels.pause_host("engine", "www.example.com", reason=Reason.KEY_FILE, until=until)

    for _slot in range(3):
        tick(DramatiqCourier())
        later(indexnow, seconds=1)
    assert hosts_of(take(broker)) == ["other.example.com"]
    indexnow.travel_to(until)
    for _slot in range(2):
        tick(DramatiqCourier())
        later(indexnow, seconds=1)
    assert "www.example.com" in hosts_of(take(broker))


def test_r50_one_message_for_each_slot_to_the_channel_that_has_been_ready_longest(
    indexnow: Any, broker: StubBroker
) -> None:
    """R50"""
    indexnow.configure(RATE_LIMIT=12)
    for number in range(20):
        ready_url(f"{number:02}.example.com")
        later(indexnow, seconds=0.001)

    handed = []
    for _second in range(60):
        handed.append(tick(DramatiqCourier()).channels)
        later(indexnow, seconds=1)

    assert sum(handed) == 12
    assert max(handed) == 1
    assert hosts_of(take(broker)) == [f"{number:02}.example.com" for number in range(12)]


def test_hand_over_stops_at_16_messages_that_nobody_claims(
    indexnow: Any, broker: StubBroker
) -> None:
    indexnow.configure(RATE_LIMIT=60)
    for number in range(30):
        ready_url(f"{number:02}.example.com")

    for _second in range(50):
        tick(DramatiqCourier())
        later(indexnow, seconds=1)

    assert len(take(broker)) == UNCLAIMED_MESSAGES
    channels.drop(Channel.objects.get(host="07.example.com").pk)
    assert tick(DramatiqCourier()) == Tick(channels=1)


def test_several_slots_that_are_due_at_once_are_handed_over_at_once(
    indexnow: Any, broker: StubBroker
) -> None:
    """A relay that looks ten times a second serves a hundred slots a second."""
    indexnow.configure(RATE_LIMIT=6_000)
    for number in range(16):
        ready_url(f"{number:02}.example.com")
    tick(DramatiqCourier())
    handed = len(take(broker))
    Channel.objects.exclude(host="").update(handed_at=None)
    later(indexnow, seconds=0.1)

    assert tick(DramatiqCourier()).channels == 10
    assert handed == 1


def test_a_look_says_when_the_next_slot_comes_that_a_channel_waits_for(indexnow: Any) -> None:
    indexnow.configure(RATE_LIMIT=30, RELAY_INTERVAL=60)
    ready_url()
    assert tick(DramatiqCourier()).next_slot_in is None
    ready_url("other.example.com")
    ready_url("third.example.com")
    later(indexnow, seconds=2)

    last = tick(DramatiqCourier())

    assert last.next_slot_in == timedelta(seconds=2)
    assert worker_thread._pause_s(last) == 2.0
    assert worker_thread._pause_s(NOTHING) == 60.0
    soon = Tick(next_slot_in=timedelta(0))
    assert worker_thread._pause_s(soon) == worker_thread.SHORTEST_PAUSE_S


def test_a_look_says_when_a_channel_gets_ready_before_the_next_look(indexnow: Any) -> None:
    indexnow.configure(RELAY_INTERVAL=60)
    ready_url()
    soon = timezone.now() + timedelta(seconds=30)
    channels.pause_host("engine", "www.example.com", reason=Reason.KEY_FILE, until=soon)

    assert tick(DramatiqCourier()).next_slot_in == timedelta(seconds=30)


def test_two_relays_share_the_slots_of_an_endpoint(
    indexnow: Any, broker: StubBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read the endpoint's row when the first of them moves its next slot."""
    for number in range(4):
        ready_url(f"{number}.example.com")
    take_slots = dispatch._take_slots

    def after_another_relay(own: Any, wanted: int, now: Any) -> Any:
        monkeypatch.setattr(dispatch, "_take_slots", take_slots)
        tick(DramatiqCourier())
        return take_slots(own, wanted, now)

    monkeypatch.setattr(dispatch, "_take_slots", after_another_relay)
    tick(DramatiqCourier())

    assert len(take(broker)) == 1


def test_a_lease_that_ran_out_is_handed_over_although_no_url_is_ready(
    indexnow: Any, broker: StubBroker
) -> None:
    ready_url()
    until = timezone.now() + timedelta(minutes=2)
    Channel.objects.exclude(host="").update(lease_until=until, ready_at=until)

    assert tick(DramatiqCourier()) == NOTHING
    indexnow.travel_to(until)
    assert tick(DramatiqCourier()) == Tick(channels=1)


@pytest.mark.parametrize("hosts", [10, 400])
def test_r50_a_look_costs_the_same_however_many_hosts_are_ready(
    indexnow: Any, hosts: int, django_assert_max_num_queries: Any
) -> None:
    """R50"""
    tick(DramatiqCourier())
    marks = [mark_of(f"{number}.example.com") for number in range(hosts)]
    tracked_urls.mark(marks, now=timezone.now())

    with CaptureQueriesContext(connection) as queries:
        tick(DramatiqCourier())

    assert len(queries) <= 6  # heartbeat, intents, endpoints, channels; slot and hand-over
    assert not [query for query in queries if "trackedurl" in query["sql"]]


def hosts_of(payloads: list[Payload]) -> list[str]:
    return [payload["channel"]["host"] for payload in payloads]


# Once


def test_d03_copies_and_reaccepted_messages_tell_once(
    indexnow: Any, news: Any, broker: StubBroker
) -> None:
    publish(news)
    later(indexnow, seconds=5)
    tick(DramatiqCourier())
    [message] = take(broker)

    for _copy in range(3):
        worker.handle_announcement(message)
    tick(DramatiqCourier())
    [submission] = take(broker)
    for _copy in range(3):
        worker.handle_submission(submission)

    assert indexnow.settled() == [NEWS]


def test_release_while_an_actor_computes_tells_once(
    indexnow: Any, news: Any, broker: StubBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(news)
    later(indexnow, seconds=5)
    tick(DramatiqCourier())
    [message] = take(broker)
    usual = ArticlePage.get_sitemap_urls

    def slowly(page: Any, request: Any = None) -> Any:
        monkeypatch.setattr(ArticlePage, "get_sitemap_urls", usual)
        row = Intent.objects.get()
        intents.wait(row, timezone.now(), reason="copying")  # whatever raises the version
        return usual(page, request)

    monkeypatch.setattr(ArticlePage, "get_sitemap_urls", slowly)
    worker.handle_announcement(message)
    assert Intent.objects.get().state == "planned"
    assert indexnow.told() == []

    assert indexnow.settled() == [NEWS]


# Inline


def test_inline_waits_for_what_is_due_within_a_minute_only(indexnow: Any, news: Any) -> None:
    publish(news)
    add_schedules(1, within_s=61, after_s=61)
    started = timezone.now()

    indexnow.work()

    assert indexnow.told() == [NEWS]
    assert timezone.now() - started < timedelta(seconds=61)
    assert Intent.objects.planned().count() == 1


def test_inline_does_not_spin_on_what_is_in_other_hands(indexnow: Any) -> None:
    due_pages(1)
    ready_url()
    tick(DramatiqCourier())
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        later(indexnow, seconds=seconds)

    assert next_due() == timezone.now() + timedelta(seconds=60)
    run_until_idle(InlineCourier(), sleep=nap)
    assert len(naps) < 5
    assert not Intent.objects.planned().exists()


def test_inline_ends_after_ten_minutes_whatever_there_is_to_do(
    indexnow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = timezone.now()

    def busy(courier: Any) -> Tick:
        later(indexnow, seconds=30)
        return Tick(intents=1)

    monkeypatch.setattr("wagtail_indexnow.relay.dispatch.tick", busy)
    run_until_idle(InlineCourier(), sleep=lambda seconds: None)

    assert timezone.now() - started == timedelta(minutes=10)


def test_b22_inline_goes_on_after_a_fault_and_the_command_says_so(
    indexnow: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ready_url("bad.example.com")
    ready_url()
    usual = submitting.submit_channel

    def submit(endpoint: str, host: str) -> str:
        if host == "bad.example.com":
            raise ZeroDivisionError
        return usual(endpoint, host)

    monkeypatch.setattr(worker, "submit_channel", submit)
    monkeypatch.setattr("time.sleep", lambda seconds: later(indexnow, seconds=seconds))
    with pytest.raises(CommandError, match="failed"):
        call_command("indexnow_relay", "--inline")

    assert indexnow.told() == [NEWS]
    assert "ZeroDivisionError" in caplog.text


def test_inline_leaves_alone_what_only_a_broker_could_carry(indexnow: Any) -> None:
    add_schedules(1, within_s=300, after_s=300)

    assert tick(InlineCourier()) == NOTHING
    assert Intent.objects.get().handed_at is None


# The command and the thread


def test_once_looks_once(
    indexnow: Any, broker: StubBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    run_maintenance()
    Intent.objects.all().delete()  # the first audit
    due_pages(3)

    call_command("indexnow_relay", "--once")

    assert "intents=3" in capsys.readouterr().out
    assert len(take(broker)) == 1


@pytest.mark.parametrize("options", [["--once"], ["--inline"], []], ids=str)
def test_command_refuses_where_the_app_is_off(indexnow: Any, options: list[str]) -> None:
    indexnow.configure(ENABLED=False)

    with pytest.raises(CommandError, match="switched off"):
        call_command("indexnow_relay", *options)


def test_b05_nothing_moves_where_the_app_is_off(indexnow: Any) -> None:
    due_pages(1)
    indexnow.configure(ENABLED=False)

    assert tick(DramatiqCourier()) == NOTHING
    run_maintenance()

    assert not Heartbeat.objects.exists()


def test_relay_thread_lives_as_long_as_its_worker(indexnow: Any, broker: StubBroker) -> None:
    indexnow.configure(RELAY_INTERVAL=60)

    def relays() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "wagtail_indexnow.relay"]

    assert any(isinstance(part, RelayMiddleware) for part in broker.middleware)
    assert relays() == []
    worker = Worker(broker, worker_threads=1)
    worker.start()
    assert len(relays()) == 1
    worker.stop()
    assert relays() == []


@pytest.mark.parametrize("setting", [{"RELAY_INTERVAL": 0}, {"ENABLED": False}], ids=str)
def test_no_thread_where_none_is_wanted(
    indexnow: Any, broker: StubBroker, setting: dict[str, Any]
) -> None:
    indexnow.configure(**{"RELAY_INTERVAL": 60, **setting})
    relay = RelayMiddleware()

    relay.after_worker_boot(broker, Worker(broker))

    assert "wagtail_indexnow.relay" not in [each.name for each in threading.enumerate()]
    relay.before_worker_shutdown(broker, Worker(broker))


def test_what_lasts_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    due_pages(1)
    caplog.set_level(logging.WARNING)

    is_well, _tick = tick_and_log_faults(Interrupted(fail))
    for _time in range(3):
        is_well, _tick = tick_and_log_faults(Interrupted(fail), was_well=is_well)
    assert not is_well
    # The page, and the first audit, which was planned meanwhile.
    assert tick_and_log_faults(DramatiqCourier(), was_well=is_well) == (True, Tick(intents=2))

    states = [record.getMessage().split()[1] for record in caplog.records]
    assert states == ["state=interrupted", "state=resumed"]


def test_fault_of_the_housework_does_not_stop_the_relay(
    broker: StubBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_pages(1)
    monkeypatch.setattr(worker_thread, "run_maintenance", fail)

    assert tick_and_log_faults(DramatiqCourier()) == (False, Tick(intents=1))

    assert len(take(broker)) == 1


def test_relay_ticks_until_it_is_told_to_stop(
    indexnow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexnow.configure(RELAY_INTERVAL=0.001)
    stopping, ticks = threading.Event(), 0

    def count(courier: Any, *, was_well: bool) -> tuple[bool, Tick]:
        nonlocal ticks
        ticks += 1
        if ticks == 3:
            stopping.set()
        return was_well, NOTHING

    monkeypatch.setattr(worker_thread, "tick_and_log_faults", count)
    relay_until(stopping, DramatiqCourier())

    assert ticks == 3


# Cost


def test_idle_look_costs_three_queries_and_its_housework_one(
    django_assert_max_num_queries: Any,
) -> None:
    tick(DramatiqCourier())
    run_maintenance()
    Intent.objects.all().delete()  # the first audit

    with django_assert_max_num_queries(3):  # heartbeat, intents, channels
        tick(DramatiqCourier())
    with django_assert_max_num_queries(1):
        run_maintenance()


def test_heartbeat_is_written_every_ten_seconds(indexnow: Any) -> None:
    started = timezone.now()
    tick(DramatiqCourier())
    later(indexnow, seconds=9)
    tick(DramatiqCourier())
    assert Heartbeat.objects.get(name="relay").seen_at == started

    later(indexnow, seconds=1)
    tick(DramatiqCourier())
    assert Heartbeat.objects.get(name="relay").seen_at == started + timedelta(seconds=10)
