"""The database goes away for ten seconds, and every go-live is announced exactly once."""

import os
from typing import Any

import pytest

from tests.acceptance.proxies import Proxy
from tests.processes import eventually, throughout

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("DATABASE") != "postgres", reason="needs PostgreSQL"),
]


def test_database_is_away_for_ten_seconds_over_the_due_time(stage: Any) -> None:
    pages = stage.drafts(3)
    with Proxy(stage.database_address) as proxy:
        stage.environment |= {"PGHOST": "127.0.0.1", "PGPORT": str(proxy.port)}
        worker, relay = stage.worker(), stage.command("indexnow_relay")
        stage.schedule(pages, seconds=4)
        eventually(lambda: stage.are_parked(3))

        with proxy.away():
            assert not stage.engine.requests
            throughout(10, lambda: worker.is_running and relay.is_running)

        stage.cron()
        stage.told_all_once(pages)
        assert worker.is_running
        assert relay.is_running
        assert "resumed" in relay.output()


def test_connections_that_the_server_ends_are_replaced(stage: Any) -> None:
    pages = stage.drafts(3)
    stage.worker()
    stage.schedule(pages, seconds=3)

    throughout(6, stage.end_other_connections, every_s=1)

    stage.cron()  # not before: Wagtail itself would lose a publish in the middle
    stage.told_all_once(pages)
