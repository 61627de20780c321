"""Verbs on tracked URLs: mark what changed, know what engines know, end what waits in vain.

Sending them is in `submissions`.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import F, Q, QuerySet

from ..conf import conf
from ..constants import UNKNOWN_FATES, Change, Reason, UrlState
from ..models import TrackedUrl, TrackedUrlQuerySet
from . import channels
from .transactions import database, writing

MARK_CHUNK = 1_000  # URLs in one statement: far below every database's limit of parameters
END_CHUNK = 2_000
_MARKED_FIELDS = [
    "change",
    "changed_at",
    "page_id",
    "intent",
    "version",
    "not_before",
    "state",
    "reason",
    "attempts",
]
#: Endings after which an engine knows of a removal already, or never knew of the URL.
_SETTLED_REMOVALS = (UrlState.PENDING, UrlState.ACCEPTED)

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Marked:
    """One URL in normal form that changed.

    `leaves`: an `updated` that is sent a last time, since its page excluded itself.
    """

    url: str
    host: str
    change: str
    page_id: int | None
    intent_id: int | None = None
    leaves: bool = False

    @property
    def url_hash(self) -> str:
        return url_hash(self.url)


def url_hash(url: str) -> str:
    """Return what a URL is found by: no database indexes 2,048 characters."""
    return hashlib.sha256(url.encode()).hexdigest()


def mark(changes: Sequence[Marked], *, now: datetime) -> None:
    """Note changed URLs at every configured endpoint, for the next submission.

    Part of the caller's transaction, if there is one, which must mark in one call. Two calls
    never wait for each other in a ring: first all new rows come in, in the order of their hashes;
    only then are rows locked, in the order of their keys (see `lock`).
    """
    marks = _one_change_per_url(changes)
    if not marks:
        return
    endpoints = sorted(conf.endpoints)
    with writing():
        for endpoint in endpoints:
            channels.ensure(endpoint, {marked.host for marked in marks})
        channels.one_at_a_time(endpoints)
        for endpoint in endpoints:
            for chunk in chunks(marks, MARK_CHUNK):
                _insert_missing(endpoint, chunk)
        by_hash = {marked.url_hash: marked for marked in marks}
        for pks in chunks(sorted(_keys_of(endpoints, marks)), MARK_CHUNK):
            rows = list(lock(pks))
            _save([row for row in rows if _apply(row, by_hash[row.url_hash], now)])


def in_turn(rows: QuerySet[TrackedUrl]) -> QuerySet[TrackedUrl]:
    """Lock rows when the result is read; the one way that ever waits for a lock on them.

    Always in the order of their primary keys, so that nobody waits in a ring.
    """
    return rows.order_by("pk").select_for_update()


def lock(pks: Collection[int]) -> QuerySet[TrackedUrl]:
    """Lock rows by their primary keys, see `in_turn`."""
    return in_turn(TrackedUrl.objects.filter(pk__in=pks))


def lock_all(rows: QuerySet[TrackedUrl]) -> None:
    """Lock rows of any endpoints now, before a statement that would do so in its own order."""
    channels.one_at_a_time(rows.values_list("endpoint", flat=True).order_by().distinct())
    list(in_turn(rows).values_list("pk"))


def lock_still(rows: QuerySet[TrackedUrl], pks: Collection[int]) -> TrackedUrlQuerySet:
    """Lock rows, and select those that are still among `rows` once they are ours."""
    lock_all(TrackedUrl.objects.filter(pk__in=pks))
    still = list(rows.filter(pk__in=pks).values_list("pk", flat=True))
    return TrackedUrl.objects.filter(pk__in=still)


def withdraw(urls: Collection[str], *, now: datetime) -> None:
    """End what is pending for URLs that left the inventory silently, removals aside."""
    rows = _of(urls).filter(not_before__isnull=False).exclude(change=Change.REMOVED)
    rows.update(
        change=Change.REMOVED,
        version=F("version") + 1,
        not_before=None,
        state=UrlState.SKIPPED,
        reason=Reason.WITHDRAWN,
    )


def were_submitted(urls: Collection[str]) -> set[str]:
    """Return the URLs that were in a POST, at whatever endpoint."""
    sent = Q(sent_at__isnull=False) | Q(submission__isnull=False)
    return set(_of(urls).filter(sent).values_list("url", flat=True))


def pending_removals(urls: Collection[str]) -> set[str]:
    """Return the URLs whose removal is still to be submitted."""
    rows = _of(urls).filter(change=Change.REMOVED, not_before__isnull=False)
    return set(rows.values_list("url", flat=True))


def removed_last(urls: Collection[str]) -> set[str]:
    """Return the URLs of which engines last heard, or are about to hear, that they are gone."""
    rows = _of(urls).filter(change=Change.REMOVED, state__in=_SETTLED_REMOVALS)
    return set(rows.values_list("url", flat=True))


def reassign(pages: Mapping[str, int]) -> None:
    """Let tracked URLs belong to another page that has them.

    :param pages: URL → the page.
    """
    for url, page_id in pages.items():
        _of([url]).update(page_id=page_id)


def _of(urls: Collection[str]) -> QuerySet[TrackedUrl]:
    return TrackedUrl.objects.filter(url_hash__in=[url_hash(url) for url in urls])


def resubmit(pks: Collection[int], *, now: datetime) -> int:
    """Let URLs go again as they are, ahead of a pending retry: a person's decision.

    Leaves out what no engine may hear of: URLs withdrawn before they were told. Holds and the
    gap between two sends of one URL stay.

    :returns: how many go.
    """
    rows = TrackedUrl.objects.filter(endpoint__in=conf.endpoints).exclude(reason=Reason.WITHDRAWN)
    with writing():
        resubmitted = list(lock_still(rows, pks))
        for row in resubmitted:
            row.changed_at, row.version, row.attempts = now, row.version + 1, 0
            row.not_before = max(now, row.sent_at + conf.resubmit_after) if row.sent_at else now
            row.state, row.reason = UrlState.PENDING, ""
        _save(resubmitted)
    return len(resubmitted)


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
        chunk = list(free.order_by("pk").values_list("pk", flat=True)[:END_CHUNK])
        with writing():
            ended += lock_still(free, chunk).update(
                state=state, reason=reason, not_before=None, lease_until=None
            )
        if len(chunk) < END_CHUNK:
            return ended


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield a sequence in pieces."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _one_change_per_url(changes: Sequence[Marked]) -> list[Marked]:
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


def _insert_missing(endpoint: str, marks: Sequence[Marked]) -> None:
    """Insert rows of version 0, so that there is something to lock: two may come at once."""
    rows = TrackedUrl.objects.filter(
        endpoint=endpoint, url_hash__in=[marked.url_hash for marked in marks]
    )
    existing = set(rows.values_list("url_hash", flat=True))
    placeholders = [
        TrackedUrl(
            endpoint=endpoint,
            host=marked.host,
            url=marked.url,
            url_hash=marked.url_hash,
        )
        for marked in marks
        if marked.url_hash not in existing
    ]
    TrackedUrl.objects.bulk_create(placeholders, ignore_conflicts=True)


def _keys_of(endpoints: Sequence[str], marks: Sequence[Marked]) -> Iterator[int]:
    for chunk in chunks(marks, MARK_CHUNK):
        hashes = [marked.url_hash for marked in chunk]
        rows = TrackedUrl.objects.filter(endpoint__in=endpoints, url_hash__in=hashes)
        yield from rows.values_list("pk", flat=True)


def _save(rows: list[TrackedUrl]) -> None:
    """Write locked rows back in one upsert by primary key, which never inserts.

    By the unique key InnoDB would also lock the gap beside each row, against new URLs.
    """
    features = database().features
    # MySQL and MariaDB take whatever key is hit, and refuse to be told which.
    is_told = features.supports_update_conflicts_with_target
    TrackedUrl.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["id"] if is_told else None,
        update_fields=_MARKED_FIELDS,
    )


def _apply(row: TrackedUrl, marked: Marked, now: datetime) -> bool:
    """Change a row as marked; `False` if it stays as it is."""
    is_new = row.version == 0
    is_removal = marked.change == Change.REMOVED
    if is_removal and not is_new and row.change == Change.REMOVED and not _is_news(row):
        return False
    is_withdrawn = (is_removal or marked.leaves) and not is_new and _was_never_posted(row)
    change = Change.REMOVED if is_withdrawn else marked.change
    row.change = change if is_new else _change_of(row, change)
    row.page_id = marked.page_id if marked.page_id is not None else row.page_id
    row.intent_id = marked.intent_id
    row.changed_at = now
    row.version += 1
    row.attempts = 0
    row.not_before = None if is_withdrawn else _due(row, now)
    row.state = UrlState.SKIPPED if is_withdrawn else UrlState.PENDING
    row.reason = Reason.WITHDRAWN if is_withdrawn else ""
    return True


def _is_news(row: TrackedUrl) -> bool:
    """Return whether removing a removed URL again says anything to an engine."""
    return row.state not in _SETTLED_REMOVALS and row.reason != Reason.WITHDRAWN


def _was_never_posted(row: TrackedUrl) -> bool:
    # A lease that ran out counts as a POST: it may have arrived, as may one without a response.
    is_certain = row.lease_until is None and row.reason not in UNKNOWN_FATES
    return row.change == Change.ADDED and row.sent_at is None and is_certain


def _change_of(row: TrackedUrl, change: str) -> str:
    if change == Change.REMOVED:
        return Change.REMOVED
    if row.change == Change.REMOVED:
        # Gone and back before a POST: for the engine it only changed.
        return Change.UPDATED if row.state == UrlState.PENDING else Change.ADDED
    is_unsent = row.change == Change.ADDED and row.sent_at is None
    return Change.ADDED if is_unsent else Change.UPDATED


def _due(row: TrackedUrl, now: datetime) -> datetime:
    """Return when a row may go: not again within the gap, never ahead of a pending retry."""
    due = max(now, row.not_before or now)
    return max(due, row.sent_at + conf.resubmit_after) if row.sent_at else due
