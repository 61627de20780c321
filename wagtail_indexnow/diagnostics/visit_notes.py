"""Visits in words. Never "Bingbot came": a User-Agent is what a visitor calls itself."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Count
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..constants import UrlState
from ..models import TrackedUrl, Visit
from ..visits import figures
from ..visits.figures import FirstVisit
from .findings import Finding, Severity

REFUSED_LATELY = timedelta(weeks=1)
MANY_REFUSALS = 10
LATE = timedelta(weeks=1)  # after a submission: crawlers that come at all have mostly come by then


def duration(delay: timedelta) -> str:
    """Return a duration in its largest unit, such as "3 minutes"."""
    if delay < timedelta(minutes=1):
        return _("less than a minute")
    # Any two moments that far apart; the first of a long month, should it be months.
    start = datetime(2026, 7, 1)  # noqa: DTZ001
    return timesince(start, start + delay, depth=1)


def sentence(visit: FirstVisit) -> str:
    """Return who came and how long after the submission."""
    return _("A visitor calling itself %(crawler)s came %(delay)s later.") % {
        "crawler": visit.crawler,
        "delay": duration(visit.delay),
    }


def page_sentences(page_id: int, now: datetime) -> list[str]:
    """Return which crawlers came to a page's URLs after their last submission, soonest first."""
    rows = TrackedUrl.objects.filter(page_id=page_id, submission__isnull=False)
    urls = [
        (submission, digest)
        for submission, digest in rows.values_list("submission", "url_hash")
        if submission is not None
    ]
    found = sorted(
        (visit for visits in figures.first_visits(urls).values() for visit in visits),
        key=lambda visit: visit.delay,
    )
    soonest = {visit.crawler: visit for visit in reversed(found)}
    if soonest:
        return [sentence(visit) for visit in sorted(soonest.values(), key=lambda each: each.delay)]
    is_late = rows.filter(state=UrlState.ACCEPTED, sent_at__lte=now - LATE).exists()
    if is_late and figures.is_complete(now):
        return [_("No search engine's crawler was seen in the week after the submission.")]
    return []


def check_visits(now: datetime) -> Iterator[Finding]:
    """Yield a finding if crawlers are refused many of the URLs that they were told of."""
    refused = Visit.objects.refused().filter(visited_at__gt=now - REFUSED_LATELY)
    for row in (
        refused.values("crawler")
        .annotate(urls=Count("url_hash", distinct=True))
        .order_by("crawler")
    ):
        if row["urls"] >= MANY_REFUSALS:
            yield _refusals(row["crawler"], row["urls"])


def _refusals(crawler: str, count: int) -> Finding:
    text = ngettext(
        "A visitor calling itself %(crawler)s was refused %(count)s submitted URL this week.",
        "A visitor calling itself %(crawler)s was refused %(count)s submitted URLs this week.",
        count,
    )
    return Finding(
        name="visits",
        severity=Severity.ACTION,
        message=text % {"crawler": crawler, "count": count},
        remedy=_(
            "Check the firewall, bot protection and rate limits: real crawlers can be told by the "
            "addresses that their search engine publishes."
        ),
        subject=crawler,
    )
