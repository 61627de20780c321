"""Verbs on channels: their pace, their pauses, and when each is next to be taken.

A channel is one host at one endpoint; the endpoint's own row has the host `""`. All workers
share the rows, and all times are the database's, so that no worker is faster than another.

Locks are taken in one order everywhere: the endpoint's row, tracked URLs by primary key, channels
by primary key, a submission. Nothing waits for an earlier one while it holds a later one.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from django.db.models import OuterRef, Subquery

from .. import clock
from ..conf import conf
from ..models import Channel, TrackedUrl
from .transactions import database, insert_missing, writing

logger = logging.getLogger(__name__)

ENDPOINT = ""  # the host of the row that stands for the endpoint itself
FRONT_END = ""  # the endpoint of the rows that stand for a host's own front end
COMPARE_CHUNK = 500


def slot() -> timedelta:
    """Return how far apart the POSTs to one endpoint are."""
    return timedelta(minutes=1) / conf.rate_limit


def ensure(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the primary key of each (endpoint, host), made on first need, without a lock."""
    wanted = set(pairs)
    found = _keys_of(wanted)
    missing = sorted(wanted - found.keys())
    if not missing:
        return found
    insert_missing([Channel(endpoint=endpoint, host=host) for endpoint, host in missing], "host")
    return _keys_of(wanted)


def are_missing(pairs: Collection[tuple[str, str]]) -> bool:
    """Return whether one of some channels is not there yet."""
    return len(_keys_of(pairs)) < len(pairs)


def serialise_on_mysql() -> bool:
    """Let one transaction at a time insert new rows, where an insert locks those that it meets.

    In the order in which it meets them, and with the gaps beside them: two that insert the same
    URLs would wait in a ring with one that locks them by primary key. Other databases lock nothing
    on a conflict. The row is of no host and no endpoint: nobody takes a slot from it.

    :returns: whether it may have had to wait for others.
    """
    if database().vendor != "mysql":
        return False
    if lock_one(FRONT_END, ENDPOINT) is None:
        insert_missing([Channel(endpoint=FRONT_END, host=ENDPOINT)], "host")
        lock_one(FRONT_END, ENDPOINT)
    return True


def home_of(endpoint: str, host: str, *, is_verified: bool) -> tuple[str, str]:
    """Return the channel in which a URL waits: its endpoint's, or first the host's front end."""
    return (endpoint if is_verified else FRONT_END, host)


def get(endpoint: str, host: str) -> Channel | None:
    """Return a channel as it is now, without a lock."""
    return Channel.objects.filter(endpoint=endpoint, host=host).first()


def lock(pks: Collection[int]) -> list[Channel]:
    """Lock channels in the order of their primary keys, and return them as they are then."""
    rows = Channel.objects.filter(pk__in=sorted(pks))
    return list(rows.order_by("pk").select_for_update())


def lock_one(endpoint: str, host: str) -> Channel | None:
    """Lock the channel of a host, or with host `""` the row of the endpoint itself."""
    rows = Channel.objects.filter(endpoint=endpoint, host=host)
    return rows.select_for_update().first()


def recompute(rows: Sequence[Channel]) -> None:
    """Write when each of some locked channels is next to be taken.

    Last in its transaction, and with a statement of its own: one that waited for the locks would
    still see the URLs as they were before it waited.
    """
    first = TrackedUrl.objects.waiting().filter(channel=OuterRef("pk")).order_by("not_before")
    waiting = Channel.objects.filter(pk__in=[row.pk for row in rows])
    due = dict(waiting.values_list("pk", Subquery(first.values("not_before")[:1])))
    for row in rows:
        ready_at = _ready_at(row, due.get(row.pk))
        if ready_at != row.ready_at:
            row.ready_at = ready_at
            row.save(update_fields=["ready_at"])


def refresh(pk: int) -> None:
    """Recompute one channel in a transaction of its own."""
    with writing():
        recompute(lock([pk]))


def pause(
    row: Channel, *, reason: str, until: datetime, now: datetime, started_at: datetime | None = None
) -> bool:
    """Let nothing go to a locked channel before a time; return whether that is a new pause.

    An earlier pause is never shortened. The caller recomputes, and logs once it has committed.

    :param started_at: when the POST began that brought the pause. If the same pause was raised
        after that, by another POST of that time, it is no further strike.
    """
    is_new = row.pause_reason != reason
    if is_new:
        row.pause_reason, row.paused_at, row.strikes = reason, now, 1
    elif not is_raised_since(row, started_at):
        row.paused_at, row.strikes = now, row.strikes + 1
    row.not_before = max(row.not_before, until)
    row.save(update_fields=["pause_reason", "paused_at", "strikes", "not_before"])
    return is_new


def pause_host(endpoint: str, host: str, *, reason: str, until: datetime) -> None:
    """Pause the channel of a host for a cause of our own."""
    with writing():
        row = lock_one(endpoint, host)
        if row is None:
            return
        is_new = pause(row, reason=reason, until=until, now=clock.now())
        row.handed_at = None
        row.save(update_fields=["handed_at"])
        recompute([row])
    log_pause(row, is_new=is_new)


