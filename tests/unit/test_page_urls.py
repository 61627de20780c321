"""Every current public URL of a page: the same from a request, a worker thread and cron."""

import threading
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import get_script_prefix, set_script_prefix
from django.utils import translation
from wagtail.models import Page, Site

from tests.factories import make_page, make_site
from tests.testapp.models import (
    ArticlePage,
    CalendarPage,
    HiddenFromSitemapPage,
    ListedUrlsPage,
    OwnUrlPage,
)
from wagtail_indexnow.constants import Reason
from wagtail_indexnow.pages.public_urls import PageUrls, descendant_url, has_own_urls, routing

ROOT = "https://www.example.com/en/"


@pytest.fixture
def home(db: None, settings: Any) -> Any:
    settings.ALLOWED_HOSTS = [".example.com"]
    return make_site().root_page


def urls_of(page: Any) -> PageUrls:
    with routing() as router:
        return router.public_urls(page)


def base_of(page: Any) -> str | None:
    with routing() as router:
        return router.base_url(page)


def test_plain_page_has_one_url(home: Any) -> None:
    assert urls_of(make_page(home, "news")) == PageUrls((f"{ROOT}news/",))


@pytest.mark.parametrize("active", ["de", "fr", None])
def test_active_language_makes_no_difference_and_is_restored(active: str | None, home: Any) -> None:
    page = make_page(home, "news")
    with translation.override(active):
        assert urls_of(page).urls == (f"{ROOT}news/",)
        assert translation.get_language() == active


def test_thread_has_the_script_prefix_of_the_settings(home: Any, settings: Any) -> None:
    """Django sets it in the main thread only."""
    settings.FORCE_SCRIPT_NAME = "/app"
    page = make_page(home, "news")
    found: list[Any] = []

    def look() -> None:
        with routing() as router:
            found.append(router.base_url(page))
        found.append(get_script_prefix())

    # In memory, the test's data is in this thread's transaction alone: the page brings its paths.
    paths = Site.get_site_root_paths()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Site, "get_site_root_paths", staticmethod(lambda: paths))
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    assert found == ["https://www.example.com/app/en/news/", "/"]


def test_script_prefix_of_a_request_is_put_aside_and_restored(home: Any) -> None:
    page = make_page(home, "news")
    set_script_prefix("/mounted/")
    try:
        assert urls_of(page).urls == (f"{ROOT}news/",)
        assert get_script_prefix() == "/mounted/"
    finally:
        set_script_prefix("/")


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        (OwnUrlPage, {"address": "x"}, PageUrls(("https://www.example.com/own/x/",))),
        (ListedUrlsPage, {"listed": ["/en/a/", f"{ROOT}a/"]}, PageUrls((f"{ROOT}a/",))),
        (CalendarPage, {}, PageUrls((f"{ROOT}page/", f"{ROOT}page/past/"))),
        (HiddenFromSitemapPage, {}, PageUrls((), Reason.EXCLUDED)),
        (HiddenFromSitemapPage, {"noindex": False}, PageUrls((f"{ROOT}page/",))),
        (ListedUrlsPage, {"listed": ["mailto:me"]}, PageUrls((), Reason.NO_URL)),
        (ListedUrlsPage, {"listed": ["https://a.example.org/"]}, PageUrls((), Reason.FOREIGN_HOST)),
    ],
    ids=["own_parts", "listed", "routable", "hidden", "not_hidden", "unusable", "foreign"],
)
def test_page_type(model: Any, fields: dict[str, Any], expected: PageUrls, home: Any) -> None:
    assert urls_of(make_page(home, "page", model=model, **fields)) == expected


def test_url_outside_our_hosts_is_left_out(home: Any) -> None:
    listed = [f"{ROOT}a/", "https://a.example.org/"]
    page = make_page(home, "page", model=ListedUrlsPage, listed=listed)

    assert urls_of(page) == PageUrls((f"{ROOT}a/",))


def test_page_outside_every_site_has_no_url(home: Any) -> None:
    page = make_page(Page.get_first_root_node(), "lost")

    assert urls_of(page) == PageUrls((), Reason.NO_URL)
    assert base_of(page) is None


def test_stale_root_paths_do_not_count(home: Any) -> None:
    page = make_page(home, "news")
    page.get_full_url()
    Site.objects.update(hostname="new.example.com")

    fresh = ArticlePage.objects.get(pk=page.pk)
    assert urls_of(fresh).urls == ("https://new.example.com/en/news/",)


def test_base_is_where_the_path_leads_whatever_the_type_says(home: Any) -> None:
    page = make_page(home, "page", model=OwnUrlPage)

    assert base_of(page) == f"{ROOT}page/"


def test_scheme_setting_replaces_the_sites_own(home: Any, settings: Any) -> None:
    Site.objects.update(port=80)
    settings.WAGTAIL_INDEXNOW = {"SCHEME": "https"}

    assert urls_of(make_page(home, "news")).urls == (f"{ROOT}news/",)


def test_many_pages_cost_few_queries(home: Any) -> None:
    pages = [make_page(home, f"page-{number}") for number in range(20)]
    fresh = list(ArticlePage.objects.filter(pk__in=[page.pk for page in pages]))
    with CaptureQueriesContext(connection) as queries, routing() as router:
        found = [router.public_urls(page).urls for page in fresh]

    assert len(set(found)) == 20
    assert len(queries) <= 5 + 20  # each page's locale, unless the batch has joined it


@pytest.mark.parametrize(
    ("base", "suffix", "expected"),
    [
        (f"{ROOT}top/", "child/", f"{ROOT}top/child/"),
        (f"{ROOT}top", "child/", f"{ROOT}top/child"),
        (f"{ROOT}top/", "größe/", f"{ROOT}top/gr%C3%B6%C3%9Fe/"),
        (f"{ROOT}top/", "", f"{ROOT}top/"),
    ],
    ids=["plain", "no_slash", "non_ascii", "itself"],
)
def test_descendant_below_a_base(base: str, suffix: str, expected: str) -> None:
    assert descendant_url(base, suffix) == expected


@pytest.mark.parametrize(
    ("model", "is_own"),
    [(ArticlePage, False), (CalendarPage, False), (OwnUrlPage, True), (ListedUrlsPage, True)],
)
def test_types_that_make_their_own_urls(model: type, is_own: bool) -> None:
    assert has_own_urls(model) is is_own
