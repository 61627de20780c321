"""What the rows say about a site's health: who was seen, what waits, what search engines said."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import F, Min, OuterRef, Q, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from wagtail.models import PageLogEntry

from ..conf import conf
from ..constants import (
    PASSING_REASONS,
    RELAY_HEARTBEAT,
    WORKER_HEARTBEAT,
    IntentState,
    Reason,
    SubmissionState,
    UrlState,
)
from ..ledger import heartbeats
from ..ledger.backoff import RETRY_DELAY_MAX
from ..ledger.channels import ENDPOINT
from ..models import Channel, Intent, Submission, TrackedUrl
from ..pages import audits
from ..pages.model import page_model
from .findings import Finding, Severity
from .formatting import engine_name, format_time, sentences

SEEN_LATELY = timedelta(minutes=10)
WAITS_LONG = timedelta(minutes=30)
FAILED_LATELY = timedelta(days=7)


def check_ledger(now: datetime) -> Iterator[Finding]:
    """Yield all findings, in the order in which they are best acted on."""
    for check in (
        _relay,
        _worker,
        _publish_scheduled,
        _audit,
        _page_errors,
        _pending,
        _pauses,
        _rejected,
        _last_responses,
    ):
        yield from check(now)


def _relay(now: datetime) -> Iterator[Finding]:
    seen_at = heartbeats.last_seen(RELAY_HEARTBEAT)
    if seen_at is not None and seen_at > now - SEEN_LATELY:
        yield Finding(name="relay", severity=Severity.OK, message=_("The relay is running."))
        return
    yield Finding(
        name="relay",
        severity=Severity.ACTION,
        message=_("The relay last ran on %(time)s.") % {"time": format_time(seen_at)}
        if seen_at
        else _("The relay has never run: nothing is handed to workers."),
        remedy=_(
            "Start a worker (manage.py rundramatiq) or run manage.py indexnow_relay. Without "
            "workers, let cron run manage.py indexnow_relay --inline every minute."
        ),
    )


def _worker(now: datetime) -> Iterator[Finding]:
    seen_at = heartbeats.last_seen(WORKER_HEARTBEAT)
    untaken = Intent.objects.due(now).filter(handed_at__lte=now - SEEN_LATELY)
    if seen_at is not None:
        untaken = untaken.filter(handed_at__gt=seen_at)
    if untaken.exists():
        yield Finding(
            name="worker",
            severity=Severity.ACTION,
            message=_("Work has been handed over, but no worker takes it."),
            remedy=_("Let a worker listen to the queue “%(queue)s”: see rundramatiq --queues.")
            % {"queue": conf.queue},
        )
    elif seen_at is not None:
        yield Finding(
            name="worker",
            severity=Severity.OK,
            message=_("A worker last ran on %(time)s.") % {"time": format_time(seen_at)},
        )
    else:
        yield Finding(
            name="worker",
            severity=Severity.INFO,
            message=_("No worker has had anything to do yet."),
        )


def _publish_scheduled(now: datetime) -> Iterator[Finding]:
    late = now - conf.go_live_grace
    count = Intent.objects.overdue(now, conf.go_live_grace).count()
    count += page_model().objects.live().filter(expire_at__lte=late).count()
    if count:
        yield Finding(
            name="publish_scheduled",
            severity=Severity.ACTION,
            message=ngettext(
                "%(count)s page is overdue: Wagtail's publish_scheduled does not seem to run.",
                "%(count)s pages are overdue: Wagtail's publish_scheduled does not seem to run.",
                count,
            )
            % {"count": count},
            remedy=_("Let cron run manage.py publish_scheduled every few minutes."),
        )
        return
    actions = ("wagtail.publish.scheduled", "wagtail.unpublish.scheduled")
    logged = PageLogEntry.objects.filter(action__in=actions).order_by("-timestamp")
    seen_at = logged.values_list("timestamp", flat=True).first()
    yield Finding(
        name="publish_scheduled",
        severity=Severity.OK if seen_at else Severity.INFO,
        message=_("publish_scheduled last changed a page on %(time)s.")
        % {"time": format_time(seen_at)}
        if seen_at
        else _("publish_scheduled has had nothing to do yet."),
    )


def _audit(now: datetime) -> Iterator[Finding]:
    last, opened = audits.last_audit(), audits.open_audit()
    if last is not None and last.reason == Reason.MASS_CHANGE:
        yield from _mass_change(last)
    elif opened is None and last is None:
        yield Finding(
            name="audit",
            severity=Severity.INFO,
            message=_("The first audit has not run yet: the inventory is empty."),
            remedy=_("Run manage.py indexnow_audit, or start a worker."),
        )
    if opened is not None:
        yield Finding(
            name="audit",
            severity=Severity.OK if last else Severity.INFO,
            message=_("An audit is in progress: %(done)s of %(count)s pages checked.")
            % {"done": opened.detail.get("checked", 0), "count": audits.page_count()},
        )
    elif last is not None and last.finished_at is not None:
        yield Finding(
            name="audit",
            severity=Severity.OK,
            message=_("The last audit ended on %(time)s; %(count)s pages checked.")
            % {"time": format_time(last.finished_at), "count": last.detail.get("checked", 0)},
        )


def _mass_change(audit: Intent) -> Iterator[Finding]:
    """Yield a finding for each host of which an audit found too many changes at once."""
    for host in audit.detail.get("blocked", ()):
        figures = audit.detail["hosts"][host]
        yield Finding(
            name="mass_change",
            subject=host,
            severity=Severity.ACTION,
            message=_(
                "Too many changes at once: %(removed)s URLs would be removed, %(changed)s added "
                "or updated, such as %(example)s. Nothing was submitted."
            )
            % {
                "removed": figures["removed"],
                "changed": figures["changed"],
                "example": figures["examples"][0]["url"],
            },
            remedy=_(
                "Check the Site records and the settings. If the changes are intended, run "
                "manage.py indexnow_audit --apply."
            ),
        )


def _page_errors(now: datetime) -> Iterator[Finding]:
    """Yield how many pages fail now, or were given up lately."""
    # A page that fails is tried again within the hour: the index on `run_at` finds it.
    failing = Q(state=IntentState.PLANNED, run_at__lte=now + RETRY_DELAY_MAX)
    given_up = Q(state=IntentState.FAILED, finished_at__gt=now - FAILED_LATELY)
    rows = Intent.objects.filter(failing | given_up, reason=Reason.PAGE_ERROR)
    count = rows.values("page_id").order_by().distinct().count()
    if count:
        yield Finding(
            name="page_error",
            severity=Severity.ACTION,
            message=ngettext(
                "The code of %(count)s page fails when it is asked for its URLs.",
                "The code of %(count)s pages fails when it is asked for their URLs.",
                count,
            )
            % {"count": count},
            remedy=_("Read the errors under Reports → IndexNow events. Fix the code, then submit."),
        )


def _pending(now: datetime) -> Iterator[Finding]:
    intent = Intent.objects.due(now).order_by("run_at").values_list("run_at", flat=True).first()
    kept_back, free = _oldest_ready(now)
    oldest = min((at for at in (intent, free) if at is not None), default=None)
    if oldest is None:
        yield Finding(
            name="pending",
            severity=Severity.OK if kept_back is None else Severity.INFO,
            message=_("Nothing is pending.")
            if kept_back is None
            else _("Everything pending is paused or rate-limited; nothing is stuck."),
        )
    elif oldest > now - WAITS_LONG:
        yield Finding(
            name="pending",
            severity=Severity.OK,
            message=_("The oldest pending work has been due since %(time)s.")
            % {"time": format_time(oldest)},
        )
    else:
        yield Finding(
            name="pending",
            severity=Severity.ACTION,
            message=_("Work has been waiting since %(time)s.") % {"time": format_time(oldest)},
            remedy=_("Check above whether relay and workers run. If they do, start more workers."),
        )


def _oldest_ready(now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return since when the oldest ready URL waits: behind pace or a pause, and behind neither."""
    waiting = Channel.objects.filter(ready_at__isnull=False, lease_until=None)
    paused = Channel.objects.filter(host=ENDPOINT, not_before__gt=now).values("endpoint")
    # A channel that is paused itself, or keeps its pace, is not ready.
    behind = Q(ready_at__gt=F("not_before")) & Q(ready_at__gt=now)
    kept_back = waiting.exclude(behind).filter(Q(ready_at__gt=now) | Q(endpoint__in=paused))
    free = waiting.filter(ready_at__lte=now).exclude(endpoint__in=paused)
    return (
        kept_back.aggregate(at=Min("ready_at"))["at"],
        free.aggregate(at=Min("ready_at"))["at"],
    )


