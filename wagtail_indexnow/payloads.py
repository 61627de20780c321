"""Messages: ids and times as plain JSON, small enough to log whole. Pure.

    {"v": 1, "intents": [{"key": …, "page_id": 15, "expected_at": …}], "meta": {…}}
    {"v": 1, "channel": {"endpoint": …, "host": …}}

This version and the one before it are understood; unknown fields are ignored, so that old and
new workers can share a queue during a deploy.
"""

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.utils import timezone

from .constants import LIST_SIZE, PAYLOAD_VERSION
from .exceptions import PayloadError

KNOWN_VERSIONS = frozenset({PAYLOAD_VERSION - 1, PAYLOAD_VERSION})
MAX_ID = 2**63 - 1
# As long as the columns they are compared with.
MAX_INTENT_KEY_LENGTH = 191
MAX_ENDPOINT_LENGTH = 64
MAX_HOST_LENGTH = 255
MAX_TIME_LENGTH = 40

_DIGITS = re.compile(r"[0-9]{1,19}")
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, kw_only=True)
class IntentRef:
    """What a message says of one intent; everything else is read from the database."""

    key: str
    page_id: int | None
    expected_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChannelRef:
    endpoint: str
    host: str


def iso(moment: datetime | None) -> str | None:
    """Return a moment as UTC ISO 8601 with microseconds, whatever zone it came in.

    One without a zone is in that of the site, never in that of the editor who happens to look.
    """
    if moment is None:
        return None
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment, timezone.get_default_timezone())
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def announcement(refs: Sequence[IntentRef], meta: Mapping[str, str | None]) -> dict[str, Any]:
    """Build the message of the `announce` actor."""
    return {
        "v": PAYLOAD_VERSION,
        "intents": [
            {"key": ref.key, "page_id": ref.page_id, "expected_at": ref.expected_at} for ref in refs
        ],
        "meta": dict(meta),
    }


def submission(ref: ChannelRef) -> dict[str, Any]:
    """Build the message of the `submit` actor."""
    return {"v": PAYLOAD_VERSION, "channel": {"endpoint": ref.endpoint, "host": ref.host}}


def parse_announcement(payload: Any) -> list[IntentRef]:
    """Return the intents that a message names.

    :raises PayloadError: the version is unknown, or the shape is not ours.
    """
    items = _field(_versioned(payload), "intents", list)
    if len(items) > LIST_SIZE:
        raise PayloadError(f"malformed message: {len(items)} intents")
    return [_intent_ref(item) for item in items]


def parse_submission(payload: Any) -> ChannelRef:
    """Return the channel that a message names.

    :raises PayloadError: the version is unknown, or the shape is not ours.
    """
    channel = _field(_versioned(payload), "channel", dict)
    return ChannelRef(
        endpoint=_text(channel, "endpoint", MAX_ENDPOINT_LENGTH),
        host=_text(channel, "host", MAX_HOST_LENGTH),
    )


def _versioned(payload: Any) -> dict[str, Any]:
    version = payload.get("v") if isinstance(payload, dict) else None
    if type(version) is not int or version not in KNOWN_VERSIONS:
        raise PayloadError(f"unknown payload version {reprlib.repr(version)}")
    return dict(payload)


def _intent_ref(item: Any) -> IntentRef:
    if not isinstance(item, dict):
        raise PayloadError(f"malformed message: an intent of type {type(item).__name__}")
    is_scheduled = item.get("expected_at") is not None
    return IntentRef(
        key=_text(item, "key", MAX_INTENT_KEY_LENGTH),
        page_id=_page_id(item.get("page_id")),
        expected_at=_text(item, "expected_at", MAX_TIME_LENGTH) if is_scheduled else None,
    )


def _page_id(value: Any) -> int | None:
    """Return a page's id, which version 0 wrote as text; `None`: the whole site."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if value is None or (type(value) is int and 0 < value <= MAX_ID):
        return value
    raise PayloadError("malformed message: page_id is no id")


def _field(item: Mapping[str, Any], name: str, kind: type[_Kind]) -> _Kind:
    """Return a field of exactly one type: `True` is no number, and a list no dictionary."""
    value = item.get(name)
    if type(value) is not kind:
        raise PayloadError(f"malformed message: {name} of type {type(value).__name__}")
    return value


def _text(item: Mapping[str, Any], name: str, longest: int) -> str:
    """Return a text that every database takes: no NUL, and no half of a surrogate pair."""
    value = _field(item, name, str)
    if not 0 < len(value) <= longest or not value.isprintable():
        raise PayloadError(f"malformed message: {name} is empty, too long or not printable")
    return value
