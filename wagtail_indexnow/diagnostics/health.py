"""What works and what does not, each with its fix: for `indexnow_check` and the admin.

`findings()` runs the system checks and asks what the ledger says; with `live=True` it also asks
the broker and fetches the key files, in bounded time.
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
from . import advice, brokers, ledger_health
from .findings import Finding


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
    return found + list(ledger_health.findings(clock.now()))


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
    for host, scheme in hosts.named_hosts().items():
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
    if not proof.result:
        return _key_file(host, None, proof.detail)
    return _judged_key_file(host, proof.result, proof.detail)


def _remembered_key_file(host: str) -> Finding:
    row = HostKey.objects.filter(host=host).first()
    is_copied = row is not None and row.check_result == KeyFile.OK and keys.is_proved_elsewhere(row)
    if row is None or row.checked_key != row.key or is_copied:
        return _key_file(host, None, _("The key file has not been looked at yet."))
    return _judged_key_file(host, row.check_result)


def _judged_key_file(host: str, result: str, detail: str = "") -> Finding:
    label = str(KeyFile(result).label) if result in KeyFile.values else result
    message = f"{label} {detail}".strip()
    return _key_file(host, result == KeyFile.OK, message, advice.for_key_file(result))


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
    elif answer.refusal:
        yield Finding(
            name="broker",
            ok=False,
            message=_("The Dramatiq broker responds but cannot be written to: %(error)s")
            % {"error": answer.refusal},
            fix=_(
                "Connect to the primary Redis server, not to a replica, and give it free memory "
                "and disk space."
            ),
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
