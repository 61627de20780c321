"""Sections that are hidden or shown, and pages that keep away from engines."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from wagtail.models import Page, PageViewRestriction

from example_site.engine import Answer
from tests.factories import make_page, publish
from tests.testapp.models import ArticlePage, HiddenFromSitemapPage
from wagtail_indexnow.models import Intent, TrackedUrl
from wagtail_indexnow.pages.announcing import announce_intents as announce
from wagtail_indexnow.payloads import IntentRef
from wagtail_indexnow.relay.dispatch import tick
from wagtail_indexnow.relay.senders import InlineCourier

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = "https://www.example.com/en/"
SECTION = f"{ROOT}section/"
URLS = [SECTION, f"{SECTION}one/", f"{SECTION}one/deep/"]


@pytest.fixture
def section(site: Any, clock_at: Any, indexnow: Any) -> Any:
    """A live section, two pages deep, as engines know it."""
    section = publish(make_page(site.root_page, "section"))
    publish(make_page(publish(make_page(section, "one")), "deep"))
    assert indexnow.settled() == URLS
    later(indexnow)
    return section


@pytest.fixture
def private(site: Any, clock_at: Any, indexnow: Any) -> Any:
    """A live section that was private from the start."""
    section = make_page(site.root_page, "section")
    PageViewRestriction.objects.create(page=section, restriction_type="login")
    publish(section)
    publish(make_page(publish(make_page(section, "one")), "deep"))
    assert indexnow.settled() == []
    later(indexnow)
    return section


def later(indexnow: Any) -> None:
    indexnow.travel_to(timezone.now() + timedelta(hours=1))


def fresh(page: Any) -> Any:
    return type(page).objects.get(pk=page.pk)


def named(slug: str) -> Any:
    return Page.objects.get(slug=slug).specific


def changes() -> dict[str, str]:
    return dict(TrackedUrl.objects.values_list("url", "change"))


def forget_history() -> None:
    """Leave a site whose pages are older than this app."""
    TrackedUrl.objects.all().delete()
    Intent.objects.all().delete()


def announce_only() -> None:
    """Do a worker's first half: URLs are marked, and wait."""
    intent = Intent.objects.planned().get()
    announce([IntentRef(key=intent.key, page_id=intent.page_id)])


@pytest.mark.parametrize("kind", ["login", "password"])
def test_w29_hidden_section_is_told_as_removed(
    kind: str, indexnow: Any, editor: Any, section: Any
) -> None:
    editor.restrict(section, kind, password="secret" if kind == "password" else "")

    assert indexnow.settled() == URLS
    assert set(changes().values()) == {"removed"}


def test_hidden_section_older_than_the_app_is_told_as_removed(
    indexnow: Any, editor: Any, section: Any
) -> None:
    forget_history()
    editor.restrict(section)

    assert indexnow.settled() == URLS
    assert set(changes().values()) == {"removed"}


def test_w29_page_below_a_private_ancestor_is_not_told(
    indexnow: Any, editor: Any, private: Any
) -> None:
    editor.publish(named("deep"))

    assert indexnow.settled() == []
    assert Intent.objects.latest("pk").reason == "private"


def test_shown_section_is_told_as_added(indexnow: Any, editor: Any, private: Any) -> None:
    editor.restrict(private, "none")

    assert indexnow.settled() == URLS
    assert set(changes().values()) == {"added"}


def test_hidden_and_shown_again_is_told_each_way(indexnow: Any, editor: Any, section: Any) -> None:
    editor.restrict(section)
    assert indexnow.settled() == URLS
    later(indexnow)
    editor.restrict(section, "none")

    assert indexnow.settled() == URLS
    assert indexnow.settled() == []


def test_hidden_and_shown_before_the_worker_ran_leaves_pages_public(
    indexnow: Any, editor: Any, section: Any
) -> None:
    editor.restrict(section)
    editor.restrict(section, "none")
    indexnow.settle()

    assert "removed" not in changes().values()


def test_changed_restriction_tells_nothing(indexnow: Any, editor: Any, private: Any) -> None:
    editor.restrict(private, "password", password="secret")

    assert indexnow.settled() == []
    assert not TrackedUrl.objects.exists()


