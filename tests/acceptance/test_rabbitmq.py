"""RabbitMQ, classic and quorum queues, with a consumer time-out of a minute."""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from django.utils import timezone

from tests.processes import eventually

RABBITMQ_URL = os.environ.get("RABBITMQ_URL", "")

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not RABBITMQ_URL, reason="needs RABBITMQ_URL"),
]


@pytest.fixture(params=["ClassicBroker", "QuorumBroker"])
def queue(request: Any, stage: Any) -> Iterator[str]:
    """Put the stage on RabbitMQ, with queues of the test's own."""
    pika = pytest.importorskip("pika")
    name = f"indexnow-test-{uuid.uuid4()}"
    stage.redis.kill()
    stage.indexnow["QUEUE"] = name
    stage.environment |= {
        "PROCESS_BROKER": f"tests.acceptance.rabbitmq.{request.param}",
        "PROCESS_BROKER_OPTIONS": json.dumps({"url": RABBITMQ_URL}),
    }
    yield name
    stage.stop()
    connection = pika.BlockingConnection(pika.URLParameters(RABBITMQ_URL))
    for queue in (name, f"{name}.DQ", f"{name}.XQ"):
        connection.channel().queue_delete(queue)
    connection.close()


def waiting(queue: str) -> int:
    """Return how many messages no worker holds."""
    import pika

    with closing(pika.BlockingConnection(pika.URLParameters(RABBITMQ_URL))) as connection:
        declared = connection.channel().queue_declare(queue, passive=True)
        count: int = declared.method.message_count
        return count


def dead_letters(queue: str) -> int:
    return waiting(f"{queue}.XQ")


def test_go_lives_are_told_and_nothing_is_dead_lettered(stage: Any, queue: str) -> None:
    stage.indexnow["SCHEDULE_HORIZON"] = 30
    pages = stage.drafts(3)
    stage.worker(queue=queue)
    stage.schedule(pages, seconds=5)
    eventually(lambda: stage.are_parked(3))

    stage.cron()

    stage.told_all_once(pages)
    assert dead_letters(queue) == 0


@pytest.mark.slow
def test_relay_makes_up_for_messages_that_were_accepted_too_often(
    stage: Any, queue: str, request: pytest.FixtureRequest
) -> None:
    """Each worker that is killed counts as a submission; a quorum queue then gives up."""
    pages = stage.drafts(3)
    workers = [stage.worker(queue=queue)]
    due_at = stage.schedule(pages, seconds=60)
    eventually(lambda: stage.are_parked(3))
    for _death in range(3):
        eventually(lambda: waiting(f"{queue}.DQ") == 0)  # the worker holds them
        workers[-1].kill()
        workers.append(stage.worker(queue=queue))
    is_quorum = "Quorum" in request.node.name
    if is_quorum:
        eventually(lambda: dead_letters(queue) == 3)
    assert timezone.now() < due_at

    stage.cron()

    stage.told_all_once(pages, timeout_s=70)


@pytest.mark.slow
def test_consumer_time_out_while_messages_are_parked(stage: Any, queue: str) -> None:
    pages = stage.drafts(3)
    stage.worker(queue=queue)
    stage.schedule(pages, seconds=200)
    eventually(lambda: stage.are_parked(3))

    stage.cron(every_s=1)

    eventually(lambda: stage.are_live(pages), timeout_s=240, every_s=0.5)
    stage.told_all_once(pages, timeout_s=20)


@pytest.mark.slow
def test_a_horizon_shorter_than_the_time_out_keeps_everything_alive(stage: Any, queue: str) -> None:
    stage.indexnow["SCHEDULE_HORIZON"] = 30
    pages = stage.drafts(3)
    stage.worker(queue=queue)
    stage.schedule(pages, seconds=100)

    stage.cron(every_s=1)

    stage.told_all_once(pages, timeout_s=150)
    assert dead_letters(queue) == 0
