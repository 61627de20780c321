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
    PageFacts,
    Planned,
    Policy,
    Verdict,
    decide,
    decide_page,
    is_being_copied,
    skip,
    wait,
    wait_delay,
)

T1 = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
T2 = T1 + timedelta(hours=5)
BEFORE, AFTER = T1 - timedelta(days=3), T1 + timedelta(seconds=40)
NOW = T1 + timedelta(minutes=1)
OURS, OTHER = 7, 9
MINUTE = timedelta(seconds=60)


POLICY = Policy(enabled=True, aliases=False)
PUBLIC = PageFacts(
    live=True,
    expired=False,
    live_revision_id=None,
    first_published_at=None,
    last_published_at=AFTER,
    approved={},
    announced=(),
    is_private=False,
    is_alias=False,
    is_embargoed=False,
    is_excluded=False,
    copied_until=None,
)


def planned(kind: Kind, *, reason: str = "", waits: int = 0) -> Planned:
    return Planned(kind=kind, revision_id=OURS, expected_at=T1, reason=reason, waits=waits)


def go_live(**changes: Any) -> Planned:
    return planned(Kind.GO_LIVE, **changes)


def page(**facts: Any) -> PageFacts:
    return replace(PUBLIC, **facts)


GO_LIVE_ROWS: dict[str, tuple[PageFacts | None, Verdict]] = {
    "gone": (None, skip(Reason.PAGE_DELETED)),
    "live-ours-published_since": (page(live_revision_id=OURS), GO),
    "live-ours-published_exactly_then": (page(live_revision_id=OURS, last_published_at=T1), GO),
    "live-ours-published_since-although_approved_again": (
        page(live_revision_id=OURS, approved={OTHER: T2}),
        GO,
    ),
    "not_live-approved_ours": (
        page(live=False, approved={OURS: T1}, last_published_at=None),
        wait(Reason.NOT_PUBLISHED_YET, MINUTE),
    ),
    "live-approved_ours": (
        page(approved={OURS: T1}, live_revision_id=OTHER, last_published_at=BEFORE),
        wait(Reason.NOT_PUBLISHED_YET, MINUTE),
    ),
    "live-approved_ours-in_another_zone": (
        page(
            approved={OURS: T1.astimezone(datetime.now().astimezone().tzinfo)},
            last_published_at=BEFORE,
        ),
        wait(Reason.NOT_PUBLISHED_YET, MINUTE),
    ),
    "mid_schedule-two_approved": (
        page(live=False, approved={OTHER: T2, OURS: T1}, last_published_at=None),
        wait(Reason.NOT_PUBLISHED_YET, MINUTE),
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
    "live-another": (
        page(live_revision_id=OTHER),
        skip(Reason.PUBLISHED_OTHERWISE),
    ),
    "live-ours-published_before": (
        page(live_revision_id=OURS, last_published_at=BEFORE),
        skip(Reason.PUBLISHED_OTHERWISE),
    ),
    "live-ours-published_a_moment_before": (
        page(live_revision_id=OURS, last_published_at=T1 - timedelta(microseconds=1)),
        skip(Reason.PUBLISHED_OTHERWISE),
    ),
    "live-none-published_since": (page(live_revision_id=None), GO),
    "live-none-published_before": (
        page(live_revision_id=None, last_published_at=BEFORE),
        wait(Reason.SCHEDULE_CANCELLED, MINUTE),
    ),
    "live-none-never_published": (
        page(live_revision_id=None, last_published_at=None),
        wait(Reason.SCHEDULE_CANCELLED, MINUTE),
    ),
    "not_live-expired": (page(live=False, expired=True), skip(Reason.EXPIRED)),
    "not_live-none-first_look": (
        page(live=False, last_published_at=None),
        wait(Reason.SCHEDULE_CANCELLED, MINUTE),
    ),
}


def test_going_on_and_skipping_wait_for_nothing() -> None:
    assert decide_page(PUBLIC, POLICY) == Verdict("go", "", timedelta(0))
    assert skip(Reason.PRIVATE) == Verdict("skip", Reason.PRIVATE, timedelta(0))


@pytest.mark.parametrize(("facts", "verdict"), GO_LIVE_ROWS.values(), ids=GO_LIVE_ROWS)
def test_go_live_row(facts: PageFacts | None, verdict: Verdict) -> None:
    assert decide(go_live(), facts, POLICY, now=NOW) == verdict


@pytest.mark.parametrize(
    "facts",
    [page(live=False, last_published_at=None), page(last_published_at=BEFORE)],
    ids=["not_live", "live_without_revision"],
)
def test_cancelled_schedule_is_believed_at_the_second_look(facts: PageFacts) -> None:
    intent = go_live(reason=Reason.SCHEDULE_CANCELLED, waits=1)

    assert decide(intent, facts, POLICY, now=NOW) == skip(Reason.SCHEDULE_CANCELLED)


def test_page_that_turned_live_between_the_looks_goes_on() -> None:
    intent = go_live(reason=Reason.SCHEDULE_CANCELLED, waits=1)

    assert decide(intent, page(live_revision_id=OURS), POLICY, now=NOW) == GO


@pytest.mark.parametrize(
    ("late", "verdict"),
    [
        (timedelta(days=7) - timedelta(microseconds=1), wait(Reason.NOT_PUBLISHED_YET, MINUTE)),
        (timedelta(days=7), skip(Reason.NEVER_PUBLISHED)),
        (timedelta(days=30), skip(Reason.NEVER_PUBLISHED)),
    ],
    ids=["before", "exactly", "after"],
)
def test_page_that_is_never_published_ends_after_seven_days(
    late: timedelta, verdict: Verdict
) -> None:
    facts = page(live=False, approved={OURS: T1})

    assert decide(go_live(), facts, POLICY, now=T1 + late) == verdict


@pytest.mark.parametrize(("waits", "seconds"), [(0, 60), (1, 300), (2, 900), (3, 900), (100, 900)])
def test_pauses_while_waiting_for_publish_scheduled(waits: int, seconds: int) -> None:
    facts = page(live=False, approved={OURS: T1})

    assert wait_delay(waits) == timedelta(seconds=seconds)
    verdict = decide(go_live(waits=waits), facts, POLICY, now=NOW)
    assert verdict == wait(Reason.NOT_PUBLISHED_YET, timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(1, 60), (2, 300), (3, 900), (4, 3600), (50, 3600)]
)
def test_pauses_after_faults_of_a_page(attempts: int, seconds: int) -> None:
    assert retry_delay(attempts) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (Kind.GO_LIVE, skip(Reason.ALREADY_ANNOUNCED)),
        (Kind.PUBLISH, skip(Reason.ALREADY_ANNOUNCED)),
        (Kind.MANUAL, GO),
        (Kind.MOVE, GO),
        (Kind.REMOVE, GO),
        (Kind.VISIBILITY, GO),
    ],
)
def test_version_that_was_announced_before(kind: Kind, verdict: Verdict) -> None:
    facts = page(live_revision_id=OURS, announced={BEFORE, AFTER})

    assert decide(planned(kind), facts, POLICY, now=NOW) == verdict