def _pauses(now: datetime) -> Iterator[Finding]:
    paused = Channel.objects.filter(endpoint__in=conf.endpoints).exclude(pause_reason="")
    for channel in paused.order_by("endpoint", "host"):
        until = channel.not_before
        is_over = until <= now
        label = Reason.label_of(channel.pause_reason)
        yield Finding(
            name="pause",
            subject=_subject(channel),
            # What passes without anybody doing anything must not call an operator.
            severity=Severity.INFO
            if is_over or channel.pause_reason in PASSING_REASONS
            else Severity.ACTION,
            message=sentences(label)
            if is_over
            else sentences(label, _("Paused until %(time)s.") % {"time": format_time(until)}),
            remedy=Reason.remedy_of(channel.pause_reason),
        )


def _rejected(now: datetime) -> Iterator[Finding]:
    """Yield what search engines rejected lately; older rejections are history."""
    rows = TrackedUrl.objects.filter(endpoint__in=conf.endpoints, state=UrlState.REJECTED)
    count = rows.filter(changed_at__gt=now - FAILED_LATELY).count()
    if count:
        yield Finding(
            name="rejected",
            severity=Severity.ACTION,
            message=ngettext(
                "%(count)s URL was rejected in the last seven days.",
                "%(count)s URLs were rejected in the last seven days.",
                count,
            )
            % {"count": count},
            remedy=_("Read why under Reports → IndexNow, then resubmit them."),
        )


