"""Messages: what goes out is what comes in, now and in a rolling deploy."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils.timezone import override
from hypothesis import given
from hypothesis import strategies as st

from wagtail_indexnow.constants import LIST_SIZE, PAYLOAD_VERSION
from wagtail_indexnow.exceptions import PayloadError
from wagtail_indexnow.payloads import (
    ChannelRef,
    IntentRef,
    announcement,
    iso,
    parse_announcement,
    parse_submission,
    submission,
)

REF = IntentRef(
    key="page:15:go_live:2026-12-01T18:00:00.000000+00:00",
    page_id=15,
    expected_at="2026-12-01T18:00:00.000000+00:00",
)
META = {"scheduled_by": "user:3", "scheduled_at": "2026-11-30T09:00:00Z", "correlation_id": "c"}


def test_announcement_is_the_documented_json() -> None:
    assert json.loads(json.dumps(announcement([REF], META))) == {
        "v": 1,
        "intents": [{"key": REF.key, "page_id": 15, "expected_at": REF.expected_at}],
        "meta": META,
    }


def test_largest_message_is_small_enough_to_log() -> None:
    refs = [IntentRef(key="page:1:publish:" + "x" * 176, page_id=2**63 - 1)] * LIST_SIZE

    assert len(json.dumps(announcement(refs, META))) < 32_000


def printable(longest: int) -> st.SearchStrategy[str]:
    texts = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=longest)
    return texts.filter(str.isprintable)


@given(
    st.lists(
        st.builds(
            IntentRef,
            key=printable(191),
            page_id=st.none() | st.integers(1, 2**63 - 1),
            expected_at=st.none() | printable(40),
        ),
        max_size=LIST_SIZE,
    )
)
def test_announcement_survives_the_way(refs: list[IntentRef]) -> None:
    assert parse_announcement(json.loads(json.dumps(announcement(refs, META)))) == refs


@given(st.builds(ChannelRef, endpoint=printable(64), host=printable(255)))
def test_submission_survives_the_way(ref: ChannelRef) -> None:
    assert parse_submission(json.loads(json.dumps(submission(ref)))) == ref


@pytest.mark.parametrize("version", [PAYLOAD_VERSION, PAYLOAD_VERSION - 1])
def test_this_and_the_previous_version_are_understood(version: int) -> None:
    payload = {**announcement([REF], META), "v": version, "later": "field"}
    payload["intents"][0]["later"] = "field"

    assert parse_announcement(payload) == [REF]


@pytest.mark.parametrize(
    "payload",
    [
        {"v": PAYLOAD_VERSION + 1, "intents": []},
        {"intents": []},
        {},
        None,
        "text",
        [1],
        {"v": 1},
        {"v": 1, "intents": None},
        {"v": 1, "intents": [{}]},
        {"v": 1, "intents": [{"key": "k", "page_id": "fifteen"}]},
        {"v": [1], "intents": []},
        {"v": True, "intents": []},
        {"v": 1.0, "intents": []},
        {"v": 1, "intents": [None]},
        {"v": 1, "intents": [{"key": "k", "page_id": float("inf")}]},
        {"v": 1, "intents": [{"key": "k", "page_id": True}]},
        {"v": 1, "intents": [{"key": "k", "page_id": 2**63}]},
        {"v": 1, "intents": [{"key": "k", "page_id": "9" * 5_000}]},
        {"v": 1, "intents": [{"key": "\ud800", "page_id": 15}]},
        {"v": 1, "intents": [{"key": "a\0b", "page_id": 15}]},
        {"v": 1, "intents": [{"key": "k" * 192, "page_id": 15}]},
        {"v": 1, "intents": [{"key": ["k"], "page_id": 15}]},
        {"v": 1, "intents": [{"key": "k", "page_id": 15, "expected_at": 5}]},
        {"v": 1, "intents": [{"key": "k", "page_id": 15}] * (LIST_SIZE + 1)},
    ],
    ids=lambda payload: repr(payload)[:60],
)
def test_other_announcements_are_refused(payload: Any) -> None:
    """R61: strictly, before any of it reaches a database."""
    with pytest.raises(PayloadError, match=r"^(unknown payload version|malformed message:) "):
        parse_announcement(payload)


@pytest.mark.parametrize(
    "payload",
    [
        {"v": 2, "channel": {}},
        {"v": 1},
        {"v": 1, "channel": None},
        {"v": 1, "channel": {}},
        {"v": 1, "channel": {"endpoint": "indexnow", "host": ""}},
        {"v": 1, "channel": {"endpoint": "", "host": "www.example.com"}},
        {"v": 1, "channel": {"endpoint": "indexnow", "host": None}},
        {"v": 1, "channel": {"endpoint": "indexnow", "host": "h" * 256}},
        {"v": 1, "channel": {"endpoint": "indexnow", "host": "\udfff.example"}},
    ],
    ids=repr,
)
def test_other_submissions_are_refused(payload: Any) -> None:
    """R60, R61: host `""` is the endpoint itself, which no message speaks for."""
    with pytest.raises(PayloadError, match=r"^(unknown payload version|malformed message:) "):
        parse_submission(payload)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (None, None),
        (datetime(2026, 12, 1, 18, tzinfo=UTC), "2026-12-01T18:00:00.000000+00:00"),
        (
            datetime(2026, 12, 1, 20, 0, 0, 5, tzinfo=timezone(timedelta(hours=2))),
            "2026-12-01T18:00:00.000005+00:00",
        ),
    ],
    ids=["none", "utc", "another_zone"],
)
def test_moments_are_written_in_one_way(moment: datetime | None, text: str | None) -> None:
    assert iso(moment) == text


def test_naive_moment_counts_in_the_sites_zone(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"

    assert iso(datetime(2026, 12, 1, 18)) == "2026-12-01T09:00:00.000000+00:00"


def test_naive_moment_is_the_same_for_every_editor() -> None:
    """The admin shows each editor times in a zone of their own; an intent's key has one."""
    moment = datetime(2026, 12, 1, 18)

    with override(ZoneInfo("Asia/Tokyo")):
        assert iso(moment) == "2026-12-01T18:00:00.000000+00:00"
