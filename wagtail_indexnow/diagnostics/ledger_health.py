"""What the rows say of the health of a site: who was seen, what waits, what was answered."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import OuterRef, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from wagtail.models import PageLogEntry

from ..conf import conf
from ..constants import RELAY_HEARTBEAT, WORKER_HEARTBEAT, Reason, UrlState
from ..ledger import heartbeats
from ..models import Channel, Intent, Submission, TrackedUrl
from ..pages import audits
from ..pages.model import page_model
from . import advice
from .findings import Finding
from .formatting import moment, outcome_label

SEEN_LATELY = timedelta(minutes=10)
WAITS_LONG = timedelta(minutes=30)
REJECTED_LATELY = timedelta(days=7)


def findings(now: datetime) -> Iterator[Finding]:
    """Yield what was found, in the order in which a person should mend it."""
    checks = (_relay, _worker, _publish_scheduled, _audit, _waiting, _holds, _rejected)
    for check in (*checks, _last_answers):
        yield from check(now)


def _relay(now: datetime) -> Iterator[Finding]:
    seen_at = heartbeats.last_seen(RELAY_HEARTBEAT)
    if seen_at is not None and seen_at > now - SEEN_LATELY:
        yield Finding(name="relay", ok=True, message=_("The relay is at work."))
        return
    yield Finding(
        name="relay",
        ok=False,
        message=_("The relay was last seen on %(time)s.") % {"time": moment(seen_at)}
        if seen_at
        else _("The relay has never been seen: nothing is handed over."),
        fix=_(
            "Start a worker (manage.py rundramatiq), or run manage.py indexnow_relay; without any "
            "worker let cron run manage.py indexnow_relay --inline each minute."
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
            ok=False,
            message=_("Work is handed over, but no worker takes it."),
            fix=_("Let a worker listen to the queue “%(queue)s”: see rundramatiq --queues.")
            % {"queue": conf.queue},
        )
    elif seen_at is not None:
        yield Finding(
            name="worker",
            ok=True,
            message=_("A worker last worked on %(time)s.") % {"time": moment(seen_at)},
        )
    else:
        yield Finding(name="worker", ok=None, message=_("No worker has had anything to do yet."))


def _publish_scheduled(now: datetime) -> Iterator[Finding]:
    late = now - conf.go_live_grace
    count = Intent.objects.overdue(now, conf.go_live_grace).count()
    count += page_model().objects.live().filter(expire_at__lte=late).count()
    if count:
        yield Finding(
            name="publish_scheduled",
            ok=False,
            message=ngettext(
                "%(count)s page waits for Wagtail's publish_scheduled, which does not seem to run.",
                "%(count)s pages wait for Wagtail's publish_scheduled, which does not seem to run.",
                count,
            )
            % {"count": count},
            fix=_("Let cron run manage.py publish_scheduled every few minutes."),
        )
        return
    actions = ("wagtail.publish.scheduled", "wagtail.unpublish.scheduled")
    logged = PageLogEntry.objects.filter(action__in=actions).order_by("-timestamp")
    seen_at = logged.values_list("timestamp", flat=True).first()
    yield Finding(
        name="publish_scheduled",
        ok=True if seen_at else None,
        message=_("publish_scheduled last did something on %(time)s.") % {"time": moment(seen_at)}
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
            ok=None,
            message=_("The first audit has not run yet: the inventory is empty."),
            fix=_("Run manage.py indexnow_audit, or start a worker."),
        )
    if opened is not None:
        yield Finding(
            name="audit",
            ok=True if last else None,
            message=_("An audit is in progress: %(done)s of %(count)s pages checked.")
            % {"done": opened.detail.get("checked", 0), "count": audits.page_count()},
        )
    elif last is not None and last.finished_at is not None:
        yield Finding(
            name="audit",
            ok=True,
            message=_("The last audit ended on %(time)s; %(count)s pages checked.")
            % {"time": moment(last.finished_at), "count": last.detail.get("checked", 0)},
        )


def _mass_change(audit: Intent) -> Iterator[Finding]:
    """Yield a finding for each host of which an audit found too many changes at once."""
    for host in audit.detail.get("blocked", ()):
        figures = audit.detail["hosts"][host]
        yield Finding(
            name="mass_change",
            subject=host,
            ok=False,
            message=_(
                "Too many changes at once: %(removed)s URLs would be removed, %(changed)s added "
                "or updated, such as %(example)s. Nothing was announced."
            )
            % {
                "removed": figures["removed"],
                "changed": figures["changed"],
                "example": figures["examples"][0]["url"],
            },
            fix=_(
                "Check Sites and settings. If the changes are meant, run "
                "manage.py indexnow_audit --apply."
            ),
        )


def _waiting(now: datetime) -> Iterator[Finding]:
    intent = Intent.objects.due(now).order_by("run_at").values_list("run_at", flat=True).first()
    held, unheld = _oldest_ready(now)
    oldest = min((at for at in (intent, unheld) if at is not None), default=None)
    if oldest is None:
        yield Finding(
            name="pending",
            ok=True if held is None else None,
            message=_("Nothing is waiting.")
            if held is None
            else _("Nothing waits but what holds and pace keep back."),
        )
    elif oldest > now - WAITS_LONG:
        yield Finding(
            name="pending",
            ok=True,
            message=_("The oldest row has been due since %(time)s.") % {"time": moment(oldest)},
        )
    else:
        yield Finding(
            name="pending",
            ok=False,
            message=_("Work has been waiting since %(time)s.") % {"time": moment(oldest)},
            fix=_("See above whether relay and workers run; if they do, start more workers."),
        )


def _oldest_ready(now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return since when the oldest ready URL waits: behind pace or hold, and behind neither."""
    ready = TrackedUrl.objects.ready(now).filter(
        endpoint=OuterRef("endpoint"), host=OuterRef("host")
    )
    # Channel by channel, as the index goes: a million URLs wait in a handful of them.
    oldest = Subquery(ready.order_by("not_before").values("not_before")[:1])
    channels = list(Channel.objects.annotate(oldest=oldest))
    closed = {(row.endpoint, row.host) for row in channels if (row.not_before or now) > now}
    since: dict[bool, list[datetime]] = {True: [], False: []}
    for row in channels:
        if row.oldest is not None:
            is_held = not closed.isdisjoint({(row.endpoint, row.host), (row.endpoint, "")})
            since[is_held].append(row.oldest)
    return min(since[True], default=None), min(since[False], default=None)


