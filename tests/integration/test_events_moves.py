"""Moved and renamed sections: old and new URL of every page that is or was public."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from wagtail.models import Page, Site

from tests.factories import make_page, make_site, publish
from tests.testapp.models import ListedUrlsPage, OwnUrlPage
from wagtail_indexnow.models import Intent, TrackedUrl
from wagtail_indexnow.pages import audits

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = "https://www.example.com/en/"
PAGES = ("", "one/", "one/deep/", "two/")


@pytest.fixture
def section(site: Any, clock_at: Any, indexnow: Any) -> Any:
    """A live section, three pages below it, and a draft; nearby a live `shelf`."""
    section = publish(make_page(site.root_page, "section"))
    one = publish(make_page(section, "one"))
    publish(make_page(one, "deep"))
    publish(make_page(section, "two"))
    make_page(section, "draft").save_revision()
    publish(make_page(site.root_page, "shelf"))
    assert indexnow.settled() == sorted([*urls("section"), f"{ROOT}shelf/"])
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    return section


def urls(*sections: str, root: str = ROOT) -> list[str]:
    return sorted(f"{root}{section}/{page}" for section in sections for page in PAGES)


def fresh(page: Any) -> Any:
    return type(page).objects.get(pk=page.pk)


def named(slug: str) -> Any:
    return Page.objects.get(slug=slug).specific


def changes() -> dict[str, str]:
    return dict(TrackedUrl.objects.values_list("url", "change"))


def by_view(editor: Any, page: Any, target: Any) -> None:
    editor.move(page, target)


def by_bulk(editor: Any, page: Any, target: Any) -> None:
    editor.bulk("move", [page], chooser=target.pk)


def by_api(editor: Any, page: Any, target: Any) -> None:
    fresh(page).move(Page.objects.get(pk=target.pk), pos="last-child")


def by_base_class(editor: Any, page: Any, target: Any) -> None:
    Page.objects.get(pk=page.pk).move(Page.objects.get(pk=target.pk), pos="last-child")


@pytest.mark.parametrize("move", [by_view, by_bulk, by_api, by_base_class])
def test_w15_moved_section_tells_old_and_new_urls(
    move: Callable[[Any, Any, Any], None], indexnow: Any, editor: Any, section: Any
) -> None:
    move(editor, section, named("shelf"))

    assert indexnow.settled() == urls("section", "shelf/section")
    assert {changes()[url] for url in urls("section")} == {"removed"}
    assert {changes()[url] for url in urls("shelf/section")} == {"added"}
    assert indexnow.settled() == []


def test_section_older_than_the_app_tells_old_and_new_urls(indexnow: Any, section: Any) -> None:
    TrackedUrl.objects.all().delete()
    Intent.objects.all().delete()
    section.move(named("shelf"), pos="last-child")

    assert indexnow.settled() == urls("section", "shelf/section")


def test_w16_reordered_page_tells_nothing(indexnow: Any, section: Any) -> None:
    named("two").move(named("one"), pos="left")

    assert indexnow.settled() == []
    assert not Intent.objects.planned().exists()
    assert not Intent.objects.filter(kind="move").exists()


def test_w17_renamed_and_published_section_tells_each_url_once(
    indexnow: Any, editor: Any, section: Any
) -> None:
    editor.publish(section, slug="chapter")

    assert indexnow.settled() == urls("section", "chapter")
    assert indexnow.settled(minutes=120) == []


def test_w17_renamed_inside_a_transaction_tells_each_url_once(indexnow: Any, section: Any) -> None:
    with transaction.atomic():
        publish(section, slug="chapter")

    assert indexnow.settled() == urls("section", "chapter")
    assert indexnow.settled(minutes=120) == []


def test_renamed_by_save_alone_tells_old_and_new_urls(indexnow: Any, section: Any) -> None:
    section.slug = "chapter"
    section.save()

    assert indexnow.settled() == urls("section", "chapter")


def test_w18_moved_or_renamed_draft_tells_nothing(indexnow: Any, editor: Any, section: Any) -> None:
    draft = named("draft")
    editor.move(draft, named("shelf"))
    editor.edit(draft, slug="sketch")

    assert indexnow.settled() == []


def test_w18_draft_slug_of_a_live_page_tells_nothing(
    indexnow: Any, editor: Any, section: Any
) -> None:
    editor.edit(section, slug="chapter")

    assert indexnow.settled() == []


def test_renamed_site_root_tells_nothing_new(indexnow: Any, section: Any, site: Any) -> None:
    home = fresh(site.root_page)
    home.slug = "start"
    home.save()

    assert indexnow.settled() == []


def test_rolled_back_move_tells_nothing(indexnow: Any, section: Any) -> None:
    with transaction.atomic():
        section.move(named("shelf"), pos="last-child")
        transaction.set_rollback(True)

    assert indexnow.settled() == []


def test_moved_to_another_site_tells_both_hosts(indexnow: Any, section: Any) -> None:
    other = make_site("second.example.com")
    section.move(other.root_page, pos="last-child")

    expected = urls("section") + urls("section", root="https://second.example.com/en/")
    assert indexnow.settled() == sorted(expected)


def test_moved_out_of_every_site_tells_what_it_was_called(indexnow: Any, section: Any) -> None:
    section.move(Page.get_first_root_node(), pos="last-child")

    assert indexnow.settled() == urls("section")
    assert {changes()[url] for url in urls("section")} == {"removed"}


def test_old_section_moved_out_of_every_site_tells_what_it_was_called(
    indexnow: Any, section: Any
) -> None:
    TrackedUrl.objects.all().delete()
    section.move(Page.get_first_root_node(), pos="last-child")

    assert indexnow.settled() == urls("section")


def test_moved_back_into_a_site_tells_what_it_is_called(indexnow: Any, section: Any) -> None:
    section.move(Page.get_first_root_node(), pos="last-child")
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    fresh(section).move(named("shelf"), pos="last-child")

    assert indexnow.settled() == urls("shelf/section")


@pytest.mark.parametrize("is_old", [False, True], ids=["tracked", "older_than_the_app"])
def test_two_moves_before_the_worker_runs_tell_the_first_and_the_last_address(
    is_old: bool, indexnow: Any, section: Any
) -> None:
    """The middle one was public for a moment between two checks: engines never heard of it."""
    if is_old:
        TrackedUrl.objects.all().delete()
        Intent.objects.all().delete()
    section.move(named("shelf"), pos="last-child")
    section = fresh(section)
    section.slug = "chapter"
    section.save()

    assert indexnow.settled() == urls("section", "shelf/chapter")
    public = {url for url, change in changes().items() if change != "removed"}
    assert public >= set(urls("shelf/chapter"))
    assert not public & set(urls("section"))


def test_moved_away_and_back_before_the_worker_runs_leaves_its_urls_public(
    indexnow: Any, section: Any, site: Any
) -> None:
    section.move(named("shelf"), pos="last-child")
    fresh(section).move(fresh(site.root_page), pos="last-child")

    assert indexnow.settled() == []
    assert "removed" not in changes().values()


@pytest.mark.parametrize("is_old", [False, True], ids=["tracked", "older_than_the_app"])
def test_child_deleted_after_the_move_tells_the_address_that_engines_know(
    is_old: bool, indexnow: Any, section: Any
) -> None:
    if is_old:
        TrackedUrl.objects.all().delete()
        Intent.objects.all().delete()
    section.move(named("shelf"), pos="last-child")
    named("two").delete()

    expected = {*urls("section", "shelf/section")} - {f"{ROOT}shelf/section/two/"}
    assert indexnow.settled() == sorted(expected)
    assert changes()[f"{ROOT}section/two/"] == "removed"


@pytest.mark.parametrize("is_old", [False, True], ids=["tracked", "older_than_the_app"])
def test_child_moved_after_its_section_tells_its_first_and_its_last_address(
    is_old: bool, indexnow: Any, section: Any, site: Any
) -> None:
    if is_old:
        TrackedUrl.objects.all().delete()
        Intent.objects.all().delete()
    section.move(named("shelf"), pos="last-child")
    named("two").move(fresh(site.root_page), pos="last-child")

    told = indexnow.settled()
    expected = {*urls("section", "shelf/section"), f"{ROOT}two/"}
    assert told == sorted(expected - {f"{ROOT}shelf/section/two/"})
    assert changes()[f"{ROOT}section/two/"] == "removed"


@pytest.mark.parametrize("is_old", [False, True], ids=["tracked", "older_than_the_app"])
def test_live_children_of_an_unpublished_top_are_told(
    is_old: bool, indexnow: Any, editor: Any, section: Any
) -> None:
    editor.unpublish(section)
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    if is_old:
        TrackedUrl.objects.all().delete()
        Intent.objects.all().delete()
    fresh(section).move(named("shelf"), pos="last-child")

    below = [f"{ROOT}{top}/{page}" for top in ("section", "shelf/section") for page in PAGES[1:]]
    assert indexnow.settled() == sorted(below)


def test_child_published_after_the_move_has_only_its_new_url(indexnow: Any, section: Any) -> None:
    section.move(named("shelf"), pos="last-child")
    indexnow.travel_to(timezone.now() + timedelta(seconds=1))
    publish(named("draft"))

    told = indexnow.settled()
    assert f"{ROOT}shelf/section/draft/" in told
    assert f"{ROOT}section/draft/" not in told


def test_new_page_in_a_section_that_then_moved_is_told_at_its_address(
    indexnow: Any, section: Any
) -> None:
    publish(make_page(section, "fresh"))
    fresh(section).move(named("shelf"), pos="last-child")

    told = indexnow.settled()
    assert f"{ROOT}shelf/section/fresh/" in told
    assert told.count(f"{ROOT}shelf/section/fresh/") == 1


def test_nested_site_root_keeps_its_own_address(indexnow: Any, section: Any) -> None:
    Site.objects.create(hostname="one.example.com", port=443, root_page=named("one"))
    publish(named("one"))
    publish(named("deep"))
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    fresh(section).move(named("shelf"), pos="last-child")

    moved = [f"{ROOT}{top}/{page}" for top in ("section", "shelf/section") for page in ("", "two/")]
    assert indexnow.settled() == sorted(moved)
    assert changes()["https://one.example.com/en/deep/"] != "removed"


def test_nested_site_root_keeps_its_address_though_its_section_leaves_every_site(
    indexnow: Any, section: Any
) -> None:
    Site.objects.create(hostname="one.example.com", port=443, root_page=named("one"))
    audits.record()
    section.move(Page.get_first_root_node(), pos="last-child")

    assert indexnow.settled() == [f"{ROOT}section/", f"{ROOT}section/two/"]


def test_hidden_after_its_section_moved_keeps_what_was_never_public_secret(
    indexnow: Any, editor: Any, section: Any
) -> None:
    """Below a private page nothing was public under the section's former address either."""
    editor.restrict(named("one"))
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    section.move(named("shelf"), pos="last-child")
    named("deep").delete()

    told = indexnow.settled()
    assert told == sorted(
        f"{ROOT}{top}/{page}" for top in ("section", "shelf/section") for page in ("", "two/")
    )


