"""Verbs on tracked URLs: mark what changed, know what engines know, end what waits in vain.

Sending them is in `submissions`.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import F, Q, QuerySet

from ..conf import conf
from ..constants import UNKNOWN_FATES, Change, Reason, UrlState
from ..exceptions import OutdatedError
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
    "published_at",
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
    """One URL in normal form that changed. `published_at` is what the converge saw."""

    url: str
    host: str
    change: str
    page_id: int | None
    intent_id: int | None = None
    published_at: datetime | None = None
    seen: Mapping[str, int] | None = None  # endpoint → the row's version when the page was read

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
    """Note changed URLs at every configured endpoint, for the next submission.

    Part of the caller's transaction, if there is one, which must mark in one call. Two calls
    never wait for each other in a ring: first all new rows come in, in the order of their hashes;
    only then are rows locked, in the order of their keys (see `lock`).

    :raises OutdatedError: another look at the same page was written since this one began. What
        it saw may be newer: nothing is marked.
    """
    marks = _last_word(changes)
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
            if any(_is_outdated(row, by_hash[row.url_hash]) for row in rows):
                raise OutdatedError
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


def versions(page_ids: Collection[int]) -> dict[tuple[int, str], dict[str, int]]:
    """Return the version of each tracked URL of some pages, removed ones too, by endpoint.

    Read before the pages are, for `Marked.seen`.
    """
    rows = TrackedUrl.objects.filter(page_id__in=page_ids)
    found: dict[tuple[int, str], dict[str, int]] = defaultdict(dict)
    for page_id, url, endpoint, version in rows.values_list(
        "page_id", "url", "endpoint", "version"
    ):
        if page_id is not None:
            found[page_id, url][endpoint] = version
    return found


def known(page_ids: Collection[int]) -> dict[int, list[Known]]:
    """Return for each page the URLs that engines know as public, in one query.

    A URL that several endpoints know is there once, with the latest `published_at`.
    """
    rows = (
        TrackedUrl.objects.public()
        .filter(page_id__in=page_ids, endpoint__in=conf.endpoints)
        .order_by(F("published_at").asc(nulls_first=True))
        .values("url", "host", "page_id", "published_at")
    )
    by_url = {(row["page_id"], row["url"]): Known(**row) for row in rows}
    pages: dict[int, list[Known]] = defaultdict(list)
    for item in by_url.values():
        if item.page_id is not None:
            pages[item.page_id].append(item)
    return dict(pages)


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


def _is_outdated(row: TrackedUrl, marked: Marked) -> bool:
    """Say whether a row of the same page changed after the look that a mark comes from."""
    if marked.seen is None or row.page_id != marked.page_id:  # a new row has no page yet
        return False
    return row.version != marked.seen.get(row.endpoint, 0)


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
    row.state = UrlState.SKIPPED if is_withdrawn else UrlState.PENDING
    row.reason = Reason.WITHDRAWN if is_withdrawn else ""
    return True


def _is_news(row: TrackedUrl, marked: Marked) -> bool:
    """Say whether a removal tells something, and of the page that the URL belongs to."""
    if row.change == Change.REMOVED:
        return row.state not in _SETTLED_REMOVALS and row.reason != Reason.WITHDRAWN
    return row.page_id is None or row.page_id == marked.page_id


def _was_never_told(row: TrackedUrl) -> bool:
    # A lease that ran out counts as a hold: its POST may have arrived, and so may one whose
    # answer was lost.
    is_certain = row.lease_until is None and row.reason not in UNKNOWN_FATES
    return row.change == Change.ADDED and row.sent_at is None and is_certain


def _change_of(row: TrackedUrl, marked: Marked) -> Change:
    if marked.change == Change.REMOVED:
        return Change.REMOVED
    if row.change == Change.REMOVED:
        # Gone and back before anybody was told: for the engine it only changed.
        return Change.UPDATED if row.state == UrlState.PENDING else Change.ADDED
    is_untold = row.change == Change.ADDED and row.sent_at is None
    return Change.ADDED if is_untold else Change.UPDATED


def _due(row: TrackedUrl, now: datetime) -> datetime:
    """Return when a row may go: not again within the gap, never ahead of a pending retry."""
    due = max(now, row.not_before or now)
    return max(due, row.sent_at + conf.resubmit_after) if row.sent_at else due
