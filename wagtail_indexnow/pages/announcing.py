"""Due intents → changed tracked URLs: read facts, ask the guards, converge, write.

Everything is read fresh and computed outside any transaction. One short transaction then ends
each intent, only if it is still as it was read, and marks the URLs of those that were won.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from .. import clock
from ..conf import conf
from ..constants import CONTENT_KINDS, IntentState, Kind
from ..ledger import intents, tracked_urls
from ..ledger.tracked_urls import Marked
from ..models import Intent
from ..payloads import IntentRef
from .comparison import DATABASE_FAULTS, Converged, Look, look_again_if_outdated, translation_marks
from .guards import GO, PageFacts, Planned, Verdict, decide, decide_page
from .public_urls import Routing, routing
from .subtrees import announce_subtree

#: Kinds for which an end of being public is what they came to tell, not a reason to skip.
_CHANGE_KINDS = frozenset({Kind.REMOVE, Kind.MOVE, Kind.VISIBILITY})


@dataclass(frozen=True)
class Outcome:
    """What one look at an intent came to."""

    intent: Intent
    write: Callable[[], bool]  # ends the row, or moves it; False if somebody else was there
    marks: Sequence[Marked] = ()
    translations_of: UUID | None = None


def announce_intents(refs: Collection[IntentRef]) -> None:
    """Announce the intents that a message names, as far as they are still planned and due.

    A fault of one page never touches the others.

    :raises DatabaseError: the database failed; nothing is lost, the relay hands over again.
    """
    now, keys = clock.now(), [ref.key for ref in refs]
    found = list(Intent.objects.due(now).filter(key__in=keys).order_by("run_at", "pk"))
    if len(found) < len(keys):
        _leave_early(keys, now)
    singles = [intent for intent in found if not intent.subtree]
    if singles:
        look_again_if_outdated(lambda: _announce_pages(singles), otherwise=None)
    for intent in found:
        if intent.subtree:
            announce_subtree(intent)


def _leave_early(keys: Collection[str], now: datetime) -> None:
    """Forget the hand-over of rows whose message came early, by a clock that is ahead of ours.

    The relay hands them over again when they are due, not only when their lease is over.
    """
    early = Intent.objects.planned().filter(key__in=keys, run_at__gt=now)
    early.filter(handed_at__isnull=False).update(handed_at=None)


def _announce_pages(planned: Sequence[Intent]) -> None:
    with routing() as router:
        look = Look({intent.page_id for intent in planned}, router)
        outcomes = [_outcome(intent, look) for intent in planned]
        translations = _translations(outcomes, look, router)
    with intents.savepoint():
        # First the rows, then the URLs of those that are ours: a row that somebody else ended or
        # released meanwhile brings no URL.
        won = [outcome for outcome in outcomes if outcome.write()]
        ids = {outcome.intent.pk for outcome in won}
        marks = [mark for outcome in won for mark in outcome.marks]
        marks += [mark for mark in translations if mark.intent_id in ids]
        tracked_urls.mark(marks, now=clock.now())


def _translations(outcomes: Sequence[Outcome], look: Look, router: Routing) -> list[Marked]:
    causes = {
        outcome.translations_of: outcome.intent.pk
        for outcome in outcomes
        if outcome.translations_of
    }
    looked_at = {outcome.intent.page_id for outcome in outcomes if outcome.marks}
    return list(translation_marks(causes, router, besides=looked_at))


def _outcome(intent: Intent, look: Look) -> Outcome:
    try:
        return _decide(intent, look)
    except DATABASE_FAULTS:
        raise
    except Exception as error:  # the page's own code
        return Outcome(intent, partial(intents.retry_or_fail, intent, error))


def _decide(intent: Intent, look: Look) -> Outcome:
    now, facts = clock.now(), look.facts(intent.page_id)
    verdict = decide(as_planned(intent), facts, look.policy, now=now)
    if verdict.outcome == "wait":
        until = now + verdict.delay
        return Outcome(intent, partial(intents.wait, intent, until, reason=verdict.reason))
    if verdict != GO and _is_public(facts, look):
        # The page has its own news, and its own intents for them.
        return _ended(intent, Converged(reason=verdict.reason), facts)
    is_new = intent.kind in CONTENT_KINDS
    content = look.content(intent.page_id, is_new=is_new, always=intent.kind == Kind.MANUAL)
    converged = look.converge(
        intent.page_id,
        intent_id=intent.pk,
        content=content,
        former=intent.former_urls.get("own", ()),
    )
    return _ended(intent, converged, facts, verdict)


def _ended(
    intent: Intent, converged: Converged, facts: PageFacts | None, verdict: Verdict = GO
) -> Outcome:
    reason = verdict.reason or converged.reason
    has_told = not reason or (intent.kind in _CHANGE_KINDS and bool(converged.marks))
    write = partial(
        intents.end,
        intent,
        IntentState.ANNOUNCED if has_told else IntentState.SKIPPED,
        reason="" if has_told else reason,
        published_at=facts.last_published_at if facts and has_told else None,
    )
    key = intent.translation_key if _concerns_translations(intent, converged, facts) else None
    return Outcome(intent, write, converged.marks, key)


def _concerns_translations(intent: Intent, converged: Converged, facts: PageFacts | None) -> bool:
    """Say whether the page's translations are announced along, by `TRANSLATIONS`."""
    if conf.translations == "never" or not converged.marks:
        return False
    if conf.translations == "always":
        return True
    return (
        intent.kind == Kind.GO_LIVE
        or _is_first_publish(intent, facts)
        # Renamed or opted out along with a publish, before the row of that change came to it.
        or converged.removes_urls
        or (intent.kind in _CHANGE_KINDS and converged.changes_urls)
    )


def _is_first_publish(intent: Intent, facts: PageFacts | None) -> bool:
    return (
        intent.kind == Kind.PUBLISH
        and facts is not None
        and facts.first_published_at == facts.last_published_at
    )


def _is_public(facts: PageFacts | None, look: Look) -> bool:
    return facts is not None and decide_page(facts, look.policy) == GO


def as_planned(intent: Intent) -> Planned:
    """Return what the guards need to know of an intent."""
    return Planned(
        kind=intent.kind,
        revision_id=intent.revision_id,
        expected_at=intent.expected_at,
        reason=intent.reason,
        waits=intent.waits,
    )
