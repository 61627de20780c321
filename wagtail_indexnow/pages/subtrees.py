"""A moved, hidden or shown section: the same check as of one page, in chunks of its pages.

Each chunk is one transaction that writes its pages and how far it came, so that a worker that
dies loses one chunk's work and repeats none.
"""

import logging

from .. import clock
from ..constants import IntentState, Kind, Reason
from ..exceptions import describe
from ..ledger import intents
from ..ledger.backoff import retry_delay
from ..ledger.intents import PlannedWrite
from ..ledger.transactions import writing
from ..models import Intent
from .comparison import CHUNK_SIZE, Check, commit, in_chunks
from .coverage import subtree_paths
from .model import page_model
from .public_urls import routing

logger = logging.getLogger(__name__)


def announce_subtree(intent: Intent) -> None:
    """Announce a page and all below it, chunk by chunk.

    :raises DatabaseError: the database failed; the rest is done by the next hand-over.
    """
    in_chunks(intent, _announce_chunk)


def _announce_chunk(intent: Intent) -> bool:
    page_ids = _ids_after(intent)
    is_last = len(page_ids) < CHUNK_SIZE
    with routing() as router:
        check = Check(router, now=clock.now())
        # By key, since that stays: a tree path changes when pages are reordered or moved.
        check.read(dict.fromkeys(page_ids or [intent.page_pk], intent.pk))
        own = {pk for pk in check.known if pk not in check.faults and not check.is_being_copied(pk)}
        if intent.kind == Kind.MANUAL:
            check.always |= own
        pages = check.include_sharers(own)
        keys = {intent.page_pk: intent.translation_key}
        pages = check.include_sharers(pages | check.translations(pages, keys))
    with writing():
        if is_last:
            intents.write([_ending(intent, check)], now=check.now)
        else:
            intents.advance(intent, page_ids[-1], now=check.now)
        commit(check, pages)
        for page_id in sorted(check.faults.keys() & set(page_ids)):
            _plan_alone(intent, page_id, check)
    return not is_last


def _ids_after(intent: Intent) -> list[int]:
    """Return the next pages of the section by primary key; none if its top is gone."""
    found: set[int] = set()
    for path in subtree_paths(intent.page_pk, intent.kind):
        below = page_model().objects.filter(path__startswith=path, pk__gt=intent.cursor)
        found |= set(below.order_by("pk").values_list("pk", flat=True)[:CHUNK_SIZE])
    return sorted(found)[:CHUNK_SIZE]


def _ending(intent: Intent, check: Check) -> PlannedWrite:
    """End as announced, unless the page of a section that fits one chunk is not public."""
    top, reason = intent.page_pk, ""
    is_whole = not intent.cursor and top in check.known and top not in check.faults
    if is_whole and not any(check.changes(pk) for pk in check.known if pk not in check.faults):
        reason = check.reason(top)
    state = IntentState.SKIPPED if reason else IntentState.ANNOUNCED
    return PlannedWrite(intent=intent, state=state, reason=reason)


def _plan_alone(intent: Intent, page_id: int, check: Check) -> None:
    """Give a page whose own code failed an event of its own, so that the section goes on."""
    fault = check.faults[page_id]
    logger.warning("intent=%s page=%s error=%r", intent.key, page_id, fault, exc_info=fault)
    intents.insert(
        Kind(intent.kind),
        page=check.page(page_id),
        page_id=page_id,
        run_at=check.now + retry_delay(1),
        attempts=1,
        reason=Reason.PAGE_ERROR,
        error=describe(fault),
    )
