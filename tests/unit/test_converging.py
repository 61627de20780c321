"""From what engines know to what is public: the one rule behind every event."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wagtail_indexnow.constants import Change
from wagtail_indexnow.pages.changes import Content, converge

V1 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
V2 = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
SAME = Content(published_at=V1)
NEW = Content(published_at=V2, is_new=True)
ALWAYS = Content(published_at=V1, is_new=True, always=True)
A, B = "https://www.example.com/a/", "https://www.example.com/b/"

CASES: dict[str, tuple[dict[str, Any], dict[str, Change]]] = {
    "never public": ({"current": [], "content": NEW}, {}),
    "first publish": ({"current": [A], "content": NEW}, {A: Change.ADDED}),
    "new content": ({"current": [A], "known": {A: V1}, "content": NEW}, {A: Change.UPDATED}),
    "content that was seen": ({"current": [A], "known": {A: V2}, "content": NEW}, {}),
    "content that was never noted": (
        {"current": [A], "known": {A: None}, "content": NEW},
        {A: Change.UPDATED},
    ),
    "nothing new": ({"current": [A], "known": {A: V1}, "content": SAME}, {}),
    "by hand": ({"current": [A], "known": {A: V1}, "content": ALWAYS}, {A: Change.UPDATED}),
    "taken offline": ({"current": [], "known": {A: V1}, "content": SAME}, {A: Change.REMOVED}),
    "taken offline, never tracked": (
        {"current": [], "former": [A], "content": SAME},
        {A: Change.REMOVED},
    ),
    "moved": (
        {"current": [B], "known": {A: V1}, "former": [A], "content": SAME},
        {A: Change.REMOVED, B: Change.ADDED},
    ),
    "moved there and back": (
        {"current": [A], "known": {A: V1}, "former": [A], "content": SAME},
        {},
    ),
    "moved there and back, never tracked": (
        {"current": [A], "former": [A, B], "content": SAME},
        {B: Change.REMOVED},
    ),
    "untouched by a move, never tracked": (
        {"current": [A], "unchanged": [A], "content": SAME},
        {},
    ),
    "untouched by a move, new content": (
        {"current": [A], "unchanged": [A], "content": NEW},
        {A: Change.ADDED},
    ),
    "shown for the first time": ({"current": [A], "content": SAME}, {A: Change.ADDED}),
}


@pytest.mark.parametrize(("given_facts", "changes"), CASES.values(), ids=CASES)
def test_case(given_facts: dict[str, Any], changes: dict[str, Change]) -> None:
    facts = {"current": [], "known": {}, "former": [], **given_facts}

    assert converge(**facts) == changes


urls = st.sampled_from([f"https://www.example.com/{name}/" for name in "abcdef"])
contents = st.builds(
    Content,
    published_at=st.sampled_from([None, V1, V2]),
    is_new=st.booleans(),
    always=st.booleans(),
)


@given(
    current=st.lists(urls),
    known=st.dictionaries(urls, st.sampled_from([None, V1, V2])),
    former=st.lists(urls),
    unchanged=st.lists(urls),
    content=contents,
)
def test_only_public_urls_are_added_and_only_known_ones_removed(
    current: list[str],
    known: dict[str, datetime | None],
    former: list[str],
    unchanged: list[str],
    content: Content,
) -> None:
    changes = converge(
        current=current, known=known, former=former, unchanged=unchanged, content=content
    )

    removed = {url for url, change in changes.items() if change == Change.REMOVED}
    assert removed == {*known, *former} - set(current)
    assert {url for url, change in changes.items() if change == Change.UPDATED} <= set(known)
    assert set(changes) - removed <= set(current)
    if content.always:
        assert set(changes) - removed == set(current)


@given(current=st.lists(urls), known=st.dictionaries(urls, st.just(V1)), content=contents)
def test_second_look_finds_nothing_more(
    current: list[str], known: dict[str, datetime | None], content: Content
) -> None:
    plain = Content(published_at=content.published_at, is_new=content.is_new)
    converge(current=current, known=known, former=[], content=plain)
    after = dict.fromkeys(current, plain.published_at)

    assert converge(current=current, known=after, former=[], content=plain) == {}