def _last_responses(now: datetime) -> Iterator[Finding]:
    last = Submission.objects.filter(endpoint=OuterRef("endpoint"), host=OuterRef("host"))
    answered = last.filter(finished_at__isnull=False).order_by("-started_at", "-pk")
    channels = (
        Channel.objects.filter(endpoint__in=conf.endpoints)
        .exclude(host="")
        .annotate(last=Subquery(answered.values("pk")[:1]))
        .order_by("endpoint", "host")
    )
    found = list(channels)
    submissions = Submission.objects.defer("urls").in_bulk([row.last for row in found if row.last])
    for channel in found:
        yield _last_response(_subject(channel), submissions.get(channel.last))


def _last_response(subject: str, submission: Submission | None) -> Finding:
    if submission is None:
        return Finding(
            name="last_response",
            subject=subject,
            severity=Severity.INFO,
            message=_("Nothing has been submitted yet."),
        )
    reason = submission.reason
    severity = _severity_of_response(submission.state, reason)
    when = {"status": submission.status, "time": format_time(submission.started_at)}
    return Finding(
        name="last_response",
        subject=subject,
        severity=severity,
        message=sentences(
            Reason.label_of(reason) or SubmissionState(submission.state).label,
            _("Response %(status)s on %(time)s.") % when
            if submission.status
            else _("Sent on %(time)s.") % when,
        ),
        remedy=Reason.remedy_of(reason)
        or (
            _("If this lasts, read the responses under Reports → IndexNow submissions.")
            if severity != Severity.OK
            else ""
        ),
    )


def _severity_of_response(state: str, reason: str) -> Severity:
    if state == SubmissionState.ACCEPTED:
        return Severity.OK
    # A server error may be over soon, but while every POST fails a monitor must know.
    passes = state == SubmissionState.SKIPPED or reason in PASSING_REASONS - {Reason.SERVER_ERROR}
    return Severity.INFO if passes else Severity.ACTION


def _subject(channel: Channel) -> str:
    return f"{engine_name(channel.endpoint)} {channel.host}".strip()
