"""Verbs on tracked URLs: mark what changed, withdraw what left, end what waits in vain.

Submitting them is in `submission`. Each verb locks URLs by primary key, in order, then their
channels likewise, and recomputes those last.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from ..conf import conf
from ..constants import Change, Reason, UrlState
from ..models import Channel, PublicUrl, TrackedUrl
from . import channels
from .transactions import database, insert_missing, writing

MARK_CHUNK = 1_000  # URLs in one statement: far below every database's limit of parameters
END_CHUNK = 2_000
_MARKED_FIELDS = [
    "change",
    "changed_at",
    "page_id",
    "intent",
    "version",
    "channel",
    "not_before",
    "state",
    "reason",
    "attempts",
    "verified_at",
]
#: Endings after which an engine knows of a removal already.
_KNOWN_REMOVALS = (UrlState.PENDING, UrlState.ACCEPTED)

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Marked:
    """One URL in normal form that changed.

    `leaves`: an `updated` for the last time, because its page excluded itself.
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

    @property
    def is_gone(self) -> bool:
        return self.change == Change.REMOVED


@dataclass(frozen=True, kw_only=True)
class Resubmitted:
    """How many URLs go again, and the pages to be checked for it: what is true may have changed."""

    count: int
    pages: set[int]


def url_hash(url: str) -> str:
    """Return what a URL is found by: no database indexes 2,048 characters."""
    return hashlib.sha256(url.encode()).hexdigest()


def mark(changes: Sequence[Marked], *, now: datetime) -> None:
    """Note changed URLs at every configured endpoint, for the next submission.

    Part of the caller's transaction, if there is one, which must mark in one call.
    """
    by_hash = {marked.url_hash: marked for marked in _one_change_per_url(changes)}
    if not by_hash:
        return
    touched: set[int] = set()
    with writing():
        homes = _insert_missing(list(by_hash.values()))
        for pks in chunks(sorted(_keys_of(by_hash)), MARK_CHUNK):
            rows = [row for row in lock(pks) if _apply(row, by_hash[row.url_hash], now)]
            touched |= {row.channel for row in rows if row.channel is not None}
            for row in rows:
                row.channel = homes[row.endpoint, row.host]
                row.verified_at = None if conf.verify_pages else now
            touched |= {row.channel for row in rows if row.channel is not None}
            save(rows)
        channels.recompute(channels.lock(touched))


def withdraw(urls: Collection[str], *, now: datetime) -> None:
    """End what is pending for URLs that left silently; a pending removal stays."""
    rows = TrackedUrl.objects.waiting().public()
    for hashes in chunks(sorted(map(url_hash, urls)), MARK_CHUNK):
        pks = rows.filter(url_hash__in=hashes).values_list("pk", flat=True)
        _change(
            rows,
            sorted(pks),
            change=Change.REMOVED,
            state=UrlState.SKIPPED,
            reason=Reason.WITHDRAWN,
            not_before=None,
            version=F("version") + 1,
            changed_at=now,
        )


def were_submitted(urls: Collection[str]) -> set[str]:
    """Return which URLs were in a POST, at any endpoint."""
    was_in_one = Q(submission__isnull=False) | Q(sent_at__isnull=False)
    return _select(urls, TrackedUrl.objects.filter(was_in_one))


def pending_removals(urls: Collection[str]) -> set[str]:
    """Return for which URLs a removal is pending, at any endpoint."""
    rows = TrackedUrl.objects.filter(change=Change.REMOVED, state=UrlState.PENDING)
    return _select(urls, rows)


def removed_last(urls: Collection[str]) -> set[str]:
    """Return the URLs whose last change is a removal that engines know, or are about to."""
    rows = TrackedUrl.objects.filter(change=Change.REMOVED, state__in=_KNOWN_REMOVALS)
    return _select(urls, rows)


def reassign(pages: Mapping[str, int]) -> None:
    """Let the rows of URLs belong to another page that has them.

    :param pages: URL → page.
    """
    by_page: dict[int, list[str]] = defaultdict(list)
    for url, page_id in pages.items():
        by_page[page_id].append(url_hash(url))
    found = TrackedUrl.objects.filter(url_hash__in=[url_hash(url) for url in pages])
    with writing():
        list(lock(sorted(found.values_list("pk", flat=True))).values_list("pk"))
        for page_id, hashes in sorted(by_page.items()):
            TrackedUrl.objects.filter(url_hash__in=hashes).update(page_id=page_id)


