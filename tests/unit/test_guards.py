"""Whether a page may be announced: every row of the decision table, as plain values."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wagtail_indexnow.constants import Kind, Reason
from wagtail_indexnow.ledger.backoff import retry_delay
from wagtail_indexnow.pages.guards import (
    GO,
    PAGE_GUARDS,
    Decision,
    PageFacts,
    Planned,
    Policy,
    decide,
    is_being_copied,
    page_reason,
    skip,
    wait,
    wait_delay,
)

T1 = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
T2 = T1 + timedelta(hours=5)
BEFORE, AFTER = T1 - timedelta(days=3), T1 + timedelta(seconds=40)
PLANNED_AT = T1 - timedelta(days=1)
NOW = T1 + timedelta(minutes=1)
OURS, OTHER = 7, 9
MINUTE = timedelta(seconds=60)


POLICY = Policy(aliases=False)
PUBLIC = PageFacts(
    live=True,
    expired=False,
    live_revision_id=None,
    last_published_at=AFTER,
    approved={},
    is_private=False,
    is_alias=False,
    is_embargoed=False,
    is_excluded=False,
    copied_at=None,
)


def planned(kind: Kind, *, reason: str = "", waits: int = 0) -> Planned:
    return Planned(
        kind=kind,
        revision_id=OURS,
        expected_at=T1,
        reason=reason,
        waits=waits,
        created_at=PLANNED_AT,
    )


def go_live(**changes: Any) -> Planned:
    return planned(Kind.GO_LIVE, **changes)


def page(**facts: Any) -> PageFacts:
    return replace(PUBLIC, **facts)


GO_LIVE_ROWS: dict[str, tuple[PageFacts | None, Decision]] = {
    "gone": (None, skip(Reason.PAGE_DELETED)),
    "live-ours-published_since": (page(live_revision_id=OURS), GO),
    "live-ours-published_exactly_then": (page(live_revision_id=OURS, last_published_at=T1), GO),
    "live-ours-published_since-although_approved_again": (
        page(live_revision_id=OURS, approved={OTHER: T2}),
        GO,
    ),
    "not_live-approved_ours": (
        page(live=False, approved={OURS: T1}, last_published_at=None),
        wait(Reason.NOT_PUBLISHED_YET, NOW + MINUTE),
    ),
    "live-approved_ours": (
        page(approved={OURS: T1}, live_revision_id=OTHER, last_published_at=BEFORE),
        wait(Reason.NOT_PUBLISHED_YET, NOW + MINUTE),
    ),
    "live-approved_ours-in_another_zone": (
        page(
            approved={OURS: T1.astimezone(datetime.now().astimezone().tzinfo)},
            last_published_at=BEFORE,
        ),
        wait(Reason.NOT_PUBLISHED_YET, NOW + MINUTE),
    ),
    "mid_schedule-two_approved": (
        page(live=False, approved={OTHER: T2, OURS: T1}, last_published_at=None),
        wait(Reason.NOT_PUBLISHED_YET, NOW + MINUTE),
    ),
    "not_live-approved_another": (
        page(live=False, approved={OTHER: T1}),
        skip(Reason.SCHEDULE_CHANGED),
    ),
    "live-approved_ours_at_another_time": (
        page(approved={OURS: T2}, live_revision_id=OTHER, last_published_at=BEFORE),
        skip(Reason.SCHEDULE_CHANGED),
    ),
    "live-approved_ours_a_microsecond_later": (
        page(approved={OURS: T1 + timedelta(microseconds=1)}, last_published_at=BEFORE),
        skip(Reason.SCHEDULE_CHANGED),
    ),
    "live-another-published_since_planned": (
        page(live_revision_id=OTHER, last_published_at=PLANNED_AT + timedelta(microseconds=1)),
        skip(Reason.PUBLISHED_OTHERWISE),
    ),
    "live-ours-published_before_its_time": (
        page(live_revision_id=OURS, last_published_at=T1 - timedelta(microseconds=1)),
        skip(Reason.PUBLISHED_OTHERWISE),
    ),
    "live-another-not_published_since_planned": (
        page(live_revision_id=OTHER, last_published_at=PLANNED_AT),
        wait(Reason.SCHEDULE_CANCELLED, NOW + MINUTE),
    ),
    "live-ours-not_published_since_planned": (
        page(live_revision_id=OURS, last_published_at=BEFORE),
        wait(Reason.SCHEDULE_CANCELLED, NOW + MINUTE),
    ),
    "live-another-never_published": (
        page(live_revision_id=OTHER, last_published_at=None),
        wait(Reason.SCHEDULE_CANCELLED, NOW + MINUTE),
    ),
    "live-none-published_since": (page(live_revision_id=None), GO),
    "live-none-published_since_planned_but_before": (
        page(live_revision_id=None, last_published_at=T1 - timedelta(microseconds=1)),
        wait(Reason.SCHEDULE_CANCELLED, NOW + MINUTE),
    ),
    "live-none-published_before": (
        page(live_revision_id=None, last_published_at=BEFORE),
        wait(Reason.SCHEDULE_CANCELLED, NOW + MINUTE),
    ),
    "live-none-never_published": (
        page(live_revision_id=None, last_published_at=None),
        wait(Reason.SCHEDULE_CANCELLED, NOW + MINUTE),
    ),
    "live-another-not_published_since_planned-although_expired": (
        page(live_revision_id=OTHER, last_published_at=BEFORE, expired=True),
        wait(Reason.SCHEDULE_CANCELLED, NOW + MINUTE),
    ),
    "not_live-expired": (page(live=False, expired=True), skip(Reason.EXPIRED)),
    "not_live-none-first_look": (
        page(live=False, last_published_at=None),
        wait(Reason.SCHEDULE_CANCELLED, NOW + MINUTE),
    ),
}


def test_going_on_and_skipping_wait_for_nothing() -> None:
    assert GO.until is None
    assert skip(Reason.PRIVATE).until is None


@pytest.mark.parametrize(("facts", "decision"), GO_LIVE_ROWS.values(), ids=GO_LIVE_ROWS)
def test_go_live_row(facts: PageFacts | None, decision: Decision) -> None:
    assert decide(go_live(), facts, now=NOW) == decision


@pytest.mark.parametrize(
    "facts",
    [
        page(live=False, last_published_at=None),
        page(last_published_at=BEFORE),
        page(live_revision_id=OTHER, last_published_at=BEFORE),
    ],
    ids=["not_live", "live_without_revision", "live_another"],
)
def test_r75_cancelled_schedule_is_believed_at_the_second_check(facts: PageFacts) -> None:
    """R75: an unscheduled update of a live page is not “another version was published”."""
    intent = go_live(reason=Reason.SCHEDULE_CANCELLED, waits=1)

    assert decide(intent, facts, now=NOW) == skip(Reason.SCHEDULE_CANCELLED)


def test_page_that_turned_live_between_the_checks_goes_on() -> None:
    intent = go_live(reason=Reason.SCHEDULE_CANCELLED, waits=1)

    assert decide(intent, page(live_revision_id=OURS), now=NOW) == GO


@pytest.mark.parametrize(
    ("late", "verb"),
    [
        (timedelta(days=7) - timedelta(microseconds=1), "wait"),
        (timedelta(days=7), "skip"),
        (timedelta(days=30), "skip"),
    ],
    ids=["before", "exactly", "after"],
)
def test_page_that_is_never_published_ends_after_seven_days(late: timedelta, verb: str) -> None:
    decision = decide(go_live(), page(live=False, approved={OURS: T1}), now=T1 + late)

    reason = Reason.NOT_PUBLISHED_YET if verb == "wait" else Reason.NEVER_PUBLISHED
    assert (decision.verb, decision.reason) == (verb, reason)


@pytest.mark.parametrize(("waits", "seconds"), [(0, 60), (1, 300), (2, 900), (3, 900), (100, 900)])
def test_pauses_while_waiting_for_publish_scheduled(waits: int, seconds: int) -> None:
    facts = page(live=False, approved={OURS: T1})

    assert wait_delay(waits) == timedelta(seconds=seconds)
    decision = decide(go_live(waits=waits), facts, now=NOW)
    assert decision == wait(Reason.NOT_PUBLISHED_YET, NOW + timedelta(seconds=seconds))


def test_schedule_that_is_checked_early_waits_for_its_time() -> None:
    facts = page(live=False, approved={OURS: T1})

    decision = decide(go_live(waits=1), facts, now=T1 - timedelta(hours=2))

    assert decision == wait(Reason.NOT_PUBLISHED_YET, T1)


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(1, 60), (2, 300), (3, 900), (4, 3600), (50, 3600)]
)
def test_pauses_after_faults_of_a_page(attempts: int, seconds: int) -> None:
    assert retry_delay(attempts) == timedelta(seconds=seconds)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind != Kind.GO_LIVE])
def test_other_kinds_check_their_page_whatever_became_of_it(kind: Kind) -> None:
    for facts in (None, page(), page(live=False), page(is_private=True), page(is_excluded=True)):
        assert decide(planned(kind), facts, now=NOW) == GO


def test_w12_page_without_publishing_time_is_compared_with_nothing() -> None:
    facts = page(last_published_at=None)

    assert decide(planned(Kind.PUBLISH), facts, now=NOW) == GO
    assert decide(go_live(), facts, now=NOW).verb == "wait"


PAGE_ROWS: dict[str, tuple[PageFacts | None, Policy, Reason]] = {
    "gone": (None, POLICY, Reason.PAGE_DELETED),
    "not_live": (page(live=False), POLICY, Reason.NOT_LIVE),
    "private": (page(is_private=True), POLICY, Reason.PRIVATE),
    "alias": (page(is_alias=True), POLICY, Reason.ALIAS),
    "embargoed": (page(is_alias=True, is_embargoed=True), Policy(aliases=True), Reason.EMBARGOED),
    "excluded": (page(is_excluded=True), POLICY, Reason.EXCLUDED),
}


@pytest.mark.parametrize(("facts", "policy", "reason"), PAGE_ROWS.values(), ids=PAGE_ROWS)
def test_page_row(facts: PageFacts | None, policy: Policy, reason: Reason) -> None:
    assert page_reason(facts, policy) == reason


def test_public_page_passes() -> None:
    assert page_reason(PUBLIC, POLICY) == ""


def test_page_guards_are_asked_in_this_order() -> None:
    """The first of several reasons is the one that an editor reads."""
    everything = page(
        live=False, is_private=True, is_alias=True, is_embargoed=True, is_excluded=True
    )

    assert page_reason(everything, POLICY) == Reason.NOT_LIVE
    assert [reason for reason, _forbids in PAGE_GUARDS] == [
        Reason.NOT_LIVE,
        Reason.PRIVATE,
        Reason.ALIAS,
        Reason.EMBARGOED,
        Reason.EXCLUDED,
    ]


def test_alias_passes_if_the_site_wants_aliases() -> None:
    assert page_reason(page(is_alias=True), Policy(aliases=True)) == ""


@pytest.mark.parametrize(
    ("age", "is_copied"),
    [(timedelta(0), True), (timedelta(seconds=59), True), (MINUTE, False)],
    ids=["now", "a_moment_ago", "settled"],
)
@pytest.mark.parametrize("kind", [Kind.PUBLISH, Kind.MANUAL, Kind.AUDIT])
def test_fresh_copy_waits_until_no_page_was_copied_for_a_minute(
    kind: Kind, age: timedelta, is_copied: bool
) -> None:
    facts = page(copied_at=NOW - age)

    assert is_being_copied(facts, now=NOW) is is_copied
    expected = wait(Reason.COPYING, NOW + MINUTE) if is_copied else GO
    assert decide(planned(kind), facts, now=NOW) == expected


def test_copy_that_is_not_live_does_not_wait() -> None:
    facts = page(live=False, copied_at=NOW)

    assert decide(planned(Kind.PUBLISH), facts, now=NOW) == GO


def test_page_that_is_no_copy_does_not_wait() -> None:
    assert not is_being_copied(page(), now=NOW)
