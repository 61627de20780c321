"""Whether a page may be announced now: pure decisions over facts that were just read.

Compare instants, never strings. The marker of a schedule is `(Revision.pk,
approved_go_live_at)` as the database has it; `Page.go_live_at` outlives its schedule and says
nothing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
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


@dataclass(frozen=True, kw_only=True)
class PageFacts:
    """What the database says of a page. No fact has a default: one left out would let it pass."""

    live: bool
    expired: bool
    live_revision_id: int | None
    first_published_at: datetime | None
    last_published_at: datetime | None
    approved: Mapping[int, datetime]  # revision pk → go-live time
    announced: Collection[datetime]  # `published_at` of its announced intents
    is_private: bool
    is_alias: bool
    is_embargoed: bool  # an alias whose source is scheduled and not live
    is_excluded: bool
    copied_until: datetime | None  # last write under its topmost freshly copied ancestor


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The settings that guards depend on."""

    enabled: bool
    aliases: bool


@dataclass(frozen=True)
class Verdict:
    """Go on, skip for a reason (an ending), or wait for a reason (looked at again)."""

    outcome: Literal["go", "skip", "wait"]
    reason: str = ""
    delay: timedelta = timedelta(0)


GO = Verdict("go")

#: What forbids to announce a page, and the reason it gives, in the order of asking.
PAGE_GUARDS: Sequence[tuple[Reason, Callable[[PageFacts, Policy], bool]]] = (
    (Reason.DISABLED, lambda page, policy: not policy.enabled),
    (Reason.NOT_LIVE, lambda page, policy: not page.live),
    (Reason.PRIVATE, lambda page, policy: page.is_private),
    (Reason.ALIAS, lambda page, policy: page.is_alias and not policy.aliases),
    (Reason.EMBARGOED, lambda page, policy: page.is_embargoed),
    (Reason.EXCLUDED, lambda page, policy: page.is_excluded),
)


def skip(reason: Reason) -> Verdict:
    return Verdict("skip", reason)


def wait(reason: Reason, delay: timedelta) -> Verdict:
    return Verdict("wait", reason, delay)


def decide(planned: Planned, page: PageFacts | None, policy: Policy, *, now: datetime) -> Verdict:
    """Decide what to do with an intent that is due: its own guards, then those of its page."""
    verdict = _decide_intent(planned, page, now=now)
    if verdict != GO or page is None:
        return verdict
    return decide_page(page, policy)


def decide_page(page: PageFacts, policy: Policy) -> Verdict:
    """Decide whether engines may hear of a page, before its URLs are asked for."""
    for reason, forbids in PAGE_GUARDS:
        if forbids(page, policy):
            return skip(reason)
    return GO


def is_being_copied(page: PageFacts, *, now: datetime) -> bool:
    """Say whether a page's privacy is not settled yet.

    Wagtail copies a section's restrictions only after all of its pages.
    """
    return page.copied_until is not None and page.copied_until > now - COPY_SETTLE


def wait_delay(waits: int) -> timedelta:
    """Return how long to wait for `publish_scheduled`: 60 s, 5 min, then every 15 min."""
    return WAIT_DELAYS[waits] if waits < len(WAIT_DELAYS) else WAIT_DELAY_MAX


def _decide_intent(planned: Planned, page: PageFacts | None, *, now: datetime) -> Verdict:
    if page is None:
        return skip(Reason.PAGE_DELETED)
    if planned.kind == Kind.GO_LIVE:
        verdict = _decide_go_live(planned, page, now=now)
        if verdict != GO:
            return verdict
    if planned.kind in (Kind.GO_LIVE, Kind.PUBLISH) and page.last_published_at in page.announced:
        return skip(Reason.ALREADY_ANNOUNCED)
    if planned.kind == Kind.PUBLISH and is_being_copied(page, now=now):
        return wait(Reason.COPYING, COPY_SETTLE)
    return GO


def _decide_go_live(planned: Planned, page: PageFacts, *, now: datetime) -> Verdict:
    expected_at = planned.expected_at
    assert expected_at is not None, "a go_live always carries its time"  # noqa: S101
    was_published_since = (
        page.last_published_at is not None and page.last_published_at >= expected_at
    )
    if page.live and page.live_revision_id == planned.revision_id and was_published_since:
        return GO
    if page.approved:
        if (planned.revision_id, expected_at) in page.approved.items():
            return _wait_for_publish(planned, expected_at, now=now)
        return skip(Reason.SCHEDULE_CHANGED)
    if page.live and page.live_revision_id is not None:
        return skip(Reason.PUBLISHED_OTHERWISE)
    if page.live and was_published_since:  # imported, or its revisions were purged
        return GO
    if page.expired and not page.live:
        return skip(Reason.EXPIRED)
    return _look_twice(planned)


def _wait_for_publish(planned: Planned, expected_at: datetime, *, now: datetime) -> Verdict:
    if now - expected_at >= NEVER_PUBLISHED_AFTER:
        return skip(Reason.NEVER_PUBLISHED)
    return wait(Reason.NOT_PUBLISHED_YET, wait_delay(planned.waits))


def _look_twice(planned: Planned) -> Verdict:
    # Wagtail clears the approval, and commits that, before the page row turns live.
    if planned.reason == Reason.SCHEDULE_CANCELLED:
        return skip(Reason.SCHEDULE_CANCELLED)
    return wait(Reason.SCHEDULE_CANCELLED, CANCEL_RECHECK)
