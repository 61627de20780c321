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
from wagtail_indexnow.pages.public_urls import PageUrls, routing

ROOT = "https://www.example.com/en/"


@pytest.fixture
def home(db: None, settings: Any) -> Any:
    settings.ALLOWED_HOSTS = [".example.com"]
    return make_site().root_page


def urls_of(page: Any) -> PageUrls:
    with routing() as router:
        return router.public_urls(page)


def test_plain_page_has_one_url(home: Any) -> None:
    assert urls_of(make_page(home, "news")) == PageUrls(urls=(f"{ROOT}news/",))


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
            found.extend(router.public_urls(page).urls)
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
        (OwnUrlPage, {"address": "x"}, PageUrls(urls=("https://www.example.com/own/x/",))),
        (ListedUrlsPage, {"listed": ["/en/a/", f"{ROOT}a/"]}, PageUrls(urls=(f"{ROOT}a/",))),
        (CalendarPage, {}, PageUrls(urls=(f"{ROOT}page/", f"{ROOT}page/past/"))),
        (
            HiddenFromSitemapPage,
            {},
            PageUrls(reason=Reason.EXCLUDED, excluded=(f"{ROOT}page/",)),
        ),
        (HiddenFromSitemapPage, {"noindex": False}, PageUrls(urls=(f"{ROOT}page/",))),
        (ListedUrlsPage, {"listed": ["mailto:me"]}, PageUrls(reason=Reason.NO_URL)),
        (
            ListedUrlsPage,
            {"listed": ["https://a.example.org/"]},
            PageUrls(reason=Reason.FOREIGN_HOST),
        ),
    ],
    ids=["own_parts", "listed", "routable", "hidden", "not_hidden", "unusable", "foreign"],
)
def test_page_type(model: Any, fields: dict[str, Any], expected: PageUrls, home: Any) -> None:
    assert urls_of(make_page(home, "page", model=model, **fields)) == expected


def test_url_outside_our_hosts_is_left_out(home: Any) -> None:
    listed = [f"{ROOT}a/", "https://a.example.org/"]
    page = make_page(home, "page", model=ListedUrlsPage, listed=listed)

    assert urls_of(page) == PageUrls(urls=(f"{ROOT}a/",))


def test_page_outside_every_site_has_no_url(home: Any) -> None:
    page = make_page(Page.get_first_root_node(), "lost")

    assert urls_of(page) == PageUrls(reason=Reason.NO_URL)


def test_stale_root_paths_do_not_count(home: Any) -> None:
    page = make_page(home, "news")
    page.get_full_url()
    Site.objects.update(hostname="new.example.com")

    fresh = ArticlePage.objects.get(pk=page.pk)
    assert urls_of(fresh).urls == ("https://new.example.com/en/news/",)


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
