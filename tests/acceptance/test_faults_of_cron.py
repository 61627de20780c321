"""`publish_scheduled` runs late, twice at once, or dies: every go-live is announced once."""

from typing import Any

import pytest

from tests.factories import publish
from tests.processes import eventually
from wagtail_indexnow.models import Intent

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_publish_scheduled_runs_late(stage: Any) -> None:
    pages = stage.drafts(3)
    stage.worker()
    stage.schedule(pages, seconds=1)
    eventually(lambda: Intent.objects.filter(reason="not_published_yet").count() == 3)
    assert not stage.engine.requests

    assert stage.command("publish_scheduled").wait() == 0

    stage.told_all_once(pages)


def test_publish_scheduled_runs_twice_at_once(stage: Any) -> None:
    stage.indexnow["SETTLE_SECONDS"] = 1  # as on a real site: both have published by then
    pages = stage.drafts(5)
    stage.worker()
    stage.schedule(pages, seconds=3)

    crons = [stage.cron(every_s=0.05), stage.cron(every_s=0.05)]

    stage.told_all_once(pages)
    assert all(cron.is_running for cron in crons)


def test_w08_publish_scheduled_dies_before_one_page_is_live(stage: Any) -> None:
    """Wagtail has cleared its approval by then, and never publishes it: the editor must."""
    pages = stage.drafts(3)
    stage.worker()
    dies = stage.directory / "dies-before"
    dies.write_text(pages[1].slug)
    stage.schedule(pages, seconds=2)
    cron = stage.cron()
    eventually(lambda: Intent.objects.filter(reason="schedule_cancelled", state="skipped"))
    assert "cannot be published" in cron.output()
    eventually(lambda: len(stage.engine.urls()) == 2)

    dies.unlink()
    publish(pages[1], go_live_at=None)

    stage.told_all_once(pages, endings={("skipped", "schedule_cancelled"): 1})


def test_publish_scheduled_dies_when_one_page_is_just_live(stage: Any) -> None:
    """Nobody tells us of that page any more: its message finds it."""
    pages = stage.drafts(3)
    stage.worker()
    (stage.directory / "dies-after").write_text(pages[1].slug)
    stage.schedule(pages, seconds=2)

    cron = stage.cron()

    stage.told_all_once(pages)
    assert "cannot be published" in cron.output()


def test_inline_relay_beside_cron_needs_no_worker_and_no_broker(stage: Any) -> None:
    pages = stage.drafts(3)
    stage.redis.kill()
    stage.schedule(pages, seconds=3)
    stage.cron()

    # Two of them at once, as from two machines.
    relays = [stage.command("indexnow_relay", "--inline") for _ in range(2)]

    stage.told_all_once(pages)
    assert [relay.wait() for relay in relays] == [0, 0]
