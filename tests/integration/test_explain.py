"""`indexnow_explain` and the editor's sentence: was this page submitted, and if not, why?"""

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


def explained(*args: Any, **options: Any) -> str:
    out = io.StringIO()
    call_command("indexnow_explain", *args, stdout=out, **options)
    return out.getvalue()


def failed_guards(page: Any) -> list[str]:
    return [guard.reason.value for guard in explain(page.pk).guards if not guard.passed]


class TestSentence:
    def test_accepted_page(self, indexnow: Any, news: Any) -> None:
        publish(news)
        indexnow.settle()

        assert status_sentence(news) == (
            "engine accepted 1 URL on Dec. 1, 2026 09:00 (response 200)."
        )

    def test_page_of_several_engines(self, indexnow: Any, news: Any) -> None:
        url = indexnow.engine.endpoint
        indexnow.configure(ENDPOINTS={"one": url, "two": url})
        publish(news)
        indexnow.settle()

        assert status_sentence(news).count("accepted 1 URL") == 2
        indexnow.configure(ENDPOINTS={"two": url})
        assert status_sentence(news).startswith("two accepted 1 URL on")

    def test_removed_page(self, indexnow: Any, news: Any) -> None:
        page = publish(news)
        indexnow.settle()
        page.unpublish()
        indexnow.settle()

        sentence = status_sentence(page)
        assert "engine accepted the removal of 1 URL on" in sentence
        assert sentence.endswith("The page is not live.")

    def test_never_published_page(self, indexnow: Any, news: Any) -> None:
        assert status_sentence(news) == "The page is not live."

    def test_live_page_that_was_never_submitted(self, indexnow: Any, news: Any) -> None:
        Page.objects.filter(pk=news.pk).update(live=True)

        assert status_sentence(news) == "The page has not been submitted yet."

    def test_page_that_was_just_published(self, indexnow: Any, news: Any) -> None:
        publish(news)

        assert status_sentence(news) == "The page is queued for submission."

    def test_scheduled_page(self, indexnow: Any, news: Any) -> None:
        news.go_live_at = datetime(2026, 12, 1, 18, tzinfo=UTC)
        news.save_revision().publish()

        assert status_sentence(news) == (
            "The page will be submitted once it is live, after Dec. 1, 2026 18:00."
        )
        indexnow.travel_to(news.go_live_at + timedelta(minutes=1))
        indexnow.work()
        assert "Waiting for publish_scheduled." in status_sentence(news)

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

        assert status_sentence(news) == ("1 URL is pending for engine. Too many requests (429).")

    def test_copy_in_progress(self, indexnow: Any, news: Any) -> None:
        publish(news)
        Intent.objects.update(reason="copying")

        assert status_sentence(news).startswith("Waiting until the copy is complete")

    @pytest.mark.parametrize(
        ("state", "reason", "sentence"),
        [
            ("rejected", "unprocessable", "1 URL was rejected by engine. URLs rejected (422)."),
            ("failed", "gave_up", "1 URL could not be submitted to engine. Given up after"),
            ("skipped", "dry_run", "1 URL was not submitted to engine. Dry run."),
        ],
    )
    def test_url_that_was_not_accepted(
        self, indexnow: Any, news: Any, state: str, reason: str, sentence: str
    ) -> None:
        publish(news)
        indexnow.settle()
        TrackedUrl.objects.update(state=state, reason=reason)

        assert status_sentence(news).startswith(sentence)

    def test_b05_switched_off_server(self, indexnow: Any, news: Any) -> None:
        indexnow.configure(ENABLED=False)

        assert status_sentence(news) == "IndexNow is switched off."

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

        assert found.refusal is None
        assert found.urls == (URL,)
        assert [guard.reason.value for guard in found.guards] == [
            "disabled", "not_live", "private", "alias", "embargoed", "excluded", "no_url",
        ]  # fmt: skip

    def test_each_guard_is_asked_whatever_the_others_say(self, indexnow: Any, news: Any) -> None:
        PageViewRestriction.objects.create(page=news.get_parent(), restriction_type="login")

        found = explain(news.pk)

        assert failed_guards(news) == ["not_live", "private"]
        assert found.refusal is not None
        assert found.refusal.reason == "not_live"
        assert found.urls == ()
        assert found.guards[2].detail == f"restrictions on: {news.get_parent().pk}"

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
        refusal = explain(page.pk).refusal
        assert refusal is not None
        assert refusal.detail == "RuntimeError: this page is broken"

    def test_deleted_page_keeps_its_history(self, indexnow: Any, news: Any) -> None:
        page_id = publish(news).pk
        indexnow.settle()
        Page.objects.get(pk=page_id).delete()
        indexnow.settle()

        found = explain(page_id)

        assert found.title == "News"
        assert [guard.reason for guard in found.guards] == ["page_deleted"]
        states = [(url.row.change, url.row.state) for url in found.tracked]
        assert states == [("removed", "accepted")]
        assert [event.row.kind for event in found.past_events] == ["remove", "publish"]


