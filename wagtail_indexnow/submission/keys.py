"""Verbs on keys: make, serve, prove, rotate.

A key is proved by fetching its file as an engine would. An engine that looks too early, or finds
another installation's file, can refuse the key for good.
"""

import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac
from wagtail.models import Site

from .. import clock, hosts
from ..conf import conf
from ..constants import KeyFile, Reason
from ..exceptions import ConfigurationError
from ..ledger import channels
from ..models import Channel, HostKey
from . import client
from .redaction import mask
from .responses import Answer

__all__ = [
    "INSTANCE_HEADER",
    "Proof",
    "check_key_file",
    "instance_token",
    "is_proved_elsewhere",
    "key_for",
    "key_location",
    "mask",
    "matches_instance",
    "prove",
    "rotate",
    "valid_keys",
]

logger = logging.getLogger(__name__)

INSTANCE_HEADER = "X-IndexNow-Instance"
PROOF_LASTS = timedelta(hours=24)
KEY_BYTES = 16  # 32 hexadecimal digits
#: Holds that a new key is the cure for.
_CURED_HOLDS = (Reason.KEY_REFUSED, Reason.KEY_UNVERIFIED, Reason.BAD_KEY)
_BOM = b"\xef\xbb\xbf"
_SALT = "wagtail_indexnow.instance"
_BOT_WALL_HEADERS = ("cf-mitigated", "x-sucuri-block", "x-datadome")
_BOT_WALL_WORDS = (b"captcha", b"challenge", b"just a moment", b"anubis", b"enable javascript")


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The key to send for a host, and what its file answered."""

    key: str
    result: str

    @property
    def is_ok(self) -> bool:
        return self.result == KeyFile.OK


def key_for(host: str) -> str:
    """Return the newest key of a host; made and kept on first need unless `KEYS` has one."""
    return _row(host).key


def valid_keys(host: str) -> tuple[str, ...]:
    """Return every key whose file this host serves: the new one, and the one before it."""
    row = HostKey.objects.filter(host=host).first()
    kept = (row.key, row.previous_key) if row else ()
    candidates = (_configured(host), *kept)
    return tuple(dict.fromkeys(key for key in candidates if key))


def is_known(key: str) -> bool:
    """Say whether a key belongs to any host here, exactly as written."""
    if not key:
        return False
    rows = HostKey.objects.values_list("key", "previous_key")
    # Compared here: some databases would find it in another case too.
    return key in conf.keys.values() or any(key in row for row in rows)


def key_location(scheme: str, host: str, key: str) -> str:
    """Return the address of a key file: at the root of its own host, so it covers every URL."""
    return f"{conf.scheme or scheme}://{host}/{key}.txt"


def instance_token() -> str:
    """Return what tells this installation from a copy: an HMAC under `SECRET_KEY`."""
    return _token(settings.SECRET_KEY)


def matches_instance(token: str) -> bool:
    """Say whether a token is this installation's, under any of its secret keys."""
    secret_keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    # Encoded: a header from elsewhere may hold anything, and non-ASCII text is not comparable.
    return any(constant_time_compare(token.encode(), _token(key).encode()) for key in secret_keys)


def prove(host: str, scheme: str, *, fresh: bool = False) -> Proof:
    """Return the key to send now: the new one once its file answers, until then the one before.

    :param fresh: look, whatever was found lately.
    """
    row = _row(host)
    result = check_key_file(host, scheme, fresh=fresh)
    if result == KeyFile.OK or not row.previous_key:
        return Proof(key=row.key, result=result)
    previous = _look(row, scheme, row.previous_key)
    if previous == KeyFile.OK:
        return Proof(key=row.previous_key, result=previous)
    is_foreign = previous == KeyFile.OTHER_INSTALLATION
    return Proof(key=row.key, result=previous if is_foreign else result)


def check_key_file(host: str, scheme: str, *, fresh: bool = False) -> str:
    """Return what an engine would find at a host's key file, as a `KeyFile` value.

    A pass is kept for 24 hours, for this key and this installation only.
    """
    row = _row(host)
    now = clock.now()
    if not fresh and _is_proved(row, now):
        return KeyFile.OK
    result = _look(row, scheme, row.key)
    _remember(row, result, now)
    return result


def rotate(host: str) -> str:
    """Give a host a new key and return it. The old one stays served, and in use until the new
    file answers.

    :raises ConfigurationError: if `KEYS` sets the key of this host.
    """
    if _configured(host):
        raise ConfigurationError(f"The key of {host} is set in WAGTAIL_INDEXNOW['KEYS'].")
    row = _row(host)
    _change_over(row, _new_key())
    channels.resume_host(host, _CURED_HOLDS)
    logger.warning("key rotated host=%s key=%s", host, mask(row.key))
    return row.key


def _row(host: str) -> HostKey:
    configured = _configured(host)
    row, is_made = HostKey.objects.get_or_create(
        host=host, defaults={"key": configured or _new_key(), "created_at": clock.now()}
    )
    if is_made:
        logger.info("key made host=%s key=%s", host, mask(row.key))
    if configured and row.key != configured:
        _change_over(row, configured)
    return row


