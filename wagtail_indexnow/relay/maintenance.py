"""Forget history that is older than `RETENTION_DAYS`, and give up what was tried for too long."""

from typing import Any

from .. import clock
from ..conf import conf
from ..ledger import tracked_urls
from ..ledger.transactions import writing
from ..models import Intent, Submission, TrackedUrl

BATCH = 1_000
BATCHES = 5  # at a time: the relay's thread has more urgent things to do


def give_up() -> bool:
    """End URLs that were tried for longer than `GIVE_UP_AFTER`; nothing is ever left over."""
    tracked_urls.give_up(clock.now())
    return False


def prune() -> bool:
    """Delete some of the old history; say whether there is more."""
    before = clock.now() - conf.retention
    return any(
        [
            _delete(Intent.objects.filter(finished_at__lt=before, run_at=None), named_by="intent"),
            _delete(Submission.objects.filter(started_at__lt=before), named_by="submission"),
        ]
    )


def _delete(rows: Any, *, named_by: str) -> bool:
    for _batch in range(BATCHES):
        ids = list(rows.values_list("pk", flat=True)[:BATCH])
        if ids:
            with writing():
                # Their URLs stay and forget them: locked in turn, as whoever marks them does.
                tracked_urls.lock_all(TrackedUrl.objects.filter(**{f"{named_by}__in": ids}))
                rows.model.objects.filter(pk__in=ids).delete()
        if len(ids) < BATCH:
            return False
    return True
