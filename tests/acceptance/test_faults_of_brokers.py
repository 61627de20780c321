"""Redis comes and goes, and every go-live is announced exactly once."""

import socket
import time
from contextlib import closing
from typing import Any

import pytest

from tests.factories import publish
from tests.processes import eventually, throughout
from wagtail_indexnow.models import Heartbeat, Intent

pytestmark = pytest.mark.process


@pytest.mark.slow
def test_redis_is_flushed_every_half_second(stage: Any) -> None:
    pages = stage.drafts(3)
    stage.worker()
    stage.schedule(pages, seconds=3)
    stage.cron()

    throughout(8, lambda: stage.redis.call("FLUSHALL"))

    stage.told_all_once(pages)


def test_redis_is_down_at_commit_time_and_comes_back(stage: Any) -> None:
    pages = stage.drafts(2)
    stage.worker()
    stage.redis.kill()
    started = time.monotonic()
    stage.schedule(pages[:1], seconds=1)
    publish(pages[1])
    assert time.monotonic() - started < 2  # the editor knows nothing of Redis

    stage.cron()
    eventually(lambda: stage.are_live(pages))
    stage.redis.start()

    stage.told_all_once(pages)


@pytest.mark.slow
def test_redis_restarts_without_what_was_parked(stage: Any) -> None:
    pages = stage.drafts(3)
    stage.worker()
    stage.schedule(pages, seconds=4)
    eventually(lambda: stage.are_parked(3))

    stage.redis.kill()
    stage.redis.start()

    stage.cron()
    stage.told_all_once(pages)


def test_relay_survives_a_broker_that_listens_and_never_answers(stage: Any) -> None:
    [page] = stage.drafts()
    stage.redis.kill()
    with closing(socket.create_server(("127.0.0.1", stage.redis.port))):
        relay = stage.command("indexnow_relay")
        eventually(lambda: Heartbeat.objects.filter(name="relay").exists())
        started = time.monotonic()
        publish(page)
        assert time.monotonic() - started < 1
        eventually(
            lambda: Intent.objects.get(kind="publish").handed_at
        )  # in the middle of its send
        assert relay.is_running
    stage.redis.start()

    stage.worker()

    stage.told_all_once([page], timeout_s=60)
    assert relay.is_running


@pytest.mark.slow
def test_retries_of_the_site_are_not_held_up_by_far_schedules(stage: Any) -> None:
    """Past 1,000 parked messages a thread, Dramatiq submits no nearer one, and no retry."""
    from tests.acceptance.faults.tasks import flaky
    from tests.schedules import add_schedules

    add_schedules(3_000, within_s=850)
    add_schedules(20_000, within_s=365 * 86_400)
    stage.worker(threads=1)
    eventually(lambda: stage.are_parked(500))

    stage.send(flaky, "retried")
    eventually(lambda: stage.written("retried"), timeout_s=10)
    parked = Intent.objects.planned().filter(kind="go_live", handed_at__isnull=False)
    assert parked.count() == 500
