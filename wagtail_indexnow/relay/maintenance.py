"""Delete old history, give up what was tried for too long, and repair what differs."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import F, QuerySet, Value

from .. import clock
from ..conf import conf
from ..ledger import channels, tracked_urls
from ..ledger.transactions import writing
from ..models import Intent, Submission
from ..visits import recording

BATCH = 1_000
BATCHES = 5  # at a time: the relay's thread has more urgent things to do
BATCH_URLS = 20_000  # in the submissions of one transaction: each may hold 10,000


def give_up() -> bool:
    """End URLs that were tried for longer than `GIVE_UP_AFTER`; nothing is ever left over."""
    tracked_urls.give_up(clock.now())
    return False


def compare() -> bool:
    """Repair what the rows of channels say of their URLs; nothing is ever left over."""
    channels.compare()
    return False


def prune() -> bool:
    """Delete some of the old history; return whether there is more."""
    before = clock.now() - conf.retention
    return any(
        [
            _delete(Intent.objects.filter(finished_at__lt=before, run_at=None), Value(1)),
            _delete(Submission.objects.filter(started_at__lt=before), F("url_count")),
            recording.prune(before),
        ]
    )


def _delete(rows: QuerySet[Any], weight: Any) -> bool:
    """Delete a few batches of old rows, and return whether there is more.

    Nothing names them by a constraint: tracked URLs keep the number of what is gone.
    """
    for _batch in range(BATCHES):
        found = list(rows.annotate(weight=weight).values_list("pk", "weight")[:BATCH])
        pks = list(_bounded(found))
        with writing():
            rows.model._default_manager.filter(pk__in=pks).delete()
        if len(pks) == len(found) < BATCH:
            return False
    return True


def _bounded(found: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield primary keys until their weight is that of one transaction, but at least one."""
    total = 0
    for pk, weight in found:
        if total and total + weight > BATCH_URLS:
            return
        total += weight
        yield pk
