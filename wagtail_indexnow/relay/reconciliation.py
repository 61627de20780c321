"""Find what no signal announced: imports, bulk queries, a ledger that was away.

Once an hour, by comparing times for equality; whatever is more than a handful is left to an audit,
which compares URLs. Done in the relay's thread, so each function returns whether there is more.
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from django.contrib.contenttypes.models import ContentType
from django.db.models import Exists, OuterRef, Q
from wagtail.models import Revision

from .. import clock
from ..conf import conf
from ..constants import AUDIT_HEARTBEAT, IntentState, Kind, Reason
from ..hosts import is_served
from ..ledger import heartbeats, intents
from ..ledger.transactions import reading_primary
from ..models import CheckedPage, Intent, PublicUrl
from ..pages import audits
from ..pages.coverage import OpenEvents
from ..pages.model import page_model

logger = logging.getLogger(__name__)

SLICE = 500  # rows planned at a time: about a second
BATCH = 500  # revisions read with one query
MAX_DIFFERENCES = 10  # more are an audit's
GO_LIVES_AHEAD = timedelta(hours=2)

#: Endings of a go-live that a later approval of the same time, unseen by us, has overtaken.
_OVERTAKEN = (Reason.SCHEDULE_CHANGED, Reason.SCHEDULE_CANCELLED)

_Approval = tuple[int, int, datetime]  # page, revision, when


def plan_missing_go_lives() -> bool:
    """Plan schedules that are missing in the ledger and due within two hours."""
    missing = list(islice(_missing_go_lives(clock.now() + GO_LIVES_AHEAD), SLICE))
    pages = page_model().objects.in_bulk([page_id for page_id, _pk, _at in missing])
    for page_id, revision_id, expected_at in missing:
        logger.warning("page=%s at=%s state=found_by_reconciliation", page_id, expected_at)
        intents.plan_go_live(
            page_id=page_id,
            revision_id=revision_id,
            expected_at=expected_at,
            page_title=pages[page_id].title[:255],
            translation_key=pages[page_id].translation_key,
        )
    return len(missing) == SLICE


def reconcile() -> bool:
    """Plan a check of pages whose last publish, or whose end, left no trace in the inventory.

    If there are more than ten, an audit comes forward instead, unless the last one found too many
    changes at once. Before the first audit has ended nothing is known well enough.
    """
    last = audits.last_audit()
    if last is None:
        return False
    with reading_primary():
        found = [*_unseen_publishes(), *_rows_of_pages_gone()]
        page_ids = list(dict.fromkeys(found))
        covered = OpenEvents(now=clock.now()).covered(page_ids)
    differing = [pk for pk in page_ids if pk not in covered]
    if len(differing) > MAX_DIFFERENCES:
        if last.reason != Reason.MASS_CHANGE:
            heartbeats.release_job(AUDIT_HEARTBEAT)
        return False
    pages = page_model().objects.in_bulk(differing)
    for page_id in differing:
        logger.warning("page=%s state=found_by_reconciliation", page_id)
        intents.plan(Kind.AUDIT, page=pages.get(page_id), page_id=page_id, run_at=clock.now())
    return False


def plan_audit() -> bool:
    """Plan the audit that is due, unless one is open."""
    audits.plan_audit()
    return False


def _missing_go_lives(until: datetime) -> Iterator[_Approval]:
    for approvals in _approvals(until):
        there = set(
            page_model()
            .objects.filter(pk__in=[page_id for page_id, _pk, _at in approvals])
            .values_list("pk", flat=True)
        )
        wanted = {intents.go_live_key(page_id, at): page_id for page_id, _pk, at in approvals}
        known = Intent.objects.filter(key__in=wanted).exclude(
            state=IntentState.SKIPPED, reason__in=_OVERTAKEN
        )
        keys = set(known.values_list("key", flat=True))
        for page_id, revision_id, at in approvals:
            if page_id in there and intents.go_live_key(page_id, at) not in keys:
                yield page_id, revision_id, at


def _approvals(until: datetime) -> Iterator[list[_Approval]]:
    """Yield what is approved in batches: 100,000 of them would not fit a small worker."""
    approved = Revision.objects.filter(
        base_content_type=ContentType.objects.get_for_model(page_model()),
        approved_go_live_at__lte=until,
    )
    rows = approved.order_by("pk").values_list("object_id", "pk", "approved_go_live_at")
    last = 0
    while batch := list(rows.filter(pk__gt=last)[:BATCH]):
        yield [(int(object_id), pk, at) for object_id, pk, at in batch]
        last = batch[-1][1]


def _unseen_publishes() -> Iterator[int]:
    """Yield checked live pages whose `last_published_at` is not that of their last check."""
    checked = CheckedPage.objects.filter(page_id=OuterRef("pk"))
    published = OuterRef("last_published_at")
    has_time = Q(last_published_at__isnull=False)
    differs = (has_time & Q(Exists(checked.exclude(published_at=published)))) | (
        ~has_time & Q(Exists(checked.filter(published_at__isnull=False)))
    )
    failed = Intent.objects.filter(
        page_id=OuterRef("pk"), state=IntentState.FAILED, finished_at__gte=published
    )
    pages = page_model().objects.live().filter(differs).exclude(Exists(failed))
    if not conf.aliases:
        pages = pages.filter(alias_of=None)
    yield from pages.values_list("pk", flat=True)[:SLICE]


def _rows_of_pages_gone() -> Iterator[int]:
    """Yield pages that are gone or not live, of which the inventory has URLs of served hosts."""
    live = page_model().objects.live().filter(pk=OuterRef("page_id"))
    named = PublicUrl.objects.values_list("host", flat=True).distinct()
    served = [host for host in named if is_served(host)]
    rows = PublicUrl.objects.filter(~Exists(live), host__in=served).order_by("page_id")
    yield from rows.values_list("page_id", flat=True).distinct()[:SLICE]
