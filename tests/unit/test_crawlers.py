"""Crawlers by their User-Agents, and which responses count as a visit."""

import pytest

from wagtail_indexnow.visits.crawlers import CRAWLERS, counts, is_refusal, is_visit, named_in

BROWSER = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/131.0 Safari/537.36"


@pytest.mark.parametrize(
    ("user_agent", "crawler"),
    [
        (
            "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/131.0",
            "Bingbot",
        ),
        ("Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)", "YandexBot"),
        (
            "Mozilla/5.0 (compatible; SeznamBot/4.0; +https://o-seznam.cz/seznambot-crawler/)",
            "SeznamBot",
        ),
        ("Mozilla/5.0 (compatible; Yeti/1.1; +https://naver.me/spd)", "Yeti"),
        (
            "Mozilla/5.0 Safari/600.2.5 (Amazonbot/0.1; +https://developer.amazon.com/amazonbot)",
            "Amazonbot",
        ),
        ("Mozilla/5.0 (compatible; YepBot/1.0; +https://yep.com/yepbot/)", "YepBot"),
        (BROWSER, None),
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", None),
        ("Mozilla/5.0 (compatible; other/1.0; +https://yep.com/yepbot/1)", None),
        ("bingbot", None),
        ("not-bingbot/2.0", None),
        ("", None),
    ],
)
def test_crawler_is_recognised_by_its_name_and_version(
    user_agent: str, crawler: str | None
) -> None:
    assert named_in(user_agent) == crawler


def test_every_crawler_is_recognised() -> None:
    assert [named_in(f"{name}/1.0") for name in CRAWLERS] == list(CRAWLERS)


@pytest.mark.parametrize(
    ("statuses", "is_removed"),
    [((200, 206, 304), False), ((301, 302, 308, 404, 410), True)],
    ids=["public", "removed"],
)
def test_visit_is_a_response_that_shows_what_was_submitted(
    statuses: tuple[int, ...], is_removed: bool
) -> None:
    everything = range(100, 600)

    found = {status for status in everything if is_visit(status, is_removed=is_removed)}

    assert found >= set(statuses)
    assert not any(is_refusal(status) for status in found)
    assert is_visit(200, is_removed=is_removed) is not is_removed
    assert is_visit(404, is_removed=is_removed) is is_removed


def test_refusal_of_a_page_that_was_hidden_does_not_count() -> None:
    assert [status for status in (401, 403, 429, 500, 503) if counts(status, is_removed=False)] == [
        403,
        429,
        500,
        503,
    ]
    assert not counts(403, is_removed=True)
    assert counts(503, is_removed=True)
