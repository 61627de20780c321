"""Many schedules at once, without the pages that would take hours to make."""

from datetime import timedelta

from django.utils import timezone

from wagtail_indexnow import intents
from wagtail_indexnow.constants import IntentState, Kind
from wagtail_indexnow.models import Intent

FIRST_PAGE_ID = 1_000_000  # no page has it


def add_schedules(count: int, *, within_s: float, after_s: float = 60) -> None:
    """Plan go-lives of pages, evenly spread from a minute ahead."""
    now = timezone.now()
    first = FIRST_PAGE_ID + Intent.objects.count()
    step = timedelta(seconds=(within_s - after_s) / count)
    Intent.objects.bulk_create(
        (
            _go_live(first + number, now, now + timedelta(seconds=after_s) + number * step)
            for number in range(count)
        ),
        batch_size=2_000,
    )


def add_history(count: int) -> None:
    """Add announcements that ended in the last weeks."""
    now = timezone.now()
    first = FIRST_PAGE_ID + Intent.objects.count()
    rows = []
    for number in range(count):
        at = now - timedelta(seconds=number)
        intent = _go_live(first + number, at, at)
        intent.run_at, intent.state, intent.finished_at = None, IntentState.ANNOUNCED, at
        intent.published_at = at
        rows.append(intent)
    Intent.objects.bulk_create(rows, batch_size=2_000)


def _go_live(page_id: int, now: object, at: object) -> Intent:
    return Intent(
        key=intents.go_live_key(page_id, at),  # type: ignore[arg-type]
        kind=Kind.GO_LIVE,
        page_id=page_id,
        page_title=f"Page {page_id}",
        locale="en",
        revision_id=page_id,
        expected_at=at,
        run_at=at,
        scheduled_by="user:1",
        created_at=now,
    )
