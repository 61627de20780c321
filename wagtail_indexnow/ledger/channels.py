"""Verbs on channels: their pace and their holds. Both are one time, `not_before`.

A channel is one host at one endpoint; the endpoint's own row has the host `""`. All workers
share the rows, and all times are the database's, so that nobody is faster alone.
"""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from .. import clock
from ..conf import conf
from ..constants import UrlState
from ..models import Channel, TrackedUrl
from .transactions import database, roll_back, writing

logger = logging.getLogger(__name__)

ENDPOINT = ""  # the host of the row that stands for the endpoint itself


@dataclass(frozen=True, kw_only=True)
class Slot:
    """Leave for one POST, and until when the two rows are ours alone."""

    endpoint: str
    host: str
    endpoint_until: datetime
    host_until: datetime


def ensure(endpoint: str, hosts: Iterable[str]) -> None:
    """Make the rows of an endpoint and of hosts there, if they are missing."""
    wanted = {ENDPOINT, *hosts}
    existing = Channel.objects.filter(endpoint=endpoint, host__in=wanted)
    missing = wanted - set(existing.values_list("host", flat=True))
    # In one order everywhere: two inserts of the same rows wait for each other, never in a ring.
    rows = [Channel(endpoint=endpoint, host=host) for host in sorted(missing)]
    is_told = database().features.supports_update_conflicts_with_target
    # An upsert that changes nothing: to ignore a conflict InnoDB takes a shared lock, and two
    # that hold one cannot both go on to lock the row.
    Channel.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["endpoint", "host"] if is_told else None,
        update_fields=["host"],
    )


def one_at_a_time(endpoints: Iterable[str]) -> None:
    """Let one transaction at a time change the URLs of an endpoint, where that is needed.

    InnoDB locks whatever an UPDATE scans, and scans a small table whole: two workers with
    different URLs could wait in a ring, whatever order they keep. Other databases lock the rows
    that match.
    """
    if database().vendor != "mysql":
        return
    for endpoint in sorted(set(endpoints)):
        row = Channel.objects.filter(endpoint=endpoint, host=ENDPOINT)
        row.select_for_update().values_list("pk", flat=True).first()


def is_open(endpoint: str, host: str, now: datetime) -> bool:
    """Say whether neither the endpoint nor the host there has to wait."""
    return not _rows(endpoint, (ENDPOINT, host)).filter(not_before__gt=now).exists()


def take_slot(endpoint: str, host: str) -> Slot | None:
    """Take leave for one POST: the endpoint's first, then the host's, or neither.

    :returns: `None` if one of them has to wait.
    """
    with writing():
        now = clock.now()
        slot = _next_slot(endpoint, host, now)
        # The condition is in the UPDATE: whoever waited for the lock sees the row as it is now.
        is_taken = _take(endpoint, ENDPOINT, now, slot.endpoint_until) and _take(
            endpoint, host, now, slot.host_until
        )
        if not is_taken:
            roll_back()
    return slot if is_taken else None


def confirm_slot(slot: Slot) -> bool:
    """Move a slot to this moment, right before its POST; say whether it is still ours.

    Claiming 10,000 URLs takes a moment. Counted from the start of that, the next POST could
    follow too closely; and an engine may have asked everybody to stop meanwhile.
    """
    fresh = _next_slot(slot.endpoint, slot.host, clock.now())
    with writing():
        is_ours = _move(slot, ENDPOINT, slot.endpoint_until, fresh.endpoint_until) and _move(
            slot, slot.host, slot.host_until, fresh.host_until
        )
        if not is_ours:
            roll_back()
    return is_ours


def standing(endpoint: str, host: str) -> tuple[str, int]:
    """Return the reason of a channel's pause, and how often in a row; host `""`: the endpoint."""
    row = _rows(endpoint, (host,)).first()
    return (row.pause_reason, row.strikes) if row else ("", 0)


