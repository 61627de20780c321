"""What an engine's answer means for URLs and channels. Pure: answer in, verdict out.

One function for each row of the answer table. Facts behind it: which engines send what is told
in the protocol reference; no decision rests on a body but for a refusal's `errorCode`, and for
a rejection that names the key.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from ..constants import Reason, SubmissionState
from .redaction import excerpt_of

PAUSE_MAX = timedelta(hours=24)
JITTER = 0.1  # a tenth on top, so that workers of many sites do not come back together
_VERIFY_STEPS = tuple(timedelta(minutes=minutes) for minutes in (5, 10, 20, 40, 60))
_REFUSED_STEPS = (timedelta(hours=1), timedelta(hours=6), timedelta(hours=24))
_OWNED_STEPS = (timedelta(minutes=5), timedelta(hours=1))
_DOUBLING_STEPS = tuple(timedelta(hours=hours) for hours in (1, 2, 4, 8, 16, 24))
PAUSE_STEPS: Mapping[str, tuple[timedelta, ...]] = {
    Reason.KEY_UNVERIFIED: _VERIFY_STEPS,
    Reason.KEY_FILE: _VERIFY_STEPS,
    Reason.FOREIGN_HOST: _VERIFY_STEPS,
    Reason.OTHER_INSTALLATION: _OWNED_STEPS,
    Reason.KEY_REFUSED: _REFUSED_STEPS,
    Reason.RATE_LIMITED: _DOUBLING_STEPS,
    Reason.ENDPOINT_WRONG: _DOUBLING_STEPS,
    Reason.BAD_KEY: _DOUBLING_STEPS,
}

_NAMES_KEY = re.compile(r"\bkeys?(_?location)?\b", re.IGNORECASE)
_SECONDS = re.compile(r"[0-9]{1,12}")
_ERROR_CODE_LENGTH = 128
#: Client errors that pass by themselves: Request Timeout and Too Early.
_PASSING = frozenset({408, 425})


class PauseScope(StrEnum):
    """Whom a pause stops: every host at this endpoint, or one host there."""

    ENDPOINT = "endpoint"
    CHANNEL = "channel"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back: a status with lower-case headers and the start of the body, or why not.

    `status` is `None` if no answer came; `error` then begins with `timeout`, `dns`, `tls`,
    `connection` or `protocol`.
    """

    status: int | None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class PauseHistory:
    """The pause that an endpoint or channel is under, and how often it was renewed."""

    reason: str = ""
    strikes: int = 0

    def strikes_for(self, reason: str) -> int:
        return self.strikes if self.reason == reason else 0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What to do with the URLs of a POST, and with its channel.

    With `pause`, nothing goes to that endpoint or channel before `pause_until`. `proven`: the
    engine accepted the key.
    """

    state: SubmissionState
    reason: str = ""
    pause: PauseScope | None = None
    pause_until: datetime | None = None
    proven: bool = False
    error_code: str = ""
    excerpt: str = ""


@dataclass(frozen=True, kw_only=True)
class _Case:
    """An answer with all that its verdict may depend on."""

    answer: Answer
    now: datetime
    key_check_passed: bool | None
    endpoint: PauseHistory
    channel: PauseHistory
    url_count: int
    was_split: bool
    jitter: float
    error_code: str
    text: str

    def history(self, scope: PauseScope) -> PauseHistory:
        return self.endpoint if scope is PauseScope.ENDPOINT else self.channel


def judge(
    answer: Answer,
    *,
    now: datetime,
    key: str,
    key_check_passed: bool | None = None,
    endpoint: PauseHistory | None = None,
    channel: PauseHistory | None = None,
    url_count: int = 1,
    was_split: bool = False,
    jitter: float = 0.0,
) -> Verdict:
    """Return the verdict on an answer.

    :param key: the key that was sent, to be masked in the excerpt.
    :param key_check_passed: what our own look at the key file found after a refusal; `None`:
        nobody looked.
    :param endpoint: the endpoint's pause so far; `channel` is the host's there.
    :param was_split: these URLs are half of a POST that was too large.
    :param jitter: 0 to 1, chance in, so that this stays a function.
    """
    text = excerpt_of(answer.body, key)
    case = _Case(
        answer=answer,
        now=now,
        key_check_passed=key_check_passed,
        endpoint=endpoint or PauseHistory(),
        channel=channel or PauseHistory(),
        url_count=url_count,
        was_split=was_split,
        jitter=jitter,
        error_code=_error_code(answer, key),
        text=text,
    )
    return _judge(case)


def needs_key_check(answer: Answer) -> bool:
    """Say whether our own look at the key file decides what an answer means."""
    return answer.status == 403 and not _is_verifying(answer)


def pause_for(reason: str, strikes: int, jitter: float = 0.0) -> timedelta:
    """Return how long a pause lasts that was renewed `strikes` times: longer each time."""
    steps = PAUSE_STEPS[reason]
    delay = steps[min(strikes, len(steps) - 1)]
    if steps is _DOUBLING_STEPS:
        delay *= 1 + JITTER * jitter
    return min(delay, PAUSE_MAX)


def retry_after(answer: Answer, now: datetime) -> timedelta | None:
    """Return what `Retry-After` asks for, at most 24 h; `None` if it says nothing usable.

    Seconds or an HTTP date (RFC 9110 §10.2.3). Zero and the past are no answer to "when?".
    """
    value = answer.headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        delay = timedelta(seconds=min(int(value), int(PAUSE_MAX.total_seconds())))
    else:
        delay = _until(value, now)
    return min(delay, PAUSE_MAX) if delay > timedelta(0) else None


def _judge(case: _Case) -> Verdict:
    status = case.answer.status
    if status is None:
        return _kept(case, Reason.NO_RESPONSE)
    if 200 <= status < 300:
        return _accepted(case)
    if status in {400, 422}:
        return _rejected(case)
    if status == 403:
        return _refused(case)
    if status == 413:
        return _too_large(case)
    if status == 429:
        return _rate_limited(case)
    if status >= 500 or status in _PASSING:
        return _server_error(case)
    # Redirects too: a key is not sent elsewhere. Other refusals, such as a proxy's 407, are
    # faults of the address as well: nothing is lost by waiting for a person.
    return _paused(case, Reason.ENDPOINT_WRONG, PauseScope.ENDPOINT)


def _accepted(case: _Case) -> Verdict:
    return Verdict(
        state=SubmissionState.ACCEPTED,
        proven=case.answer.status == 200,  # 202: any key at all, even a wrong one
        error_code=case.error_code,
        excerpt=case.text,
    )


def _rejected(case: _Case) -> Verdict:
    if _blames_key(case):
        return _paused(case, Reason.BAD_KEY, PauseScope.CHANNEL)
    is_bad_request = case.answer.status == 400
    return _final(case, Reason.BAD_REQUEST if is_bad_request else Reason.UNPROCESSABLE)


def _refused(case: _Case) -> Verdict:
    if _is_verifying(case.answer):
        return _paused(case, Reason.KEY_UNVERIFIED, PauseScope.CHANNEL)
    if case.key_check_passed is False:
        return _paused(case, Reason.KEY_FILE, PauseScope.CHANNEL)
    return _paused(case, Reason.KEY_REFUSED, PauseScope.CHANNEL)


def _too_large(case: _Case) -> Verdict:
    if case.was_split or case.url_count < 2:
        return _final(case, Reason.TOO_LARGE)
    return _kept(case, Reason.TOO_LARGE)


def _rate_limited(case: _Case) -> Verdict:
    asked = retry_after(case.answer, case.now)
    return _paused(case, Reason.RATE_LIMITED, PauseScope.ENDPOINT, asked)


def _server_error(case: _Case) -> Verdict:
    asked = retry_after(case.answer, case.now) if case.answer.status == 503 else None
    if asked is None:
        return _kept(case, Reason.SERVER_ERROR)
    return _paused(case, Reason.SERVER_ERROR, PauseScope.ENDPOINT, asked)


def _kept(case: _Case, reason: Reason) -> Verdict:
    return Verdict(
        state=SubmissionState.PENDING,
        reason=reason,
        error_code=case.error_code,
        excerpt=case.text,
    )


def _paused(
    case: _Case, reason: Reason, scope: PauseScope, delay: timedelta | None = None
) -> Verdict:
    if delay is None:
        delay = pause_for(reason, case.history(scope).strikes_for(reason), case.jitter)
    return Verdict(
        state=SubmissionState.PENDING,
        reason=reason,
        pause=scope,
        pause_until=case.now + delay,
        error_code=case.error_code,
        excerpt=case.text,
    )


def _final(case: _Case, reason: Reason) -> Verdict:
    return Verdict(
        state=SubmissionState.REJECTED,
        reason=reason,
        error_code=case.error_code,
        excerpt=case.text,
    )


def _is_verifying(answer: Answer) -> bool:
    return "SiteVerificationNotCompleted" in str(_fields(answer).get("errorCode"))


def _blames_key(case: _Case) -> bool:
    fields = _fields(case.answer)
    details = fields.get("details")
    if isinstance(details, list) and details:
        # Bing says which field is wrong; its sentence names several ("the url or key …").
        targets = [item.get("target") for item in details if isinstance(item, dict)]
        return any(_NAMES_KEY.fullmatch(str(target)) for target in targets)
    return _NAMES_KEY.search(case.text) is not None


def _error_code(answer: Answer, key: str) -> str:
    code = _fields(answer).get("errorCode") or answer.error
    return excerpt_of(str(code).encode(errors="replace"), key)[:_ERROR_CODE_LENGTH]


def _fields(answer: Answer) -> dict[str, Any]:
    try:
        fields = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _until(value: str, now: datetime) -> timedelta:
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return timedelta(0)
    # A date without a zone is meant as GMT; a clock without one shows the site's time.
    aware = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return aware - now.astimezone()