def holders(hashes: Iterable[str]) -> dict[str, set[int]]:
    """Return hash of a URL → the pages that have it, for those that any page has."""
    found: dict[str, set[int]] = defaultdict(set)
    for chunk in chunks(list(hashes), MARK_CHUNK):
        rows = PublicUrl.objects.filter(url_hash__in=chunk)
        for hashed, page_id in rows.values_list("url_hash", "page_id"):
            found[hashed].add(page_id)
    return dict(found)


def resubmit(pks: Collection[int], *, now: datetime) -> Resubmitted:
    """Let the URLs that no page has go again as they are; leave all others to their pages.

    Leaves out what no engine may hear of: URLs withdrawn before they were submitted. Pauses and
    the gap between two sends of one URL stay.
    """
    selected = TrackedUrl.objects.filter(pk__in=pks, endpoint__in=conf.endpoints)
    rows = list(selected.exclude(reason=Reason.WITHDRAWN).values_list("pk", "url_hash"))
    held = holders(hashed for _pk, hashed in rows)
    loose = sorted(pk for pk, hashed in rows if hashed not in held)
    with writing():
        again = list(lock(loose))
        for row in again:
            row.changed_at, row.version, row.attempts = now, row.version + 1, 0
            row.not_before, row.state, row.reason = _due(row, now), UrlState.PENDING, ""
        save(again)
        channels.recompute(channels.lock({row.channel for row in again if row.channel}))
    pages = {page_id for _pk, hashed in rows for page_id in held.get(hashed, ())}
    return Resubmitted(count=len(rows), pages=pages)


def give_up(now: datetime) -> int:
    """End what was tried for longer than `GIVE_UP_AFTER`, and return how many URLs that were.

    Only where something waits, and not while it is in flight: a response may be on its way.
    """
    is_ready = Channel.objects.filter(
        pk=OuterRef("channel"), ready_at__isnull=False, lease_until=None
    )
    rows = TrackedUrl.objects.filter(
        Exists(is_ready), state=UrlState.PENDING, changed_at__lte=now - conf.give_up_after
    )
    return end(rows, state=UrlState.FAILED, reason=Reason.GAVE_UP)


def end(rows: QuerySet[TrackedUrl], *, state: str, reason: str) -> int:
    """End waiting rows, a chunk at a time; return how many."""
    waiting = rows.filter(not_before__isnull=False)
    ended = 0
    while True:
        pks = list(waiting.order_by("pk").values_list("pk", flat=True)[:END_CHUNK])
        ended += _change(waiting, pks, state=state, reason=reason, not_before=None)
        if len(pks) < END_CHUNK:
            return ended


def lock(pks: Collection[int]) -> QuerySet[TrackedUrl]:
    """Lock rows when the result is read; the one way that ever waits for a lock on them.

    Always in the order of their primary keys, so that nobody waits in a ring.
    """
    return TrackedUrl.objects.filter(pk__in=pks).order_by("pk").select_for_update()


def save(rows: Sequence[TrackedUrl]) -> None:
    """Write locked rows back in one upsert by primary key, which never inserts.

    By the unique key InnoDB would also lock the gap beside each row, against new URLs.
    """
    features = database().features
    # MySQL and MariaDB take whatever key is hit, and refuse to be told which.
    supports_target = features.supports_update_conflicts_with_target
    TrackedUrl.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["id"] if supports_target else None,
        update_fields=_MARKED_FIELDS,
    )


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield a sequence in pieces."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _endpoints() -> list[str]:
    return sorted(conf.endpoints)


def _one_change_per_url(changes: Sequence[Marked]) -> list[Marked]:
    """Return the change of each URL that counts: one that stays public before one that leaves.

    A URL that one page left and another took over is public.
    """
    order = sorted(changes, key=lambda marked: (not marked.is_gone, not marked.leaves))
    return list({marked.url: marked for marked in order}.values())


def _insert_missing(marks: Sequence[Marked]) -> dict[tuple[str, str], int]:
    """Insert channels, and URLs of version 0, so that there is something to lock.

    :returns: (endpoint, host) → the channel in which its URLs wait from now on.
    """
    pairs = {(endpoint, marked.host) for marked in marks for endpoint in _endpoints()}
    is_verified = not conf.verify_pages
    homes = {pair: channels.home_of(*pair, is_verified=is_verified) for pair in pairs}
    wanted = {*homes.values(), *((endpoint, channels.ENDPOINT) for endpoint in _endpoints())}
    missing = _missing(marks)
    if (missing or channels.are_missing(wanted)) and channels.serialise_on_mysql():
        missing = _missing(marks)  # of what was missing, others may have inserted some
    for rows in chunks(missing, MARK_CHUNK):
        insert_missing(rows, "host")
    keys = channels.ensure(wanted)
    return {pair: keys[home] for pair, home in homes.items()}


