"""Verbs on visits: note the one of a request, record those of a log, forget old ones.

A visit belongs to the last submission of its URL, from that submission's start on.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from .. import clock
from ..constants import Change
from ..ledger import heartbeats
from ..ledger.tracked_urls import url_hash
from ..ledger.transactions import database
from ..models import Submission, TrackedUrl, Visit
from .crawlers import counts, is_refusal

LOGS_HEARTBEAT = "access_logs"
PRUNE_BATCH = 1_000
PRUNE_BATCHES = 5  # at a time: the relay's thread has more urgent things to do
_RESOLUTION = timedelta(seconds=1)  # of the times in access logs

Key = tuple[int, str, str]


class SeenUrl(NamedTuple):
    """One request of a crawler. `urls` are the spellings by which its URL may be tracked."""

    urls: Collection[str]
    crawler: str
    status: int
    visited_at: datetime


class _Submitted(NamedTuple):
    submission: int
    is_removed: bool
    started_at: datetime


def note(urls: Collection[str], crawler: str, status: int) -> None:
    """Note that a crawler is being answered: one SELECT, and one INSERT at a first visit."""
    alias = database().alias
    seen = Visit.objects.filter(
        submission=OuterRef("submission"), url_hash=OuterRef("url_hash"), crawler=crawler
    )
    rows = (
        TrackedUrl.objects.using(alias)
        .filter(url_hash__in=[url_hash(url) for url in urls], submission__isnull=False)
        .annotate(seen_status=Subquery(seen.values("status")[:1]))
        .values_list("submission", "url_hash", "change", "seen_status")
    )
    visits = [
        Visit(
            submission=submission,
            url_hash=digest,
            crawler=crawler,
            status=status,
            visited_at=clock.later(timedelta(0)),
        )
        for submission, digest, change, seen_status in rows
        if submission is not None
        and _is_news(status, seen_status, is_removed=change == Change.REMOVED)
    ]
    if visits:
        _save(visits, alias)


def record(seen: Sequence[SeenUrl], *, is_dry_run: bool = False) -> int:
    """Record visits that an access log tells of, and return how many were new.

    The earliest visit counts, so that the order in which logs are read makes no difference.
    """
    alias = database().alias
    submitted = _submitted({url_hash(url) for entry in seen for url in entry.urls}, alias)
    best: dict[Key, Visit] = {}
    for entry in seen:
        for visit in _visits(entry, submitted):
            key = (visit.submission, visit.url_hash, visit.crawler)
            best[key] = _better(best.get(key), visit)
    known = _known(best, alias)
    news = [visit for key, visit in best.items() if _better(known.get(key), visit) is visit]
    if news and not is_dry_run:
        _save(news, alias)
    return len(news)


def note_logs_were_read() -> None:
    """Remember that visits no longer are only those that Django saw."""
    heartbeats.beat(LOGS_HEARTBEAT)


def prune(before: datetime) -> bool:
    """Delete some of the visits before a time; return whether there are more."""
    old = Visit.objects.filter(visited_at__lt=before)
    for _batch in range(PRUNE_BATCHES):
        ids = list(old.values_list("pk", flat=True)[:PRUNE_BATCH])
        if ids:
            Visit.objects.filter(pk__in=ids).delete()
        if len(ids) < PRUNE_BATCH:
            return False
    return True


def _is_news(status: int, seen_status: int | None, *, is_removed: bool) -> bool:
    if not counts(status, is_removed=is_removed):
        return False
    return seen_status is None or (is_refusal(seen_status) and not is_refusal(status))


def _submitted(hashes: Collection[str], alias: str) -> dict[str, list[_Submitted]]:
    """Return the last submission of each URL at each endpoint, by the URL's hash."""
    rows = list(
        TrackedUrl.objects.using(alias)
        .filter(url_hash__in=hashes, submission__isnull=False)
        .values_list("url_hash", "submission", "change")
    )
    submissions = Submission.objects.using(alias).filter(pk__in={row[1] for row in rows})
    starts = dict(submissions.values_list("pk", "started_at"))
    found = defaultdict(list)
    for digest, submission, change in rows:
        if submission in starts:  # else it was pruned
            last = _Submitted(submission, change == Change.REMOVED, starts[submission])
            found[digest].append(last)
    return found


def _visits(entry: SeenUrl, submitted: dict[str, list[_Submitted]]) -> list[Visit]:
    """Return what one request means for the submissions of its URL."""
    visited_at = _as_stored(entry.visited_at)
    return [
        Visit(
            submission=last.submission,
            url_hash=digest,
            crawler=entry.crawler,
            status=entry.status,
            visited_at=max(visited_at, last.started_at),
        )
        for digest in {url_hash(url) for url in entry.urls}
        for last in submitted.get(digest, ())
        if visited_at + _RESOLUTION > last.started_at
        and counts(entry.status, is_removed=last.is_removed)
    ]


def _known(visits: Collection[Key], alias: str) -> dict[Key, Visit]:
    rows = Visit.objects.using(alias).filter(
        submission__in={submission for submission, _digest, _crawler in visits},
        url_hash__in={digest for _submission, digest, _crawler in visits},
    )
    return {(row.submission, row.url_hash, row.crawler): row for row in rows}


def _better(old: Visit | None, new: Visit) -> Visit:
    """Return the one to keep: rather a visit than a refusal, and rather the earlier one."""
    if old is None:
        return new
    return min(old, new, key=lambda visit: (is_refusal(visit.status), visit.visited_at))


def _save(visits: Collection[Visit], alias: str) -> None:
    """Insert visits, or write over what is there of the same crawler at the same submission."""
    features = database().features
    has_target = features.supports_update_conflicts_with_target
    with transaction.atomic(using=alias):  # a savepoint, should a transaction of the site be open
        Visit.objects.using(alias).bulk_create(
            visits,
            update_conflicts=True,
            update_fields=["visited_at", "status"],
            unique_fields=["submission", "url_hash", "crawler"] if has_target else None,
        )


def _as_stored(at: datetime) -> datetime:
    """Return an aware time as Django stores it on this site."""
    return at if settings.USE_TZ else timezone.make_naive(at, timezone.get_default_timezone())
