"""Many schedules at once, without the pages that would take hours to make."""

from datetime import timedelta

from django.db import connection
from django.utils import timezone

from wagtail_indexnow.constants import IntentState, Kind
from wagtail_indexnow.ledger import intents
from wagtail_indexnow.models import Intent

FIRST_PAGE_ID = 1_000_000  # no page has it
SEED = 25_000


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
    for number in range(min(count, SEED)):
        at = now - timedelta(seconds=number)
        intent = _go_live(first + number, at, at)
        intent.run_at, intent.state, intent.finished_at = None, IntentState.ANNOUNCED, at
        rows.append(intent)
    Intent.objects.bulk_create(rows, batch_size=2_000)
    _multiply(count)


def _multiply(count: int) -> None:
    """Let the database itself copy what has ended, until there is as much as wanted."""
    columns = [field.column for field in Intent._meta.local_fields if field.column != "id"]
    chosen = ", ".join("key || %s" if column == "key" else column for column in columns)
    table = Intent._meta.db_table
    ended = Intent.objects.filter(state=IntentState.ANNOUNCED)
    while (there := ended.count()) < count:
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM {table}"
                " WHERE state = 'announced' ORDER BY id LIMIT %s",
                [f"-{there}", min(there, count - there)],
            )


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
