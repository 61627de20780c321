"""`indexnow_explain` and the editor's sentence: why was this page told, or why was it not?"""

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from wagtail.models import Page, PageViewRestriction, Site

from example_site.engine import Answer
from tests.factories import make_page, make_site, publish
from tests.testapp.models import BrokenPage, HiddenFromSitemapPage
from wagtail_indexnow.diagnostics.explanation import explain, status_sentence
from wagtail_indexnow.ledger import intents
from wagtail_indexnow.management.page_lookup import find_page
from wagtail_indexnow.models import Channel, Intent, TrackedUrl

pytestmark = pytest.mark.django_db(transaction=True)
URL = "https://www.example.com/en/news/"


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


def told(*args: Any, **options: Any) -> str:
    out = io.StringIO()
    call_command("indexnow_explain", *args, stdout=out, **options)
    return out.getvalue()


def failed_guards(page: Any) -> list[str]:
    return [guard.name for guard in explain(page.pk).guards if not guard.passed]


class TestSentence:
    def test_told_page(self, indexnow: Any, news: Any) -> None:
        publish(news)
        indexnow.settle()

        assert status_sentence(news) == "Told to engine on Dec. 1, 2026 09:00: 1 URL, answer 200."

    def test_page_of_several_engines(self, indexnow: Any, news: Any) -> None:
        url = indexnow.engine.endpoint
        indexnow.configure(ENDPOINTS={"one": url, "two": url})
        publish(news)
        indexnow.settle()

        assert status_sentence(news).count("Told to") == 2
        indexnow.configure(ENDPOINTS={"two": url})
        assert status_sentence(news).startswith("Told to two on")

    def test_removed_page(self, indexnow: Any, news: Any) -> None:
        page = publish(news)
        indexnow.settle()
        page.unpublish()
        indexnow.settle()

        sentence = status_sentence(page)
        assert "that 1 URL is gone, answer 200." in sentence
        assert sentence.endswith("The page is not live.")

    def test_never_published_page(self, indexnow: Any, news: Any) -> None:
        assert status_sentence(news) == "The page is not live."

    def test_live_page_that_nobody_was_told_of(self, indexnow: Any, news: Any) -> None:
        Page.objects.filter(pk=news.pk).update(live=True)

        assert status_sentence(news) == "Search engines have not been told of this page yet."

    def test_page_that_was_just_published(self, indexnow: Any, news: Any) -> None:
        publish(news)

        assert status_sentence(news) == "Search engines will be told in a moment."

    def test_scheduled_page(self, indexnow: Any, news: Any) -> None:
        news.go_live_at = datetime(2026, 12, 1, 18, tzinfo=UTC)
        news.save_revision().publish()

        assert status_sentence(news) == (
            "Search engines will be told after Dec. 1, 2026 18:00, once the page is live."
        )
        indexnow.travel_to(news.go_live_at + timedelta(minutes=1))
        indexnow.work()
        assert "Waiting for Wagtail's publish_scheduled" in status_sentence(news)

    def test_private_page(self, indexnow: Any, news: Any) -> None:
        PageViewRestriction.objects.create(page=news, restriction_type="login")
        publish(news)

        assert status_sentence(news) == "The page is private."

    def test_page_whose_code_fails(self, indexnow: Any, site: Any, clock_at: Any) -> None:
        page = publish(make_page(site.root_page, "broken", model=BrokenPage))

        assert "own code failed" in status_sentence(page)

    def test_deleted_page(self, indexnow: Any, news: Any) -> None:
        page = publish(news)
        indexnow.settle()
        former = Page.objects.get(pk=page.pk)
        page.delete()

        assert status_sentence(former).endswith("The page was deleted.")

    def test_waiting_url_says_for_what(self, indexnow: Any, news: Any) -> None:
        indexnow.engine.answer(Answer(status=429, headers={"Retry-After": "7200"}))
        publish(news)
        indexnow.settle()

        assert status_sentence(news) == (
            "1 URL waits to be told to engine. The engine asked us to slow down."
        )

    def test_copy_in_progress(self, indexnow: Any, news: Any) -> None:
        publish(news)
        Intent.objects.update(reason="copying")

        assert status_sentence(news).startswith("The page is being copied")

    @pytest.mark.parametrize(
        ("state", "reason", "sentence"),
        [
            ("rejected", "unprocessable", "engine did not take 1 URL. The engine rejected the"),
            ("failed", "gave_up", "engine did not take 1 URL. Given up after repeated attempts."),
            ("skipped", "dry_run", "1 URL was not sent to engine. Dry run"),
        ],
    )
    def test_url_that_was_not_taken(
        self, indexnow: Any, news: Any, state: str, reason: str, sentence: str
    ) -> None:
        publish(news)
        indexnow.settle()
        TrackedUrl.objects.update(state=state, reason=reason)

        assert status_sentence(news).startswith(sentence)

    def test_b05_switched_off_server(self, indexnow: Any, news: Any) -> None:
        indexnow.configure(ENABLED=False)

        assert status_sentence(news) == "IndexNow is switched off on this server."

    def test_costs_a_handful_of_queries(
        self, indexnow: Any, news: Any, django_assert_max_num_queries: Any
    ) -> None:
        publish(news)
        indexnow.settle()

        with django_assert_max_num_queries(12):
            status_sentence(news)


