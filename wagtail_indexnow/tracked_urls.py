"""Verbs on tracked URLs: mark what changed, know what engines know, end what waits in vain.

Sending them is in `deliveries`.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db import connections, router, transaction
from django.db.models import Q, QuerySet

from . import channels
from .conf import conf
from .constants import Change, Reason, UrlState
from .models import TrackedUrl

MARK_CHUNK = 1_000  # URLs in one statement: far below every database's limit of parameters
END_CHUNK = 2_000
_MARKED_FIELDS = [
    "change",
    "changed_at",
    "page_id",
    "intent",
    "published_at",
    "version",
    "not_before",
    "state",
    "reason",
    "attempts",
]
#: Endings after which an engine knows of a removal already, or never knew of the URL.
_SETTLED_REMOVALS = (UrlState.WAITING, UrlState.DELIVERED)

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Marked:
    """One URL in normal form that changed. `published_at` is what the converge saw."""

    url: str
    host: str
    change: str
    page_id: int | None
    intent_id: int | None = None
    published_at: datetime | None = None

    @property
    def url_hash(self) -> str:
        return url_hash(self.url)


@dataclass(frozen=True, kw_only=True)
class Known:
    """One URL that an engine knows, or is about to be told, as public."""

    url: str
    host: str
    page_id: int | None
    published_at: datetime | None


def url_hash(url: str) -> str:
    """Return what a URL is found by: no database indexes 2,048 characters."""
    return hashlib.sha256(url.encode()).hexdigest()


def mark(changes: Sequence[Marked], *, now: datetime) -> None:
    """Note changed URLs at every configured endpoint, for the next delivery.

    Part of the caller's transaction, if there is one, which must mark in one call: rows are
    locked in one order (endpoint, hash), so that two announcements never wait in a ring.
    """
    marks = _last_word(changes)
    if not marks:
        return
    hosts = {marked.host for marked in marks}
    with transaction.atomic(savepoint=False):
        for endpoint in sorted(conf.endpoints):
            channels.ensure(endpoint, hosts)
            for chunk in chunks(marks, MARK_CHUNK):
                _mark_chunk(endpoint, chunk, now)


def known(page_ids: Collection[int]) -> dict[int, list[Known]]:
    """Return for each page the URLs that engines know as public, in one query.

    A URL that several endpoints know is there once, with the latest `published_at`.
    """
    rows = (
        TrackedUrl.objects.public()
        .filter(page_id__in=page_ids, endpoint__in=conf.endpoints)
        .order_by("url_hash", "published_at")
        .values("url", "host", "page_id", "published_at")
    )
    by_url = {(row["page_id"], row["url"]): Known(**row) for row in rows}
    pages: dict[int, list[Known]] = defaultdict(list)
    for item in by_url.values():
        if item.page_id is not None:
            pages[item.page_id].append(item)
    return dict(pages)


def give_up(now: datetime, *, endpoint: str | None = None, host: str | None = None) -> int:
    """End what was tried for longer than `GIVE_UP_AFTER`, and return how many URLs that were."""
    rows = TrackedUrl.objects.filter(changed_at__lte=now - conf.give_up_after)
    if endpoint is not None:
        rows = rows.filter(endpoint=endpoint)
    if host is not None:
        rows = rows.filter(host=host)
    return end(rows, state=UrlState.FAILED, reason=Reason.EXPIRED, now=now)


def end(rows: QuerySet[TrackedUrl], *, state: str, reason: str, now: datetime) -> int:
    """End waiting rows that no worker holds, a chunk at a time; return how many."""
    free = rows.filter(not_before__isnull=False).filter(
        Q(lease_until=None) | Q(lease_until__lte=now)
    )
    ended = 0
    while True:
        with transaction.atomic():
            # Locked in the order of `mark`.
            chunk = list(
                free.order_by("endpoint", "url_hash")
                .select_for_update()
                .values_list("pk", flat=True)[:END_CHUNK]
            )
            TrackedUrl.objects.filter(pk__in=chunk).update(
                state=state, reason=reason, not_before=None, lease_until=None
            )
        ended += len(chunk)
        if len(chunk) < END_CHUNK:
            return ended


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield a sequence in pieces."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _last_word(changes: Sequence[Marked]) -> list[Marked]:
    """Return one change for each URL, in the order of locking.

    A URL that one page left and another took over is public: additions win over removals.
    """
    marks: dict[str, Marked] = {}
    for marked in changes:
        earlier = marks.get(marked.url)
        is_outdone = marked.change == Change.REMOVED and earlier is not None
        if not is_outdone or (earlier is not None and earlier.change == Change.REMOVED):
            marks[marked.url] = marked
    return sorted(marks.values(), key=lambda marked: marked.url_hash)


def _mark_chunk(endpoint: str, marks: Sequence[Marked], now: datetime) -> None:
    by_hash = {marked.url_hash: marked for marked in marks}
    _insert_missing(endpoint, by_hash, now)
    rows = TrackedUrl.objects.filter(endpoint=endpoint, url_hash__in=by_hash)
    changed = [
        row
        for row in rows.order_by("url_hash").select_for_update()
        if _apply(row, by_hash[row.url_hash], now)
    ]
    _save(changed)


def _insert_missing(endpoint: str, by_hash: dict[str, Marked], now: datetime) -> None:
    """Insert rows of version 0, so that there is something to lock: two may come at once."""
    rows = TrackedUrl.objects.filter(endpoint=endpoint, url_hash__in=by_hash)
    missing = by_hash.keys() - set(rows.values_list("url_hash", flat=True))
    placeholders = [
        TrackedUrl(
            endpoint=endpoint,
            host=by_hash[key].host,
            url=by_hash[key].url,
            url_hash=key,
            change=by_hash[key].change,
            changed_at=now,
        )
        for key in sorted(missing)
    ]
    TrackedUrl.objects.bulk_create(placeholders, ignore_conflicts=True)


def _save(rows: list[TrackedUrl]) -> None:
    """Write locked rows back: one upsert, which no row of ours can turn into an insert."""
    for row in rows:
        row.pk = None
    features = connections[router.db_for_write(TrackedUrl)].features
    # MySQL and MariaDB take any unique key as the target, and refuse to be told which.
    is_told = features.supports_update_conflicts_with_target
    TrackedUrl.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["endpoint", "url_hash"] if is_told else None,
        update_fields=_MARKED_FIELDS,
    )


def _apply(row: TrackedUrl, marked: Marked, now: datetime) -> bool:
    """Change a row as marked; `False` if it stays as it is."""
    is_new = row.version == 0
    if marked.change == Change.REMOVED and not is_new and not _is_news(row, marked):
        return False
    is_withdrawn = marked.change == Change.REMOVED and not is_new and _was_never_told(row)
    row.change = marked.change if is_new else _change_of(row, marked)
    row.page_id = marked.page_id if marked.page_id is not None else row.page_id
    row.intent_id = marked.intent_id
    row.published_at = marked.published_at
    row.changed_at = now
    row.version += 1
    row.attempts = 0
    row.not_before = None if is_withdrawn else _due(row, now)
    row.state = UrlState.SKIPPED if is_withdrawn else UrlState.WAITING
    row.reason = Reason.WITHDRAWN if is_withdrawn else ""
    return True


def _is_news(row: TrackedUrl, marked: Marked) -> bool:
    """Say whether a removal tells something, and of the page that the URL belongs to."""
    if row.change == Change.REMOVED:
        return row.state not in _SETTLED_REMOVALS and row.reason != Reason.WITHDRAWN
    return row.page_id is None or row.page_id == marked.page_id


def _was_never_told(row: TrackedUrl) -> bool:
    # A lease that ran out counts as a hold: its POST may have arrived.
    return row.change == Change.ADDED and row.sent_at is None and row.lease_until is None


def _change_of(row: TrackedUrl, marked: Marked) -> Change:
    if marked.change == Change.REMOVED:
        return Change.REMOVED
    if row.change == Change.REMOVED:
        # Gone and back before anybody was told: for the engine it only changed.
        return Change.UPDATED if row.state == UrlState.WAITING else Change.ADDED
    is_untold = row.change == Change.ADDED and row.sent_at is None
    return Change.ADDED if is_untold else Change.UPDATED


def _due(row: TrackedUrl, now: datetime) -> datetime:
    """Return when a row may go: not again within the gap, never ahead of a pending retry."""
    due = max(now, row.not_before or now)
    return max(due, row.sent_at + conf.resubmit_after) if row.sent_at else due