def test_other_version_was_announced_before() -> None:
    facts = page(announced={BEFORE})

    assert decide(planned(Kind.PUBLISH), facts, POLICY, now=NOW) == GO


def test_w12_page_without_publishing_time_is_compared_with_nothing() -> None:
    facts = page(last_published_at=None)

    assert decide(planned(Kind.PUBLISH), facts, POLICY, now=NOW) == GO
    assert decide(go_live(), facts, POLICY, now=NOW).outcome == "wait"


PAGE_ROWS: dict[str, tuple[dict[str, Any], Policy, Reason]] = {
    "disabled": ({}, replace(POLICY, enabled=False), Reason.DISABLED),
    "not_live": ({"live": False}, POLICY, Reason.NOT_LIVE),
    "private": ({"is_private": True}, POLICY, Reason.PRIVATE),
    "alias": ({"is_alias": True}, POLICY, Reason.ALIAS),
    "embargoed": (
        {"is_alias": True, "is_embargoed": True},
        replace(POLICY, aliases=True),
        Reason.EMBARGOED,
    ),
    "excluded": ({"is_excluded": True}, POLICY, Reason.EXCLUDED),
}


@pytest.mark.parametrize(("facts", "policy", "reason"), PAGE_ROWS.values(), ids=PAGE_ROWS)
@pytest.mark.parametrize("kind", list(Kind))
def test_page_row_forbids_every_kind(
    kind: Kind, facts: dict[str, Any], policy: Policy, reason: Reason
) -> None:
    # Live by our revision a moment ago: the go-live's own guards let it pass.
    found = page(**{"live_revision_id": OURS, **facts})

    verdict = decide(planned(kind), found, policy, now=NOW)

    is_own_guard = kind == Kind.GO_LIVE and reason == Reason.NOT_LIVE
    assert verdict == (wait(Reason.SCHEDULE_CANCELLED, MINUTE) if is_own_guard else skip(reason))
    assert decide_page(found, policy) == skip(reason)


def test_page_guards_are_asked_in_this_order() -> None:
    """The first of several reasons is the one that an editor reads."""
    everything = page(
        live=False, is_private=True, is_alias=True, is_embargoed=True, is_excluded=True
    )

    assert decide_page(everything, replace(POLICY, enabled=False)) == skip(Reason.DISABLED)
    assert [reason for reason, _forbids in PAGE_GUARDS] == [
        Reason.DISABLED,
        Reason.NOT_LIVE,
        Reason.PRIVATE,
        Reason.ALIAS,
        Reason.EMBARGOED,
        Reason.EXCLUDED,
    ]


def test_alias_passes_if_the_site_wants_aliases() -> None:
    assert decide_page(page(is_alias=True), replace(POLICY, aliases=True)) == GO


@pytest.mark.parametrize(
    ("age", "is_copied"),
    [(timedelta(0), True), (timedelta(seconds=59), True), (MINUTE, False)],
    ids=["now", "a_moment_ago", "settled"],
)
def test_fresh_copy_waits_until_nothing_was_written_for_a_minute(
    age: timedelta, is_copied: bool
) -> None:
    facts = page(copied_until=NOW - age)

    assert is_being_copied(facts, now=NOW) is is_copied
    verdict = decide(planned(Kind.PUBLISH), facts, POLICY, now=NOW)
    assert verdict == (wait(Reason.COPYING, MINUTE) if is_copied else GO)


def test_page_that_is_no_copy_does_not_wait() -> None:
    assert not is_being_copied(page(), now=NOW)