class TestGuards:
    def test_public_page_passes_all(self, indexnow: Any, news: Any) -> None:
        page = publish(news)

        found = explain(page.pk)

        assert found.reason == found.message == ""
        assert found.urls == (URL,)
        assert [guard.name for guard in found.guards] == [
            "disabled", "not_live", "private", "alias", "embargoed", "excluded", "no_url",
        ]  # fmt: skip

    def test_each_guard_is_asked_whatever_the_others_say(self, indexnow: Any, news: Any) -> None:
        PageViewRestriction.objects.create(page=news.get_parent(), restriction_type="login")

        found = explain(news.pk)

        assert failed_guards(news) == ["not_live", "private"]
        assert found.reason == "not_live"
        assert found.urls == ()
        assert "Restrictions on: Home." in found.guards[2].message

    def test_alias(self, indexnow: Any, news: Any) -> None:
        alias = publish(news).create_alias(update_slug="copy")

        assert failed_guards(alias) == ["alias"]
        indexnow.configure(ALIASES=True)
        assert failed_guards(alias) == []

    def test_w10_alias_of_a_scheduled_draft(self, indexnow: Any, news: Any) -> None:
        alias = news.create_alias(update_slug="copy")
        news.go_live_at = timezone.now() + timedelta(days=1)
        news.save_revision().publish()
        indexnow.configure(ALIASES=True)

        assert failed_guards(alias) == ["embargoed"]

    def test_w36_page_that_keeps_itself_out(self, indexnow: Any, site: Any, clock_at: Any) -> None:
        page = publish(make_page(site.root_page, "hidden", model=HiddenFromSitemapPage))

        assert failed_guards(page) == ["excluded"]

    def test_b17_page_outside_every_site(self, indexnow: Any, site: Any, clock_at: Any) -> None:
        page = make_page(Page.get_first_root_node(), "nowhere", live=True)

        assert failed_guards(page) == ["no_url"]

    def test_b06_page_of_a_host_that_is_not_served(
        self, indexnow: Any, site: Any, clock_at: Any
    ) -> None:
        Site.objects.filter(pk=site.pk).update(hostname="localhost", port=8000)
        page = publish(make_page(site.root_page, "news"))

        assert failed_guards(page) == ["foreign_host"]

    def test_page_whose_code_fails(self, indexnow: Any, site: Any, clock_at: Any) -> None:
        page = publish(make_page(site.root_page, "broken", model=BrokenPage))

        assert failed_guards(page) == ["page_error"]
        assert "RuntimeError: this page is broken" in explain(page.pk).message

    def test_deleted_page_keeps_its_history(self, indexnow: Any, news: Any) -> None:
        page_id = publish(news).pk
        indexnow.settle()
        Page.objects.get(pk=page_id).delete()
        indexnow.settle()

        found = explain(page_id)

        assert (found.title, found.reason) == ("News", "page_deleted")
        assert [(row.change, row.state) for row in found.tracked] == [("removed", "accepted")]
        assert [item.kind for item in found.past_intents] == ["remove", "publish"]


