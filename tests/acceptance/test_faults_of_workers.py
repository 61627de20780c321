"""Workers come and go, and every go-live is announced exactly once."""

from typing import Any

import pytest
from django.utils import timezone

from example_site.engine import Answer
from tests.processes import eventually
from wagtail_indexnow.models import Intent

pytestmark = pytest.mark.process


def test_healthy_worker_runs_a_message_within_two_seconds_of_its_time(stage: Any) -> None:
    [page] = stage.drafts()
    stage.worker()
    due_at = stage.schedule([page], seconds=3)
    eventually(stage.are_parked)

    # `publish_scheduled` does not run yet: the message finds that, and notes it.
    eventually(lambda: Intent.objects.get(kind="go_live").waits)
    assert 0 <= (timezone.now() - due_at).total_seconds() < 2

    stage.cron()
    stage.told_all_once([page])


@pytest.mark.slow
def test_sigterm_while_messages_are_parked(stage: Any) -> None:
    pages = stage.drafts(3)
    worker = stage.worker()
    stage.schedule(pages, seconds=4)
    eventually(lambda: stage.are_parked(3))

    worker.terminate()
    stage.worker()

    stage.cron()
    stage.told_all_once(pages)


def test_sigkill_while_messages_are_parked(stage: Any) -> None:
    pages = stage.drafts(3)
    worker = stage.worker()
    stage.schedule(pages, seconds=4)
    eventually(lambda: stage.are_parked(3))

    worker.kill()
    stage.worker()

    stage.cron()
    stage.told_all_once(pages)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_worker_ends_while_it_announces(stage: Any, end: str) -> None:
    [page] = stage.drafts()
    worker = stage.worker()
    with stage.held():
        stage.schedule([page], seconds=2)
        stage.cron()
        eventually(stage.is_held)
        if end == "kill":
            worker.kill()
    if end == "terminate":
        worker.terminate()

    stage.worker()
    stage.told_all_once([page])


@pytest.mark.slow
@pytest.mark.parametrize(("end", "doubles"), [("terminate", 0), ("kill", 1)])
def test_worker_ends_between_post_and_commit(stage: Any, end: str, doubles: int) -> None:
    [page] = stage.drafts()
    stage.engine.answer(Answer(delay_s=2, apply=True))
    worker = stage.worker()
    stage.schedule([page], seconds=2)
    stage.cron()
    eventually(lambda: stage.engine.requests)

    getattr(worker, end)()
    stage.worker()

    # The engine took it, and nobody could know: the one double that is allowed.
    eventually(lambda: len(stage.engine.submissions) == 1 + doubles)
    stage.told_all_once([page], doubles=doubles)


@pytest.mark.slow
def test_no_worker_over_the_due_time(stage: Any) -> None:
    pages = stage.drafts(3)
    stage.schedule(pages, seconds=1)
    cron = stage.cron()
    eventually(lambda: stage.are_live(pages))
    cron.kill()

    stage.worker()

    stage.told_all_once(pages)


@pytest.mark.slow
def test_two_workers_and_two_relays(stage: Any) -> None:
    pages = stage.drafts(20)
    stage.start_worker()
    stage.worker()
    relays = [stage.command("indexnow_relay"), stage.command("indexnow_relay")]
    stage.schedule(pages, seconds=8)

    stage.cron()

    stage.told_all_once(pages)
    for relay in relays:
        relay.terminate()
        assert relay.wait() == 0
