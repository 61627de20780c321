"""What a response shows of a page, and what VERIFY_PAGES makes of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wagtail_indexnow.constants import FetchedAs
from wagtail_indexnow.submission.page_decisions import (
    GO,
    Action,
    Patience,
    PendingUrl,
    judge,
    skip,
    wait,
)
from wagtail_indexnow.submission.page_markup import read_markup
from wagtail_indexnow.submission.page_responses import (
    PageResponse,
    Remark,
    SeenPage,
    is_same_address,
    read_page,
    respelling,
)
from wagtail_indexnow.submission.robots import AGENTS, MAX_ROBOTS_BYTES, Robots, read_robots

URL = "https://www.example.com/en/news/"
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
PUBLISHED = datetime(2026, 12, 1, 11, 59, 30, 123456, tzinfo=UTC)
HTML = [("Content-Type", "text/html; charset=utf-8")]


def seen(
    body: str | bytes = "",
    *,
    status: int | None = 200,
    headers: list[tuple[str, str]] | None = None,
    url: str = URL,
    is_cut_off: bool = False,
    is_forbidden: bool = False,
) -> SeenPage:
    response = PageResponse(
        status=status,
        headers=HTML if headers is None else headers,
        body=body.encode() if isinstance(body, str) else body,
        is_cut_off=is_cut_off,
    )
    return read_page(
        response, url, now=NOW, markup=read_markup(response), is_forbidden=is_forbidden
    )


def page(head: str = "", body: str = "<p>News</p>") -> str:
    return f"<!doctype html><html><head><title>News</title>{head}</head><body>{body}</body></html>"


class TestReading:
    @pytest.mark.parametrize(
        ("status", "expected"),
        [
            (200, "indexable"),
            (404, "gone"),
            (410, "gone"),
            (401, "refused"),
            (403, "refused"),
            (429, "refused"),
            (503, "refused"),
            (500, "error"),
            (204, "error"),
            (302, "error"),
            (418, "error"),
            (None, "error"),
        ],
    )
    def test_status(self, status: int | None, expected: str) -> None:
        found = seen(page(), status=status)

        assert (found.fetched_as, found.status) == (expected, status)

    @pytest.mark.parametrize(
        "head",
        [
            '<meta name="robots" content="noindex">',
            "<META NAME=Robots CONTENT='follow , NoIndex'>",
            '<meta content="none" name="robots">',
            '<meta name="robots" content="unavailable_after: 2026-11-30">',
            '<meta name="robots" content="unavailable_after: Mon, 30 Nov 2026 15:00:00 GMT">',
            '<meta name="robots" content="unavailable_after: 30 Nov 2026 15:00:00 GMT, follow">',
            '<meta name="robots" content="index"><meta name="robots" content="noindex">',
            '<!-- a --><meta name="robots" content="noindex">',
        ],
    )
    def test_noindex(self, head: str) -> None:
        assert seen(page(head)).fetched_as == FetchedAs.NOINDEX
        assert seen(page(body=f"<div>{head}</div>")).fetched_as == FetchedAs.NOINDEX

    @pytest.mark.parametrize(
        "markup",
        [
            '<!-- <meta name="robots" content="noindex"> -->',
            '<template><meta name="robots" content="noindex"></template>',
            '<textarea><meta name="robots" content="noindex"></textarea>',
            '<noscript><meta name="robots" content="noindex"></noscript>',
            '<script>let a = \'<meta name="robots" content="noindex">\'</script>',
            '<style><meta name="robots" content="noindex"></style>',
            '<svg><title><meta name="robots" content="noindex"></title></svg>',
            '<meta name="robots" content="index, follow, max-snippet:-1">',
            '<meta name="robots" content="unavailable_after: 2027-01-01T00:00:00Z">',
            '<meta name="robots" content="unavailable_after: one day">',
            '<meta name="robots" content="no-index, noindexing">',
            '<meta name="robots">',
            '<meta name="description" content="noindex">',
        ],
    )
    def test_what_only_looks_like_noindex(self, markup: str) -> None:
        assert seen(page(body=markup)).fetched_as == FetchedAs.INDEXABLE
        assert seen(page(markup)).fetched_as == FetchedAs.INDEXABLE

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("noindex", "noindex"),
            ("nofollow, NONE", "noindex"),
            ("unavailable_after: 25 Nov 2026 15:00:00 GMT", "noindex"),
            ("unavailable_after: Wednesday, 25-Nov-26 15:00:00 GMT", "noindex"),
            ("max-snippet: 20, noindex", "noindex"),
            ("nofollow", "indexable"),
            ("bingbot: noindex", "indexable"),
            ("unavailable_after: 25 Dec 2026 15:00:00 GMT", "indexable"),
        ],
    )
    def test_header(self, value: str, expected: str) -> None:
        found = seen(page(), headers=[*HTML, ("x-robots-tag", "all"), ("X-Robots-Tag", value)])

        assert found.fetched_as == expected

    @pytest.mark.parametrize(
        "found",
        [
            seen(page('<meta name="bingbot" content="noindex">')),
            seen(page(), headers=[("X-Robots-Tag", "yandex: none")]),
        ],
        ids=["meta", "header"],
    )
    def test_noindex_for_one_engine_is_a_remark(self, found: SeenPage) -> None:
        assert found.fetched_as == FetchedAs.INDEXABLE
        assert found.remarks == {Remark.ONE_ENGINE}

    @pytest.mark.parametrize(
        "head",
        [
            f'<link rel="canonical" href="{URL}">',
            '<link rel=canonical href="/en/news/">',
            '<link rel="canonical" href="http://WWW.example.com/en/news">',
            '<link rel="canonical" href="/en/n%65ws/#top">',
            '<base href="/en/"><link rel="canonical" href="news/">',
            '<link rel="canonical" href="">',
            '<link rel="canonical" href="http://[">',
            '<link rel="canonical" href="javascript:void 0">',
            '<link rel="alternate" href="/fr/news/">',
            f'<link rel="canonical" href="/{"a" * 9_000}">',
        ],
    )
    def test_canonical_that_is_the_page_itself_or_nothing(self, head: str) -> None:
        assert seen(page(head)).fetched_as == FetchedAs.INDEXABLE

    @pytest.mark.parametrize(
        ("head", "target"),
        [
            ('<link rel="canonical" href="/en/other/">', "https://www.example.com/en/other/"),
            ('<link rel="nofollow Canonical" href="//example.org/">', "https://example.org/"),
            ('<base href="/fr/"><link rel="canonical" href="news/">',
             "https://www.example.com/fr/news/"),
            (f'<link rel="canonical" href="{URL}"><link rel="canonical" href="/en/b/">',
             "https://www.example.com/en/b/"),
            ('<link rel="canonical" href="?page=2">', f"{URL}?page=2"),
        ],
    )  # fmt: skip
    def test_canonical_elsewhere(self, head: str, target: str) -> None:
        found = seen(page(head))

        assert (found.fetched_as, found.target) == (FetchedAs.CANONICAL_ELSEWHERE, target)

    def test_canonical_counts_in_the_head_alone(self) -> None:
        markup = '<link rel="canonical" href="/en/other/">'

        assert seen(page(body=markup)).fetched_as == FetchedAs.INDEXABLE
        assert seen(f"<meta name=a><div>{markup}").fetched_as == FetchedAs.INDEXABLE

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ('<https://www.example.com/b/>; rel="canonical"', "canonical_elsewhere"),
            ('</style.css>; rel=preload, </b/>; rel=canonical; type="a"', "canonical_elsewhere"),
            (f'<{URL}>; rel="canonical"', "indexable"),
            ("</b/>; rel=next", "indexable"),
        ],
    )
    def test_canonical_in_a_header(self, value: str, expected: str) -> None:
        assert seen(page(), headers=[*HTML, ("Link", value)]).fetched_as == expected

    def test_canonical_in_an_old_encoding(self) -> None:
        url = "https://www.example.com/новости/"
        markup = f'<meta charset="windows-1251"><link rel=canonical href="{url}">'

        found = seen(page(markup).encode("windows-1251"), headers=[], url=url)
        assert found.fetched_as == FetchedAs.INDEXABLE

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
    def test_byte_order_mark_tells_the_encoding(self, encoding: str) -> None:
        body = page('<meta name="robots" content="noindex">').encode(encoding)

        assert seen(body).fetched_as == FetchedAs.NOINDEX

    @pytest.mark.parametrize(
        ("status", "location", "expected", "target"),
        [
            (301, "/en/other/", "redirects", "https://www.example.com/en/other/"),
            (302, "https://login.example.org/", "redirects", "https://login.example.org/"),
            (308, "other/", "redirects", f"{URL}other/"),
            (301, URL, "error", ""),
            (302, "http://[", "error", ""),
        ],
    )
    def test_redirect(self, status: int, location: str, expected: str, target: str) -> None:
        found = seen(status=status, headers=[("Location", location)])

        assert (found.fetched_as, found.target) == (expected, target)

    @pytest.mark.parametrize(
        ("location", "is_followed"),
        [
            ("http://www.example.com/en/news", True),
            ("/en/n%65ws", True),
            ("/en/news/?a=1", False),
            ("/en/", False),
        ],
    )
    def test_redirect_to_another_spelling_is_to_be_followed(
        self, location: str, is_followed: bool
    ) -> None:
        response = PageResponse(status=301, headers=[("location", location)])

        assert (respelling(response, URL) is not None) is is_followed
        assert respelling(PageResponse(status=200), URL) is None

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            ("0; url=/en/other/", "redirects"),
            ("0,URL='/en/other/'", "redirects"),
            ("5;url = https://example.org", "redirects"),
            ("300", "indexable"),
            ("300; url=/en/news/", "indexable"),
            ("0; /en/other/", "indexable"),
            ("", "indexable"),
        ],
    )
    def test_meta_refresh(self, content: str, expected: str) -> None:
        found = seen(page(f'<meta http-equiv="Refresh" content="{content}">'))

        assert found.fetched_as == expected

    @pytest.mark.parametrize(
        "found",
        [
            seen(page(), headers=[("CF-Mitigated", "challenge")], status=403),
            seen(page(), headers=[("x-amzn-waf-action", "captcha")], status=405),
            seen(page(), headers=[("x-vercel-mitigated", "challenge")], status=429),
            seen(page('<script id="anubis_challenge" type="application/json">{}</script>')),
        ],
        ids=["Cloudflare", "AWS", "Vercel", "Anubis"],
    )
    def test_challenge(self, found: SeenPage) -> None:
        assert found.is_challenge
        assert found.fetched_as == FetchedAs.REFUSED

    @pytest.mark.parametrize(
        ("content", "version"),
        [
            ("2026-12-01T11:59:30.123456+00:00", PUBLISHED),
            ("2026-12-01T12:59:30.123+01:00", PUBLISHED.replace(microsecond=123000)),
            ("2026-12-01T11:59:30z", PUBLISHED.replace(microsecond=0)),
            ("2026-12-01T11:59:30", PUBLISHED.replace(microsecond=0)),
            ("soon", None),
            ("9" * 5_000, None),
        ],
    )
    def test_version(self, content: str, version: datetime | None) -> None:
        found = seen(page(f'<meta name="indexnow-published-at" content="{content}">'))

        assert found.version == version

    def test_page_that_is_cut_off_before_its_head_ends(self) -> None:
        body = "<html><head><title>News</title><meta name=a><script>" + "a" * 1_000

        found = seen(body, is_cut_off=True)

        assert found.fetched_as == FetchedAs.INDEXABLE
        assert found.remarks == {Remark.CUT_OFF}
        assert seen(page(), is_cut_off=True).remarks == frozenset()

    def test_markup_of_an_error_page_says_nothing_of_the_page(self) -> None:
        body = page('<meta name="robots" content="noindex"><link rel=canonical href=/404/>')

        assert seen(body, status=404).fetched_as == FetchedAs.GONE
        assert seen(body, status=500).fetched_as == FetchedAs.ERROR

    def test_page_is_judged_by_status_and_headers_without_the_extra(self) -> None:
        response = PageResponse(status=200, headers=[("X-Robots-Tag", "noindex")])

        assert read_page(response, URL, now=NOW).fetched_as == FetchedAs.NOINDEX
        assert read_page(PageResponse(status=200), URL, now=NOW).fetched_as == FetchedAs.INDEXABLE

    def test_etag_is_compared_without_its_weakness(self) -> None:
        assert seen(page(), headers=[("ETag", 'W/"a"')]).etag == '"a"'


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (URL, "http://www.example.com/en/news", True),
        ("https://www.example.com", "https://www.example.com/", True),
        (URL, "https://example.com/en/news/", False),
        (URL, f"{URL}?a", False),
        ("mailto:a@example.com", "mailto:a@example.com", False),
    ],
)
def test_same_address_in_another_spelling(one: str, other: str, expected: bool) -> None:
    assert is_same_address(one, other) is expected


class TestRobots:
    @pytest.mark.parametrize(
        ("text", "forbidden"),
        [
            ("User-agent: *\nDisallow: /", True),
            ("User-agent: *\nDisallow: /en/*/$", True),
            ("User-agent: *\nDisallow: /en/\nAllow: /en/news/", False),
            ("User-agent: *\nDisallow: /\n\nUser-agent: Bingbot\nAllow: /", False),
            ("User-agent: bingbot\nDisallow: /", False),
            ("\n".join(f"User-agent: {agent}" for agent in AGENTS) + "\nDisallow: /", True),
            ("User-agent: Googlebot\nDisallow: /", False),
            ("<!doctype html><p>Not found", False),
            ("", False),
        ],
    )
    def test_forbids_what_no_participating_engine_may_fetch(
        self, text: str, forbidden: bool
    ) -> None:
        assert Robots(text).forbids(URL) is forbidden

    @pytest.mark.parametrize("status", [404, 403, 301, 204])
    def test_file_that_is_not_there_allows_all(self, status: int) -> None:
        robots = read_robots(status, b"User-agent: *\nDisallow: /")

        assert robots is not None
        assert not robots.forbids(URL)

    @pytest.mark.parametrize("status", [None, 500, 503, 429])
    def test_file_that_cannot_be_had_says_nothing_yet(self, status: int | None) -> None:
        assert read_robots(status, b"") is None

    def test_file_is_read_to_its_limit_with_any_bytes(self) -> None:
        rules = b"\xef\xbb\xbfUser-agent: *\nDisallow: /\n# \xff" + b"a" * MAX_ROBOTS_BYTES

        robots = read_robots(200, rules + b"\nAllow: /en/")

        assert robots is not None
        assert robots.forbids(URL)


PATIENCE = Patience(first_after=timedelta(seconds=30), grace=timedelta(hours=1))
SOON = timedelta(seconds=60)
INDEXABLE = SeenPage(fetched_as=FetchedAs.INDEXABLE, status=200)


def fact(fetched_as: str, status: int | None = 200, **facts: Any) -> SeenPage:
    return SeenPage(fetched_as=FetchedAs(fetched_as), status=status, **facts)


def pending(change: str = "updated", *, ago: timedelta = timedelta(), **facts: Any) -> PendingUrl:
    return PendingUrl(change=change, changed_at=NOW - ago, **facts)


def decide(found: SeenPage, url: PendingUrl, *, is_home_refused: bool = False) -> Any:
    return judge(found, url, PATIENCE, now=NOW, is_home_refused=is_home_refused)


class TestTable:
    @pytest.mark.parametrize(
        "found",
        [
            fact("refused", 200, is_challenge=True),
            fact("refused", 429),
            fact("refused", 503),
            fact("robots_txt", 503),
        ],
        ids=["challenge", "429", "503", "503 and robots.txt"],
    )
    @pytest.mark.parametrize("change", ["added", "updated", "removed"])
    def test_what_cannot_be_checked_waits(self, found: SeenPage, change: str) -> None:
        assert decide(found, pending(change)) == wait("cannot_check", NOW + SOON)

    def test_403_cannot_be_checked_if_the_home_page_is_refused_too(self) -> None:
        found = fact("refused", 403)

        assert decide(found, pending(), is_home_refused=True).reason == "cannot_check"
        assert decide(found, pending()).reason == "not_public_yet"
        assert decide(found, pending("removed")) == GO
        assert decide(found, pending("removed"), is_home_refused=True).reason == "cannot_check"

    @pytest.mark.parametrize(
        "found", [fact("refused", 503), fact("error", 500), fact("error", None)]
    )
    def test_removal_goes_after_the_grace_where_nothing_can_be_seen(self, found: SeenPage) -> None:
        just = timedelta(hours=1)

        assert decide(found, pending("removed", ago=just)) == GO
        assert decide(found, pending("removed", ago=just - SOON)).action == Action.WAIT
        assert decide(found, pending("updated", ago=just)).action == Action.WAIT

    @pytest.mark.parametrize("change", ["added", "updated"])
    def test_page_that_is_public_and_indexable_goes(self, change: str) -> None:
        assert decide(INDEXABLE, pending(change)) == GO

    def test_removed_page_that_is_still_public_waits(self) -> None:
        late = pending("removed", ago=timedelta(days=1))

        assert decide(INDEXABLE, late).reason == "still_public"

    @pytest.mark.parametrize(
        ("version", "reason"),
        [
            (PUBLISHED, ""),
            (PUBLISHED + timedelta(hours=1), ""),
            (PUBLISHED.replace(microsecond=0), ""),
            (PUBLISHED - timedelta(seconds=1), "not_refreshed_yet"),
        ],
        ids=["this", "later", "whole seconds", "earlier"],
    )
    def test_version_decides_whether_a_page_is_fresh(self, version: datetime, reason: str) -> None:
        found = fact("indexable", version=version, etag='"a"')
        url = pending(ago=timedelta(days=1), published_at=PUBLISHED)

        assert decide(found, url).reason == reason

    def test_etag_of_the_last_submission_waits_ten_minutes_at_most(self) -> None:
        found = fact("indexable", etag='"a"')

        def after(minutes: float, etag: str = 'W/"a"') -> Any:
            return decide(found, pending(ago=timedelta(minutes=minutes), accepted_etag=etag))

        assert after(1) == wait("not_refreshed_yet", NOW + timedelta(seconds=60))
        assert after(8) == wait("not_refreshed_yet", NOW + timedelta(minutes=2))
        assert after(10) == GO
        assert after(1, etag='"b"') == GO
        assert decide(INDEXABLE, pending()) == GO

    @pytest.mark.parametrize("what", ["noindex", "canonical_elsewhere", "redirects", "robots_txt"])
    def test_what_engines_should_not_index(self, what: str) -> None:
        """Once they know the page as indexable, they should see that; else it settles first."""
        found = fact(what, 301 if what == "redirects" else 200)

        assert decide(found, pending("removed")) == GO
        assert decide(found, pending(accepted_as="indexable")) == GO
        assert decide(found, pending(accepted_as=what)).reason == "not_refreshed_yet"
        assert decide(found, pending()) == wait("not_refreshed_yet", NOW + SOON)
        assert decide(found, pending(ago=timedelta(minutes=10))) == skip(what)

    def test_noindex_is_settled_by_the_version(self) -> None:
        fresh = fact("noindex", version=PUBLISHED)
        stale = fact("noindex", version=PUBLISHED - timedelta(hours=1))
        url = pending(published_at=PUBLISHED)

        assert decide(fresh, url) == skip("noindex")
        assert decide(stale, url).reason == "not_refreshed_yet"

    @pytest.mark.parametrize("status", [404, 410, 401, 403])
    def test_page_that_is_not_public(self, status: int) -> None:
        found = fact("gone" if status in {404, 410} else "refused", status)

        assert decide(found, pending("added")) == wait("not_public_yet", NOW + SOON)
        assert decide(found, pending("removed")) == GO

    def test_any_other_response_waits(self) -> None:
        assert decide(fact("error", 500), pending()).reason == "no_page_response"
        assert decide(fact("error", None), pending("removed")).reason == "no_page_response"

    @pytest.mark.parametrize(
        ("waited_s", "next_s"),
        [(30, 60), (89, 60), (90, 120), (209, 120), (210, 300), (3_599, 300), (3_600, 3_600)],
    )
    def test_checks_grow_rarer(self, waited_s: int, next_s: int) -> None:
        found = decide(fact("gone", 404), pending(ago=timedelta(seconds=waited_s)))

        assert found.until == NOW + timedelta(seconds=next_s)

    def test_server_that_names_a_time_is_heeded(self) -> None:
        patience = Patience(
            first_after=timedelta(seconds=30),
            grace=timedelta(hours=1),
            retry_after=timedelta(minutes=20),
        )

        found = judge(fact("refused", 503), pending(), patience, now=NOW)
        assert found.until == NOW + timedelta(minutes=20)
