"""Values that pass between the parts of the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ACCEPTED_STATUSES = (200, 202)


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """A request as it came in. Header names are lower case; ``query`` has no question mark.

    ``unreadable`` is why the body could not be read; ``raw`` is then empty.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""
    client_address: str = "127.0.0.1"
    unreadable: str = ""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A request that is well formed: normal host, key, where its file is, URLs without repeats."""

    host: str
    key: str
    key_location: str
    urls: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the engine answers and why.

    ``rule`` is the rule id of a refusal (or ``M10`` for a 202), empty for a plain 200.
    ``error_code`` and ``target`` go into Bing's body; ``headers`` go out as they are.
    """

    status: int
    rule: str = ""
    reason: str = ""
    error_code: str = ""
    target: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_accepted(self) -> bool:
        return self.status in ACCEPTED_STATUSES


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A scripted answer (M17), used once, ahead of the normal rules.

    :param status: HTTP status; a redirect without a 3xx status goes out as 302.
    :param delay_s: real seconds before anything is sent.
    :param drop: close the connection without an answer.
    :param truncate: promise more body than is sent, then close.
    :param redirect_to: value of ``Location``.
    :param slow_drip_s: real seconds between two single bytes of the body; an empty body is
        filled with 64 spaces so that there is something to drip.
    :param apply: run the normal rules as well, so that the URLs count as received exactly if
        the rules accept them, whatever is sent back. Without it a 200 or 202 that is not
        dropped counts its URLs as received and nothing is checked.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay_s: float = 0.0
    drop: bool = False
    truncate: bool = False
    redirect_to: str | None = None
    slow_drip_s: float = 0.0
    apply: bool = False


@dataclass(frozen=True, kw_only=True)
class RequestRecord:
    """One request the engine got, and its verdict.

    ``at`` is the engine's clock, ``monotonic`` the machine's, both in seconds. ``path`` keeps
    the query. ``parsed`` is the JSON object of a POST or the parameters of a GET. ``status`` is
    what was sent, 0 for a dropped connection. ``urls`` has each URL of the request once;
    ``too_soon`` those that came again inside the gap (M16). ``anomalies`` are remarks that
    refuse nothing (M21). ``number`` counts from 1 since the last reset.
    """

    number: int
    at: float
    monotonic: float
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    parsed: dict[str, Any] | None
    status: int
    rule: str
    reason: str
    anomalies: tuple[str, ...]
    too_soon: tuple[str, ...]
    client_address: str
    host: str
    urls: tuple[str, ...]
    is_accepted: bool


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What goes onto the wire; ``script`` carries the scripted faults, if any."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    script: Answer | None = None