def postpone(endpoint: str, host: str, *, until: datetime) -> None:
    """Let nothing go to a channel before a time, without a pause: nothing is wrong."""
    with writing():
        row = lock_one(endpoint, host)
        if row is not None:
            row.not_before, row.handed_at = max(row.not_before, until), None
            row.save(update_fields=["not_before", "handed_at"])
            recompute([row])


def log_pause(row: Channel, *, is_new: bool) -> None:
    """Log one ERROR when a pause opens, and a line when it is renewed."""
    log = logger.error if is_new else logger.info
    log(
        "pause endpoint=%s host=%s reason=%s until=%s",
        row.endpoint,
        row.host or "*",
        row.pause_reason,
        row.not_before,
    )


def is_raised_since(row: Channel, started_at: datetime | None) -> bool:
    """Return whether a pause was raised, or renewed, after a POST began."""
    return started_at is not None and row.paused_at is not None and row.paused_at >= started_at


def history(endpoint: str, host: str, *, started_at: datetime | None = None) -> tuple[str, int]:
    """Return the reason of a channel's pause and its strikes before a POST that began then."""
    row = get(endpoint, host)
    if row is None or not row.pause_reason:
        return ("", 0)
    return (row.pause_reason, max(row.strikes - is_raised_since(row, started_at), 0))


def clear(row: Channel, *, before: datetime, reasons: Collection[str] | None = None) -> bool:
    """Forget the pause and the strikes of a locked channel that works again.

    `not_before` stays: only *Resume* lowers it.

    :param before: a pause raised later than this stays.
    :param reasons: clear these only.
    """
    is_wanted = bool(row.pause_reason) and (reasons is None or row.pause_reason in reasons)
    if not is_wanted or (row.paused_at is not None and row.paused_at > before):
        return False
    row.pause_reason, row.paused_at, row.strikes = "", None, 0
    row.save(update_fields=["pause_reason", "paused_at", "strikes"])
    logger.info("pause ended endpoint=%s host=%s", row.endpoint, row.host or "*")
    return True


def clear_host(endpoint: str, host: str, reasons: Collection[str]) -> None:
    """Forget a pause of a host whose cause has gone."""
    rows = Channel.objects.filter(endpoint=endpoint, host=host, pause_reason__in=reasons)
    if not rows.exists():  # the usual case, without a lock
        return
    with writing():
        row = lock_one(endpoint, host)
        if row is not None:
            clear(row, before=clock.now(), reasons=reasons)


def resume(endpoint: str, host: str = ENDPOINT) -> None:
    """End a pause now, but keep the pace: never before the slot after the POST that raised it.

    :param host: `""` resumes the endpoint; pauses of single hosts there stay.
    """
    with writing():
        row = lock_one(endpoint, host)
        if row is None or not row.pause_reason:
            return
        now = clock.now()
        space = slot() if host == ENDPOINT else conf.host_interval
        row.not_before = max(now, (row.paused_at or now) + space)
        row.pause_reason, row.paused_at, row.strikes = "", None, 0
        row.save(update_fields=["not_before", "pause_reason", "paused_at", "strikes"])
        if host != ENDPOINT:
            recompute([row])
    logger.warning("resumed endpoint=%s host=%s", endpoint, host or "*")


def resume_host(host: str, reasons: Collection[str]) -> None:
    """Resume a host at every endpoint where it is paused for one of some reasons."""
    for row in Channel.objects.filter(host=host, pause_reason__in=reasons):
        resume(row.endpoint, host)


def drop(pk: int) -> None:
    """Let the relay hand a channel over again: its message came to nothing."""
    Channel.objects.filter(pk=pk).update(handed_at=None)


def compare() -> int:
    """Repair each `ready_at` that is not what the rows say; log it, and return how many.

    Whatever changes URLs or channels recomputes it, so that a difference is a fault of ours, or
    rows that were changed by hand.
    """
    repaired = 0
    pks = list(Channel.objects.exclude(host=ENDPOINT).order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(pks), COMPARE_CHUNK):
        for pk in _differing(pks[start : start + COMPARE_CHUNK]):
            repaired += _repair(pk)
    return repaired


def _keys_of(pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
    rows = Channel.objects.filter(
        endpoint__in={endpoint for endpoint, _host in pairs}, host__in={host for _e, host in pairs}
    )
    found = {(row[0], row[1]): row[2] for row in rows.values_list("endpoint", "host", "pk")}
    return {pair: found[pair] for pair in pairs if pair in found}


def _ready_at(row: Channel, due_at: datetime | None) -> datetime | None:
    if row.lease_until is not None:
        return row.lease_until
    return None if due_at is None else max(due_at, row.not_before)


def _differing(pks: Sequence[int]) -> list[int]:
    first = TrackedUrl.objects.waiting().filter(channel=OuterRef("pk")).order_by("not_before")
    rows = Channel.objects.filter(pk__in=pks).annotate(
        due_at=Subquery(first.values("not_before")[:1])
    )
    return [row.pk for row in rows if row.ready_at != _ready_at(row, row.due_at)]


def _repair(pk: int) -> bool:
    with writing():
        rows = lock([pk])
        before = [row.ready_at for row in rows]
        recompute(rows)
    # It may only have changed between the look and the lock.
    is_repaired = [row.ready_at for row in rows] != before
    if is_repaired:
        logger.warning("repaired channel=%s ready_at=%s was=%s", rows[0], rows[0].ready_at, before)
    return is_repaired