def test_second_restriction_below_a_private_one_tells_nothing(
    indexnow: Any, editor: Any, private: Any
) -> None:
    editor.restrict(named("one"))

    assert indexnow.settled() == []
    assert not TrackedUrl.objects.exists()


def test_lifted_restriction_below_a_private_one_tells_nothing(
    indexnow: Any, editor: Any, private: Any
) -> None:
    editor.restrict(named("one"))
    editor.restrict(named("one"), "none")

    assert indexnow.settled() == []


def test_lifted_restriction_leaves_a_private_part_alone(
    indexnow: Any, editor: Any, private: Any
) -> None:
    editor.restrict(named("one"))
    editor.restrict(private, "none")

    assert indexnow.settled() == [SECTION]
    assert not TrackedUrl.objects.filter(url__contains="one").exists()


def test_hidden_section_with_a_private_part_keeps_that_secret(
    indexnow: Any, editor: Any, private: Any
) -> None:
    editor.restrict(named("one"))
    editor.restrict(private, "none")
    indexnow.settled()
    forget_history()
    later(indexnow)
    editor.restrict(private)

    assert indexnow.settled() == [SECTION]


def test_private_section_moved_to_a_public_place_keeps_its_old_urls_secret(
    indexnow: Any, editor: Any, private: Any, site: Any
) -> None:
    """Its own restriction goes along; the one of its former parent does not."""
    shelf = publish(make_page(site.root_page, "shelf"))
    assert indexnow.settled() == [f"{ROOT}shelf/"]
    editor.move(named("one"), shelf)

    assert indexnow.settled() == [f"{ROOT}shelf/one/", f"{ROOT}shelf/one/deep/"]
    assert not TrackedUrl.objects.filter(url__startswith=SECTION).exists()


def test_restricted_section_that_moves_stays_secret(
    indexnow: Any, editor: Any, private: Any, site: Any
) -> None:
    shelf = publish(make_page(site.root_page, "shelf"))
    indexnow.settled()
    editor.move(private, shelf)

    assert indexnow.settled() == []


def test_hidden_then_moved_before_the_worker_ran_tells_only_what_was_public(
    indexnow: Any, editor: Any, section: Any, site: Any
) -> None:
    forget_history()
    shelf = publish(make_page(site.root_page, "shelf"))
    editor.restrict(section)
    editor.move(section, shelf)

    assert indexnow.settled() == sorted([*URLS, f"{ROOT}shelf/"])
    assert not TrackedUrl.objects.filter(url__contains="shelf/section").exists()


def test_deleted_private_section_stays_secret(indexnow: Any, editor: Any, private: Any) -> None:
    editor.delete(private)

    assert indexnow.settled() == []
    assert not TrackedUrl.objects.exists()


def test_deleted_right_after_it_was_hidden_is_told(
    indexnow: Any, editor: Any, section: Any
) -> None:
    forget_history()
    editor.restrict(section)
    editor.delete(section)

    assert indexnow.settled() == URLS


def test_w19_copied_live_section_is_told_once(
    indexnow: Any, editor: Any, section: Any, site: Any
) -> None:
    editor.copy(section, "copy", site.root_page, copy_subpages="on", publish_copies="on")

    assert indexnow.settled() == [url.replace("section", "copy") for url in URLS]
    assert indexnow.settled() == []


def test_w19_copied_as_drafts_tells_nothing(
    indexnow: Any, editor: Any, section: Any, site: Any
) -> None:
    editor.copy(section, "copy", site.root_page, copy_subpages="on")

    assert indexnow.settled() == []


def test_copied_private_section_leaks_nothing(
    indexnow: Any, editor: Any, private: Any, site: Any
) -> None:
    editor.copy(private, "copy", site.root_page, copy_subpages="on", publish_copies="on")

    assert indexnow.settled() == []
    assert not TrackedUrl.objects.exists()


