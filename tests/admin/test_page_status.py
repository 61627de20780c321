"""In the page editor and explorer: the sentence, the page's own status, submitting, history."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from wagtail.models import Page

from tests.admin.conftest import ADMIN
from tests.admin.test_urls_report import shown
from tests.factories import make_page, publish
from wagtail_indexnow.diagnostics import explanation
from wagtail_indexnow.ledger import intents
from wagtail_indexnow.models import Intent
from wagtail_indexnow.panels import IndexNowPanel
from wagtail_indexnow.wagtail_hooks import page_header_buttons, page_listing_more_buttons

pytestmark = pytest.mark.django_db
ACCEPTED = "engine accepted 1 URL on"


@pytest.fixture
def story(indexnow: Any, home: Page, clock_at: Any) -> Page:
    """A page that the engine accepted."""
    page = publish(make_page(home, "story"))
    indexnow.settle()
    indexnow.told()
    return Page.objects.get(pk=page.pk)


def header_buttons(page: Page, client: Any) -> Any:
    return page_header_buttons(page, client.user, view_name="edit")


def status(page: Page) -> str:
    return f"{ADMIN}pages/{page.pk}/"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("view", ["edit/", ""], ids=["editor", "explorer"])
def test_header_says_that_the_page_was_accepted(view: str, superuser: Client, story: Page) -> None:
    page = shown(superuser, report=f"/admin/pages/{story.pk}/{view}")

    assert f"IndexNow: {ACCEPTED}" in page
    assert "(response 200)." in page
    assert status(story) in page
    assert "indexed" not in page.casefold()


def test_header_is_for_those_who_may_edit(home: Page, news: Page, person: Any) -> None:
    elsewhere = make_page(Page.objects.get(pk=home.pk), "elsewhere", live=True)
    client = person("editor", pages=elsewhere, edit="change_page")

    assert status(elsewhere) in shown(client, report=f"/admin/pages/{elsewhere.pk}/edit/")
    for buttons in (page_listing_more_buttons(news, client.user), header_buttons(news, client)):
        assert list(buttons) == []


def test_root_of_the_tree_has_no_status(superuser: Client, home: Page) -> None:
    root = Page.get_first_root_node()

    assert status(root) not in shown(superuser, report=f"/admin/pages/{root.pk}/")


def test_rows_of_the_explorer_cost_no_queries(superuser: Client, home: Page) -> None:
    def cost() -> int:
        superuser.get(f"/admin/pages/{home.pk}/")
        with CaptureQueriesContext(connection) as captured:
            superuser.get(f"/admin/pages/{home.pk}/")
        return sum("wagtail_indexnow" in query["sql"] for query in captured)

    make_page(home, "one", live=True)
    few = cost()
    for number in range(10):
        make_page(Page.objects.get(pk=home.pk), f"page-{number}", live=True)

    assert cost() == few


@pytest.mark.parametrize("fault", [RuntimeError("no"), DatabaseError("no table")])
def test_editor_opens_even_if_nothing_can_be_found_out(
    fault: Exception, superuser: Client, news: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(page: Any) -> str:
        raise fault

    monkeypatch.setattr(explanation, "status_sentence", fail)

    page = shown(superuser, report=f"/admin/pages/{news.pk}/edit/")

    assert status(news) not in page


class TestStatus:
    @pytest.mark.django_db(transaction=True)
    def test_tells_the_whole_story(self, superuser: Client, story: Page) -> None:
        page = shown(superuser, report=status(story))

        for text in (
            ACCEPTED,
            "Nothing prevents the submission",
            "https://www.example.com/en/story/",
            "Published",
        ):
            assert text in page

    def test_says_why_a_page_is_not_submitted(self, superuser: Client, news: Page) -> None:
        news.view_restrictions.create(restriction_type="login")

        page = shown(superuser, report=status(news))

        assert "The page is private." in page
        assert "The page or one of its parent pages has a privacy setting." in page
        assert "If the page should be public, change its privacy." in page

    def test_says_what_is_pending_and_until_when(
        self, superuser: Client, news: Page, tracked: Any, go_live: Any, clock_at: Any
    ) -> None:
        now = timezone.now()
        later = now + timedelta(hours=1)
        tracked(news, state="pending", reason="rate_limited", not_before=later)
        go_live(news, reason="page_error", error="RuntimeError: no", run_at=later)

        page = shown(superuser, report=status(news))

        assert "Too many requests (429). Next attempt: Dec. 1, 2026 10:00." in page
        assert "RuntimeError: no. Next check: Dec. 1, 2026 10:00." in page

    def test_of_a_page_that_is_not_there(self, superuser: Client, home: Page) -> None:
        assert superuser.get(f"{ADMIN}pages/987654/", follow=True).status_code == 404

    def test_offers_nothing_while_switched_off(
        self, superuser: Client, news: Page, indexnow: Any
    ) -> None:
        indexnow.configure(ENABLED=False)

        page = shown(superuser, report=status(news))

        assert "IndexNow is switched off." in page
        assert "Submit to IndexNow" not in page


class TestSubmit:
    @pytest.mark.django_db(transaction=True)
    def test_submits_the_page_again(
        self, superuser: Client, story: Page, indexnow: Any, clock_at: Any
    ) -> None:
        clock_at.shift(timedelta(hours=1))

        response = superuser.post(status(story), follow=True)

        assert "“Story” has been queued for submission." in response.content.decode()
        assert indexnow.settled() == ["https://www.example.com/en/story/"]

    def test_leads_back_to_where_it_came_from(self, superuser: Client, news: Page) -> None:
        back = f"/admin/pages/{news.pk}/edit/"

        assert back in shown(superuser, f"?next={back}", status(news))
        assert superuser.post(status(news), {"next": back}).url == back
        assert superuser.post(status(news), {"next": "https://evil.example/"}).url == status(news)

    def test_is_in_the_history_of_the_page(self, superuser: Client, news: Page) -> None:
        superuser.post(status(news))

        history = shown(superuser, report=f"/admin/pages/{news.pk}/history/")
        assert "Submitted to IndexNow" in history
        assert Intent.objects.get().scheduled_by == f"user:{superuser.user.pk}"  # type: ignore[attr-defined]

    def test_says_so_if_the_ledger_is_away(
        self, superuser: Client, news: Page, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(pages: Any) -> None:
            raise DatabaseError("away")

        monkeypatch.setattr(intents, "plan_manual", fail)

        response = superuser.post(status(news), follow=True)

        assert "could not be submitted" in response.content.decode()


class TestBulkAction:
    PATH = "/admin/bulk/wagtailcore/page/indexnow_submit/"

    def test_submits_the_pages_that_one_may_publish(
        self, news: Page, home: Page, person: Any
    ) -> None:
        other = make_page(Page.objects.get(pk=home.pk), "other", live=True)
        client = person("publisher", pages=news)
        query = f"?id={news.pk}&id={other.pk}&next=/admin/"

        page = shown(client, query, self.PATH)
        client.post(f"{self.PATH}{query}")

        assert "Submit these pages to search engines as they are now?" in page
        assert "have permission to submit this page" in page
        assert [intent.page_id for intent in Intent.objects.all()] == [news.pk]

    @pytest.mark.django_db(transaction=True)
    def test_is_offered_in_the_editor(self, superuser: Client, story: Page) -> None:
        edit = f"/admin/pages/{story.pk}/edit/"
        editor = shown(superuser, report=edit)

        [href] = re.findall(r'href="([^"]*indexnow_submit[^"]*)"', editor)
        response = superuser.post(unescape(href))

        assert response.url == edit
        assert Intent.objects.filter(kind="manual", page_id=story.pk).count() == 1

    def test_is_offered_in_the_explorer(self, superuser: Client, news: Page, home: Page) -> None:
        assert self.PATH in shown(superuser, report=f"/admin/pages/{home.pk}/")


class TestPanel:
    def bound(self, page: Any, client: Client) -> Any:
        panel = IndexNowPanel().bind_to_model(type(page))
        request = client.get("/admin/").wsgi_request
        return panel.get_bound_panel(instance=page, request=request, form=None)

    @pytest.mark.django_db(transaction=True)
    def test_shows_the_sentence_in_the_form(self, superuser: Client, story: Page) -> None:
        panel = self.bound(story, superuser)

        assert panel.is_shown()
        assert panel.heading == "IndexNow"
        assert ACCEPTED in panel.render_html({})

    def test_is_not_there_for_a_page_that_is_not_saved_yet(self, superuser: Client) -> None:
        assert not self.bound(Page(title="New"), superuser).is_shown()
