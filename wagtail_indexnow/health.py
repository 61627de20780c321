"""What works and what does not, each with its fix: for `indexnow_check` and the admin.

`findings()` runs the system checks and looks at rows; with `live=True` it also asks the broker
and fetches the key files, in bounded time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import dramatiq
from django.apps import apps
from django.core.checks import run_checks
from django.db import connections
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from wagtail.models import PageLogEntry, Site

from . import advice, brokers, clock, heartbeats, hosts, keys
from .conf import conf, problems
from .constants import APP_LABEL, RELAY_HEARTBEAT, WORKER_HEARTBEAT, KeyFile, Reason, UrlState
from .models import Channel, Delivery, HostKey, Intent, TrackedUrl
from .page_urls import page_model

SEEN_LATELY = timedelta(minutes=10)
WAITS_LONG = timedelta(minutes=30)
REJECTED_LATELY = timedelta(days=7)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at. `ok` None: nothing is wrong, but nothing is proved either."""

    name: str  # what was looked at, such as `key_file`, or the id of a system check
    ok: bool | None
    message: str
    fix: str = ""
    subject: str = ""  # host, engine or both, where there are several


def findings(*, live: bool = True) -> list[Finding]:
    """Return what was found, in the order in which a person should mend it.

    :param live: also ask the broker and fetch the key files; else say what the last look found.
    """
    found = list(_system_checks())
    if any(True for _problem in problems()):
        return found  # with wrong settings nothing else means anything
    found += _switched_on()
    if not conf.enabled:
        return found
    found += _key_files(live=live)
    if live:
        found += _broker()
    for look in (_relay, _worker, _publish_scheduled, _waiting, _holds, _rejected, _last_answers):
        found += look(clock.now())
    return found


def trouble(found: list[Finding]) -> list[Finding]:
    """Return those that a person has to do something about."""
    return [finding for finding in found if finding.ok is False]


def hosts_here() -> dict[str, str]:
    """Return the hosts that the Sites and `HOSTS` name, in normal form → scheme."""
    found: dict[str, str] = {}
    for site in Site.objects.order_by("-is_default_site", "hostname"):
        url = hosts.normalise(site.root_url)
        if url is not None:
            found.setdefault(hosts.host_of(url), conf.scheme or url.partition(":")[0])
    for name in conf.hosts or ():
        host = hosts.normalise_host(name)
        if host is not None:
            found.setdefault(host, conf.scheme or "https")
    return found


def _system_checks() -> Iterator[Finding]:
    for message in run_checks(tags=[APP_LABEL], databases=list(connections)):
        if not message.is_silenced():
            yield Finding(
                name=message.id or APP_LABEL,
                ok=False,
                message=str(message.msg),
                fix=str(message.hint or ""),
            )


def _switched_on() -> Iterator[Finding]:
    if not conf.enabled:
        yield Finding(
            name="switched_on",
            ok=False,
            message=_("IndexNow is switched off on this server: nothing is planned or sent."),
            fix=_(
                "On the public server set DEBUG to False, or WAGTAIL_INDEXNOW['ENABLED'] to True. "
                "On a copy or while developing leave it off."
            ),
        )
    elif conf.dry_run:
        yield Finding(
            name="switched_on",
            ok=None,
            message=_("Dry run: everything is done but the sending."),
            fix=_("Remove DRY_RUN from WAGTAIL_INDEXNOW to send for real."),
        )
    else:
        yield Finding(name="switched_on", ok=True, message=_("IndexNow is switched on."))


def _key_files(*, live: bool) -> Iterator[Finding]:
    for host, scheme in hosts_here().items():
        if not hosts.is_served(host):
            yield Finding(
                name="host",
                subject=host,
                ok=False,
                message=str(Reason.FOREIGN_HOST.label),
                fix=advice.for_key_file(KeyFile.PRIVATE_HOST)
                if hosts.is_private(host)
                else advice.for_reason(Reason.FOREIGN_HOST),
            )
        elif conf.dry_run or not conf.verify_key_file:
            yield _key_file(host, None, _("The key file is not looked at here."))
        elif live:
            yield _proved_key_file(host, scheme)
        else:
            yield _remembered_key_file(host)


def _proved_key_file(host: str, scheme: str) -> Finding:
    proof = keys.prove(host, scheme, fresh=True)
    if proof.is_ok and proof.key != keys.key_for(host):
        return _key_file(
            host, None, _("The new key's file does not answer yet; the former key is in use.")
        )
    return _judged_key_file(host, proof.result)


def _remembered_key_file(host: str) -> Finding:
    row = HostKey.objects.filter(host=host).first()
    if row is None or row.checked_key != row.key or not keys.matches_instance(row.checked_by):
        return _key_file(host, None, _("The key file has not been looked at yet."))
    return _judged_key_file(host, row.check_result)


def _judged_key_file(host: str, result: str) -> Finding:
    label = str(KeyFile(result).label) if result in KeyFile.values else result
    return _key_file(host, result == KeyFile.OK, label, advice.for_key_file(result))


def _key_file(host: str, ok: bool | None, message: str, fix: str = "") -> Finding:
    return Finding(name="key_file", subject=host, ok=ok, message=message, fix=fix)