def _holds(now: datetime) -> Iterator[Finding]:
    held = Channel.objects.filter(endpoint__in=conf.endpoints).exclude(pause_reason="")
    for channel in held.order_by("endpoint", "host"):
        is_over = channel.not_before is None or channel.not_before <= now
        fix = advice.for_reason(channel.pause_reason, host=channel.host)
        yield Finding(
            name="pause",
            subject=str(channel),
            # No trouble where there is nothing to do but wait: a monitor must not call anybody.
            ok=None if is_over or advice.is_patience(fix) else False,
            message=str(channel.get_pause_reason_display())
            if channel.not_before is None or is_over
            else _("%(reason)s Held until %(time)s.")
            % {"reason": channel.get_pause_reason_display(), "time": moment(channel.not_before)},
            fix=fix,
        )


def _rejected(now: datetime) -> Iterator[Finding]:
    """Yield what engines rejected lately; older rejections are history."""
    rows = TrackedUrl.objects.filter(endpoint__in=conf.endpoints, state=UrlState.REJECTED)
    count = rows.filter(changed_at__gt=now - REJECTED_LATELY).count()
    if count:
        yield Finding(
            name="rejected",
            ok=False,
            message=ngettext(
                "%(count)s URL of the last seven days was rejected.",
                "%(count)s URLs of the last seven days were rejected.",
                count,
            )
            % {"count": count},
            fix=_("Read why in Reports → IndexNow, and resubmit them once that is mended."),
        )


def _last_answers(now: datetime) -> Iterator[Finding]:
    last = Submission.objects.filter(endpoint=OuterRef("endpoint"), host=OuterRef("host"))
    answered = last.exclude(outcome="").order_by("-started_at", "-pk")
    channels = (
        Channel.objects.filter(endpoint__in=conf.endpoints)
        .exclude(host="")
        .annotate(last=Subquery(answered.values("pk")[:1]))
        .order_by("endpoint", "host")
    )
    found = list(channels)
    submissions = Submission.objects.defer("urls").in_bulk([row.last for row in found if row.last])
    for channel in found:
        yield _last_answer(channel, submissions.get(channel.last))


def _last_answer(channel: Channel, submission: Submission | None) -> Finding:
    subject = str(channel)
    if submission is None:
        return Finding(
            name="last_response", subject=subject, ok=None, message=_("Nothing sent yet.")
        )
    told = submission.outcome == UrlState.ACCEPTED
    fix = "" if told else advice.for_reason(submission.outcome, host=channel.host)
    passes_by_itself = submission.outcome in (Reason.DRY_RUN, Reason.RATE_LIMITED)
    return Finding(
        name="last_response",
        subject=subject,
        ok=True if told else None if passes_by_itself else False,
        message=_("%(outcome)s Answer %(status)s on %(time)s.")
        % {
            "outcome": outcome_label(submission.outcome),
            "status": submission.status or "–",
            "time": moment(submission.started_at),
        },
        fix=fix,
    )
