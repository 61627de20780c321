"""Which key files this process gives out: a copy in memory, at most ten seconds old.

URLs are resolved in the event loop of an ASGI server, where no database may be asked, and any
`/name.txt` could be a key. So the copy is renewed when a request begins, which both kinds of
server do in a place where a query is allowed, and resolver and view only look at it.
"""

import logging
import re
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import DatabaseError, InterfaceError, router
from django.utils import timezone

from .. import hosts
from ..conf import KEY_PATTERN, conf
from ..models import HostKey

logger = logging.getLogger(__name__)

MAX_AGE_S = 10.0
_KEY_FILE = re.compile(rf"/{KEY_PATTERN.pattern}\.txt")
_lock = threading.Lock()
_read_at: float | None = None
#: key → host → until when it is served; `None`: for good.
_served: Mapping[str, Mapping[str, datetime | None]] = {}


def on_request_started(
    sender: Any,
    environ: Mapping[str, Any] | None = None,
    scope: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Renew the copy before a request for what may be a key file is resolved."""
    path = environ.get("PATH_INFO", "") if environ is not None else (scope or {}).get("path", "")
    if _KEY_FILE.search(path):
        refresh()


def refresh() -> None:
    """Read the keys again if the copy is over ten seconds old: one query."""
    global _read_at, _served
    with _lock:
        if _read_at is not None and 0 <= time.monotonic() - _read_at < MAX_AGE_S:
            return
        _read_at = time.monotonic()
        try:
            _served = _read()
        except (DatabaseError, InterfaceError) as error:
            # New code before `migrate`: the site's own text files stay reachable.
            logger.warning("keys state=not_read error=%.200r", error)


def forget() -> None:
    """Have the keys read again at the next request: this process changed one."""
    global _read_at, _served
    with _lock:
        _read_at, _served = None, {}


def is_known(key: str) -> bool:
    """Return whether a key is that of any host here, exactly as written."""
    return bool(_hosts_of(key))


def owner(key: str, names: Iterable[str]) -> str | None:
    """Return which of a host's names a key belongs to, or `None`."""
    owners = _hosts_of(key)
    return next((name for name in names if name in owners), None)


def _hosts_of(key: str) -> set[str | None]:
    now = timezone.now()  # not the database's, which may not be asked here
    kept = {host for host, until in _served.get(key, {}).items() if until is None or now < until}
    configured = {hosts.normalise_host(host) for host, value in conf.keys.items() if value == key}
    return kept | configured


def _read() -> Mapping[str, Mapping[str, datetime | None]]:
    served: dict[str, dict[str, datetime | None]] = {}
    # Where it is written: a replica may not know a new key yet.
    rows = HostKey.objects.using(router.db_for_write(HostKey))
    for host, key, former, until in rows.values_list(
        "host", "key", "previous_key", "previous_until"
    ):
        if former:
            served.setdefault(former, {})[host] = until
        served.setdefault(key, {})[host] = None
    return served
