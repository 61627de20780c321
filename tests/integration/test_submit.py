"""`indexnow_submit`: pages by hand, in batches, counted and confirmed."""

import io
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError
from django.utils import timezone
from wagtail.models import Locale, Page, Site

from example_site.engine import Answer
from tests.factories import make_page, make_site, publish
from tests.testapp.models import OwnUrlPage
from wagtail_indexnow.ledger import intents
from wagtail_indexnow.management import selections
from wagtail_indexnow.models import Intent, TrackedUrl
from wagtail_indexnow.pages import audits

pytestmark = pytest.mark.django_db(transaction=True)
HOME = "https://www.example.com/en/"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def tree(site: Any, clock_at: Any) -> Any:
    """Make home → section → two articles and a draft, as an import would: nobody is told."""
    home = site.root_page
    Page.objects.exclude(pk=home.pk).update(live=False)  # Wagtail's own welcome page
    section = make_page(home, "section", live=True, last_published_at=LONG_AGO)
    for slug in ("one", "two"):
        make_page(section, slug, live=True, last_published_at=LONG_AGO)
    make_page(section, "draft")
    return section


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def submit(*args: Any, **options: Any) -> str:
    out = io.StringIO()
    call_command("indexnow_submit", *args, stdout=out, **{"yes": True, **options})
    return out.getvalue()


def urls(*paths: str) -> list[str]:
    return sorted(f"{HOME}{path}" for path in paths)


@pytest.mark.parametrize("name", ["id", "url", "path"])
def test_one_page_is_submitted_by_any_of_its_names(indexnow: Any, tree: Any, name: str) -> None:
    text = {"id": str(tree.pk), "url": f"{HOME}section/", "path": "/en/section/"}[name]

    assert "Planned 1 page." in submit(text)
    assert indexnow.settled() == urls("section/")


def test_page_that_was_told_is_told_again(indexnow: Any, tree: Any) -> None:
    publish(tree)
    assert indexnow.settled() == urls("section/")

    submit(str(tree.pk))

    assert indexnow.settled() == urls("section/")


def test_section_is_one_row_and_all_its_live_pages(indexnow: Any, tree: Any) -> None:
    assert "Planned 3 pages." in submit(str(tree.pk), subtree=True)

    assert Intent.objects.count() == 1
    assert indexnow.settled() == urls("section/", "section/one/", "section/two/")


def test_site_is_submitted_in_each_of_its_languages(indexnow: Any, tree: Any) -> None:
    french = Locale.objects.create(language_code="fr")
    home = Site.objects.get(hostname="www.example.com").root_page.copy_for_translation(french)
    home.save_revision().publish()
    indexnow.settled()

    out = submit(site="WWW.example.com")

    assert "Planned 5 pages." in out
    assert indexnow.settled() == sorted(
        [*urls("", "section/", "section/one/", "section/two/"), "https://www.example.com/fr/"]
    )


def test_other_site_is_left_alone(indexnow: Any, tree: Any) -> None:
    other = make_site("other.example.com")
    make_page(other.root_page, "far", live=True)

    submit(site="other.example.com:443")

    assert {url.split("/")[2] for url in indexnow.settled()} == {"other.example.com"}


def test_type_is_submitted_wherever_its_pages_are(indexnow: Any, tree: Any) -> None:
    make_page(tree, "own", model=OwnUrlPage, live=True, address="here")

    assert "Planned 1 page." in submit(type="testapp.OwnUrlPage")
    assert indexnow.settled() == ["https://www.example.com/own/here/"]


def test_many_pages_become_few_rows_of_messages_and_one_post(indexnow: Any, tree: Any) -> None:
    """Bulk: pages of one command go together."""
    for number in range(30):
        make_page(tree, f"page-{number}", live=True)

    assert "Planned 34 pages." in submit(type="testapp.ArticlePage")
    indexnow.settle()

    assert len(indexnow.engine.urls()) == 34
    assert len(indexnow.engine.submissions) == 1


def test_dry_run_says_what_and_plans_nothing(indexnow: Any, tree: Any) -> None:
    for number in range(20):
        make_page(tree, f"page-{number}", live=True)

    out = submit(str(tree.pk), subtree=True, dry_run=True)

    assert "Would submit 23 pages." in out
    assert "/section/" in out
    assert "and 3 more" in out
    assert not Intent.objects.exists()


def test_removed_page_can_be_submitted(indexnow: Any, tree: Any) -> None:
    """W32: a bulk query took the page offline, past all signals."""
    page = publish(tree)
    indexnow.settled()
    Page.objects.filter(pk=page.pk).update(live=False)

    submit(str(page.pk))

    assert indexnow.settled() == urls("section/")


def test_section_submitted_after_a_move_loses_no_former_url(indexnow: Any, tree: Any) -> None:
    """A move that is not announced yet stays complete, also of pages that an audit recorded."""
    fields = {"live": True, "first_published_at": LONG_AGO, "last_published_at": LONG_AGO}
    top = make_page(tree.get_parent(), "top", **fields)
    child = make_page(top, "child", **fields)
    make_page(child, "leaf", **fields)
    audits.record()

    Page.objects.get(pk=top.pk).move(Page.objects.get(pk=tree.pk), "last-child")
    submit(str(child.pk), subtree=True)

    assert indexnow.settled() == urls(
        "top/",
        "top/child/",
        "top/child/leaf/",
        "section/top/",
        "section/top/child/",
        "section/top/child/leaf/",
    )


