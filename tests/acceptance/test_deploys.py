"""Old and new workers share a queue for a while: nothing is lost, nothing is told twice."""

from typing import Any

import pytest

from tests.factories import publish
from tests.processes import eventually
from wagtail_indexnow.models import Intent

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_old_worker_leaves_a_newer_message_to_a_new_one(stage: Any) -> None:
    [page] = stage.drafts()
    publish(page)
    intent = Intent.objects.get(kind="publish")
    newer = {"v": 2, "batch": {"intents": [intent.key]}, "meta": {}}
    stage.indexnow["RELAY_INTERVAL"] = 0  # the old worker's relay is not at work
    old = stage.worker()

    stage.send_announcement(newer)

    eventually(lambda: "unknown payload version 2" in old.output())
    intent.refresh_from_db()
    assert intent.state == "planned"
    assert stage.queue_is_empty()  # acknowledged: neither retried nor dead
    stage.indexnow["RELAY_INTERVAL"] = 0.3
    old.terminate()
    stage.worker()
    stage.told_all_once([page])
