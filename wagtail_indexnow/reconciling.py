"""Find what no signal told of: imports, bulk queries, a ledger that was away.

The near horizon is looked at each minute, the rest hourly, by one process for all.
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db.models import Exists, OuterRef, Q
from wagtail.models import Revision

from . import clock, heartbeats, intents
from .conf import conf
from .constants import IntentState, Kind, Reason
from .models import Intent, TrackedUrl
from .page_urls import page_model

logger = logging.getLogger(__name__)

NEAR, WIDE = timedelta(minutes=1), timedelta(hours=1)
LOOK_BACK = timedelta(hours=48)
LIMIT = 10_000
BATCH = 500

#: Endings of a go-live that a later approval of the same time, unseen by us, has overtaken.
_OVERTAKEN = (Reason.SCHEDULE_CHANGED, Reason.SCHEDULE_CANCELLED)


def reconcile() -> None:
    """Plan what is missing in the ledger, if it is this process's turn."""
    now = clock.now()
    if heartbeats.claim_turn("reconcile_near", NEAR):
        _plan_missing_go_lives(until=now + conf.schedule_horizon)
    if heartbeats.claim_turn("reconcile_wide", WIDE):
        _plan_missing_go_lives(until=None)
        plan_missing_publishes(since=now - LOOK_BACK)
        _plan_missing_removals()


def _plan_missing_go_lives(*, until: datetime | None) -> None:
    approved = Revision.objects.filter(
        base_content_type=ContentType.objects.get_for_model(page_model()),
        approved_go_live_at__isnull=False,
    )
    if until is not None:
        approved = approved.filter(approved_go_live_at__lte=until)
    found = list(
        approved.order_by("approved_go_live_at").values_list(
            "object_id", "pk", "approved_go_live_at"
        )[:LIMIT]
    )
    for start in range(0, len(found), BATCH):
        _plan_go_lives(found[start : start + BATCH])


def _plan_go_lives(rows: Iterable[tuple[str, int, datetime]]) -> None:
    wanted = {
        intents.go_live_key(int(object_id), at): (int(object_id), pk, at)
        for object_id, pk, at in rows
    }
    told = Intent.objects.filter(key__in=wanted).exclude(
        state=IntentState.SKIPPED, reason__in=_OVERTAKEN
    )
    missing = set(wanted) - set(told.values_list("key", flat=True))
    pages = page_model().objects.in_bulk([wanted[key][0] for key in missing])
    for key in missing:
        page_id, revision_id, expected_at = wanted[key]
        if page_id in pages:
            logger.warning("intent=%s state=found_by_reconciliation", key)
            intents.plan_go_live(
                page=pages[page_id], revision_id=revision_id, expected_at=expected_at
            )


def plan_missing_publishes(*, since: datetime) -> int:
    """Plan pages that were published since a moment and later than their last intent."""
    told = Intent.objects.filter(page_id=OuterRef("pk")).filter(
        Q(created_at__gte=OuterRef("last_published_at"))
        | Q(published_at__gte=OuterRef("last_published_at"))
        | Q(state=IntentState.PLANNED, run_at__lte=clock.now())
    )
    pages = page_model().objects.live().filter(last_published_at__gte=since)
    if not conf.aliases:
        pages = pages.filter(alias_of=None)
    missing = pages.filter(~Exists(told)).order_by("last_published_at")[:LIMIT]
    return _plan_each(Kind.PUBLISH, missing)


def _plan_missing_removals() -> None:
    live = page_model().objects.live().filter(pk=OuterRef("page_id"))
    planned = Intent.objects.planned().filter(page_id=OuterRef("page_id"))
    gone = (
        TrackedUrl.objects.public()
        .filter(~Exists(live), ~Exists(planned), page_id__isnull=False)
        .values_list("page_id", flat=True)
        .distinct()[:LIMIT]
    )
    for page_id in gone:
        intents.plan(Kind.REMOVE, page_id=page_id)


def _plan_each(kind: Kind, pages: Iterable[Any]) -> int:
    count = 0
    for page in pages:
        logger.warning("page=%s state=found_by_reconciliation", page.pk)
        intents.plan_publish(page=page, revision_id=page.live_revision_id)
        count += 1
    return count