def _broker() -> Iterator[Finding]:
    if not apps.is_installed("django_dramatiq"):
        return  # a system check says so, if it matters
    answer = brokers.ask(dramatiq.get_broker())
    if answer.error:
        yield Finding(
            name="broker",
            ok=False,
            message=_("The Dramatiq broker does not answer: %(error)s") % {"error": answer.error},
            fix=_("Start it, or correct DRAMATIQ_BROKER. What is planned meanwhile is kept."),
        )
    elif not answer.is_known:
        yield Finding(
            name="broker", ok=None, message=_("This kind of broker cannot be asked from here.")
        )
    else:
        yield Finding(name="broker", ok=True, message=_("The Dramatiq broker answers."))
    if answer.eviction:
        yield Finding(
            name="eviction",
            ok=False,
            message=_("Redis may throw messages away when memory is short (%(policy)s).")
            % {"policy": answer.eviction},
            fix=_("Set its maxmemory-policy to noeviction."),
        )


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


def _waiting(now: datetime) -> Iterator[Finding]:
    intent = Intent.objects.due(now).order_by("run_at").values_list("run_at", flat=True).first()
    url = _unheld(now).order_by("not_before").values_list("not_before", flat=True).first()
    oldest = min((at for at in (intent, url) if at is not None), default=None)
    if oldest is None:
        yield Finding(name="waiting", ok=True, message=_("Nothing is waiting."))
    elif oldest > now - WAITS_LONG:
        yield Finding(
            name="waiting",
            ok=True,
            message=_("The oldest row has been due since %(time)s.") % {"time": moment(oldest)},
        )
    else:
        yield Finding(
            name="waiting",
            ok=False,
            message=_("Work has been waiting since %(time)s.") % {"time": moment(oldest)},
            fix=_("See above whether relay and workers run; if they do, start more workers."),
        )


def _unheld(now: datetime) -> QuerySet[TrackedUrl]:
    """Return ready URLs that neither pace nor hold keeps back."""
    closed = Channel.objects.filter(
        Q(host=OuterRef("host")) | Q(host=""), endpoint=OuterRef("endpoint"), not_before__gt=now
    )
    ready = TrackedUrl.objects.ready(now).filter(endpoint__in=conf.endpoints)
    return ready.filter(~Exists(closed))


def _holds(now: datetime) -> Iterator[Finding]:
    held = Channel.objects.filter(endpoint__in=conf.endpoints).exclude(hold_reason="")
    for channel in held.order_by("endpoint", "host"):
        is_over = channel.not_before is None or channel.not_before <= now
        fix = advice.for_reason(channel.hold_reason, host=channel.host)
        yield Finding(
            name="hold",
            subject=str(channel),
            # No trouble where there is nothing to do but wait: a monitor must not call anybody.
            ok=None if is_over or advice.is_patience(fix) else False,
            message=str(channel.get_hold_reason_display())
            if channel.not_before is None or is_over
            else _("%(reason)s Held until %(time)s.")
            % {"reason": channel.get_hold_reason_display(), "time": moment(channel.not_before)},
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
            fix=_("Read why in Reports → IndexNow, and resend them once that is mended."),
        )


def _last_answers(now: datetime) -> Iterator[Finding]:
    last = Delivery.objects.filter(endpoint=OuterRef("endpoint"), host=OuterRef("host"))
    answered = last.exclude(outcome="").order_by("-started_at", "-pk")
    channels = (
        Channel.objects.filter(endpoint__in=conf.endpoints)
        .exclude(host="")
        .annotate(last=Subquery(answered.values("pk")[:1]))
        .order_by("endpoint", "host")
    )
    found = list(channels)
    deliveries = Delivery.objects.defer("urls").in_bulk([row.last for row in found if row.last])
    for channel in found:
        yield _last_answer(channel, deliveries.get(channel.last))


def _last_answer(channel: Channel, delivery: Delivery | None) -> Finding:
    subject = str(channel)
    if delivery is None:
        return Finding(name="last_answer", subject=subject, ok=None, message=_("Nothing sent yet."))
    told = delivery.outcome == UrlState.DELIVERED
    fix = "" if told else advice.for_reason(delivery.outcome, host=channel.host)
    passes_by_itself = delivery.outcome in (Reason.DRY_RUN, Reason.RATE_LIMITED)
    return Finding(
        name="last_answer",
        subject=subject,
        ok=True if told else None if passes_by_itself else False,
        message=_("%(outcome)s Answer %(status)s on %(time)s.")
        % {
            "outcome": outcome_label(delivery.outcome),
            "status": delivery.status or "–",
            "time": moment(delivery.started_at),
        },
        fix=fix,
    )


def outcome_label(outcome: str) -> str:
    """Return a delivery's outcome, which is a state or a reason, as a sentence."""
    if outcome == UrlState.DELIVERED:
        return _("The engine was told.")
    return str(Reason(outcome).label) if outcome in Reason.values else outcome


def moment(at: datetime) -> str:
    """Return a time in the reader's language and time zone, fit to end a sentence."""
    local = timezone.localtime(at) if timezone.is_aware(at) else at
    return f"{date_format(local, 'DATE_FORMAT')} {local:%H:%M}"
