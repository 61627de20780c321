"""Find what no signal told of: imports, bulk queries, a ledger that was away.

Done a slice at a time, since it runs in the relay's thread: each function says whether it
stopped with more to find.
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from django.contrib.contenttypes.models import ContentType
from django.db.models import Exists, OuterRef, Q, QuerySet
from wagtail.models import Revision

from .. import clock
from ..conf import conf
from ..constants import CONTENT_KINDS, WAIT_DELAY_MAX, IntentState, Kind, Reason
from ..hosts import is_served
from ..ledger import intents
from ..models import Channel, Intent, TrackedUrl
from ..pages.public_urls import page_model

logger = logging.getLogger(__name__)

LOOK_BACK = timedelta(hours=48)
SOON = WAIT_DELAY_MAX  # until then an open intent will look at its page itself
SLICE = 500  # rows planned at a time: about a second
BATCH = 500  # revisions looked at with one query

#: Endings of a go-live that a later approval of the same time, unseen by us, has overtaken.
_OVERTAKEN = (Reason.SCHEDULE_CHANGED, Reason.SCHEDULE_CANCELLED)

_Approval = tuple[int, int, datetime]  # page, revision, when


def reconcile_near() -> bool:
    """Plan schedules that are missing in the ledger and due within the horizon."""
    return _plan_missing_go_lives(until=clock.now() + conf.schedule_horizon)


def reconcile_wide() -> bool:
    """Plan all schedules, publishes and removals that are missing in the ledger."""
    # A list, so that each has its slice: much of one kind must not hide the others.
    return any(
        [
            _plan_missing_go_lives(until=None),
            _plan_missing_publishes(since=clock.now() - LOOK_BACK) == SLICE,
            _plan_missing_removals() == SLICE,
        ]
    )


def _plan_missing_go_lives(*, until: datetime | None) -> bool:
    missing = list(islice(_missing_go_lives(until), SLICE))
    pages = page_model().objects.in_bulk([page_id for page_id, _pk, _at in missing])
    for page_id, revision_id, expected_at in missing:
        if page_id in pages:
            logger.warning("page=%s at=%s state=found_by_reconciliation", page_id, expected_at)
            intents.plan_go_live(
                page=pages[page_id], revision_id=revision_id, expected_at=expected_at
            )
    return len(missing) == SLICE


def _missing_go_lives(until: datetime | None) -> Iterator[_Approval]:
    for approvals in _approvals(until):
        wanted = {intents.go_live_key(page_id, at): page_id for page_id, _pk, at in approvals}
        told = Intent.objects.filter(key__in=wanted).exclude(
            state=IntentState.SKIPPED, reason__in=_OVERTAKEN
        )
        known = set(told.values_list("key", flat=True))
        for page_id, revision_id, at in approvals:
            if intents.go_live_key(page_id, at) not in known:
                yield page_id, revision_id, at


def _approvals(until: datetime | None) -> Iterator[list[_Approval]]:
    """Yield what is approved in batches: 100,000 of them would not fit a small worker."""
    approved = Revision.objects.filter(
        base_content_type=ContentType.objects.get_for_model(page_model()),
        approved_go_live_at__isnull=False,
    )
    if until is not None:
        approved = approved.filter(approved_go_live_at__lte=until)
    rows = approved.order_by("pk").values_list("object_id", "pk", "approved_go_live_at")
    last = 0
    while batch := list(rows.filter(pk__gt=last)[:BATCH]):
        yield [(int(object_id), pk, at) for object_id, pk, at in batch]
        last = batch[-1][1]


def _plan_missing_publishes(*, since: datetime) -> int:
    """Plan pages that were published since a moment and later than their last intent."""
    pages = page_model().objects.live().filter(last_published_at__gte=since)
    if not conf.aliases:
        pages = pages.filter(alias_of=None)
    missing = list(pages.filter(~Exists(_seen())).order_by("last_published_at")[:SLICE])
    for page in missing:
        logger.warning("page=%s state=found_by_reconciliation", page.pk)
        intents.plan_publish(page=page, revision_id=page.live_revision_id)
    return len(missing)


def _seen() -> QuerySet[Intent]:
    """Select the intents that know of a page's last publish, whatever they made of it."""
    published_at = OuterRef("last_published_at")
    return Intent.objects.filter(page_id=OuterRef("pk")).filter(
        (Q(created_at__gte=published_at) & ~Q(kind=Kind.GO_LIVE, run_at__gt=clock.now()))
        | Q(published_at__gte=published_at)
        | Q(kind__in=CONTENT_KINDS, finished_at__gte=published_at)
        | Q(state=IntentState.PLANNED, run_at__lte=clock.now())
        # Cancelled by a person, long before the page went live.
        | Q(kind=Kind.GO_LIVE, reason=Reason.CANCELLED, revision_id=OuterRef("live_revision_id"))
    )


def _plan_missing_removals() -> int:
    live = page_model().objects.live().filter(pk=OuterRef("page_id"))
    # A go-live far ahead says nothing of a page that is gone now.
    planned = Intent.objects.due(clock.now() + SOON).filter(page_id=OuterRef("page_id"))
    tracked = TrackedUrl.objects.public().filter(endpoint__in=conf.endpoints)
    # Of hosts that are not served here nothing may be said, ever again.
    named = set(Channel.objects.exclude(host="").values_list("host", flat=True))
    gone = (
        tracked.filter(host__in=[host for host in named if is_served(host)])
        .filter(~Exists(live), ~Exists(planned))
        .exclude(page_id=None)
        .order_by("page_id")
        .values_list("page_id", flat=True)
        .distinct()
    )
    page_ids = list(gone[:SLICE])
    for page_id in page_ids:
        intents.plan(Kind.REMOVE, page_id=page_id)
    return len(page_ids)