class TestMissed:
    def test_without_history_it_asks_how_far_back(self, indexnow: Any, tree: Any) -> None:
        with pytest.raises(CommandError, match=r"--since DATE, or --all"):
            submit(missed=True)

    def test_all_takes_everything_that_was_never_told(self, indexnow: Any, tree: Any) -> None:
        assert "Planned 4 pages." in submit(missed=True, all=True)
        assert indexnow.settled() == urls("", "section/", "section/one/", "section/two/")

    def test_b21_nothing_is_missed_twice(self, indexnow: Any, tree: Any) -> None:
        submit(missed=True, all=True)
        assert "nothing to submit" in submit(missed=True, all=True)
        indexnow.settle()

        assert "nothing to submit" in submit(missed=True, all=True)

    @pytest.mark.parametrize("since", ["2026-11-30", "2026-11-30T12:00:00", "2026-11-30T12:00:00Z"])
    def test_since_a_date(self, indexnow: Any, tree: Any, since: str) -> None:
        at = datetime(2026, 11, 30, 18, tzinfo=UTC)
        Page.objects.filter(slug="one").update(last_published_at=at)

        submit(missed=True, since=since)

        assert indexnow.settled() == urls("section/one/")

    def test_w32_with_history_it_is_what_was_published_since_and_not_told(
        self, indexnow: Any, tree: Any
    ) -> None:
        publish(tree)
        indexnow.settled()
        indexnow.travel_to(timezone.now() + timedelta(days=3))
        Page.objects.filter(slug__in=["section", "one"]).update(last_published_at=timezone.now())

        assert "Planned 2 pages." in submit(missed=True)
        assert indexnow.settled() == urls("section/", "section/one/")

    def test_rejected_page_is_missed(self, indexnow: Any, tree: Any) -> None:
        publish(tree)
        indexnow.settled()
        TrackedUrl.objects.update(state="rejected")

        assert "Planned 1 page." in submit(missed=True)

    def test_planned_go_live_is_not_missed_but_present_version_is(
        self, indexnow: Any, tree: Any
    ) -> None:
        publish(tree)
        indexnow.settled()
        tree = Page.objects.get(pk=tree.pk).specific
        tree.go_live_at = timezone.now() + timedelta(days=30)
        tree.save_revision().publish()

        assert "nothing to submit" in submit(missed=True)
        TrackedUrl.objects.all().delete()
        assert "Planned 4 pages." in submit(missed=True, all=True)

    @pytest.mark.parametrize("since", ["yesterday", "2026-13-01"])
    def test_since_must_be_a_date(self, indexnow: Any, tree: Any, since: str) -> None:
        with pytest.raises(CommandError, match="neither a date nor a time"):
            submit(missed=True, since=since)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "what to submit"),
        ({"site": "www.example.com", "type": "testapp.ArticlePage"}, "what to submit"),
        ({"site": "www.elsewhere.org"}, "no Site www.elsewhere.org"),
        ({"type": "auth.User"}, "no page type auth.User"),
        ({"type": "nonsense"}, "no page type nonsense"),
        ({"page": "/en/nowhere/"}, "no page /en/nowhere/"),
    ],
)
def test_wrong_question_gets_an_answer(
    indexnow: Any, tree: Any, options: dict[str, Any], said: str
) -> None:
    page = [options.pop("page")] if "page" in options else []

    with pytest.raises(CommandError, match=said):
        submit(*page, **options)


def test_switched_off_app_submits_nothing(indexnow: Any, tree: Any) -> None:
    indexnow.configure(ENABLED=False)

    with pytest.raises(CommandError, match="switched off"):
        submit(str(tree.pk))


@pytest.mark.parametrize(("answer", "count"), [("y", 1), ("Yes", 1), ("n", 0), ("", 0)])
def test_more_than_one_page_is_confirmed(
    indexnow: Any, tree: Any, monkeypatch: pytest.MonkeyPatch, answer: str, count: int
) -> None:
    asked = []
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or answer)

    submit(str(tree.pk), subtree=True, yes=False)

    assert asked == ["Submit 3 pages? [y/N] "]
    assert Intent.objects.count() == count


def test_script_has_to_agree_beforehand(
    indexnow: Any, tree: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    with pytest.raises(CommandError, match="add --yes"):
        submit(str(tree.pk), subtree=True, yes=False)


def test_terminal_sees_a_bar(indexnow: Any, tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "BATCH", 2)
    terminal = Terminal()

    submit(type="testapp.ArticlePage", stderr=terminal)

    assert terminal.getvalue() == f"\r[{'#' * 20}{' ' * 20}] 2/4\r[{'#' * 40}] 4/4\n"


def test_b22_failed_batch_does_not_stop_the_next_and_fails_the_command(
    indexnow: Any, tree: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: a failure on one part of a long run; later ones are still processed."""
    monkeypatch.setattr(selections, "BATCH", 2)
    plan = intents.plan_manual
    batches = []

    def fail_first(pages: Any, **kwargs: Any) -> None:
        batches.append(pages)
        if len(batches) == 1:
            raise DatabaseError("the database is locked")
        plan(pages, **kwargs)

    monkeypatch.setattr(intents, "plan_manual", fail_first)

    with pytest.raises(CommandError, match="2 pages could not be planned"):
        submit(type="testapp.ArticlePage")
    assert len(batches) == 2
    assert len(indexnow.settled()) == 2


def test_b22_refusing_host_does_not_stop_the_others(indexnow: Any, tree: Any) -> None:
    """B22: one host of a long run fails; the others are told, and the check says so."""
    other = make_site("another.example.com")
    make_page(other.root_page, "far", live=True)
    indexnow.engine.answer(Answer(status=422), host="another.example.com")

    submit(type="testapp.ArticlePage")

    assert indexnow.settled() == urls("", "section/", "section/one/", "section/two/")
    with pytest.raises(CommandError):
        call_command("indexnow_check", stdout=io.StringIO())
