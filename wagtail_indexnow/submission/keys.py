"""Verbs on keys: make, prove, rotate, revoke.

A key is proved by fetching its file as an engine would. An engine that fetches too early, or finds
another installation's file, can refuse the key for good.
"""

import logging
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import router
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from .. import clock, hosts
from ..conf import conf
from ..constants import KeyFile, Reason
from ..exceptions import ConfigurationError
from ..ledger import channels
from ..models import Channel, HostKey
from . import client, served_keys
from .key_files import (
    INSTANCE_HEADER,
    instance_token,
    is_html_type,
    judge_key_file,
    matches_instance,
)
from .redaction import excerpt_of, mask

__all__ = [
    "Proof",
    "check_key_file",
    "configured_key",
    "is_proved_elsewhere",
    "key_for",
    "key_location",
    "known_hosts",
    "mask",
    "newest_key",
    "prove",
    "revoke",
    "rotate",
]

logger = logging.getLogger(__name__)

PROOF_LASTS = timedelta(hours=24)
#: How long the former key's file stays once the new key was proved.
FORMER_KEY_LASTS = timedelta(days=7)
#: Web processes notice a new key within ten seconds.
FIRST_CHECK_AFTER = timedelta(seconds=15)
KEY_BYTES = 16  # 32 hexadecimal digits
#: Pauses that a new key is the cure for.
_CURED_PAUSES = (Reason.KEY_REFUSED, Reason.KEY_UNVERIFIED, Reason.BAD_KEY)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A key of a host, and what its file contained.

    `result` is a `KeyFile` value; empty before the first check, which is due at `retry_at`.
    `detail` is for an operator to read besides.
    """

    key: str
    result: str
    detail: str = ""
    retry_at: datetime | None = None

    @property
    def is_ok(self) -> bool:
        return self.result == KeyFile.OK


def known_hosts() -> dict[str, str]:
    """Return host → scheme of each host that Sites and `HOSTS` name, or that has a key."""
    kept = _rows().values_list("host", flat=True)
    return dict.fromkeys(kept, conf.scheme or "https") | hosts.named_hosts()


def configured_key(host: str) -> str | None:
    """Return the key that `KEYS` sets for a host, if any."""
    return {hosts.normalise_host(name): key for name, key in conf.keys.items()}.get(host)


def key_for(host: str) -> str:
    """Return the newest key of a host; made and kept on first need unless `KEYS` has one."""
    return _row(host).key


def newest_key(host: str) -> str:
    """Return the newest key of a host, or an empty text; none is made."""
    return _rows().filter(host=host).values_list("key", flat=True).first() or ""


def key_location(scheme: str, host: str, key: str) -> str:
    """Return the address of a key file: at the root of its own host, so it covers every URL."""
    return f"{conf.scheme or scheme}://{host}/{key}.txt"


def prove(host: str, scheme: str, *, fresh: bool = False) -> Proof:
    """Return the key to send now: the new one once its file is right, until then the former one.

    :param fresh: check, whatever was found lately.
    """
    proof = check_key_file(host, scheme, fresh=fresh)
    row = _row(host)
    if proof.is_ok or not _is_former_served(row, clock.now()):
        return proof
    former = _check(row, scheme, row.previous_key)
    is_telling = former.result in (KeyFile.OK, KeyFile.OTHER_INSTALLATION)
    if is_telling:
        return former if former.is_ok else replace(former, key=row.key)
    return proof


def check_key_file(host: str, scheme: str, *, fresh: bool = False) -> Proof:
    """Return what an engine would find at the file of a host's newest key.

    A pass is kept for 24 hours, for this key and this installation only. Until a new key has
    reached all web processes, its file is not fetched.
    """
    row = _row(host)
    now = clock.now()
    if not fresh and _is_proved(row, now):
        return Proof(key=row.key, result=KeyFile.OK)
    first_check = row.created_at + FIRST_CHECK_AFTER
    is_new = row.created_at <= now < first_check and not configured_key(host)
    if is_new and hosts.is_served(host):
        return Proof(
            key=row.key,
            result="",
            detail=_("The key is new; its file is checked in a few seconds."),
            retry_at=first_check,
        )
    proof = _check(row, scheme, row.key)
    _remember(row, proof, now)
    return proof


def rotate(host: str) -> str:
    """Give a host a new key and return it. The former one stays served until a week after the
    new file was verified, and in use until then.

    :raises ConfigurationError: if `KEYS` sets the key of this host.
    """
    if configured_key(host):
        raise ConfigurationError(f"The key of {host} is set in WAGTAIL_INDEXNOW['KEYS'].")
    row = _row(host)
    _change_over(row, _new_key())
    channels.resume_host(host, _CURED_PAUSES)
    logger.warning("key rotated host=%s key=%s", host, mask(row.key))
    return row.key


def revoke(host: str) -> None:
    """End the file of a host's former key at once: it leaked."""
    if _rows().filter(host=host).exclude(previous_key="").update(previous_until=clock.now()):
        logger.warning("former key revoked host=%s", host)
    served_keys.forget()


