"""What visits say: who came to a URL how soon, and which share of submitted URLs was visited.

Shares are over submissions that are older than the time in question, so that recent ones, which
may still be visited, do not lower them.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import (
    Count,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
)

from ..conf import conf
from ..ledger import heartbeats
from ..models import Submission, Visit
from .recording import LOGS_HEARTBEAT

SPAN = timedelta(days=30)
WINDOWS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
MIDDLEWARE = "wagtail_indexnow.middleware.VisitMiddleware"


class FirstVisit(NamedTuple):
    """When a crawler first came to a URL after its last submission."""

    crawler: str
    visited_at: datetime
    started_at: datetime  # of the submission

    @property
    def delay(self) -> timedelta:
        return self.visited_at - self.started_at


@dataclass(frozen=True, kw_only=True)
class CrawlerFigures:
    """The share of URLs that one crawler visited within each of `WINDOWS`.

    `None`: no submission is that old. The median is of those visited within a week.
    """

    crawler: str
    shares: Mapping[str, float | None]
    median: timedelta | None


def is_observed() -> bool:
    """Return whether visits can be seen at all: by the middleware, or in logs."""
    return MIDDLEWARE in settings.MIDDLEWARE or heartbeats.last_seen(LOGS_HEARTBEAT) is not None


def is_complete(now: datetime) -> bool:
    """Return whether shares mean something: a CDN's logs were read, or there is no CDN.

    A site has one, or a front end of its own, if it says so in the settings of Wagtail or ours.
    """
    logs_read_at = heartbeats.last_seen(LOGS_HEARTBEAT)
    if logs_read_at is not None and logs_read_at > now - SPAN:
        return True
    has_front_end = bool(getattr(settings, "WAGTAILFRONTENDCACHE", None)) or conf.hosts is not None
    return MIDDLEWARE in settings.MIDDLEWARE and not has_front_end


def first_visits(urls: Collection[tuple[int, str]]) -> dict[tuple[int, str], list[FirstVisit]]:
    """Return the visits of URLs, each given as (last submission, hash), soonest first."""
    rows = (
        _with_start(Visit.objects.served())
        .filter(
            submission__in={submission for submission, _digest in urls},
            url_hash__in={digest for _submission, digest in urls},
            started_at__isnull=False,
        )
        .order_by("visited_at", "pk")
        .values_list("submission", "url_hash", "crawler", "visited_at", "started_at")
    )
    found = defaultdict(list)
    for submission, digest, *visit in rows:
        found[submission, digest].append(FirstVisit(*visit))
    return found


def by_crawler(now: datetime) -> list[CrawlerFigures]:
    """Return how much of what engines accepted in the last 30 days was visited how soon."""
    since = now - SPAN
    accepted = Submission.objects.filter(started_at__gt=since, status__range=(200, 299))
    submitted = accepted.aggregate(
        **{
            name: Sum("url_count", filter=Q(started_at__lte=now - window), default=0)
            for name, window in WINDOWS.items()
        }
    )
    visits = _visits_of(accepted, since)
    counts = visits.values("crawler").annotate(
        **{
            name: Count("pk", filter=Q(delay__lte=window, started_at__lte=now - window))
            for name, window in WINDOWS.items()
        }
    )
    return [
        CrawlerFigures(
            crawler=row["crawler"],
            shares={
                name: row[name] / submitted[name] if submitted[name] else None for name in WINDOWS
            },
            median=_median(visits.filter(crawler=row["crawler"]), row["week"], now),
        )
        for row in counts.order_by("crawler")
    ]


def _visits_of(submissions: QuerySet[Submission], since: datetime) -> Any:
    started = _with_start(Visit.objects.served().filter(visited_at__gt=since), submissions)
    delay = ExpressionWrapper(F("visited_at") - F("started_at"), output_field=DurationField())
    return started.filter(started_at__isnull=False).annotate(delay=delay)


def _with_start(visits: QuerySet[Visit], submissions: QuerySet[Submission] | None = None) -> Any:
    """Annotate each visit with the start of its submission, if that is among some."""
    if submissions is None:
        submissions = Submission.objects.all()
    start = submissions.filter(pk=OuterRef("submission")).order_by().values("started_at")[:1]
    return visits.annotate(started_at=Subquery(start, output_field=DateTimeField()))


def _median(visits: Any, count: int, now: datetime) -> timedelta | None:
    if not count:
        return None
    week = WINDOWS["week"]
    delays = visits.filter(delay__lte=week, started_at__lte=now - week).order_by("delay")
    median: timedelta = delays.values_list("delay", flat=True)[count // 2]
    return median