def test_private_section_leaks_nothing_while_it_is_copied(
    indexnow: Any, private: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wagtail copies the restriction last; a large section takes minutes until then."""
    for number in range(5):
        publish(make_page(private, f"page-{number}"))
    assert indexnow.settled() == []
    add_child = Page.add_child

    def slow(self: Any, **kwargs: Any) -> Any:
        added = add_child(self, **kwargs)
        indexnow.travel_to(timezone.now() + timedelta(seconds=50))
        tick(InlineCourier())
        return added

    monkeypatch.setattr(Page, "add_child", slow)
    fresh(private).copy(recursive=True, to=site.root_page, update_attrs={"slug": "copy"})

    assert Page.objects.get(slug="copy").get_view_restrictions().exists()
    assert indexnow.settled(minutes=60) == []
    assert not TrackedUrl.objects.exists()


def test_page_that_is_hidden_while_its_url_waits_is_never_sent(
    indexnow: Any, engine: Any, editor: Any, section: Any
) -> None:
    """The second look right before the POST: the URL may have waited for days."""
    editor.publish(section)
    indexnow.travel_to(timezone.now() + timedelta(seconds=6))
    announce_only()
    PageViewRestriction.objects.bulk_create(
        [PageViewRestriction(page=Page.objects.get(pk=section.pk), restriction_type="login")]
    )

    assert indexnow.settled(minutes=60) == []
    assert TrackedUrl.objects.get(url=SECTION).reason == "not_public_yet"
    # No signal said so: the audit finds it.
    indexnow.audit()
    assert indexnow.settled() == [SECTION, f"{SECTION}one/", f"{SECTION}one/deep/"]
    assert changes()[SECTION] == "removed"


def test_new_page_that_is_hidden_while_its_url_waits_ends_withdrawn(
    indexnow: Any, editor: Any, section: Any, site: Any
) -> None:
    publish(make_page(site.root_page, "secret"))
    indexnow.travel_to(timezone.now() + timedelta(seconds=6))
    announce_only()
    PageViewRestriction.objects.bulk_create(
        [PageViewRestriction(page=named("secret"), restriction_type="login")]
    )

    assert indexnow.settled(minutes=60) == []
    indexnow.audit()
    assert indexnow.settled() == []
    row = TrackedUrl.objects.get(url=f"{ROOT}secret/")
    assert (row.state, row.reason) == ("skipped", "withdrawn")


def test_page_unpublished_while_held_is_withdrawn(
    indexnow: Any, engine: Any, editor: Any, site: Any, clock_at: Any
) -> None:
    engine.answer(Answer(status=429, headers={"Retry-After": "3600"}))
    page = publish(make_page(site.root_page, "news"))
    assert indexnow.settled(minutes=5) == []
    editor.unpublish(page)

    indexnow.settle(minutes=120)
    assert [row.change for row in TrackedUrl.objects.all()] == ["removed"]


def test_w36_b10_page_that_opts_out_of_the_sitemap_is_told_once_each_way(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    page = publish(make_page(site.root_page, "shy", model=HiddenFromSitemapPage, noindex=False))
    assert indexnow.settled() == [f"{ROOT}shy/"]
    later(indexnow)
    publish(page, noindex=True)
    assert indexnow.settled() == [f"{ROOT}shy/"]
    assert changes() == {f"{ROOT}shy/": "updated"}
    later(indexnow)
    publish(page, noindex=True)
    assert indexnow.settled() == []
    publish(page, noindex=False)
    assert indexnow.settled() == [f"{ROOT}shy/"]


def test_b10_page_that_was_never_in_the_sitemap_is_skipped(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    publish(make_page(site.root_page, "shy", model=HiddenFromSitemapPage))

    assert indexnow.settled() == []
    assert Intent.objects.get().reason == "excluded"


def test_page_that_opts_out_by_its_attribute_is_told_once_each_way(
    indexnow: Any, section: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ArticlePage, "indexnow_excluded", True, raising=False)
        publish(section)
        assert indexnow.settled() == [SECTION]
        assert changes()[SECTION] == "updated"
        later(indexnow)
        publish(section)
        assert indexnow.settled() == []
    publish(section)
    assert indexnow.settled() == [SECTION]


def test_excluded_page_that_goes_is_not_told(
    indexnow: Any, editor: Any, site: Any, clock_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArticlePage, "indexnow_excluded", True, raising=False)
    page = publish(make_page(site.root_page, "shy"))
    editor.delete(page)

    assert indexnow.settled() == []
    assert not TrackedUrl.objects.exists()
