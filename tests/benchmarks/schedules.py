"""100,000 schedules up to a year ahead: as rows, and as delayed messages."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from django.db import connection
from django.utils import timezone
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries

from tests.acceptance.faults.tasks import note
from tests.acceptance.stage import Stage
from tests.benchmarks.measuring import Row, forget, site, tidy, took_ms_each
from tests.factories import make_page, make_site
from tests.processes import Process, eventually
from tests.schedules import add_history, add_schedules
from wagtail_indexnow.models import Intent
from wagtail_indexnow.relay.dispatch import run_maintenance, tick
from wagtail_indexnow.relay.senders import DramatiqCourier

SCHEDULES, HISTORY = 100_000, 400_000
YEAR_S = 365 * 86_400
RELAY_INTERVAL_S = 2
REST_S = 8  # four looks of the relay; the delayed messages that it can hold are fetched
PATIENCE_S = 20
LOOKS, STARTS = 300, 3
WHAT, NAIVE = f"{SCHEDULES:,} schedules", "… as delayed messages"


def schedules(stage: Stage) -> Iterator[Row]:
    """What a look of the relay costs, and what they make of a worker and of Redis.

    Beside `send_with_options(delay=…)`, the naive way.
    """
    forget()
    with site(stage, RELAY_INTERVAL=RELAY_INTERVAL_S):
        idle = _worker_at_rest(stage)
        add_schedules(SCHEDULES, within_s=YEAR_S, after_s=3_600)
        add_history(HISTORY)
        tidy()
        yield from _looks()
        ours = _worker_at_rest(stage, then=lambda: _near_page(stage))
    forget()
    with site(stage, RELAY_INTERVAL=0):
        _send_naively(stage)
        naive = _worker_at_rest(stage, then=lambda: _near_message(stage))
        stage.redis.call("FLUSHALL")

    started = f"{idle.start_s:.1f} s with nothing scheduled"
    yield f"{WHAT}: worker starts in", f"{ours.start_s:.1f} s", started
    yield NAIVE, f"{naive.start_s:.1f} s", ""
    from_mb = f"from {idle.rss_mb:.1f} MB; wanted: below 10"
    yield f"{WHAT}: worker grows by", f"{ours.rss_mb - idle.rss_mb:.1f} MB", from_mb
    yield NAIVE, f"{naive.rss_mb - idle.rss_mb:.1f} MB", "it holds 8,000 of them"
    redis_mb = f"{ours.redis_mb - idle.redis_mb:.1f} MB"
    yield f"{WHAT}: Redis grows by", redis_mb, "wanted: below 1"
    yield NAIVE, f"{naive.redis_mb - idle.redis_mb:.1f} MB", ""
    wanted = f"wanted: within {RELAY_INTERVAL_S + 1} s"
    yield f"{WHAT}: a page in 5 s is late by", ours.lateness, wanted
    yield NAIVE, naive.lateness, f"looked for during {PATIENCE_S} s"


def _looks() -> Iterator[Row]:
    """What the relay's question costs when nothing is due."""
    run_maintenance()  # what has its turn now has it before
    look = DramatiqCourier()
    with_heartbeat = took_ms_each(lambda: tick(look), times=LOOKS)
    with mock.patch("wagtail_indexnow.ledger.heartbeats.beat"):
        plain = took_ms_each(lambda: tick(look), times=LOOKS)
        queries = [_query_times_ms(lambda: tick(look)) for _ in range(LOOKS)]
    house = took_ms_each(run_maintenance, times=LOOKS)
    rows = f"{SCHEDULES:,} open and {HISTORY:,} ended rows; wanted: below 2"
    yield "idle look of the relay", f"{statistics.median(plain):.2f} ms", rows
    yield "… fastest", f"{min(plain):.2f} ms", "which other work of the machine leaves alone"
    in_database = statistics.median(map(sum, queries))
    yield "… of it queries", f"{in_database:.2f} ms", f"{len(queries[0])}; delayed messages: none"
    yield "… with its heartbeat", f"{statistics.median(with_heartbeat):.2f} ms", ""
    yield "… looking for housework", f"{statistics.median(house):.2f} ms", ""


@dataclass(frozen=True, kw_only=True)
class _Rest:
    """A worker some seconds after its start."""

    start_s: float
    rss_mb: float
    redis_mb: float
    lateness: str


def _worker_at_rest(stage: Stage, then: Callable[[], str] = str) -> _Rest:
    starts_s = []
    for number in range(STARTS):
        started = time.monotonic()
        worker = stage.worker(threads=8)
        starts_s.append(time.monotonic() - started)
        if number < STARTS - 1:
            worker.terminate()
    time.sleep(REST_S)
    lateness = then()
    memory = {"rss_mb": _rss_mb(worker), "redis_mb": _redis_mb(stage)}
    worker.terminate()
    return _Rest(start_s=statistics.median(starts_s), lateness=lateness, **memory)


def _near_page(stage: Stage) -> str:
    page = make_page(make_site(f"near-{os.getpid()}.example.com").root_page, "near")
    due_at = stage.schedule([page], seconds=5)
    # No cron: the message finds that the page is not live yet, and notes it.
    row = Intent.objects.filter(page_id=page.pk)
    eventually(lambda: row.get().waits, timeout_s=PATIENCE_S, every_s=0.02)
    return f"{(timezone.now() - due_at).total_seconds():+.1f} s"


def _near_message(stage: Stage) -> str:
    due_at = time.time() + 5
    _enqueue(stage, [(("near",), 5_000)])
    try:
        eventually(lambda: stage.written("near"), timeout_s=PATIENCE_S, every_s=0.02)
    except AssertionError:
        return "never"
    return f"{time.time() - due_at:+.1f} s"


def _send_naively(stage: Stage) -> None:
    step_ms = YEAR_S * 1_000 // SCHEDULES
    _enqueue(stage, ((("far",), 60_000 + number * step_ms) for number in range(SCHEDULES)))


def _enqueue(stage: Stage, messages: Any) -> None:
    broker = RedisBroker(url=stage.redis.url, middleware=[Retries()])
    broker.declare_queue(note.queue_name)
    for args, delay_ms in messages:
        broker.enqueue(note.message(*args), delay=delay_ms)
    broker.close()


def _query_times_ms(work: Callable[[], object]) -> list[float]:
    """Time each query of a piece of work: Django's own log of them is too coarse."""
    times: list[float] = []

    def timed(execute: Callable[..., Any], *query: Any) -> Any:
        started = time.perf_counter()
        try:
            return execute(*query)
        finally:
            times.append((time.perf_counter() - started) * 1_000)

    with connection.execute_wrapper(timed):
        work()
    return times


def _redis_mb(stage: Stage) -> float:
    return float(stage.redis.call("INFO", "memory")["used_memory"]) / 1e6


def _rss_mb(process: Process) -> float:
    """Return the memory of the largest process of a group: the worker below its master."""
    sizes = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[2]) == process.pid:  # its group
            sizes.append(int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))
    return max(sizes) / 1e6
