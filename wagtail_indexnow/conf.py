"""The `WAGTAIL_INDEXNOW` setting: one typed descriptor per key, read on every access.

Nothing is cached and nothing is read at import, so `override_settings` and a changed settings
module both work. `problems()` says what is wrong with a value; `checks.py` shows it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

SETTING = "WAGTAIL_INDEXNOW"
KEY_PATTERN = re.compile(r"[A-Za-z0-9-]{8,128}")  # IndexNow documentation, "key"

T = TypeVar("T")


class Rule(NamedTuple):
    """What makes a raw value valid; `expected` completes “Make it …” for one that is not."""

    is_valid: Callable[[Any], bool]
    expected: str


class Setting(Generic[T]):
    """One key: its default, how the code reads it, and what a site may set."""

    def __init__(self, key: str, default: Any, read: Callable[[Any], T], rule: Rule) -> None:
        self.key, self.default, self.rule, self._read = key, default, rule, read

    def __get__(self, instance: object, owner: type) -> T:
        values: Mapping[str, Any] = getattr(settings, SETTING, None) or {}
        return self._read(values.get(self.key, self.default))


def is_url(value: object) -> bool:
    """Return whether a value is an absolute http(s) URL with a host."""
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_number(value: object, low: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= low


def _is_mapping(value: object, is_valid: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and name and is_valid(item) for name, item in value.items()
    )


def _is_list(value: Any, is_valid: Callable[[Any], bool]) -> bool:
    is_listed = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    return is_listed and all(isinstance(item, str) and is_valid(item) for item in value)


def _is_email(value: str) -> bool:
    try:
        validate_email(value)
    except ValidationError:
        return False
    return True


def _is_key(value: object) -> bool:
    return isinstance(value, str) and KEY_PATTERN.fullmatch(value) is not None


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def _by_host(value: Mapping[str, str]) -> dict[str, str]:
    return {host.lower(): item for host, item in value.items()}


def _optional_list(value: Iterable[str] | None) -> list[str] | None:
    return None if value is None else list(value)


_BOOLEAN = Rule(lambda value: isinstance(value, bool), "True or False")
_SECONDS = Rule(lambda value: _is_number(value, 0), "a number of seconds, zero or more")
_POSITIVE = Rule(lambda value: _is_number(value, 0.001), "a number greater than zero")
_SWITCH = Rule(lambda value: value is None or isinstance(value, bool), "True, False or None")
_ENDPOINTS = Rule(
    lambda value: bool(value) and _is_mapping(value, is_url),
    "a dictionary of name → absolute URL with at least one entry",
)
_HOSTS = Rule(lambda value: value is None or _is_list(value, bool), "None or a list of host names")
_KEYS = Rule(
    lambda value: _is_mapping(value, _is_key),
    "a dictionary of host → key of 8 to 128 letters, digits and hyphens",
)
_BASE_URLS = Rule(
    lambda value: _is_mapping(value, is_url),
    "a dictionary of host → base URL such as http://127.0.0.1:8000",
)
_EMAILS = Rule(lambda value: _is_list(value, _is_email), "a list of e-mail addresses")
_SCHEME = Rule(lambda value: value in (None, "http", "https"), 'None, "http" or "https"')
_TRANSLATIONS = Rule(
    lambda value: value in ("url_changes", "always", "never"), '"url_changes", "always" or "never"'
)
_QUEUE = Rule(lambda value: isinstance(value, str) and bool(value), "the name of a queue")


class IndexNowSettings:
    """The site's settings with their defaults. Durations are `timedelta`, hosts lower-case."""

    enabled = Setting[bool](
        "ENABLED", None, lambda value: not settings.DEBUG if value is None else value, _SWITCH
    )
    dry_run = Setting("DRY_RUN", False, bool, _BOOLEAN)
    endpoints = Setting[dict[str, str]](  # name → URL
        "ENDPOINTS", {"indexnow": "https://api.indexnow.org/indexnow"}, dict, _ENDPOINTS
    )
    hosts = Setting("HOSTS", None, _optional_list, _HOSTS)
    keys = Setting("KEYS", {}, _by_host, _KEYS)
    verify_key_file = Setting("VERIFY_KEY_FILE", True, bool, _BOOLEAN)
    connect_to = Setting("CONNECT_TO", {}, _by_host, _BASE_URLS)
    verify_pages = Setting("VERIFY_PAGES", False, bool, _BOOLEAN)
    verify_after = Setting("VERIFY_AFTER", 30, _seconds, _SECONDS)
    verify_grace = Setting("VERIFY_GRACE", 3_600, _seconds, _SECONDS)
    audit_interval = Setting("AUDIT_INTERVAL", 86_400, _seconds, _SECONDS)
    alert_emails = Setting[list[str]]("ALERT_EMAILS", [], list, _EMAILS)
    scheme = Setting[str | None]("SCHEME", None, lambda value: value, _SCHEME)
    translations = Setting("TRANSLATIONS", "url_changes", str, _TRANSLATIONS)
    aliases = Setting("ALIASES", False, bool, _BOOLEAN)
    settle = Setting("SETTLE_SECONDS", 5, _seconds, _SECONDS)
    host_interval = Setting("HOST_INTERVAL", 60, _seconds, _SECONDS)
    rate_limit = Setting("RATE_LIMIT", 12, float, _POSITIVE)  # POSTs a minute at each endpoint
    resubmit_after = Setting("RESUBMIT_AFTER", 600, _seconds, _SECONDS)
    timeout_s = Setting("TIMEOUT", 10, float, _POSITIVE)
    give_up_after = Setting("GIVE_UP_AFTER", 604_800, _seconds, _POSITIVE)
    go_live_grace = Setting("GO_LIVE_GRACE", 7_200, _seconds, _SECONDS)
    schedule_horizon = Setting("SCHEDULE_HORIZON", 900, _seconds, _SECONDS)
    relay_interval_s = Setting("RELAY_INTERVAL", 2, float, _SECONDS)
    queue = Setting("QUEUE", "default", str, _QUEUE)  # read once, when `tasks` is imported
    retention = Setting("RETENTION_DAYS", 90, lambda value: timedelta(days=value), _POSITIVE)


SETTINGS: Mapping[str, Setting[Any]] = {
    item.key: item for item in vars(IndexNowSettings).values() if isinstance(item, Setting)
}

conf = IndexNowSettings()


def problems() -> Iterator[tuple[str, str]]:
    """Yield (key, what it must be) for each unknown or wrong key of the site's setting."""
    user = getattr(settings, SETTING, None)
    if user is None:
        return
    if not isinstance(user, Mapping):
        yield SETTING, "a dictionary"
        return
    for name, value in user.items():
        if name not in SETTINGS:
            yield str(name), f"one of {', '.join(sorted(SETTINGS))}"
        elif not SETTINGS[name].rule.is_valid(value):
            yield name, SETTINGS[name].rule.expected