class TestCommand:
    def test_prints_everything(self, indexnow: Any, news: Any) -> None:
        page = publish(news)
        indexnow.settle()
        page.go_live_at = datetime(2026, 12, 2, 18, tzinfo=UTC)
        page.save_revision().publish()

        lines = told("/en/news/").splitlines()

        assert f"Page {page.pk}: News" in lines
        assert "  ok private: Restrictions on: –." in lines
        assert f"  {URL}" in lines
        assert f"  engine {URL}: added, accepted; sent Dec. 1, 2026 09:00, answer 200" in lines
        assert any("go_live of" in line and "would now skip" not in line for line in lines)
        assert any("publish of" in line and "announced" in line for line in lines)

    def test_prints_reasons(self, indexnow: Any, news: Any) -> None:
        PageViewRestriction.objects.create(page=news, restriction_type="login")
        publish(news)
        indexnow.settle()

        out = told(str(news.pk))

        assert "!! private: The page is private. Restrictions on: News." in out
        assert "  none: The page is private." in out
        assert "Told:\n  nothing" in out
        assert "Planned:\n  nothing" in out
        assert "skipped" in out

    def test_shows_what_waits(self, indexnow: Any, news: Any) -> None:
        indexnow.engine.answer(Answer(status=429, headers={"Retry-After": "7200"}))
        publish(news)
        indexnow.settle()

        assert "pending; waits until Dec. 1, 2026 11:00" in told(str(news.pk))
        assert "The engine asked us to slow down." in told(str(news.pk))

    def test_speaks_json(self, indexnow: Any, news: Any) -> None:
        page = publish(news)

        found = json.loads(told(str(page.pk), json=True))

        assert found["urls"] == [URL]
        assert found["open_intents"][0]["verdict"] == "go"
        assert {guard["passed"] for guard in found["guards"]} == {True}

    def test_unknown_page(self, indexnow: Any, site: Any) -> None:
        with pytest.raises(CommandError, match="no page /en/nowhere/"):
            told("/en/nowhere/")

    def test_changes_nothing(self, indexnow: Any, news: Any) -> None:
        publish(news)
        before = list(Intent.objects.values())

        told(str(news.pk))

        assert list(Intent.objects.values()) == before
        assert not TrackedUrl.objects.exists()
        assert not Channel.objects.exists()


class TestFindingPages:
    def test_by_path_with_and_without_language(self, indexnow: Any, news: Any) -> None:
        for text in ("/en/news/", "/news", URL, "http://www.example.com/en/news", f" {news.pk} "):
            assert find_page(text) == news.pk, text

    def test_not_in_another_language_or_on_another_host(self, indexnow: Any, news: Any) -> None:
        for text in ("/fr/news/", "https://other.example.com/en/news/", "https:///x", "/news/x/"):
            assert find_page(text) is None, text

    def test_home(self, indexnow: Any, news: Any) -> None:
        assert find_page("https://www.example.com/en/") == news.get_parent().pk

    def test_of_the_site_that_the_url_names(self, indexnow: Any, news: Any) -> None:
        other = make_site("other.example.com")
        page = make_page(other.root_page, "news")

        assert find_page("https://other.example.com/en/news/") == page.pk
        assert find_page(URL) == news.pk

    def test_by_a_url_that_engines_know(self, indexnow: Any, news: Any) -> None:
        publish(news)
        indexnow.settle()
        publish(Page.objects.get(pk=news.pk), slug="renamed")

        assert find_page(URL) == news.pk

    def test_below_a_script_name(self, indexnow: Any, news: Any, settings: Any) -> None:
        settings.FORCE_SCRIPT_NAME = "/app"

        assert find_page("/app/en/news/") == news.pk


def test_cancelled_schedule_explains_itself(indexnow: Any, news: Any) -> None:
    news.go_live_at = timezone.now() + timedelta(hours=1)
    news.save_revision().publish()
    intents.cancel([Intent.objects.get().pk])

    [item] = explain(news.pk).past_intents

    assert (item.state, item.message) == ("cancelled", "Somebody cancelled this announcement.")
