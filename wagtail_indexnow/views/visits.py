"""Visits in the admin: a column and a filter of the URLs report, a panel of the settings."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..constants import UrlState
from ..diagnostics.visit_notes import LATE, duration
from ..models import TrackedUrl, Visit
from ..visits import figures
from .columns import NotedColumn

VISITED, NOT_VISITED = "visited", "not_visited"
CHOICES = [
    (VISITED, gettext_lazy("Visited by a crawler")),
    (NOT_VISITED, gettext_lazy("Not visited after a week")),
]


def visited_by_column() -> NotedColumn:
    """Return the column of rows that went through `with_visits`."""
    return NotedColumn(
        "visited_by",
        label=gettext_lazy("Visited by"),
        note=lambda row: duration(row.visits[0].delay) if row.visits else None,
    )


def with_visits(rows: list[Any]) -> list[Any]:
    """Attach to each tracked URL its visits and who they were by, in one query for all."""
    keys = {row.pk: (row.serializable_value("submission"), row.url_hash) for row in rows}
    found = figures.first_visits([key for key in keys.values() if key[0] is not None])
    for row in rows:
        row.visits = found.get(keys[row.pk], [])
        row.visited_by = ", ".join(visit.crawler for visit in row.visits)
    return rows


def filter_visited(rows: QuerySet[TrackedUrl], value: str, now: datetime) -> QuerySet[TrackedUrl]:
    """Return the URLs that a crawler visited after their last submission, or none did in a week."""
    visits = Visit.objects.served().filter(
        submission=OuterRef("submission"), url_hash=OuterRef("url_hash")
    )
    if value == VISITED:
        return rows.filter(Exists(visits))
    late = rows.filter(state=UrlState.ACCEPTED, sent_at__lte=now - LATE)
    return late.exclude(Exists(visits))


def settings_panel(now: datetime) -> dict[str, Any]:
    """Return what the settings page says of visits."""
    is_complete = figures.is_complete(now)
    return {
        "is_observed": figures.is_observed(),
        "is_complete": is_complete,
        "rows": [_row(item) for item in figures.by_crawler(now)] if is_complete else [],
    }


def _row(item: figures.CrawlerFigures) -> dict[str, Any]:
    shares: Iterable[float | None] = item.shares.values()
    return {
        "crawler": item.crawler,
        "shares": [
            _("%(share)s %%") % {"share": round(100 * share)} if share is not None else "–"
            for share in shares
        ],
        "median": duration(item.median) if item.median is not None else "–",
    }
