"""Forget history that is older than `RETENTION_DAYS`, a batch at a time, once a day."""

from datetime import timedelta
from typing import Any

from . import clock, heartbeats, tracked_urls
from .conf import conf
from .models import Delivery, Intent

DAILY = timedelta(days=1)
OFTEN = timedelta(minutes=1)
BATCH = 1_000


def prune() -> None:
    """Give up what was tried for too long, each minute; delete old history, daily."""
    if heartbeats.claim_turn("give_up", OFTEN):
        tracked_urls.give_up(clock.now())
    if heartbeats.claim_turn("prune", DAILY):
        before = clock.now() - conf.retention
        _delete(Intent.objects.filter(finished_at__lt=before))
        _delete(Delivery.objects.filter(started_at__lt=before))


def _delete(rows: Any) -> None:
    while ids := list(rows.values_list("pk", flat=True)[:BATCH]):
        rows.model.objects.filter(pk__in=ids).delete()
