"""Many processes keep one pace, however wrong the clocks of some are."""

import os
from collections import Counter
from itertools import combinations
from typing import Any

import pytest

from tests.processes import eventually
from wagtail_indexnow import clock
from wagtail_indexnow.constants import Change
from wagtail_indexnow.ledger import tracked_urls
from wagtail_indexnow.ledger.tracked_urls import Marked

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    # SQLite has no server whose clock could rule.
    pytest.mark.skipif(os.environ.get("DATABASE") != "postgres", reason="needs PostgreSQL"),
    pytest.mark.timeout(180),
]

POSTS = 20
RATE_LIMIT = 60  # a minute: one a second
EVERY_S = 60 / RATE_LIMIT
#: From leave to arrival: the time of connecting differs, and a slot may be half a slot late.
CONNECTION_S = 1.0 + EVERY_S / 2
CLOCKS_AHEAD_S = (0, 90, 0, 90)


def test_c60_four_workers_two_of_them_90_s_ahead_keep_the_pace(stage: Any) -> None:
    stage.indexnow |= {"RATE_LIMIT": RATE_LIMIT, "RELAY_INTERVAL": 0.1}
    stage.environment["PROCESS_URLS_PER_POST"] = "1"
    workers = [start_worker(stage, ahead_s) for ahead_s in CLOCKS_AHEAD_S]
    eventually(
        lambda: all("ready for action" in worker.output() for worker in workers), timeout_s=90
    )

    tracked_urls.mark(marks(), now=clock.now())
    eventually(lambda: len(stage.engine.requests) >= POSTS, timeout_s=60)

    arrivals = sorted(record.monotonic for record in stage.engine.requests)
    # Between any two POSTs lie as many seconds as POSTs, in windows of every length.
    for (first, started), (last, ended) in combinations(enumerate(arrivals), 2):
        assert ended - started >= (last - first) * EVERY_S - CONNECTION_S, (first, last)
    # Nor is a worker left out because of its clock.
    told_by = Counter[int]()
    for ahead_s, worker in zip(CLOCKS_AHEAD_S, workers, strict=True):
        told_by[ahead_s] += worker.output().count("state=accepted")
    assert min(told_by.values()) >= 3, told_by
    assert len(stage.engine.urls()) == len(set(stage.engine.urls()))


def start_worker(stage: Any, ahead_s: int) -> Any:
    stage.environment["PROCESS_CLOCK_AHEAD_S"] = str(ahead_s)
    return stage.start_worker(threads=1)


def marks() -> list[Marked]:
    """Return one URL for each POST, over several hosts."""
    # As removed: there are no pages behind these URLs, and a re-check would withdraw the rest.
    return [
        Marked(url=f"https://{host}/{number}/", host=host, change=Change.REMOVED, page_id=None)
        for number in range(POSTS)
        for host in [f"h{number % 5}.example.com"]
    ]
