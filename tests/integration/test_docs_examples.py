"""What the guide on choosing what is announced shows, tried with the testing kit."""

from pathlib import Path
from typing import Any

import pytest
from wagtail import hooks

from tests.factories import make_page, make_site
from tests.testapp.models import ArticlePage, CalendarPage, HiddenFromSitemapPage, ListedUrlsPage
from tests.unit.test_docs import blocks
from wagtail_indexnow.pages.public_urls import HOOK
from wagtail_indexnow.testing import Submissions, indexnow_submissions, record_submissions

__all__ = ["indexnow_submissions"]

GUIDE = Path(__file__).parents[2] / "docs/how-to/choose-what-is-announced.md"
ROOT = "https://www.example.com/en/"


@pytest.fixture
def home(db: None) -> Any:
    return make_site().root_page


def publish(page: Any, **changes: Any) -> None:
    for name, value in changes.items():
        setattr(page, name, value)
    page.save_revision().publish()


def test_page_kept_out_of_the_sitemap(home: Any, indexnow_submissions: Submissions) -> None:
    page = make_page(home, "thanks", model=HiddenFromSitemapPage)

    publish(page, noindex=True)
    indexnow_submissions.assert_nothing_submitted()
    publish(page, noindex=False)
    indexnow_submissions.assert_submitted(f"{ROOT}thanks/")
    indexnow_submissions.forget()
    publish(page, noindex=True)

    indexnow_submissions.collect()
    assert [(item.url, item.change) for item in indexnow_submissions] == [
        (f"{ROOT}thanks/", "updated")
    ]


def test_page_type_that_opts_out(
    home: Any, indexnow_submissions: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArticlePage, "indexnow_excluded", True, raising=False)

    publish(make_page(home, "thanks"))

    indexnow_submissions.assert_nothing_submitted()


def test_routable_page_lists_its_own_urls(home: Any, indexnow_submissions: Submissions) -> None:
    publish(make_page(home, "events", model=CalendarPage))

    indexnow_submissions.assert_submitted(f"{ROOT}events/", f"{ROOT}events/past/")


def test_page_type_says_its_urls(home: Any, indexnow_submissions: Submissions) -> None:
    page = make_page(home, "shop", model=ListedUrlsPage)

    publish(page, listed=["/en/shop/", f"{ROOT}shop/tickets/"])

    indexnow_submissions.assert_submitted(f"{ROOT}shop/", f"{ROOT}shop/tickets/")


def test_hook_of_the_guide(home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = [block for block in blocks(GUIDE, "python") if HOOK in block]
    hooks.get_hooks(HOOK)  # finds the ones that are there anyway
    registered = {name: list(functions) for name, functions in hooks._hooks.items()}
    monkeypatch.setattr(hooks, "_hooks", registered)
    exec(example, {})
    page = make_page(home, "shop", model=ListedUrlsPage)

    with record_submissions() as submissions:
        publish(page, listed=[f"{ROOT}shop/", f"{ROOT}shop/print/"])

    submissions.assert_submitted(f"{ROOT}shop/")


@pytest.mark.parametrize(("aliases", "told"), [(False, []), (True, [f"{ROOT}also/"])])
def test_aliases_by_choice(home: Any, aliases: bool, told: list[str]) -> None:
    page = make_page(home, "news", live=True)

    with record_submissions(ALIASES=aliases) as submissions:
        page.create_alias(update_slug="also")

    submissions.assert_submitted(*told)