def _missing(marks: Sequence[Marked]) -> list[TrackedUrl]:
    """Return a new row for each URL and endpoint that has none, in the order of inserting."""
    missing: list[TrackedUrl] = []
    for chunk in chunks(sorted(marks, key=lambda marked: marked.url_hash), MARK_CHUNK):
        rows = TrackedUrl.objects.filter(url_hash__in=[marked.url_hash for marked in chunk])
        existing = set(rows.values_list("endpoint", "url_hash"))
        missing += [
            TrackedUrl(
                endpoint=endpoint, host=marked.host, url=marked.url, url_hash=marked.url_hash
            )
            for marked in chunk
            for endpoint in _endpoints()
            if (endpoint, marked.url_hash) not in existing
        ]
    return missing


def _keys_of(hashes: Collection[str]) -> Iterator[int]:
    for chunk in chunks(sorted(hashes), MARK_CHUNK):
        rows = TrackedUrl.objects.filter(endpoint__in=_endpoints(), url_hash__in=chunk)
        yield from rows.values_list("pk", flat=True)


def _select(urls: Collection[str], rows: QuerySet[TrackedUrl]) -> set[str]:
    found: set[str] = set()
    for hashes in chunks(sorted(map(url_hash, urls)), MARK_CHUNK):
        found.update(rows.filter(url_hash__in=hashes).values_list("url", flat=True))
    return found


def _change(rows: QuerySet[TrackedUrl], pks: Sequence[int], **fields: object) -> int:
    """Update those rows that are still among some once they are locked, and their channels."""
    if not pks:
        return 0
    with writing():
        list(lock(pks).values_list("pk"))
        touched = TrackedUrl.objects.filter(pk__in=pks).order_by().values_list("channel", flat=True)
        locked = channels.lock({pk for pk in touched.distinct() if pk is not None})
        still = list(rows.filter(pk__in=pks).values_list("pk", flat=True))
        changed = TrackedUrl.objects.filter(pk__in=still).update(**fields)
        channels.recompute(locked)
    return changed


def _apply(row: TrackedUrl, marked: Marked, now: datetime) -> bool:
    """Change a locked row as marked; `False` if it stays as it is."""
    if marked.is_gone and not _is_news(row):
        return False
    is_withdrawn = (marked.is_gone or marked.leaves) and _was_never_submitted(row)
    row.change = Change.REMOVED if is_withdrawn else _change_of(row, marked)
    row.page_id = marked.page_id if marked.page_id is not None else row.page_id
    row.intent = marked.intent_id
    row.changed_at = now
    row.version += 1
    row.attempts = 0
    row.not_before = None if is_withdrawn else _due(row, now)
    row.state = UrlState.SKIPPED if is_withdrawn else UrlState.PENDING
    row.reason = Reason.WITHDRAWN if is_withdrawn else ""
    return True


def _is_news(row: TrackedUrl) -> bool:
    """Return whether a removal says something that the row does not say yet."""
    if row.version == 0 or row.change != Change.REMOVED:
        return True
    return row.state not in _KNOWN_REMOVALS and row.reason != Reason.WITHDRAWN


def _was_never_submitted(row: TrackedUrl) -> bool:
    is_pending_addition = row.version > 0 and row.change == Change.ADDED
    return is_pending_addition and row.submission is None and row.sent_at is None


def _change_of(row: TrackedUrl, marked: Marked) -> str:
    """Return what the next submission means, where a change meets an earlier one."""
    if row.version == 0 or marked.is_gone:
        return marked.change
    if row.change == Change.REMOVED:
        # Gone and back before any engine heard of it: for the engine it only changed.
        return Change.UPDATED if row.state == UrlState.PENDING else Change.ADDED
    return Change.ADDED if _was_never_submitted(row) else Change.UPDATED


def _due(row: TrackedUrl, now: datetime) -> datetime:
    """Return when a row may go: not again within the gap after it was accepted."""
    return max(now, row.sent_at + conf.resubmit_after) if row.sent_at else now
