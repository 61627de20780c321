"""The `WAGTAIL_INDEXNOW` setting: one typed property per key, read on every access.

Nothing is cached and nothing is read at import, so `override_settings` and a changed settings
module both work. `problems()` says what is wrong with a value; `checks.py` shows it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

SETTING = "WAGTAIL_INDEXNOW"
KEY_PATTERN = re.compile(r"[A-Za-z0-9-]{8,128}")  # IndexNow documentation, "key"

DEFAULTS: dict[str, Any] = {
    "ENABLED": None,  # not DEBUG
    "DRY_RUN": False,
    "ENDPOINTS": {"indexnow": "https://api.indexnow.org/indexnow"},
    "HOSTS": None,
    "KEYS": {},
    "VERIFY_KEY_FILE": True,
    "CONNECT_TO": {},
    "VERIFY_PAGES": False,
    "SCHEME": None,
    "TRANSLATIONS": "url_changes",
    "ALIASES": False,
    "SETTLE_SECONDS": 5,
    "HOST_INTERVAL": 60,
    "RATE_LIMIT": 12,
    "RESUBMIT_AFTER": 600,
    "TIMEOUT": 10,
    "GIVE_UP_AFTER": 604_800,
    "GO_LIVE_GRACE": 7_200,
    "SCHEDULE_HORIZON": 900,
    "RELAY_INTERVAL": 2,
    "QUEUE": "default",
    "RETENTION_DAYS": 90,
}


class IndexNowSettings:
    """The site's settings with their defaults. Durations are `timedelta`."""

    def get(self, name: str) -> Any:
        """Return the raw value of one key, or its default."""
        user: Mapping[str, Any] = getattr(settings, SETTING, None) or {}
        return user.get(name, DEFAULTS[name])

    def _seconds(self, name: str) -> timedelta:
        return timedelta(seconds=self.get(name))

    @property
    def enabled(self) -> bool:
        value = self.get("ENABLED")
        return not settings.DEBUG if value is None else bool(value)

    @property
    def dry_run(self) -> bool:
        return bool(self.get("DRY_RUN"))

    @property
    def endpoints(self) -> dict[str, str]:
        """Name → URL of each search engine that is told."""
        return dict(self.get("ENDPOINTS"))

    @property
    def hosts(self) -> list[str] | None:
        value = self.get("HOSTS")
        return None if value is None else list(value)

    @property
    def keys(self) -> dict[str, str]:
        """Host, in lower case → key, for keys that the site chooses itself."""
        return {host.lower(): key for host, key in self.get("KEYS").items()}

    @property
    def verify_key_file(self) -> bool:
        return bool(self.get("VERIFY_KEY_FILE"))

    @property
    def connect_to(self) -> dict[str, str]:
        """Host, in lower case → base URL that the key file is fetched from instead."""
        return {host.lower(): url for host, url in self.get("CONNECT_TO").items()}

    @property
    def verify_pages(self) -> bool:
        """Whether a URL is submitted only once the public sees what it announces."""
        return bool(self.get("VERIFY_PAGES"))

    @property
    def scheme(self) -> str | None:
        value: str | None = self.get("SCHEME")
        return value

    @property
    def translations(self) -> str:
        return str(self.get("TRANSLATIONS"))

    @property
    def aliases(self) -> bool:
        return bool(self.get("ALIASES"))

    @property
    def settle(self) -> timedelta:
        return self._seconds("SETTLE_SECONDS")

    @property
    def host_interval(self) -> timedelta:
        return self._seconds("HOST_INTERVAL")

    @property
    def rate_limit(self) -> float:
        """POSTs a minute for each endpoint."""
        return float(self.get("RATE_LIMIT"))

    @property
    def resubmit_after(self) -> timedelta:
        return self._seconds("RESUBMIT_AFTER")

    @property
    def timeout_s(self) -> float:
        return float(self.get("TIMEOUT"))

    @property
    def give_up_after(self) -> timedelta:
        return self._seconds("GIVE_UP_AFTER")

    @property
    def go_live_grace(self) -> timedelta:
        return self._seconds("GO_LIVE_GRACE")

    @property
    def schedule_horizon(self) -> timedelta:
        return self._seconds("SCHEDULE_HORIZON")

    @property
    def relay_interval_s(self) -> float:
        return float(self.get("RELAY_INTERVAL"))

    @property
    def queue(self) -> str:
        """The Dramatiq queue of our actors: read once, when `tasks` is imported."""
        return str(self.get("QUEUE"))

    @property
    def retention(self) -> timedelta:
        return timedelta(days=self.get("RETENTION_DAYS"))


conf = IndexNowSettings()


def is_url(value: object) -> bool:
    """Say whether a value is an absolute http(s) URL with a host."""
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_number(value: object, low: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= low


def _is_mapping(value: object, accept: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and name and accept(item) for name, item in value.items()
    )


def _is_hosts(value: object) -> bool:
    is_list = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    return value is None or (is_list and all(isinstance(host, str) for host in value))  # type: ignore[attr-defined]


def _is_key(value: object) -> bool:
    return isinstance(value, str) and KEY_PATTERN.fullmatch(value) is not None


_BOOLEAN = (lambda value: isinstance(value, bool), "True or False")
_SECONDS = (lambda value: _is_number(value, 0), "a number of seconds, zero or more")
_POSITIVE = (lambda value: _is_number(value, 0.001), "a number greater than zero")

RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "ENABLED": (lambda value: value is None or isinstance(value, bool), "True, False or None"),
    "DRY_RUN": _BOOLEAN,
    "ENDPOINTS": (
        lambda value: bool(value) and _is_mapping(value, is_url),
        "a dictionary of name → absolute URL with at least one entry",
    ),
    "HOSTS": (_is_hosts, "None or a list of host names"),
    "KEYS": (
        lambda value: _is_mapping(value, _is_key),
        "a dictionary of host → key of 8 to 128 letters, digits and hyphens",
    ),
    "VERIFY_KEY_FILE": _BOOLEAN,
    "CONNECT_TO": (
        lambda value: _is_mapping(value, is_url),
        "a dictionary of host → base URL such as http://127.0.0.1:8000",
    ),
    "VERIFY_PAGES": _BOOLEAN,
    "SCHEME": (lambda value: value in (None, "http", "https"), 'None, "http" or "https"'),
    "TRANSLATIONS": (
        lambda value: value in ("url_changes", "always", "never"),
        '"url_changes", "always" or "never"',
    ),
    "ALIASES": _BOOLEAN,
    "SETTLE_SECONDS": _SECONDS,
    "HOST_INTERVAL": _SECONDS,
    "RATE_LIMIT": _POSITIVE,
    "RESUBMIT_AFTER": _SECONDS,
    "TIMEOUT": _POSITIVE,
    "GIVE_UP_AFTER": _POSITIVE,
    "GO_LIVE_GRACE": _SECONDS,
    "SCHEDULE_HORIZON": _SECONDS,
    "RELAY_INTERVAL": _SECONDS,
    "QUEUE": (lambda value: isinstance(value, str) and bool(value), "the name of a queue"),
    "RETENTION_DAYS": _POSITIVE,
}


def problems() -> Iterator[tuple[str, str]]:
    """Yield (key, what it must be) for each unknown or wrong key of the site's setting."""
    user = getattr(settings, SETTING, None)
    if user is None:
        return
    if not isinstance(user, Mapping):
        yield SETTING, "a dictionary"
        return
    for name, value in user.items():
        if name not in RULES:
            yield str(name), f"one of {', '.join(sorted(RULES))}"
        elif not RULES[name][0](value):
            yield name, RULES[name][1]
