"""Messages: ids and times as plain JSON, small enough to log whole. Pure.

    {"v": 1, "intents": [{"key": …, "page_id": 15, "expected_at": …}], "meta": {…}}
    {"v": 1, "channel": {"endpoint": …, "host": …}}

This version and the one before it are understood; unknown fields are ignored, so that old and
new workers can share a queue during a deploy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from .constants import PAYLOAD_VERSION
from .exceptions import PayloadError

KNOWN_VERSIONS = frozenset({PAYLOAD_VERSION - 1, PAYLOAD_VERSION})


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
    _check_version(payload)
    try:
        return [_intent_ref(item) for item in payload["intents"]]
    except (KeyError, TypeError, ValueError) as error:
        raise PayloadError(f"malformed announcement: {error!r}") from error


def parse_submission(payload: Any) -> ChannelRef:
    """Return the channel that a message names.

    :raises PayloadError: the version is unknown, or the shape is not ours.
    """
    _check_version(payload)
    try:
        channel = payload["channel"]
        return ChannelRef(endpoint=str(channel["endpoint"]), host=str(channel["host"]))
    except (KeyError, TypeError) as error:
        raise PayloadError(f"malformed submission: {error!r}") from error


def _check_version(payload: Any) -> None:
    version = payload.get("v") if isinstance(payload, Mapping) else None
    if version not in KNOWN_VERSIONS:
        raise PayloadError(f"unknown payload version {version!r}")


def _intent_ref(item: Mapping[str, Any]) -> IntentRef:
    return IntentRef(
        key=str(item["key"]),
        page_id=None if item["page_id"] is None else int(item["page_id"]),
        expected_at=item.get("expected_at"),
    )