def _change_over(row: HostKey, key: str) -> None:
    """Put a new key in the place of the one that was read, unless somebody else did already."""
    changed = HostKey.objects.filter(pk=row.pk, key=row.key).update(key=key, previous_key=row.key)
    row.refresh_from_db()
    if changed:
        # What engines said was about the old key.
        Channel.objects.filter(host=row.host).update(verified_at=None)


def _configured(host: str) -> str | None:
    return {hosts.normalise_host(name): key for name, key in conf.keys.items()}.get(host)


def _new_key() -> str:
    return secrets.token_hex(KEY_BYTES)


def _token(secret_key: str | bytes) -> str:
    digest = salted_hmac(_SALT, "installation", secret=secret_key, algorithm="sha256")
    return digest.hexdigest()[:32]


def _is_proved(row: HostKey, now: datetime) -> bool:
    return (
        row.check_result == KeyFile.OK
        and row.checked_key == row.key
        and row.checked_at is not None
        and now - PROOF_LASTS < row.checked_at <= now
        and matches_instance(row.checked_by)
    )


def _remember(row: HostKey, result: str, now: datetime) -> None:
    found: dict[str, Any] = {"checked_key": row.key, "checked_at": now, "check_result": result}
    if result == KeyFile.OK:
        found["checked_by"] = instance_token()
    # Only as long as it is still the key that was looked at.
    HostKey.objects.filter(pk=row.pk, key=row.key).update(**found)
    if result != KeyFile.OK:
        logger.warning("key file host=%s key=%s result=%s", row.host, mask(row.key), result)


def _look(row: HostKey, scheme: str, key: str) -> str:
    host = row.host
    connect_to = _connect_to(host)
    if connect_to is None:
        if not _is_ours(host):
            return KeyFile.WRONG_HOST
        if hosts.is_private(host) and not _is_all_loopback():
            return KeyFile.PRIVATE_HOST
    answer = client.fetch_key_file(key_location(scheme, host, key), connect_to=connect_to)
    result = _judge(answer, key, is_configured=_configured(host) is not None)
    # A file without a mark, or asked for past the public address, is as easily found by a copy.
    is_public_mark = connect_to is None and INSTANCE_HEADER.lower() in answer.headers
    if result == KeyFile.OK and not is_public_mark and is_proved_elsewhere(row):
        return KeyFile.OTHER_INSTALLATION
    return result


def is_proved_elsewhere(row: HostKey) -> bool:
    """Say whether it was another installation that proved this key; a copy has its row."""
    return (
        row.checked_key == row.key and bool(row.checked_by) and not matches_instance(row.checked_by)
    )


def _connect_to(host: str) -> str | None:
    targets = conf.connect_to
    return {hosts.normalise_host(name): url for name, url in targets.items()}.get(host)


def _is_ours(host: str) -> bool:
    """Say whether a host was named by the site: nobody can make us call another one."""
    return host in _named_hosts() or urlsplit(f"//{host}").hostname in _named_hosts()


def _named_hosts() -> set[str | None]:
    sites = Site.objects.values_list("hostname", flat=True)
    return {hosts.normalise_host(name) for name in (*sites, *conf.keys, *(conf.hosts or ()))}


def _is_all_loopback() -> bool:
    return all(hosts.is_loopback_url(url) for url in conf.endpoints.values())


def _judge(answer: Answer, key: str, *, is_configured: bool) -> str:
    if answer.status is None:
        return KeyFile.TIMEOUT if answer.error.startswith("timeout") else KeyFile.UNREACHABLE
    token = answer.headers.get(INSTANCE_HEADER.lower(), "")
    if token and not matches_instance(token):
        return KeyFile.OTHER_INSTALLATION
    result = _judge_status(answer) or _judge_body(answer.body, key)
    # A static file cannot sign itself; only the operator's own word makes up for that.
    if result == KeyFile.OK and not token and not is_configured:
        return KeyFile.UNSIGNED
    return result


def _judge_status(answer: Answer) -> str | None:
    status = answer.status or 0
    if status == 200:
        return _html_kind(answer)
    if 300 <= status < 400:
        return KeyFile.REDIRECT
    if status in {404, 410}:
        return KeyFile.NOT_FOUND
    if _is_bot_wall(answer):
        return KeyFile.BOT_WALL
    if status >= 500:
        return KeyFile.SERVER_FAULT
    return KeyFile.FORBIDDEN if status in {401, 403, 429} else KeyFile.OTHER_BODY


def _html_kind(answer: Answer) -> str | None:
    if not any(_signs_of_html(answer)):
        return None
    return KeyFile.BOT_WALL if _is_bot_wall(answer) else KeyFile.HTML


def _signs_of_html(answer: Answer) -> Iterator[bool]:
    yield "html" in answer.headers.get("content-type", "").lower()
    yield answer.body.lstrip(_BOM + b" \r\n\t").lower().startswith((b"<!doctype", b"<html"))


def _is_bot_wall(answer: Answer) -> bool:
    body = answer.body.lower()
    return any(name in answer.headers for name in _BOT_WALL_HEADERS) or any(
        word in body for word in _BOT_WALL_WORDS
    )


def _judge_body(body: bytes, key: str) -> str:
    expected = key.encode()
    if body == expected:
        return KeyFile.OK
    if body.startswith(_BOM) and body.removeprefix(_BOM).strip() == expected:
        return KeyFile.BOM
    return KeyFile.TRAILING_NEWLINE if body.strip() == expected else KeyFile.OTHER_BODY