def is_proved_elsewhere(row: HostKey) -> bool:
    """Return whether it was another installation that proved this key; a copy has its row."""
    return (
        row.checked_key == row.key
        and bool(row.checked_by)
        and not matches_instance(row.checked_by, row.host)
    )


def _rows() -> "QuerySet[HostKey]":
    # Where they are written: a replica that lags must not bring a former key back.
    return HostKey.objects.using(router.db_for_write(HostKey))


def _row(host: str) -> HostKey:
    configured = configured_key(host)
    row, is_made = _rows().get_or_create(
        host=host, defaults={"key": configured or _new_key(), "created_at": clock.now()}
    )
    if is_made:
        served_keys.forget()
        logger.info("key made host=%s key=%s", host, mask(row.key))
    if configured and row.key != configured:
        _change_over(row, configured)
    return row


def _change_over(row: HostKey, key: str) -> None:
    """Put a new key in the place of the one that was read, unless another process did already."""
    now = clock.now()
    changed = (
        _rows()
        .filter(pk=row.pk, key=row.key)
        .update(
            key=key,
            previous_key=row.key,
            # Without proofs, POSTs change over now.
            previous_until=None if conf.verify_key_file else now + FORMER_KEY_LASTS,
            created_at=now,
        )
    )
    row.refresh_from_db()
    if changed:
        served_keys.forget()
        # What engines said was about the former key.
        Channel.objects.filter(host=row.host).update(verified_at=None)


def _new_key() -> str:
    return secrets.token_hex(KEY_BYTES)


def _is_former_served(row: HostKey, now: datetime) -> bool:
    return bool(row.previous_key) and (row.previous_until is None or now < row.previous_until)


def _is_proved(row: HostKey, now: datetime) -> bool:
    return (
        row.check_result == KeyFile.OK
        and row.checked_key == row.key
        and row.checked_at is not None
        and now - PROOF_LASTS < row.checked_at <= now
        and matches_instance(row.checked_by, row.host)
    )


def _remember(row: HostKey, proof: Proof, now: datetime) -> None:
    found: dict[str, Any] = {
        "checked_key": row.key,
        "checked_at": now,
        "check_result": proof.result,
    }
    if proof.is_ok:
        found["checked_by"] = instance_token(row.host)
        if row.previous_key and row.previous_until is None:
            found["previous_until"] = now + FORMER_KEY_LASTS
            served_keys.forget()
    else:
        logger.warning(
            "key file host=%s key=%s result=%s %s",
            row.host,
            mask(row.key),
            proof.result,
            proof.detail,
        )
    # Only as long as it is still the key that was checked.
    _rows().filter(pk=row.pk, key=row.key).update(**found)


def _check(row: HostKey, scheme: str, key: str) -> Proof:
    """Fetch a key file and judge it, if the host is served here."""
    host = row.host
    if not hosts.is_served(host):
        is_private = hosts.is_private(host) or hosts.is_named(host)  # named, but at an odd port
        result = KeyFile.PRIVATE_HOST if is_private else KeyFile.FOREIGN_HOST
        return Proof(key=key, result=result)
    connect_to = hosts.connect_to(host)
    response = client.fetch_key_file(
        key_location(scheme, host, key), connect_to=connect_to, allow_loopback=hosts.is_demo()
    )
    result = judge_key_file(
        response, host=host, key=key, is_configured=configured_key(host) is not None
    )
    # A file without a mark, or asked for past the public address, is as easily found by a copy.
    is_public_mark = connect_to is None and INSTANCE_HEADER.lower() in response.headers
    if result == KeyFile.OK and not is_public_mark and is_proved_elsewhere(row):
        result = KeyFile.OTHER_INSTALLATION
    return Proof(key=key, result=result, detail=_remark(response, key))


def _remark(response: client.Response, key: str) -> str:
    """Return what an operator should know of a fetch, besides its result."""
    if response.status is None:
        return excerpt_of(response.error.encode(errors="replace"), key)  # may quote the server
    if is_html_type(response):
        return _("It is served as HTML; text/plain is safer.")
    if response.is_proxied:
        return _("The proxy of the environment resolved the host's name.")
    return ""
