"""Everything fails at random, and in the end every URL is told once.

The one double that is allowed: the engine took a POST and we never learnt it. Either a worker
was killed between answer and commit, or the answer itself was lost on the way.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from example_site.engine import Answer
from tests.processes import Process, eventually, throughout
from wagtail_indexnow import clock
from wagtail_indexnow.constants import Change, Reason, SubmissionState, UrlState
from wagtail_indexnow.ledger import channels, tracked_urls
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import Submission, TrackedUrl

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("DATABASE") not in ("postgres", "mariadb"), reason="needs a server"
    ),
    pytest.mark.timeout(300),  # 90 s on a busy machine with two cores
]

SEED = 20_261_201
URLS = 5_000
WAVES = 5  # one kill each
HOSTS = tuple(f"{letter}.example.com" for letter in "abcdef")
TIMEOUT_S = 1
TOO_LATE_S = 1.5


def test_every_url_is_told_once_whatever_fails(stage: Any) -> None:
    chance = random.Random(SEED)
    stage.indexnow["TIMEOUT"] = TIMEOUT_S
    stage.environment |= {"PROCESS_URLS_PER_POST": "50"}
    answers = list(script(chance, 1_000))
    stage.engine.answer(*answers)

    workers = run_and_kill(stage, chance)
    kills = WAVES

    eventually(stage.is_at_rest, timeout_s=120)
    told = Counter(stage.engine.urls())
    assert set(told) == set(all_urls())
    assert TrackedUrl.objects.filter(state=UrlState.ACCEPTED).count() == URLS
    assert not Submission.objects.filter(finished_at=None).exists()
    # What we know as told was told then and never again.
    assert Counter(urls_of(state=SubmissionState.ACCEPTED)) == Counter(all_urls())
    no_channel_had_two_posts_at_once()
    assert channels.compare() == 0
    assert "eadlock" not in "".join(worker.output() for worker in workers)
    # Whatever came twice was in a POST whose answer we never had.
    killed = list(Submission.objects.filter(**LOST_BY_KILL))
    unanswered = Counter(urls_of(reason=Reason.NO_RESPONSE))
    doubles = {url: count - 1 for url, count in told.items() if count > 1}
    assert all(count <= unanswered[url] for url, count in doubles.items())
    # A worker has one thread here: a kill costs one POST at most.
    assert len(killed) <= kills
    lost_on_the_way = Counter(urls_of(reason=Reason.NO_RESPONSE, exclude=LOST_BY_KILL))
    by_kill = {url for url, count in doubles.items() if count > lost_on_the_way[url]}
    assert by_kill <= {url for submission in killed for url in urls_in(submission.urls)}

    outcomes = Counter(Submission.objects.values_list("reason", flat=True))
    assert {Reason.RATE_LIMITED, Reason.SERVER_ERROR, Reason.NO_RESPONSE} <= set(outcomes)
    print(  # noqa: T201 - for whoever runs it with -rP
        f"{len(stage.engine.requests)} POSTs {dict(outcomes)}, {kills} kills;"
        f" POSTs lost by them: {len(killed)}; URLs told twice by them: {len(by_kill)},"
        f" by lost answers: {len(doubles.keys() - by_kill)}"
    )


LOST_BY_KILL = {"reason": Reason.NO_RESPONSE, "error_code__startswith": "lost"}


def script(chance: random.Random, count: int) -> Iterator[Answer]:
    """Yield answers of every kind. A moment's delay lets kills fall into the exchange."""
    kinds: list[tuple[int, dict[str, Any]]] = [
        (45, {"status": 200}),
        (12, {"status": 202}),
        (4, {"status": 429, "headers": {"Retry-After": "1"}}),
        (12, {"status": 503}),
        (4, {"status": 503, "delay_s": TOO_LATE_S}),
        (4, {"status": 200, "delay_s": TOO_LATE_S}),  # taken, though we cannot know
        (10, {"drop": True}),
        (9, {"drop": True, "apply": True}),  # likewise
    ]
    weights = [weight for weight, _fields in kinds]
    for _weight, fields in chance.choices(kinds, weights, k=count):
        yield Answer(**{"delay_s": chance.uniform(0, 0.5), **fields})


def run_and_kill(stage: Any, chance: random.Random) -> list[Process]:
    """Mark URLs in waves, and kill one of two workers in the middle of each; return all."""
    workers = [stage.start_worker(threads=1), stage.start_worker(threads=1)]
    dead = []
    for wave in range(WAVES):
        eventually(lambda: all(map(is_ready, workers)), timeout_s=60)
        tracked_urls.mark(marks(wave), now=clock.now())
        throughout(chance.uniform(0.5, 3), stage.is_at_rest, every_s=0.1)
        victim = chance.randrange(len(workers))
        workers[victim].kill()
        dead.append(workers[victim])
        workers[victim] = stage.start_worker(threads=1)
    return [*dead, *workers]


def no_channel_had_two_posts_at_once() -> None:
    """Compare the times by the database's clock; a POST of a killed worker ends with its lease."""
    for host in HOSTS:
        spans = Submission.objects.filter(host=host).order_by("started_at")
        times = list(spans.values_list("started_at", "finished_at"))
        assert all(ended <= began for (_, ended), (began, _) in pairwise(times)), host


def is_ready(worker: Process) -> bool:
    return "ready for action" in worker.output()


def all_urls() -> list[str]:
    return [marked.url for wave in range(WAVES) for marked in marks(wave)]


def marks(wave: int) -> list[Marked]:
    numbers = range(wave, URLS, WAVES)
    return [
        Marked(url=f"https://{host}/{number}/", host=host, change=Change.ADDED, page_id=None)
        for number in numbers
        for host in [HOSTS[number % len(HOSTS)]]
    ]


def urls_of(*, exclude: dict[str, Any] | None = None, **conditions: Any) -> Iterator[str]:
    """Yield the URLs of submissions, once for each submission that they were in."""
    submissions = Submission.objects.filter(**conditions)
    if exclude:
        submissions = submissions.exclude(**exclude)
    for urls in submissions.values_list("urls", flat=True):
        yield from urls_in(urls)


def urls_in(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["url"] for entry in entries]
