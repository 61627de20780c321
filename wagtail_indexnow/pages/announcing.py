"""Due intents → the difference between the inventory and what is public now, marked.

Everything is read fresh and computed outside any transaction. One short transaction then ends the
intents, only if they are still as they were read, and writes inventory and tracked URLs.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress

from django.db.models import Q

from .. import clock
from ..conf import conf
from ..constants import IntentState, Kind, Reason
from ..exceptions import OutdatedError
from ..ledger import intents, tracked_urls
from ..ledger.intents import PlannedWrite
from ..ledger.transactions import reading_primary, writing
from ..models import Intent, IntentQuerySet
from ..payloads import IntentRef
from .audits import audit_site
from .comparison import Check, commit, repeat_if_outdated
from .coverage import OpenEvents
from .guards import Decision, Planned, decide
from .public_urls import routing
from .subtrees import announce_subtree


def announce_intents(refs: Collection[IntentRef]) -> None:
    """Announce the intents that a message names, as far as they are still open and due.

    A fault of one page never touches the others.

    :raises DatabaseError: the database failed; nothing is lost, the relay hands over again.
    """
    named = Intent.objects.filter(key__in=[ref.key for ref in refs])
    with reading_primary():
        # A clock that is ahead of ours sent these early. Without a hand-over, the relay sends
        # them again when they are due, not only when a lease is over.
        named.filter(run_at__gt=clock.now(), handed_at__isnull=False).update(handed_at=None)
        if not conf.enabled:
            _end_all(named.due(clock.now()), Reason.DISABLED)
            return
        repeat_if_outdated(lambda: _announce_pages(named), otherwise=None)
        for intent in named.due(clock.now()).filter(Q(subtree=True) | Q(page_id=None)):
            if intent.page_id is None:
                audit_site(intent)
            else:
                announce_subtree(intent)


def as_planned(intent: Intent) -> Planned:
    """Return what the guards need to know of an intent."""
    return Planned(
        kind=intent.kind,
        revision_id=intent.revision_id,
        expected_at=intent.expected_at,
        reason=intent.reason,
        waits=intent.waits,
        created_at=intent.created_at,
    )


def _end_all(due: IntentQuerySet, reason: Reason) -> None:
    writes = [
        PlannedWrite(intent=intent, state=IntentState.SKIPPED, reason=reason) for intent in due
    ]
    with suppress(OutdatedError), writing():
        intents.write(writes, now=clock.now())


def _announce_pages(named: IntentQuerySet) -> None:
    now = clock.now()
    due = named.due(now).filter(subtree=False, page_id__isnull=False)
    found = list(due.order_by("run_at", "pk"))
    if not found:
        return
    with routing() as router:
        check = Check(router, now=now)
        # Of several events of one page, the first stands for what it changes.
        check.read({intent.page_pk: intent.pk for intent in reversed(found)})
        decisions = {
            intent.pk: decide(as_planned(intent), check.facts(intent.page_pk), now=now)
            for intent in found
            if intent.page_pk not in check.faults
        }
        going = [intent for intent in found if decisions.get(intent.pk, _WAITS).verb != "wait"]
        check.always |= {intent.page_pk for intent in going if intent.kind == Kind.MANUAL}
        hushed = _hushed(going)
        silent = _silent_pages(check, going, hushed)
        pages = check.include_sharers({intent.page_pk for intent in going})
        along = check.translations(
            pages - silent, {intent.page_pk: intent.translation_key for intent in going}
        )
        pages = check.include_sharers(pages | along)
    writes = [
        _write_of(intent, decisions.get(intent.pk), check, is_hushed=intent.pk in hushed)
        for intent in found
    ]
    with writing():
        intents.write(writes, now=now)
        commit(check, pages, silent=silent)


#: A page whose own code failed tells nothing.
_WAITS = Decision("wait")


def _write_of(
    intent: Intent, decision: Decision | None, check: Check, *, is_hushed: bool
) -> PlannedWrite:
    if decision is None:
        return intents.retry_or_fail(intent, check.faults[intent.page_pk], now=check.now)
    if decision.verb == "wait":
        return PlannedWrite(
            intent=intent,
            state=intent.state,
            reason=decision.reason,
            run_at=decision.until,
            attempts=intent.attempts,
            waits=intent.waits + 1,
        )
    state, reason = IntentState.ANNOUNCED, ""
    if decision.verb == "skip":
        state, reason = IntentState.SKIPPED, decision.reason
    elif is_hushed:
        reason = Reason.CANCELLED
        is_go_live = intent.state == IntentState.CANCELLED
        state = IntentState.CANCELLED if is_go_live else IntentState.SKIPPED
    elif check.reason(intent.page_pk) and not check.changes(intent.page_pk):
        state, reason = IntentState.SKIPPED, check.reason(intent.page_pk)
    return PlannedWrite(intent=intent, state=state, reason=reason, attempts=intent.attempts)


def _hushed(found: Sequence[Intent]) -> set[int]:
    """Return the events that announce nothing: cancelled go-lives, and their own publishes."""
    cancelled = {intent.pk for intent in found if intent.state == IntentState.CANCELLED}
    publishes = [intent for intent in found if intent.kind == Kind.PUBLISH and intent.revision_id]
    if not publishes:
        return cancelled
    go_lives = Intent.objects.open().filter(
        kind=Kind.GO_LIVE,
        state=IntentState.CANCELLED,
        revision_id__in={intent.revision_id for intent in publishes},
    )
    expected = dict(go_lives.values_list("revision_id", "expected_at"))
    return cancelled | {
        intent.pk
        for intent in publishes
        if (at := expected.get(intent.revision_id)) is not None and intent.created_at >= at
    }


def _silent_pages(check: Check, going: Sequence[Intent], hushed: Collection[int]) -> set[int]:
    """Return the pages that no event speaks for: the inventory follows, nothing is announced.

    Another event that is due within a minute speaks for its page, and so does the removal of one
    of its URLs that is still pending.
    """
    quiet = {intent.page_pk for intent in going if intent.pk in hushed}
    quiet -= {intent.page_pk for intent in going if intent.pk not in hushed}
    if not quiet:
        return set()
    soon = Intent.objects.open().filter(page_id__in=quiet, kind=Kind.PUBLISH)
    own = {intent.pk for intent in going} | _hushed(list(soon))
    others = OpenEvents(now=check.now, cancelled=False, exclude=own)
    urls = {page_id: {*check.known[page_id].urls, *check.urls(page_id)} for page_id in quiet}
    pending = tracked_urls.pending_removals({url for found in urls.values() for url in found})
    return {page_id for page_id in quiet - others.covered(quiet) if not urls[page_id] & pending}
