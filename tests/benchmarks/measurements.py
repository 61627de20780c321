"""The measurements. Each yields (what, figure, remark) and can be run alone."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models.signals import post_save
from django.test import Client, override_settings
from django.utils import timezone
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries
from wagtail import signals
from wagtail.models import Page, PageViewRestriction, Revision

from tests.acceptance.faults.tasks import note
from tests.acceptance.stage import Stage
from tests.factories import make_page, make_site
from tests.processes import Process, eventually
from tests.schedules import add_history, add_schedules
from wagtail_indexnow import signal_handlers, tracked_urls
from wagtail_indexnow.constants import APP_LABEL, Change, Kind
from wagtail_indexnow.couriers import DramatiqCourier, InlineCourier
from wagtail_indexnow.delivering import deliver as deliver_channel
from wagtail_indexnow.models import Channel, Delivery, Intent, TrackedUrl
from wagtail_indexnow.relay import keep_house, tick
from wagtail_indexnow.tracked_urls import Marked

Row = tuple[str, str, str]
SCHEDULES, HISTORY = 100_000, 400_000
YEAR_S = 365 * 86_400
PATIENCE_S = 20
HOST = "www.example.com"


def schedules(stage: Stage) -> Iterator[Row]:
    """100,000 schedules up to a year ahead: as rows, and as delayed messages."""
    stage.indexnow |= {"RELAY_INTERVAL": 2}
    idle = _worker_at_rest(stage)
    yield "idle worker: start-up", f"{idle.start_s:.1f} s", ""
    yield "idle worker: memory (RSS)", f"{idle.rss_mb:.1f} MB", ""

    _add_many()
    ours = _worker_at_rest(stage, meanwhile=lambda: _near_page(stage))
    yield "100,000 schedules as rows: start-up", f"{ours.start_s:.1f} s", ""
    yield _grown("100,000 schedules as rows: worker", ours.rss_mb - idle.rss_mb, "below 10")
    yield _grown("100,000 schedules as rows: Redis", ours.redis_mb - idle.redis_mb, "below 1")
    yield "… a page 5 s ahead afterwards", ours.lateness, "wanted: within RELAY_INTERVAL + 1 s"
    _forget()

    stage.indexnow |= {"RELAY_INTERVAL": 0}
    _send_naively(stage)
    naive = _worker_at_rest(stage, meanwhile=lambda: _near_message(stage))
    yield "100,000 delayed messages: start-up", f"{naive.start_s:.1f} s", ""
    yield _grown("100,000 delayed messages: worker", naive.rss_mb - idle.rss_mb, "")
    yield _grown("100,000 delayed messages: Redis", naive.redis_mb - idle.redis_mb, "")
    yield "… a message 5 s ahead afterwards", naive.lateness, f"waited {PATIENCE_S} s"
    stage.redis.call("FLUSHALL")
    stage.indexnow |= {"RELAY_INTERVAL": 2}


def ticks(stage: Stage) -> Iterator[Row]:
    """What a look of the relay costs when nothing is due."""
    _add_many()
    with _settings(stage):
        keep_house()
        courier = DramatiqCourier()
        beat = _timings_ms(lambda: tick(courier), times=300)
        with mock.patch("wagtail_indexnow.heartbeats.beat"):
            plain = _timings_ms(lambda: tick(courier), times=300)
        house = _timings_ms(keep_house, times=300)
    rows = "100,000 open and 400,000 done rows; wanted: below 2"
    yield "idle relay tick, median", f"{statistics.median(plain):.2f} ms", rows
    yield "… fastest", f"{min(plain):.2f} ms", "what the machine's other work does not touch"
    yield "… with its heartbeat, median", f"{statistics.median(beat):.2f} ms", ""
    yield "idle housework, median", f"{statistics.median(house):.2f} ms", ""


def publishing(stage: Stage) -> Iterator[Row]:
    """An editor's publish through the admin's form, with the app and without."""
    _forget()
    page = make_page(make_site().root_page, "published")
    user = get_user_model().objects.create_superuser("bench", "bench@example.com", "bench")
    client = Client(SERVER_NAME=HOST)
    client.force_login(user)

    def post(number: int) -> None:
        fields = {"title": f"Title {number}", "slug": "published", "body": "Text"}
        fields |= {"comments-TOTAL_FORMS": "0", "comments-INITIAL_FORMS": "0"}
        url = f"/admin/pages/{page.pk}/edit/"
        response = client.post(url, {**fields, "action-publish": "action-publish"})
        assert response.status_code == 302, response.content[:2000]

    with _settings(stage):
        timings: dict[bool, list[float]] = {True: [], False: []}
        for number in range(120):
            is_with = bool(number % 2)
            (signal_handlers.connect if is_with else _disconnect)()
            timings[is_with].append(_ms(lambda number=number: post(number)))
        signal_handlers.connect()
    with_app, without = (statistics.median(timings[key]) for key in (True, False))
    yield "publish through the admin, with the app", f"{with_app:.1f} ms", "median of 60"
    yield "… without the app", f"{without:.1f} ms", f"ratio {with_app / without:.3f}"


def announcing(stage: Stage, count: int = 1_000) -> Iterator[Row]:
    """A bulk publish: intents that are due → tracked URLs, in lists of 100."""
    _forget()
    home = make_site("bulk.example.com").root_page
    pages = [make_page(home, f"bulk-{number}") for number in range(count)]
    now = timezone.now()
    Page.objects.filter(pk__in=[page.pk for page in pages]).update(
        live=True, first_published_at=now, last_published_at=now
    )
    Intent.objects.bulk_create(
        Intent(
            key=f"page:{page.pk}:publish:bench",
            kind=Kind.PUBLISH,
            page_id=page.pk,
            translation_key=page.translation_key,
            run_at=now,
            created_at=now,
        )
        for page in pages
    )
    with _settings(stage), mock.patch.object(InlineCourier, "deliver"):
        seconds = _ms(lambda: tick(InlineCourier())) / 1_000
    assert TrackedUrl.objects.count() == count
    yield "bulk announce", f"{count / seconds:,.0f} pages/s", f"{count:,} pages, one process"


def delivering(stage: Stage, count: int = 100_000) -> Iterator[Row]:
    """100,000 URLs of one host: ten POSTs."""
    marks = [
        Marked(url=f"https://{HOST}/en/{number}/", host=HOST, change=Change.ADDED, page_id=None)
        for number in range(count)
    ]
    _forget()
    stage.engine.reset()
    with _settings(stage):
        marked_s = _ms(lambda: tracked_urls.mark(marks, now=timezone.now())) / 1_000

        def post_all() -> None:
            while TrackedUrl.objects.filter(not_before__isnull=False).exists():
                deliver_channel("engine", HOST)

        seconds = _ms(post_all) / 1_000
    posts = len(stage.engine.submissions)
    assert len(set(stage.engine.urls())) == count
    yield "marking 100,000 URLs", f"{count / marked_s:,.0f} URLs/s", ""
    yield "delivering 100,000 URLs", f"{count / seconds:,.0f} URLs/s", f"{posts} POSTs"
    stage.engine.reset()


def latency(stage: Stage, count: int = 10) -> Iterator[Row]:
    """From a go-live to the POST, with the settings that a site begins with."""
    _forget()
    stage.engine.reset()
    stage.indexnow |= {"SETTLE_SECONDS": 5, "RELAY_INTERVAL": 2}
    home = make_site("latency.example.com").root_page
    pages = [make_page(home, f"latency-{number}") for number in range(count)]
    worker = stage.worker(threads=8)
    cron = stage.cron(every_s=0.2)
    with _settings(stage):
        due = {
            page.pk: stage.schedule([page], seconds=4 + 1.3 * number)
            for number, page in enumerate(pages)
        }
    eventually(lambda: len(stage.engine.urls()) >= count, timeout_s=90)
    worker.kill()
    cron.kill()
    told = {url: record.at for record in stage.engine.submissions for url in record.urls}
    since_due, since_publish = [], []
    for page in Page.objects.filter(pk__in=due):
        at = told[f"https://latency.example.com/en/{page.slug}/"]
        since_due.append(at - due[page.pk].timestamp())
        since_publish.append(at - page.last_published_at.timestamp())
    remark = "SETTLE_SECONDS 5, RELAY_INTERVAL 2"
    yield "due → POST, median / max", _pair(since_due), f"{remark}, cron in a loop"
    yield "publish_scheduled → POST, median / max", _pair(since_publish), remark
    stage.indexnow |= {"SETTLE_SECONDS": 0}
    stage.engine.reset()


#: `ticks` leaves its many rows to `schedules`; both make them when they are alone.
ALL: dict[str, Callable[[Stage], Iterator[Row]]] = {
    "ticks": ticks,
    "schedules": schedules,
    "publishing": publishing,
    "announcing": announcing,
    "delivering": delivering,
    "latency": latency,
}


class _Rest:
    """A worker some seconds after its start."""

    def __init__(self, start_s: float, rss_mb: float, redis_mb: float, lateness: str) -> None:
        self.start_s, self.rss_mb = start_s, rss_mb
        self.redis_mb, self.lateness = redis_mb, lateness


def _worker_at_rest(stage: Stage, meanwhile: Callable[[], str] = lambda: "") -> _Rest:
    started = time.monotonic()
    worker = stage.worker(threads=8)
    start_s = time.monotonic() - started
    time.sleep(8)  # four ticks; delayed messages are fetched
    lateness = meanwhile()
    rest = _Rest(start_s, _rss_mb(worker), _redis_mb(stage), lateness)
    worker.terminate()
    return rest


def _near_page(stage: Stage) -> str:
    page = make_page(make_site(f"near-{os.getpid()}.example.com").root_page, "near")
    with _settings(stage):
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


def _add_many() -> None:
    if Intent.objects.planned().count() >= SCHEDULES:
        return
    add_schedules(SCHEDULES, within_s=YEAR_S, after_s=3_600)
    add_history(HISTORY)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")  # as autovacuum does a little later


def _forget() -> None:
    """Empty the ledger, and let no page be found again by reconciliation."""
    for model in (TrackedUrl, Delivery, Channel, Intent):
        model.objects.all()._raw_delete("default")
    Revision.objects.update(approved_go_live_at=None)


def _disconnect() -> None:
    for signal, name in (
        (signals.page_published, "on_page_published"),
        (signals.page_slug_changed, "on_slug_changed"),
    ):
        signal.disconnect(dispatch_uid=f"{APP_LABEL}.{name}")
    post_save.disconnect(dispatch_uid=f"{APP_LABEL}.on_revision_saved", sender=Revision)
    post_save.disconnect(
        dispatch_uid=f"{APP_LABEL}.on_restriction_saved", sender=PageViewRestriction
    )
    post_save.disconnect(dispatch_uid=f"{APP_LABEL}.on_alias_created")


def _settings(stage: Stage) -> override_settings:
    hosts = [*settings.ALLOWED_HOSTS, HOST]
    return override_settings(WAGTAIL_INDEXNOW=stage.indexnow, ALLOWED_HOSTS=hosts)


def _ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1_000


def _timings_ms(work: Callable[[], object], *, times: int) -> list[float]:
    return [_ms(work) for _ in range(times)]


def _pair(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} / {max(seconds):.1f} s"


def _grown(what: str, megabytes: float, wanted: str) -> Row:
    return f"{what} grows by", f"{megabytes:.1f} MB", f"wanted: {wanted}" if wanted else ""


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
