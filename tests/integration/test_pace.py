"""The pace that engines see, with several workers at once."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import dramatiq
import pytest
from django.utils import timezone
from dramatiq.brokers.stub import StubBroker
from dramatiq.worker import Worker

from example_site.engine import Engine
from tests.waiting import wait_until
from wagtail_indexnow.constants import Change
from wagtail_indexnow.ledger import tracked_urls
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import TrackedUrl
from wagtail_indexnow.relay import worker_thread
from wagtail_indexnow.relay.senders import DramatiqCourier

pytestmark = pytest.mark.django_db(transaction=True)
HOSTS = [f"site-{number}.example.com" for number in range(5)]


@pytest.fixture
def workers() -> Iterator[StubBroker]:
    """Four worker threads of the site's own broker."""
    broker: Any = dramatiq.get_broker()
    broker.flush_all()
    worker = Worker(broker, worker_timeout=100, worker_threads=4)
    worker.start()
    yield broker
    worker.stop()
    broker.flush_all()


def test_c60_four_workers_keep_the_endpoints_pace_over_five_hosts(
    indexnow: Any, engine: Engine, workers: StubBroker
) -> None:
    indexnow.configure(RATE_LIMIT=60, HOST_INTERVAL=0)
    marks = [
        Marked(url=f"https://{host}/", host=host, change=Change.ADDED, page_id=None)
        for host in HOSTS
    ]
    tracked_urls.mark(marks, now=timezone.now())
    courier = DramatiqCourier()

    def everything_was_sent() -> bool:
        worker_thread.tick_and_log_faults(courier)
        return len(engine.submissions) == len(HOSTS)

    wait_until(everything_was_sent, seconds=60)

    times = sorted(record.monotonic for record in engine.submissions)
    # A slot may be taken half a slot late without moving the next one.
    assert all(later - earlier >= 0.4 for earlier, later in pairwise(times)), times
    assert times[-1] - times[0] >= len(HOSTS) - 1 - 0.6, times
    assert sorted(record.parsed["host"] for record in engine.submissions) == HOSTS
    assert set(TrackedUrl.objects.values_list("state", flat=True)) == {"accepted"}
