"""Two workers that look at the same page at the same time, and trees that change meanwhile."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from wagtail.models import Page, PageViewRestriction

from example_site.engine import Answer
from tests.factories import make_page, publish
from tests.testapp.models import ArticlePage
from wagtail_indexnow.constants import Change, Reason
from wagtail_indexnow.ledger import tracked_urls
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import Intent, TrackedUrl
from wagtail_indexnow.pages import announcing, subtrees
from wagtail_indexnow.payloads import IntentRef
from wagtail_indexnow.relay import reconciliation
from wagtail_indexnow.relay.dispatch import tick
from wagtail_indexnow.relay.senders import InlineCourier
from wagtail_indexnow.submission import claims

pytestmark = pytest.mark.django_db(transaction=True)
URL = "https://www.example.com/en/news/"
HOST = "www.example.com"


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


def ref(intent: Intent) -> IntentRef:
    return IntentRef(key=intent.key, page_id=intent.page_id)


def test_slow_look_does_not_overwrite_a_newer_one(
    indexnow: Any, news: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page goes off and on again while a slow worker still has it as off."""
    publish(news)
    indexnow.settled()
    page = ArticlePage.objects.get(pk=news.pk)
    page.unpublish()
    removal = Intent.objects.get(kind="remove")
    indexnow.travel_to(removal.run_at)
    read = announcing.Look

    def slow(*args: Any, **kwargs: Any) -> Any:
        look = read(*args, **kwargs)
        monkeypatch.setattr(announcing, "Look", read)
        publish(ArticlePage.objects.get(pk=news.pk))
        again = Intent.objects.filter(kind="publish").latest("pk")
        indexnow.travel_to(again.run_at + timedelta(seconds=1))
        tracked_urls.mark(
            [Marked(url=URL, host=HOST, change=Change.UPDATED, page_id=news.pk)],
            now=timezone.now(),
        )
        return look

    monkeypatch.setattr(announcing, "Look", slow)

    announcing.announce([ref(removal)])

    row = TrackedUrl.objects.get()
    assert (row.change, row.state) == ("updated", "pending")
    assert indexnow.settled() == [URL]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subtrees, "CHUNK_SIZE", 2)


def test_section_reordered_between_two_chunks_is_told_whole(
    indexnow: Any, site: Any, clock_at: Any, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(make_page(site.root_page, "first"))
    section = publish(make_page(site.root_page, "section"))
    for slug in "abcd":
        publish(make_page(section, slug))
    told = [url for url in indexnow.settled() if "section" in url]
    PageViewRestriction.objects.create(page=section, restriction_type="login")
    [intent] = Intent.objects.filter(kind="visibility")
    indexnow.travel_to(intent.run_at)

    assert subtrees._announce_chunk(intent)  # then its worker ends
    first = Page.objects.get(slug="first")
    Page.objects.get(pk=section.pk).move(first, pos="left")

    assert [url for url in indexnow.settled() if "section" in url] == told
    assert len(told) == 5


def test_urls_left_of_a_split_post_go_with_the_others(indexnow: Any, news: Any) -> None:
    """Half of a POST that was too large was claimed and given back: nothing is stuck."""
    marks = [
        Marked(url=f"{URL}{n}/", host=HOST, change=Change.ADDED, page_id=None) for n in range(4)
    ]
    tracked_urls.mark(marks, now=timezone.now())
    indexnow.engine.answer(Answer(status=413))
    indexnow.work()
    indexnow.travel_to(timezone.now() + timedelta(minutes=2))
    half = claims.claim("engine", HOST, now=timezone.now())
    assert half is not None
    claims.unclaim(half)

    indexnow.settle()

    assert set(indexnow.told()) == {mark.url for mark in marks}


def test_url_whose_answer_was_lost_is_told_as_removed(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.engine.answer(Answer(drop=True, apply=True))
    indexnow.travel_to(Intent.objects.get().run_at)
    for _tick in ("announce", "submit"):
        tick(InlineCourier())
    assert TrackedUrl.objects.get().reason == Reason.NO_RESPONSE
    indexnow.engine.reset()

    ArticlePage.objects.get(pk=news.pk).unpublish()

    assert indexnow.settled() == [URL]
    assert TrackedUrl.objects.get().change == "removed"


def test_removals_of_hosts_that_are_not_served_are_not_planned_for_ever(
    indexnow: Any, news: Any, settings: Any
) -> None:
    publish(news)
    indexnow.settled()
    settings.ALLOWED_HOSTS = ["elsewhere.example"]
    Page.objects.filter(pk=news.pk).update(live=False)
    planned = Intent.objects.count()

    reconciliation.reconcile()

    assert Intent.objects.count() == planned


def test_go_live_far_ahead_hides_no_removal(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.settled()
    page = ArticlePage.objects.get(pk=news.pk)
    page.go_live_at = datetime(2027, 12, 1, tzinfo=timezone.now().tzinfo)
    page.save_revision().publish()
    Page.objects.filter(pk=news.pk).update(live=False)

    reconciliation.reconcile()

    assert indexnow.settled() == [URL]


@pytest.mark.parametrize(
    ("losses", "is_at_once"), [(1, True), (5, False)], ids=["once", "until its next hand-over"]
)
def test_section_that_others_tell_of_meanwhile_is_looked_at_again(
    indexnow: Any,
    site: Any,
    news: Any,
    small_chunks: None,
    monkeypatch: pytest.MonkeyPatch,
    losses: int,
    is_at_once: bool,
) -> None:
    """Chunk by chunk; one that keeps losing is left to the next hand-over, with its place."""
    section = publish(make_page(site.root_page, "section"))
    for name in ("a", "b", "c"):
        publish(make_page(section, name))
    publish(news)
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    Page.objects.get(pk=section.pk).move(Page.objects.get(pk=news.pk), pos="last-child")
    mark, lost = tracked_urls.mark, []

    def losing(marks: Any, *, now: datetime) -> None:
        # The first chunk is done by then.
        if TrackedUrl.objects.filter(url__startswith=URL + "section/").exists():
            lost.append(timezone.now())
            if len(lost) <= losses:
                raise tracked_urls.OutdatedError
        mark(marks, now=now)

    monkeypatch.setattr(tracked_urls, "mark", losing)

    told = indexnow.settled(minutes=60)

    root = URL.removesuffix("news/")
    paths = ["section/", "section/a/", "section/b/", "section/c/"]
    assert told == sorted(f"{base}{path}" for base in (root, URL) for path in paths)
    assert (lost[losses] == lost[0]) is is_at_once
    assert not Intent.objects.planned().exists()
