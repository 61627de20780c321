"""Every row of the answer table; the numbers are those of the protocol's conformance list."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wagtail_indexnow.constants import EXCERPT_LENGTH, Reason, SubmissionState
from wagtail_indexnow.models import Submission
from wagtail_indexnow.submission.redaction import excerpt_of, mask
from wagtail_indexnow.submission.responses import (
    PAUSE_MAX,
    PAUSE_STEPS,
    Answer,
    PauseHistory,
    PauseScope,
    Verdict,
    judge,
    needs_key_check,
    pause_for,
    retry_after,
)

NOW = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
KEY = "0123456789abcdef0123456789abcdef"
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def answer(status: int | None, body: bytes | str = b"", **headers: str) -> Answer:
    raw = body.encode() if isinstance(body, str) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, headers=named, body=raw)


def bing(code: str, message: str = "", details: Any = None) -> str:
    return json.dumps({"errorCode": code, "message": message, "details": details})


def verdict(given_answer: Answer, **values: Any) -> Verdict:
    return judge(given_answer, now=NOW, key=KEY, **values)


def outcome(found: Verdict) -> tuple[Any, ...]:
    return found.state, found.reason, paused_for(found), found.pause


def paused_for(found: Verdict) -> timedelta | None:
    return found.pause_until and found.pause_until - NOW


@pytest.mark.parametrize(
    "body", [b"", b'{"ok":true}', b"OK", b"<html>fine</html>"], ids=["none", "json", "text", "html"]
)
def test_c35_c36_200_is_accepted_whatever_its_body_and_proves_the_key(body: bytes) -> None:
    found = verdict(answer(200, body))

    assert outcome(found) == (SubmissionState.ACCEPTED, "", None, None)
    assert found.proven


@pytest.mark.parametrize("status", [201, 202, 204, 299])
@pytest.mark.parametrize("body", ["", '{"success":true}'])
def test_c37_another_2xx_is_accepted_but_proves_no_key(status: int, body: str) -> None:
    found = verdict(answer(status, body))

    assert outcome(found) == (SubmissionState.ACCEPTED, "", None, None)
    assert not found.proven


def test_c40_a_bad_request_is_rejected_with_its_code_and_details() -> None:
    body = bing("InvalidRequestParameters", "Bad.", [{"target": "url", "message": "No."}])

    found = verdict(answer(400, body))

    assert outcome(found) == (SubmissionState.REJECTED, Reason.BAD_REQUEST, None, None)
    assert found.error_code == "InvalidRequestParameters"
    assert found.excerpt == body


def test_c47_unprocessable_urls_are_rejected() -> None:
    found = verdict(answer(422, "Invalid urls"), url_count=7)

    assert outcome(found) == (SubmissionState.REJECTED, Reason.UNPROCESSABLE, None, None)


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    "body",
    [
        bing("InvalidRequestParameters", "x", [{"target": "keyLocation", "message": "Bad."}]),
        bing("InvalidRequestParameters", "x", [{"target": "key", "message": "Bad."}]),
        "Invalid key location",
        "The keyLocation is not on the host.",
        "key_location: wrong",
        "Key is too short",
    ],
)
def test_c41_c48_a_rejection_that_names_the_key_holds_the_channel_and_keeps_urls(
    status: int, body: str
) -> None:
    found = verdict(answer(status, body))

    assert outcome(found) == (SubmissionState.PENDING, Reason.BAD_KEY, HOUR, PauseScope.CHANNEL)
    assert found.pause_until == NOW + HOUR


@pytest.mark.parametrize(
    "body",
    [
        bing("Invalid", "The url or key is wrong.", [{"target": "url", "message": "key"}]),
        "a monkey at the keyboard",
        bing("Invalid", "Bad.", ["key"]),
        bing("Invalid", "Bad.", 7),
    ],
    ids=["detail says url", "part of a word", "details of no known shape", "details no list"],
)
def test_a_rejection_that_blames_something_else_keeps_the_channel_open(body: str) -> None:
    assert verdict(answer(422, body)).reason == Reason.UNPROCESSABLE


@pytest.mark.parametrize(
    ("strikes", "minutes"), [(0, 5), (1, 10), (2, 20), (3, 40), (4, 60), (50, 60)]
)
def test_c42_a_key_still_being_verified_holds_the_channel_5_minutes_doubling_to_an_hour(
    strikes: int, minutes: int
) -> None:
    standing = PauseHistory(reason=Reason.KEY_UNVERIFIED, strikes=strikes)

    found = verdict(answer(403, bing("SiteVerificationNotCompleted")), channel=standing)

    assert outcome(found) == (
        SubmissionState.PENDING,
        Reason.KEY_UNVERIFIED,
        minutes * MINUTE,
        PauseScope.CHANNEL,
    )


REFUSALS = [bing("UserForbiddedToAccessSite"), "Forbidden", "", "{", "[1]", bing("KeyNotFound")]


@pytest.mark.parametrize("body", REFUSALS)
def test_c43_c45_a_refusal_with_a_failing_key_file_waits_for_the_file(body: str) -> None:
    found = verdict(answer(403, body), key_check_passed=False)

    assert outcome(found) == (
        SubmissionState.PENDING,
        Reason.KEY_FILE,
        5 * MINUTE,
        PauseScope.CHANNEL,
    )


@pytest.mark.parametrize("body", REFUSALS)
@pytest.mark.parametrize(("strikes", "hours"), [(0, 1), (1, 6), (2, 24), (9, 24)])
def test_c44_c45_b13_a_refusal_with_a_right_key_file_holds_1_6_24_hours(
    body: str, strikes: int, hours: int
) -> None:
    standing = PauseHistory(reason=Reason.KEY_REFUSED, strikes=strikes)

    found = verdict(answer(403, body), key_check_passed=True, channel=standing)

    assert outcome(found) == (
        SubmissionState.PENDING,
        Reason.KEY_REFUSED,
        hours * HOUR,
        PauseScope.CHANNEL,
    )
    assert "rotate" in str(Reason(found.reason).remedy)


def test_only_a_refusal_that_is_no_pending_verification_needs_our_own_look() -> None:
    assert needs_key_check(answer(403, "no"))
    assert not needs_key_check(answer(403, bing("SiteVerificationNotCompleted")))
    assert not needs_key_check(answer(422, "no"))


@pytest.mark.parametrize("status", [300, 301, 302, 307, 308, 401, 404, 405, 407, 410, 451])
def test_c46_c54_a_wrong_address_holds_the_endpoint_and_keeps_urls(status: int) -> None:
    # The list says `rejected`; the design keeps the URLs: the fault is the address, not theirs.
    found = verdict(answer(status, location="https://elsewhere.example/"))

    assert outcome(found) == (
        SubmissionState.PENDING,
        Reason.ENDPOINT_WRONG,
        HOUR,
        PauseScope.ENDPOINT,
    )


def test_too_large_is_split_once_and_then_rejected() -> None:
    first = verdict(answer(413), url_count=2)
    second = verdict(answer(413), url_count=2, was_split=True)
    single = verdict(answer(413))

    assert outcome(first) == (SubmissionState.PENDING, Reason.TOO_LARGE, None, None)
    assert outcome(second) == (SubmissionState.REJECTED, Reason.TOO_LARGE, None, None)
    assert outcome(single) == (SubmissionState.REJECTED, Reason.TOO_LARGE, None, None)


def test_c49_b07_429_with_retry_after_holds_the_endpoint_that_long() -> None:
    found = verdict(answer(429, retry_after="120"))

    assert outcome(found) == (
        SubmissionState.PENDING,
        Reason.RATE_LIMITED,
        timedelta(seconds=120),
        PauseScope.ENDPOINT,
    )
    assert found.pause_until == NOW + timedelta(seconds=120)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "-5",
        "0",
        "1e3",
        "٣",
        "Tue, 99 Foo",
        "Tue, 01 Dec 2026 17:00:00 GMT",
        f"Tue, 01 Dec {'9' * 30} 17:00:00 GMT",
    ],
)
@pytest.mark.parametrize(("strikes", "hours"), [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (5, 24)])
def test_c50_429_without_a_usable_retry_after_doubles_from_an_hour_to_a_day(
    value: str, strikes: int, hours: int
) -> None:
    standing = PauseHistory(reason=Reason.RATE_LIMITED, strikes=strikes)

    found = verdict(answer(429, retry_after=value), endpoint=standing)

    assert outcome(found) == (
        SubmissionState.PENDING,
        Reason.RATE_LIMITED,
        hours * HOUR,
        PauseScope.ENDPOINT,
    )


def test_c50_strikes_of_another_hold_do_not_lengthen_this_one() -> None:
    standing = PauseHistory(reason=Reason.ENDPOINT_WRONG, strikes=5)

    assert paused_for(verdict(answer(429), endpoint=standing)) == HOUR


@given(strikes=st.integers(0, 1000), jitter=st.floats(0, 1))
def test_c50_jitter_only_lengthens_a_little_and_never_past_a_day(
    strikes: int, jitter: float
) -> None:
    plain = pause_for(Reason.RATE_LIMITED, strikes)

    jittered = pause_for(Reason.RATE_LIMITED, strikes, jitter)

    assert plain <= jittered <= min(plain * 1.1, PAUSE_MAX)


def test_jitter_spreads_what_many_sites_share_and_not_the_wait_for_ones_own_key() -> None:
    limited = verdict(answer(429), jitter=1.0)
    unverified = verdict(answer(403, bing("SiteVerificationNotCompleted")), jitter=1.0)

    assert (paused_for(limited), paused_for(unverified)) == (1.1 * HOUR, 5 * MINUTE)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("999999999999", 86_400),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        ("Tue, 01 Dec 2026 18:02:00 -0000", 120),
        ("Tue, 01 Dec 2026 20:02:00 +0200", 120),
        (format_datetime(NOW + timedelta(days=9), usegmt=True), 86_400),
    ],
    ids=["seconds", "spaces", "capped", "date", "date without zone", "date elsewhere", "far date"],
)
def test_retry_after_is_read_in_both_forms(value: str, seconds: int) -> None:
    assert retry_after(answer(429, retry_after=value), NOW) == timedelta(seconds=seconds)


def test_retry_after_is_read_where_the_site_uses_naive_times(settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
    date = format_datetime(NOW + timedelta(seconds=90), usegmt=True)

    delay = retry_after(answer(429, retry_after=date), NOW.replace(tzinfo=None))

    assert delay == timedelta(seconds=90)


@given(value=st.text())
def test_no_retry_after_ever_raises_or_exceeds_a_day(value: str) -> None:
    delay = retry_after(answer(429, retry_after=value), NOW)

    assert delay is None or timedelta(0) < delay <= PAUSE_MAX


@pytest.mark.parametrize("status", [408, 425, 500, 502, 503, 504, 520, 599])
def test_c52_a_server_fault_is_tried_again_by_the_urls_own_number_of_tries(status: int) -> None:
    # The list's delays differ; the design's are 60 s, 300 s, 900 s, then hourly.
    found = verdict(answer(status))

    assert outcome(found) == (SubmissionState.PENDING, Reason.SERVER_ERROR, None, None)


@pytest.mark.parametrize("value", ["1800", format_datetime(NOW + HOUR / 2, usegmt=True)])
def test_c52_503_with_retry_after_is_honoured_by_the_whole_endpoint(value: str) -> None:
    found = verdict(answer(503, retry_after=value))

    assert outcome(found) == (
        SubmissionState.PENDING,
        Reason.SERVER_ERROR,
        timedelta(seconds=1800),
        PauseScope.ENDPOINT,
    )


def test_only_503_is_asked_for_retry_after() -> None:
    assert verdict(answer(500, retry_after="1800")).pause is None


@pytest.mark.parametrize("error", ["timeout: 10 s", "dns: no such name", "tls: bad certificate"])
def test_c53_no_response_is_tried_again_and_says_why(error: str) -> None:
    found = verdict(Answer(status=None, error=error))

    assert outcome(found) == (SubmissionState.PENDING, Reason.NO_RESPONSE, None, None)
    assert found.error_code == error


def test_c74_the_excerpt_has_no_control_characters_no_key_and_at_most_2_kb() -> None:
    body = f"a\x00b\x1b[31m\u202ec\nd {KEY} ".encode() + b"\xff" + "é".encode() * 5_000

    found = verdict(answer(400, body))

    assert found.excerpt.startswith(f"ab[31mc d {mask(KEY)} \ufffdé")
    assert KEY not in found.excerpt
    assert len(found.excerpt.encode()) <= EXCERPT_LENGTH


def test_c74_the_key_is_masked_in_the_error_code_too() -> None:
    found = verdict(answer(403, bing(f"Bad{KEY}\x00")), key_check_passed=True)

    assert found.error_code == f"Bad{mask(KEY)}"


def test_a_verdict_claims_nothing_that_the_answer_did_not_say() -> None:
    assert verdict(Answer(status=422)) == Verdict(
        state=SubmissionState.REJECTED,
        reason=Reason.UNPROCESSABLE,
        pause=None,
        pause_until=None,
        proven=False,
        error_code="",
        excerpt="",
    )


@pytest.mark.parametrize("quote", ["error_code", "excerpt"])
def test_a_verdict_of_our_own_quotes_nobody(quote: str) -> None:
    assert getattr(Verdict(state=SubmissionState.SKIPPED), quote) == ""


def test_a_long_error_code_is_cut_to_what_a_submission_keeps() -> None:
    length = Submission._meta.get_field("error_code").max_length

    assert verdict(answer(400, bing("x" * 500))).error_code == "x" * length


@pytest.mark.parametrize("status", [200, 202, 400, 403, 404, 413, 422, 429, 500])
def test_every_verdict_keeps_what_the_engine_said(status: int) -> None:
    body = bing("Thrown\ud800", "Why.")

    found = verdict(answer(status, body), url_count=2)

    assert (found.error_code, found.excerpt) == ("Thrown?", body)


def test_a_mask_tells_keys_apart_and_hides_the_rest() -> None:
    assert mask(KEY) == "0123…"
    assert mask("") == ""


@given(body=st.binary(max_size=5_000))
def test_no_body_makes_a_verdict_fail(body: bytes) -> None:
    for status in (None, 200, 400, 403, 422, 429, 500):
        assert len(judge(Answer(status=status, body=body), now=NOW, key=KEY).error_code) <= 128


def test_a_deeply_nested_body_is_no_fault_of_ours() -> None:
    assert verdict(answer(400, "[" * 100_000)).reason == Reason.BAD_REQUEST


@given(status=st.integers(100, 999))
def test_every_status_has_a_verdict_that_loses_nothing(status: int) -> None:
    found = judge(Answer(status=status), now=NOW, key=KEY)

    assert found.state in (
        SubmissionState.PENDING,
        SubmissionState.ACCEPTED,
        SubmissionState.REJECTED,
    )
    assert (found.pause is None) == (found.pause_until is None)
    assert (found.state == SubmissionState.ACCEPTED) == (200 <= status < 300)


@pytest.mark.parametrize(
    ("reason", "first", "second", "last"),
    [
        (Reason.KEY_UNVERIFIED, 5 * MINUTE, 10 * MINUTE, HOUR),
        (Reason.KEY_FILE, 5 * MINUTE, 10 * MINUTE, HOUR),
        (Reason.FOREIGN_HOST, 5 * MINUTE, 10 * MINUTE, HOUR),
        (Reason.OTHER_INSTALLATION, 5 * MINUTE, HOUR, HOUR),
        (Reason.KEY_REFUSED, HOUR, 6 * HOUR, 24 * HOUR),
        (Reason.RATE_LIMITED, HOUR, 2 * HOUR, 24 * HOUR),
        (Reason.ENDPOINT_WRONG, HOUR, 2 * HOUR, 24 * HOUR),
        (Reason.BAD_KEY, HOUR, 2 * HOUR, 24 * HOUR),
    ],
)
def test_every_reason_holds_for_as_long_as_a_person_may_need(
    reason: Reason, first: timedelta, second: timedelta, last: timedelta
) -> None:
    assert [pause_for(reason, strikes) for strikes in (0, 1, 99)] == [first, second, last]


def test_every_hold_has_steps_that_never_shorten() -> None:
    for steps in PAUSE_STEPS.values():
        assert list(steps) == sorted(steps)


def test_c51_there_is_no_fallback_endpoint() -> None:
    # No object: several ENDPOINTS go their own ways instead, each with its own URLs and holds.
    assert {scope.value for scope in PauseScope} == {"endpoint", "channel"}


@pytest.mark.parametrize(
    "shown",
    [
        "ABCDEF0123456789",
        "abc\u00addef0123\u00ad456789",
        "a\0b\0c\0def0123456789",
        "AbCdEf\u200b0123456789",
    ],
    ids=ascii,
)
def test_r68_a_key_is_masked_however_it_is_written(shown: str) -> None:
    """R68: upper case, and characters that nobody sees, hide no key from the mask."""
    text = excerpt_of(f"The key {shown} is wrong".encode(), "abcdef0123456789")

    assert text == "The key abcd… is wrong"


def test_excerpt_keeps_ordinary_text_as_it_is() -> None:
    assert excerpt_of("Grüße\t<b>&</b>".encode()) == "Grüße <b>&</b>"
