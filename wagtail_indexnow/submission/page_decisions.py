"""Whether a pending URL may be submitted, by what the public sees of it. Pure.

The table of `VERIFY_PAGES`, its rows in order.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from ..constants import Change, FetchedAs, Reason
from .page_responses import GONE, REFUSALS, SeenPage

SETTLES_AFTER = timedelta(minutes=10)
_CHECK_STEPS = (  # within this time after the first check, the next follows that much later
    (timedelta(seconds=60), timedelta(seconds=60)),
    (timedelta(seconds=180), timedelta(seconds=120)),
)
_CHECK_EVERY = timedelta(minutes=5)
_CHECK_EVERY_LATE = timedelta(hours=1)
_UNSEEN_BY_ENGINES = frozenset(
    {
        FetchedAs.NOINDEX,
        FetchedAs.CANONICAL_ELSEWHERE,
        FetchedAs.REDIRECTS,
        FetchedAs.ROBOTS_TXT,
    }
)


class Action(StrEnum):
    GO = "go"
    WAIT = "wait"
    SKIP = "skip"


class PageDecision(NamedTuple):
    """What to do with a pending URL: submit it, check it again at `until`, or end it."""

    action: Action
    reason: str = ""
    until: datetime | None = None


GO = PageDecision(Action.GO)


def wait(reason: str, until: datetime) -> PageDecision:
    return PageDecision(Action.WAIT, reason, until)


def skip(reason: str) -> PageDecision:
    return PageDecision(Action.SKIP, reason)


@dataclass(frozen=True, kw_only=True)
class PendingUrl:
    """What is to be submitted of a URL, and what was seen when it last was.

    `published_at` is the `last_published_at` of its page; `None`: it has none.
    """

    change: str
    changed_at: datetime
    published_at: datetime | None = None
    accepted_as: str = ""
    accepted_etag: str = ""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait for what: `VERIFY_AFTER`, `VERIFY_GRACE`, and a server's own wish."""

    first_after: timedelta
    grace: timedelta
    retry_after: timedelta = timedelta(0)


def judge(
    page: SeenPage,
    pending: PendingUrl,
    patience: Patience,
    *,
    now: datetime,
    is_home_refused: bool = False,
) -> PageDecision:
    """Return whether to submit a URL, by what the public sees of it."""
    is_removed = pending.change == Change.REMOVED
    is_late = now >= pending.changed_at + patience.grace
    next_check = _next_check(pending, patience, now)
    if _cannot_check(page, is_home_refused):
        return GO if is_removed and is_late else wait(Reason.CANNOT_CHECK, next_check)
    if page.fetched_as == FetchedAs.INDEXABLE:
        if is_removed:
            return wait(Reason.STILL_PUBLIC, next_check)
        if not _is_fresh(page, pending, now):
            return wait(Reason.NOT_REFRESHED_YET, next_check)
        return GO
    if page.fetched_as in _UNSEEN_BY_ENGINES:
        if is_removed or pending.accepted_as == FetchedAs.INDEXABLE:
            return GO  # engines should see it
        if not _is_settled(page, pending, now):
            return wait(Reason.NOT_REFRESHED_YET, next_check)
        return skip(Reason(page.fetched_as.value))
    if page.status in GONE or page.status in REFUSALS:
        return GO if is_removed else wait(Reason.NOT_PUBLIC_YET, next_check)
    return GO if is_removed and is_late else wait(Reason.NO_PAGE_RESPONSE, next_check)


def _cannot_check(page: SeenPage, is_home_refused: bool) -> bool:
    return (
        page.is_challenge or page.status in {429, 503} or (page.status == 403 and is_home_refused)
    )


def _is_fresh(page: SeenPage, pending: PendingUrl, now: datetime) -> bool:
    if page.version is not None and pending.published_at is not None:
        return _has_version(page, pending)
    is_unchanged = page.etag != "" and page.etag == pending.accepted_etag.removeprefix("W/")
    return not is_unchanged or now >= pending.changed_at + SETTLES_AFTER


def _is_settled(page: SeenPage, pending: PendingUrl, now: datetime) -> bool:
    return _has_version(page, pending) or now >= pending.changed_at + SETTLES_AFTER


def _has_version(page: SeenPage, pending: PendingUrl) -> bool:
    if page.version is None or pending.published_at is None:
        return False
    # JavaScript's dates have milliseconds, a page's own have microseconds.
    return page.version >= pending.published_at.replace(microsecond=0)


def _next_check(pending: PendingUrl, patience: Patience, now: datetime) -> datetime:
    waited = now - pending.changed_at
    checked_for = waited - patience.first_after
    step = next((step for limit, step in _CHECK_STEPS if checked_for < limit), _CHECK_EVERY)
    if waited >= patience.grace:
        step = _CHECK_EVERY_LATE
    settles_at = pending.changed_at + SETTLES_AFTER
    at = now + step
    if now < settles_at < at:
        at = settles_at
    return max(at, now + patience.retry_after)
