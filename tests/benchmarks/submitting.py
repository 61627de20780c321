"""The way to the engine: how much fits through it, and how long it takes."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.utils import timezone
from wagtail.models import Page

from tests.acceptance.stage import Stage
from tests.benchmarks.measuring import HOST, Row, cpu_s, forget, median_and_max, site, took_ms
from tests.factories import make_page, make_site
from tests.processes import eventually
from wagtail_indexnow.constants import Change, UrlState
from wagtail_indexnow.ledger import tracked_urls
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import Submission, TrackedUrl
from wagtail_indexnow.submission.submitting import submit_channel as submit


def submitting(stage: Stage, count: int = 100_000) -> Iterator[Row]:
    """Mark, then claim, post and record many URLs of one host, in one process."""
    marks = [
        # As removed: no page of this benchmark exists, and a re-check would withdraw the rest.
        Marked(url=f"https://{HOST}/en/{number}/", host=HOST, change=Change.REMOVED, page_id=number)
        for number in range(count)
    ]
    forget()
    # The pace is not what is measured.
    with _engine() as endpoint, site(stage, ENDPOINTS={"local": endpoint}, RATE_LIMIT=1_000_000):
        mark = _rate(count, lambda: tracked_urls.mark(marks, now=timezone.now()))
        tell = _rate(count, _submit_all)
    assert TrackedUrl.objects.filter(state=UrlState.ACCEPTED).count() == count
    posts = Submission.objects.filter(status=200).count()
    yield f"mark {count:,} URLs as changed", *mark
    yield f"claim, post, record {count:,} URLs", tell[0], f"{posts} POSTs; {tell[1]}"


def latency(stage: Stage, count: int = 10) -> Iterator[Row]:
    """From a go-live to the POST, with the settings that a site begins with."""
    forget()
    stage.engine.reset()
    home = make_site("latency.example.com").root_page
    pages = [make_page(home, f"latency-{number}") for number in range(count)]
    with site(stage, SETTLE_SECONDS=5, RELAY_INTERVAL=2):
        worker = stage.worker(threads=8)
        cron = stage.cron(every_s=0.2)
        due = {
            page.pk: stage.schedule([page], seconds=4 + 1.3 * number)
            for number, page in enumerate(pages)
        }
        urls = {page.pk: f"https://latency.example.com/en/{page.slug}/" for page in pages}
        eventually(lambda: set(stage.engine.urls()) >= set(urls.values()), timeout_s=90)
        worker.kill()
        cron.kill()
    told = {url: record.at for record in stage.engine.submissions for url in record.urls}
    stage.engine.reset()
    since_due, since_publish = [], []
    for page in Page.objects.filter(pk__in=due):
        since_due.append(told[urls[page.pk]] - due[page.pk].timestamp())
        since_publish.append(told[urls[page.pk]] - page.last_published_at.timestamp())
    remark = "median / max; SETTLE_SECONDS 5, RELAY_INTERVAL 2"
    yield "publish_scheduled → POST", median_and_max(since_publish), remark
    yield "go-live time → POST", median_and_max(since_due), "with publish_scheduled in a loop"


def _submit_all() -> None:
    while submit("local", HOST) == UrlState.ACCEPTED:
        pass


def _rate(count: int, work: Callable[[], object]) -> tuple[str, str]:
    before = cpu_s()
    seconds = took_ms(work) / 1_000
    worker_s, database_s = (after - was for after, was in zip(cpu_s(), before, strict=True))
    cpu = f"CPU: worker {worker_s:.1f} s" + (f", database {database_s:.1f} s" * bool(database_s))
    return f"{count / seconds:,.0f} URLs/s", cpu


@contextmanager
def _engine() -> Iterator[str]:
    """Run an engine in a process of its own, whose work is not the worker's; yield its endpoint."""
    command = [sys.executable, "-m", "example_site.engine", "--port", "0", "--no-key-check"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = process.stdout.readline()
            found = re.search(r"POST to (\S+)", said)
            assert found, said
            yield found[1]
        finally:
            process.terminate()
