"""From what the inventory knows to what is public: the one rule behind every event."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wagtail_indexnow.constants import Change
from wagtail_indexnow.pages.changes import UrlChange, compare

V1 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
V2 = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
A, B = "https://www.example.com/a/", "https://www.example.com/b/"
ADDED, UPDATED, REMOVED = (UrlChange(change) for change in Change)
LEAVES = UrlChange(Change.UPDATED, leaves=True)

CASES: dict[str, tuple[dict[str, Any], dict[str, UrlChange]]] = {
    "never public": ({}, {}),
    "first publish": ({"current": [A]}, {A: ADDED}),
    "first publish, imported without a time": ({"current": [A], "published_at": None}, {A: ADDED}),
    "new content": ({"current": [A], "known": {A: V1}, "published_at": V2}, {A: UPDATED}),
    "an earlier time": ({"current": [A], "known": {A: V2}, "published_at": V1}, {A: UPDATED}),
    "content that was never noted": ({"current": [A], "known": {A: None}}, {A: UPDATED}),
    "time that was taken away": (
        {"current": [A], "known": {A: V1}, "published_at": None},
        {A: UPDATED},
    ),
    "nothing new": ({"current": [A], "known": {A: V1}}, {}),
    "nothing new, no time": ({"current": [A], "known": {A: None}, "published_at": None}, {}),
    "by hand": ({"current": [A], "known": {A: V1}, "always": True}, {A: UPDATED}),
    "by hand, never public": ({"current": [A], "always": True}, {A: ADDED}),
    "taken offline": ({"known": {A: V1}}, {A: REMOVED}),
    "taken offline, by hand": ({"known": {A: V1}, "always": True}, {A: REMOVED}),
    "moved": ({"current": [B], "known": {A: V1}}, {A: REMOVED, B: ADDED}),
    "listed twice": ({"current": [A, A]}, {A: ADDED}),
    "excludes itself": ({"known": {A: V1}, "excluded": [A]}, {A: LEAVES}),
    "excludes itself at another address": (
        {"known": {A: V1}, "excluded": [B]},
        {A: REMOVED},
    ),
    "excludes itself, never public": ({"excluded": [A]}, {}),
}


@pytest.mark.parametrize(("given_facts", "changes"), CASES.values(), ids=CASES)
def test_case(given_facts: dict[str, Any], changes: dict[str, UrlChange]) -> None:
    facts = {"current": [], "known": {}, "published_at": V1, **given_facts}

    assert compare(**facts) == changes


@pytest.mark.parametrize(
    ("change", "is_gone"), [(ADDED, False), (UPDATED, False), (REMOVED, True), (LEAVES, True)]
)
def test_url_that_leaves_the_inventory(change: UrlChange, is_gone: bool) -> None:
    assert change.is_gone is is_gone


urls = st.sampled_from([f"https://www.example.com/{name}/" for name in "abcdef"])
times = st.sampled_from([None, V1, V2])


@given(
    current=st.lists(urls),
    known=st.dictionaries(urls, times),
    published_at=times,
    always=st.booleans(),
    excluded=st.lists(urls),
)
def test_only_public_urls_are_added_and_only_known_ones_leave(
    current: list[str],
    known: dict[str, datetime | None],
    published_at: datetime | None,
    always: bool,
    excluded: list[str],
) -> None:
    changes = compare(current, known, published_at=published_at, always=always, excluded=excluded)

    gone = {url for url, change in changes.items() if change.is_gone}
    assert gone == set(known) - set(current)
    assert {url for url, change in changes.items() if change == ADDED} == set(current) - set(known)
    assert {url for url, change in changes.items() if change == LEAVES} == gone & set(excluded)
    if always:
        assert set(changes) - gone == set(current)


@given(current=st.lists(urls), published_at=times)
def test_second_check_finds_nothing_more(current: list[str], published_at: datetime | None) -> None:
    after = dict.fromkeys(current, published_at)

    assert compare(current, after, published_at=published_at) == {}
