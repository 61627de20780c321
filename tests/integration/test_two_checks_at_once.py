"""Two workers that check the same page at the same time, and trees that change meanwhile."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from django.utils import timezone
from wagtail.models import Page, PageViewRestriction

from example_site.engine import Answer
from tests.factories import make_page, publish
from tests.testapp.models import ArticlePage
from wagtail_indexnow.constants import Kind, Reason
from wagtail_indexnow.exceptions import OutdatedError
from wagtail_indexnow.ledger import intents, inventory
from wagtail_indexnow.models import Intent, TrackedUrl
from wagtail_indexnow.pages import announcing, audits, subtrees
from wagtail_indexnow.pages.comparison import Check
from wagtail_indexnow.payloads import IntentRef
from wagtail_indexnow.relay.dispatch import tick
from wagtail_indexnow.relay.senders import InlineCourier

pytestmark = pytest.mark.django_db(transaction=True)
URL = "https://www.example.com/en/news/"
HOST = "www.example.com"


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


def ref(intent: Intent) -> IntentRef:
    return IntentRef(key=intent.key, page_id=intent.page_id)


class Overtaken(Check):
    """A check whose worker is slow: `meanwhile` happens once it has read its pages."""

    meanwhile: ClassVar[list[Callable[[], None]]] = []

    def read(self, events: Any) -> None:
        super().read(events)
        if self.meanwhile:
            self.meanwhile.pop()()


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    monkeypatch.setattr(announcing, "Check", Overtaken)
    yield Overtaken.meanwhile
    Overtaken.meanwhile.clear()


def test_slow_check_does_not_overwrite_a_newer_one(
    indexnow: Any, news: Any, overtaken: list[Callable[[], None]]
) -> None:
    """The page goes off and on again while a slow worker still has it as off."""
    publish(news)
    indexnow.settled()
    ArticlePage.objects.get(pk=news.pk).unpublish()
    removal = Intent.objects.get(kind="remove")
    indexnow.travel_to(removal.run_at)

    def publish_again() -> None:
        publish(ArticlePage.objects.get(pk=news.pk))
        again = Intent.objects.filter(kind="publish").latest("pk")
        indexnow.travel_to(again.run_at + timedelta(seconds=1))
        announcing.announce_intents([ref(again)])

    overtaken.append(publish_again)
    announcing.announce_intents([ref(removal)])

    row = TrackedUrl.objects.get()
    assert (row.change, row.state) == ("updated", "pending")
    assert indexnow.settled() == [URL]
    assert not Intent.objects.open().exists()


def test_page_that_two_workers_check_for_the_first_time_is_marked_once(
    indexnow: Any, news: Any, overtaken: list[Callable[[], None]]
) -> None:
    """Neither finds a row of the page to lock: the second one's insert decides."""
    publish(news)
    publication = Intent.objects.get()
    manual = intents.insert(Kind.MANUAL, page=news)
    indexnow.travel_to(manual.run_at)

    overtaken.append(lambda: announcing.announce_intents([ref(manual)]))
    announcing.announce_intents([ref(publication)])

    assert TrackedUrl.objects.get().change == "added"
    assert {row.state for row in Intent.objects.all()} == {"announced"}
    assert indexnow.settled() == [URL]


def test_audit_that_an_event_overtakes_plans_nothing_for_its_page(
    indexnow: Any, news: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexnow.audit()
    ArticlePage.objects.filter(pk=news.pk).update(live=True)
    compare = audits._compare

    def overtaken(page_ids: list[int]) -> Any:
        found = compare(page_ids)
        if not Intent.objects.filter(page_id=news.pk).exists():
            intents.insert(Kind.PUBLISH, page=news)
        return found

    monkeypatch.setattr(audits, "_compare", overtaken)
    indexnow.audit()

    assert [row.kind for row in Intent.objects.filter(page_id=news.pk)] == ["publish"]
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


@pytest.mark.parametrize(
    ("losses", "is_at_once"), [(1, True), (5, False)], ids=["once", "until its next hand-over"]
)
def test_section_that_others_check_meanwhile_is_checked_again(
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
    replace, lost = inventory.replace, []

    def losing(*args: Any, now: datetime) -> None:
        # The first chunk is done by then.
        if TrackedUrl.objects.filter(url__startswith=URL + "section/").exists():
            lost.append(timezone.now())
            if len(lost) <= losses:
                raise OutdatedError
        replace(*args, now=now)

    monkeypatch.setattr(inventory, "replace", losing)

    told = indexnow.settled(minutes=60)

    root = URL.removesuffix("news/")
    paths = ["section/", "section/a/", "section/b/", "section/c/"]
    assert told == sorted(f"{base}{path}" for base in (root, URL) for path in paths)
    assert (lost[losses] == lost[0]) is is_at_once
    assert not Intent.objects.planned().exists()