def hold(
    endpoint: str, host: str, *, reason: str, until: datetime, started_at: datetime | None = None
) -> None:
    """Let nothing go to a channel before a time; an earlier hold is never shortened.

    :param host: `""` holds the whole endpoint.
    :param started_at: when the request began that brought the hold. If the same hold was opened
        after that, by another request under way, it is no further strike.
    """
    with writing():
        row = _rows(endpoint, (host,)).select_for_update().get()
        is_new = row.pause_reason != reason
        if is_new:
            row.pause_reason, row.paused_at, row.strikes = reason, clock.now(), 1
        elif not _is_opened_since(row, started_at):
            row.strikes += 1
        row.not_before = max(row.not_before or until, until)
        row.save(update_fields=["pause_reason", "paused_at", "strikes", "not_before"])
    log = logger.error if is_new else logger.info
    log("hold endpoint=%s host=%s reason=%s until=%s", endpoint, host or "*", reason, until)


def postpone(endpoint: str, host: str, *, until: datetime) -> None:
    """Let nothing go to a channel before a time, without a pause: nothing is wrong."""
    early = Q(not_before=None) | Q(not_before__lt=until)
    _rows(endpoint, (host,)).filter(early).update(not_before=until)


def is_known(endpoint: str, host: str) -> bool:
    """Return whether anything was ever to be submitted there."""
    return (
        _rows(endpoint, (host,)).exists()
        or TrackedUrl.objects.filter(endpoint=endpoint, host=host).exists()
    )


def clear(
    endpoint: str,
    host: str,
    *,
    before: datetime,
    reasons: Collection[str] | None = None,
) -> None:
    """Forget the hold, and its strikes, of a channel that works again.

    `not_before` stays: only a person lowers it.

    :param before: a hold opened later than this stays; it is news to whoever works here.
    :param reasons: clear these only.
    """
    rows = _rows(endpoint, (host,)).exclude(pause_reason="")
    if reasons is not None:
        rows = rows.filter(pause_reason__in=reasons)
    cleared = rows.filter(Q(paused_at=None) | Q(paused_at__lte=before)).update(
        pause_reason="", paused_at=None, strikes=0
    )
    if cleared:
        logger.info("hold ended endpoint=%s host=%s", endpoint, host or "*")


def release(endpoint: str, host: str = ENDPOINT) -> None:
    """End a hold at once: a person's decision. URLs that waited for it are due now.

    :param host: `""` releases the endpoint; holds of single hosts there stay.
    """
    now = clock.now()
    row = _rows(endpoint, (host,)).first()
    if row is None:
        return
    reason = row.pause_reason
    _rows(endpoint, (host,)).update(not_before=now, pause_reason="", paused_at=None, strikes=0)
    waiting = TrackedUrl.objects.filter(
        endpoint=endpoint, state=UrlState.PENDING, reason=reason, not_before__gt=now
    ).filter(Q(sent_at=None) | Q(sent_at__lte=now - conf.resubmit_after))
    if host != ENDPOINT:
        waiting = waiting.filter(host=host)
    if reason:
        waiting.update(not_before=now)
    logger.warning("hold released endpoint=%s host=%s", endpoint, host or "*")


def verified(endpoint: str, host: str) -> None:
    """Remember that an engine accepted the key of a host."""
    _rows(endpoint, (host,)).update(verified_at=clock.now())


def handed_back(endpoint: str, host: str) -> None:
    """Let the relay hand a channel over again."""
    _rows(endpoint, (host,)).update(handed_at=None)


def _rows(endpoint: str, hosts: Collection[str]) -> QuerySet[Channel]:
    return Channel.objects.filter(endpoint=endpoint, host__in=hosts)


def _next_slot(endpoint: str, host: str, now: datetime) -> Slot:
    return Slot(
        endpoint=endpoint,
        host=host,
        endpoint_until=now + timedelta(minutes=1) / conf.rate_limit,
        host_until=now + conf.host_interval,
    )


def _take(endpoint: str, host: str, now: datetime, until: datetime) -> bool:
    free = Q(not_before=None) | Q(not_before__lte=now)
    return _rows(endpoint, (host,)).filter(free).update(not_before=until) == 1


def _move(slot: Slot, host: str, taken_until: datetime, until: datetime) -> bool:
    untouched = _rows(slot.endpoint, (host,)).filter(not_before=taken_until)
    return untouched.update(not_before=until) == 1


def _is_opened_since(row: Channel, started_at: datetime | None) -> bool:
    opened_at = row.paused_at
    return started_at is not None and opened_at is not None and opened_at >= started_at
