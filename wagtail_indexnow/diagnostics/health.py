"""What works and what does not, each with its remedy: for `indexnow_check` and the admin.

`check_all()` runs the system checks and reads the ledger; with `live=True` it also asks the broker
and fetches the key files, in bounded time.
"""

from collections.abc import Iterator

import dramatiq
from django.apps import apps
from django.core.checks import run_checks
from django.db import connections
from django.utils.translation import gettext as _

from .. import clock, hosts
from ..conf import conf, problems
from ..constants import APP_LABEL, KeyFile, Reason
from ..models import HostKey
from ..submission import keys
from . import brokers, ledger_health
from .findings import Finding, Severity
from .formatting import sentences
from .visit_notes import check_visits


def check_all(*, live: bool = True) -> list[Finding]:
    """Return all findings, in the order in which they are best acted on.

    :param live: also ask the broker and fetch the key files; else report what was found last.
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
    now = clock.now()
    return [*found, *ledger_health.check_ledger(now), *check_visits(now)]


def _system_checks() -> Iterator[Finding]:
    for message in run_checks(tags=[APP_LABEL], databases=list(connections)):
        if not message.is_silenced():
            yield Finding(
                name=message.id or APP_LABEL,
                severity=Severity.ACTION,
                message=str(message.msg),
                remedy=str(message.hint or ""),
            )


def _switched_on() -> Iterator[Finding]:
    if not conf.enabled:
        yield Finding(
            name="switched_on",
            severity=Severity.ACTION,
            message=_("IndexNow is switched off on this server: nothing is planned or sent."),
            remedy=_(
                "On the public server, set DEBUG to False or WAGTAIL_INDEXNOW['ENABLED'] to True. "
                "On a copy or while developing, leave it off."
            ),
        )
    elif conf.dry_run:
        yield Finding(
            name="switched_on",
            severity=Severity.INFO,
            message=_("Dry run: everything is done except sending."),
            remedy=_("Remove DRY_RUN from WAGTAIL_INDEXNOW to send submissions."),
        )
    else:
        yield Finding(
            name="switched_on", severity=Severity.OK, message=_("IndexNow is switched on.")
        )


def _key_files(*, live: bool) -> Iterator[Finding]:
    for host, scheme in hosts.named_hosts().items():
        if not hosts.is_served(host):
            why = KeyFile.PRIVATE_HOST if hosts.is_private(host) else Reason.FOREIGN_HOST
            yield Finding(
                name="host",
                subject=host,
                severity=Severity.ACTION,
                message=str(why.label),
                remedy=str(why.remedy),
            )
        elif conf.dry_run or not conf.verify_key_file:
            yield _key_file(host, _("The key file is not checked here."))
        elif live:
            yield _proved_key_file(host, scheme)
        else:
            yield _remembered_key_file(host)


def _proved_key_file(host: str, scheme: str) -> Finding:
    proof = keys.prove(host, scheme, fresh=True)
    if proof.is_ok and proof.key != keys.key_for(host):
        return _key_file(
            host, _("The new key's file could not be verified yet; the former key is in use.")
        )
    if not proof.result:
        return _key_file(host, proof.detail)
    return _judged_key_file(host, proof.result, proof.detail)


def _remembered_key_file(host: str) -> Finding:
    row = HostKey.objects.filter(host=host).first()
    is_copied = row is not None and row.check_result == KeyFile.OK and keys.is_proved_elsewhere(row)
    if row is None or row.checked_key != row.key or is_copied:
        return _key_file(host, _("The key file has not been checked yet."))
    return _judged_key_file(host, row.check_result)


def _judged_key_file(host: str, result: str, detail: str = "") -> Finding:
    severity = Severity.OK if result == KeyFile.OK else Severity.ACTION
    message = sentences(KeyFile.label_of(result), detail)
    return _key_file(host, message, severity=severity, remedy=KeyFile.remedy_of(result))


def _key_file(
    host: str, message: str, *, severity: Severity = Severity.INFO, remedy: str = ""
) -> Finding:
    return Finding(name="key_file", subject=host, severity=severity, message=message, remedy=remedy)


def _broker() -> Iterator[Finding]:
    if not apps.is_installed("django_dramatiq"):
        return  # a system check says so, if it matters
    answer = brokers.ask(dramatiq.get_broker())
    if answer.error:
        yield Finding(
            name="broker",
            severity=Severity.ACTION,
            message=_("The Dramatiq broker does not respond: %(error)s") % {"error": answer.error},
            remedy=_("Start it, or correct DRAMATIQ_BROKER. Everything planned is kept."),
        )
    elif answer.refusal:
        yield Finding(
            name="broker",
            severity=Severity.ACTION,
            message=_("The Dramatiq broker responds but cannot be written to: %(error)s")
            % {"error": answer.refusal},
            remedy=_(
                "Connect to the primary Redis server, not to a replica, and give it free memory "
                "and disk space."
            ),
        )
    elif not answer.is_known:
        yield Finding(
            name="broker",
            severity=Severity.INFO,
            message=_("This kind of broker cannot be checked from here."),
        )
    else:
        yield Finding(
            name="broker", severity=Severity.OK, message=_("The Dramatiq broker responds.")
        )
    if answer.eviction:
        yield Finding(
            name="broker",
            severity=Severity.ACTION,
            message=_("Redis may delete messages when memory runs short (%(policy)s).")
            % {"policy": answer.eviction},
            remedy=_("Set its maxmemory-policy to noeviction."),
        )