class TestCommand:
    def test_prints_everything(self, indexnow: Any, news: Any) -> None:
        page = publish(news)
        indexnow.settle()
        page.go_live_at = datetime(2026, 12, 2, 18, tzinfo=UTC)
        page.save_revision().publish()

        lines = explained("/en/news/").splitlines()

        assert f"Page {page.pk}: News" in lines
        assert "  [ok] private: restrictions on: –" in lines
        assert f"  {URL}" in lines
        assert (
            f"  engine {URL}: added, accepted; last accepted Dec. 1, 2026 09:00, response 200"
            in lines
        )
        assert any("go_live of" in line and "would now skip" not in line for line in lines)
        assert any("publish of" in line and "announced" in line for line in lines)

    def test_prints_reasons(self, indexnow: Any, news: Any) -> None:
        PageViewRestriction.objects.create(page=news, restriction_type="login")
        publish(news)
        indexnow.settle()

        out = explained(str(news.pk))

        assert "[no] private: The page or one of its parent pages" in out
        assert f"restrictions on: {news.pk} If the page should" in out
        assert "  none: The page is private" in out
        assert "Submissions:\n  none" in out
        assert "Planned events:\n  none" in out
        assert "skipped" in out

    def test_shows_what_waits(self, indexnow: Any, news: Any) -> None:
        indexnow.engine.answer(Answer(status=429, headers={"Retry-After": "7200"}))
        publish(news)
        indexnow.settle()

        line = "added, pending; Too many requests (429). Next attempt: Dec. 1, 2026 11:00."
        assert line in explained(str(news.pk))

    def test_speaks_json(self, indexnow: Any, news: Any) -> None:
        page = publish(news)

        found = json.loads(explained(str(page.pk), json=True))

        assert found["urls"] == [URL]
        assert found["open_events"][0]["decision"] == "go"
        assert {guard["passed"] for guard in found["guards"]} == {True}

    def test_unknown_page(self, indexnow: Any, site: Any) -> None:
        with pytest.raises(CommandError, match="No page and no submitted URL matches /en/nowhere/"):
            explained("/en/nowhere/")

    def test_changes_nothing(self, indexnow: Any, news: Any) -> None:
        publish(news)
        before = list(Intent.objects.values())

        explained(str(news.pk))

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


def test_r55_page_with_many_events_reads_what_it_shows(
    indexnow: Any, news: Any, django_assert_max_num_queries: Any
) -> None:
    now = timezone.now()
    Intent.objects.bulk_create(
        Intent(key=str(number), kind="publish", page_id=news.pk, created_at=now, state=state)
        for number, state in enumerate(["announced", "planned"] * 100)
    )

    with django_assert_max_num_queries(20):
        found = explain(news.pk)

    assert (len(found.open_events), len(found.past_events)) == (20, 20)


def test_cancelled_schedule_explains_itself(indexnow: Any, news: Any) -> None:
    news.go_live_at = timezone.now() + timedelta(hours=1)
    news.save_revision().publish()
    intents.cancel([Intent.objects.get().pk])

    [event] = explain(news.pk).past_events

    assert (event.row.state, event.row.reason) == ("cancelled", "cancelled")
