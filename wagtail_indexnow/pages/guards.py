"""Whether a page may be announced now: pure decisions over facts that were just read.

Compare instants, never strings. The marker of a schedule is `(Revision.pk,
approved_go_live_at)` as the database has it; `Page.go_live_at` outlives its schedule and says
nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from ..constants import (
    CANCEL_RECHECK,
    COPY_SETTLE,
    NEVER_PUBLISHED_AFTER,
    WAIT_DELAY_MAX,
    WAIT_DELAYS,
    Kind,
    Reason,
)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What the ledger says of an intent."""

    kind: str
    revision_id: int | None
    expected_at: datetime | None
    reason: str
    waits: int
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class PageFacts:
    """What the database says of a page. No fact has a default: one left out would let it pass."""

    live: bool
    expired: bool
    live_revision_id: int | None
    last_published_at: datetime | None
    approved: Mapping[int, datetime]  # revision pk → go-live time
    is_private: bool
    is_alias: bool
    is_embargoed: bool  # an alias whose source is not live
    is_excluded: bool
    copied_at: datetime | None  # when the last page below its topmost copied ancestor was created


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The settings that guards depend on."""

    aliases: bool


@dataclass(frozen=True)
class Decision:
    """Go on, skip for a reason (an ending), or wait for a reason (checked again `until`)."""

    verb: Literal["go", "skip", "wait"]
    reason: str = ""
    until: datetime | None = None


GO = Decision("go")

#: Kinds that wait for a copy's privacy; subtrees and audits leave a copy to its own event.
_WAIT_FOR_COPIES = (Kind.PUBLISH, Kind.MANUAL, Kind.AUDIT)

#: What forbids to announce a page, and the reason it gives, in the order of asking.
PAGE_GUARDS: Sequence[tuple[Reason, Callable[[PageFacts, Policy], bool]]] = (
    (Reason.NOT_LIVE, lambda page, policy: not page.live),
    (Reason.PRIVATE, lambda page, policy: page.is_private),
    (Reason.ALIAS, lambda page, policy: page.is_alias and not policy.aliases),
    (Reason.EMBARGOED, lambda page, policy: page.is_embargoed),
    (Reason.EXCLUDED, lambda page, policy: page.is_excluded),
)


def skip(reason: Reason) -> Decision:
    return Decision("skip", reason)


def wait(reason: Reason, until: datetime) -> Decision:
    return Decision("wait", reason, until)


def decide(planned: Planned, page: PageFacts | None, *, now: datetime) -> Decision:
    """Decide what to do with an intent that is due, whatever its page's own guards say."""
    if planned.kind == Kind.GO_LIVE:
        return skip(Reason.PAGE_DELETED) if page is None else _decide_go_live(planned, page, now)
    is_fresh = page is not None and page.live and is_being_copied(page, now=now)
    if is_fresh and planned.kind in _WAIT_FOR_COPIES:
        return wait(Reason.COPYING, now + COPY_SETTLE)
    return GO


def page_reason(page: PageFacts | None, policy: Policy) -> str:
    """Return why a page may not be announced, before its URLs are asked for; empty if it may."""
    if page is None:
        return Reason.PAGE_DELETED
    return next((reason for reason, forbids in PAGE_GUARDS if forbids(page, policy)), "")


def is_being_copied(page: PageFacts, *, now: datetime) -> bool:
    """Return whether a page's privacy is not settled yet.

    Wagtail copies a section's restrictions only after all of its pages.
    """
    return page.copied_at is not None and page.copied_at > now - COPY_SETTLE


def wait_delay(waits: int) -> timedelta:
    """Return how long to wait for `publish_scheduled`: 60 s, 5 min, then every 15 min."""
    return WAIT_DELAYS[waits] if waits < len(WAIT_DELAYS) else WAIT_DELAY_MAX


def _decide_go_live(planned: Planned, page: PageFacts, now: datetime) -> Decision:
    expected_at = planned.expected_at
    assert expected_at is not None, "a go_live always carries its time"  # noqa: S101
    is_live_since = (
        page.live and page.last_published_at is not None and page.last_published_at >= expected_at
    )
    if is_live_since and page.live_revision_id == planned.revision_id:
        return GO
    if page.approved:
        if (planned.revision_id, expected_at) in page.approved.items():
            return _wait_for_publish(planned, expected_at, now)
        return skip(Reason.SCHEDULE_CHANGED)
    if page.live and page.live_revision_id is None:  # imported, or its revisions were purged
        return GO if is_live_since else _wait_once(planned, now)
    if page.live and _was_published_since(page, planned.created_at):
        return skip(Reason.PUBLISHED_OTHERWISE)
    if page.expired and not page.live:
        return skip(Reason.EXPIRED)
    return _wait_once(planned, now)


def _wait_for_publish(planned: Planned, expected_at: datetime, now: datetime) -> Decision:
    if now - expected_at >= NEVER_PUBLISHED_AFTER:
        return skip(Reason.NEVER_PUBLISHED)
    return wait(Reason.NOT_PUBLISHED_YET, max(expected_at, now + wait_delay(planned.waits)))


def _was_published_since(page: PageFacts, moment: datetime) -> bool:
    return page.last_published_at is not None and page.last_published_at > moment


def _wait_once(planned: Planned, now: datetime) -> Decision:
    # Wagtail clears the approval, and commits that, before the page row turns live.
    if planned.reason == Reason.SCHEDULE_CANCELLED:
        return skip(Reason.SCHEDULE_CANCELLED)
    return wait(Reason.SCHEDULE_CANCELLED, now + CANCEL_RECHECK)