def test_own_url_types_below_a_moved_top_are_told_only_if_they_changed(
    indexnow: Any, section: Any
) -> None:
    publish(make_page(section, "fixed", model=OwnUrlPage, address="fixed"))
    publish(make_page(section, "listed", model=ListedUrlsPage, listed=[f"{ROOT}listed/"]))
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    fresh(section).move(named("shelf"), pos="last-child")

    assert indexnow.settled() == urls("section", "shelf/section")
    assert changes()[f"{ROOT}listed/"] != "removed"
    assert changes()["https://www.example.com/own/fixed/"] != "removed"


def test_own_url_type_whose_address_follows_its_parent_is_remembered(
    indexnow: Any, section: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_indexnow_urls(self: Any) -> list[str]:
        return [f"{ROOT}of-{self.get_parent().get_parent().slug}/"]

    monkeypatch.setattr(ListedUrlsPage, "get_indexnow_urls", get_indexnow_urls)
    publish(make_page(named("one"), "listed", model=ListedUrlsPage, listed=["unused"]))
    assert indexnow.settled() == [f"{ROOT}of-section/"]
    TrackedUrl.objects.all().delete()
    Intent.objects.all().delete()
    named("one").move(named("shelf"), pos="last-child")

    told = indexnow.settled()
    assert f"{ROOT}of-section/" in told
    assert f"{ROOT}of-shelf/" in told
    assert changes()[f"{ROOT}of-section/"] == "removed"


def test_moved_under_a_private_parent_tells_only_old_urls(
    indexnow: Any, editor: Any, section: Any
) -> None:
    editor.restrict(named("shelf"))
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    editor.move(section, named("shelf"))

    assert indexnow.settled() == urls("section")
    assert not TrackedUrl.objects.filter(url__contains="shelf/section").exists()


def test_moved_below_a_page_that_took_a_former_address_is_that_pages_own(
    indexnow: Any, section: Any
) -> None:
    """A former URL that by now belongs to another page is not announced as removed."""
    section.move(named("shelf"), pos="last-child")
    publish(make_page(Page.objects.get(slug="home-www"), "section"))
    indexnow.settle()

    row = TrackedUrl.objects.get(url=f"{ROOT}section/")
    assert row.change != "removed"
    assert row.page_id == Page.objects.get(slug="section", depth=3).pk


def test_two_pages_that_swapped_addresses_are_both_public(indexnow: Any, section: Any) -> None:
    shelf = named("shelf")
    for page, slug in ((section, "swap"), (shelf, "section"), (section, "shelf")):
        page = fresh(page)
        page.slug = slug
        page.save()
    indexnow.settle()

    owners = dict(TrackedUrl.objects.exclude(change="removed").values_list("url", "page_id"))
    assert owners[f"{ROOT}section/"] == shelf.pk
    assert owners[f"{ROOT}shelf/"] == section.pk
    assert owners[f"{ROOT}shelf/two/"] == named("two").pk
    assert f"{ROOT}section/two/" not in owners
