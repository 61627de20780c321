"""Pages that go offline: engines hear of the URLs that were public, once, after the commit."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction
from django.utils import timezone
from wagtail.models import Page, Site

from tests.factories import make_page, make_site, publish
from tests.testapp.models import ArticlePage
from wagtail_indexnow.models import Intent, Submission, TrackedUrl
from wagtail_indexnow.pages import audits

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = "https://www.example.com/en/"
SECTION = f"{ROOT}section/"
T1 = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)


@pytest.fixture
def section(site: Any, clock_at: Any, indexnow: Any) -> Any:
    """A live section with two live children and a draft, as engines know it."""
    section = publish(make_page(site.root_page, "section"))
    for slug in ("one", "two"):
        publish(make_page(section, slug))
    make_page(section, "draft").save_revision()
    assert indexnow.settled() == [SECTION, f"{SECTION}one/", f"{SECTION}two/"]
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    return section


def child(section: Any, slug: str) -> Any:
    return Page.objects.get(pk=section.pk).get_children().get(slug=slug).specific


def unpublished(indexnow: Any) -> set[str]:
    """Work, and return what engines were told is gone."""
    told = indexnow.settled()
    changes = dict(TrackedUrl.objects.values_list("url", "change"))
    assert {changes[url] for url in told} <= {"removed"}
    assert len(told) == len(set(told))
    return set(told)


def test_b03_unpublished_page_is_told_once(indexnow: Any, editor: Any, section: Any) -> None:
    editor.unpublish(child(section, "one"))

    assert unpublished(indexnow) == {f"{SECTION}one/"}
    assert indexnow.settled() == []


def test_unpublish_without_descendants_leaves_them(
    indexnow: Any, editor: Any, section: Any
) -> None:
    editor.unpublish(section)

    assert unpublished(indexnow) == {SECTION}


def test_unpublish_with_descendants_leaves_locked_ones(
    indexnow: Any, editor: Any, section: Any
) -> None:
    editor.publish(child(section, "two"), go_live_at=T1)
    editor.unpublish(section, with_descendants=True)

    assert unpublished(indexnow) == {SECTION, f"{SECTION}one/"}


def test_expiry_is_told(indexnow: Any, editor: Any, section: Any) -> None:
    editor.publish(child(section, "one"), expire_at=T1)
    assert indexnow.settled() == [f"{SECTION}one/"]
    indexnow.travel_to(T1 + timedelta(seconds=30))
    call_command("publish_scheduled")

    assert unpublished(indexnow) == {f"{SECTION}one/"}


def test_b02_deleted_page_is_told_once(indexnow: Any, editor: Any, section: Any) -> None:
    editor.delete(child(section, "one"))

    assert unpublished(indexnow) == {f"{SECTION}one/"}
    indexnow.travel_to(timezone.now() + timedelta(days=1))
    assert indexnow.settled() == []


def test_w13_deleted_section_tells_every_former_url_in_one_batch(
    indexnow: Any, editor: Any, section: Any
) -> None:
    for number in range(10):
        publish(make_page(section, f"page-{number}"))
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    before = Submission.objects.count()
    editor.delete(section)

    expected = {SECTION, f"{SECTION}one/", f"{SECTION}two/"}
    expected |= {f"{SECTION}page-{number}/" for number in range(10)}
    assert unpublished(indexnow) == expected
    assert Submission.objects.count() == before + 1


def test_deleted_before_any_engine_knew_it_is_told_as_it_was_public(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    """A site with pages that are older than this app, as its first audit recorded them."""
    old = make_page(
        site.root_page,
        "old",
        live=True,
        first_published_at=timezone.now() - timedelta(days=400),
        last_published_at=timezone.now() - timedelta(days=400),
    )
    audits.record([old.pk])
    old.delete()

    assert unpublished(indexnow) == {f"{ROOT}old/"}


def test_deleted_draft_is_not_told(indexnow: Any, editor: Any, section: Any) -> None:
    editor.delete(child(section, "draft"))

    assert indexnow.settled() == []


def test_delete_by_queryset_is_told(indexnow: Any, section: Any) -> None:
    ArticlePage.objects.filter(pk=section.pk).delete()

    assert unpublished(indexnow) == {SECTION, f"{SECTION}one/", f"{SECTION}two/"}


def test_rolled_back_delete_is_not_told(indexnow: Any, section: Any) -> None:
    with transaction.atomic():
        section.delete()
        transaction.set_rollback(True)

    assert indexnow.settled() == []


def test_deleted_site_root_tells_what_it_was_called(indexnow: Any, clock_at: Any) -> None:
    make_site()
    second = make_site("second.example.com")
    home = publish(second.root_page)
    publish(make_page(home, "news"))
    urls = ["https://second.example.com/en/", "https://second.example.com/en/news/"]
    assert indexnow.settled() == urls
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    home.delete()

    assert not Site.objects.filter(pk=second.pk).exists()
    assert unpublished(indexnow) == set(urls)


def test_private_page_that_is_deleted_is_not_told(
    indexnow: Any, editor: Any, site: Any, clock_at: Any
) -> None:
    page = make_page(site.root_page, "secret")
    editor.restrict(page)
    page = publish(page)
    assert indexnow.settled() == []
    editor.delete(page)

    assert indexnow.settled() == []
    assert not TrackedUrl.objects.exists()


def test_deleted_source_takes_its_alias_along(indexnow: Any, editor: Any, section: Any) -> None:
    indexnow.configure(ALIASES=True)
    source = child(section, "one")
    source.create_alias(parent=section, update_slug="alias")
    assert indexnow.settled() == [f"{SECTION}alias/"]
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    editor.delete(source)

    assert unpublished(indexnow) == {f"{SECTION}one/", f"{SECTION}alias/"}


def test_alias_that_was_never_told_is_not_told_when_its_source_goes(
    indexnow: Any, editor: Any, section: Any
) -> None:
    source = child(section, "one")
    source.create_alias(parent=section, update_slug="alias")
    editor.delete(source)

    assert unpublished(indexnow) == {f"{SECTION}one/"}


@pytest.mark.parametrize("door", ["editor", "api"])
def test_live_page_without_live_revision_that_scheduling_takes_offline_is_told(
    door: str, indexnow: Any, editor: Any, section: Any
) -> None:
    Page.objects.filter(pk=section.pk).update(live_revision=None)
    if door == "editor":
        editor.publish(section, go_live_at=T1)
    else:
        page = ArticlePage.objects.get(pk=section.pk)
        page.go_live_at = T1
        page.save_revision().publish()

    assert not Page.objects.get(pk=section.pk).live
    assert unpublished(indexnow) == {SECTION}
    indexnow.travel_to(T1 + timedelta(seconds=30))
    call_command("publish_scheduled")
    assert indexnow.settled() == [SECTION]


def test_imported_live_page_that_scheduling_takes_offline_is_told(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    long_ago = timezone.now() - timedelta(days=400)
    page = make_page(
        site.root_page, "old", live=True, first_published_at=long_ago, last_published_at=long_ago
    )
    audits.record([page.pk])
    page.go_live_at = T1
    page.save_revision().publish()

    assert unpublished(indexnow) == {f"{ROOT}old/"}


def test_created_and_scheduled_in_one_click_is_never_told_as_removed(
    indexnow: Any, editor: Any, site: Any, clock_at: Any
) -> None:
    """Wagtail commits such a page as live for a moment."""
    editor.create(site.root_page, "soon", go_live_at=T1, publish=True)

    assert indexnow.settled() == []
    assert not TrackedUrl.objects.exists()


def test_w20_bulk_unpublish_is_told(indexnow: Any, editor: Any, section: Any) -> None:
    editor.bulk("unpublish", [child(section, "one"), child(section, "two")])

    assert unpublished(indexnow) == {f"{SECTION}one/", f"{SECTION}two/"}


def test_w20_bulk_delete_is_told(indexnow: Any, editor: Any, section: Any) -> None:
    editor.bulk("delete", [section])

    assert unpublished(indexnow) == {SECTION, f"{SECTION}one/", f"{SECTION}two/"}


def test_unpublished_and_published_again_before_the_worker_ran_is_told_as_updated(
    indexnow: Any, editor: Any, section: Any
) -> None:
    editor.unpublish(section)
    editor.publish(section)

    assert indexnow.settled() == [SECTION]
    assert TrackedUrl.objects.get(url=SECTION).change == "updated"


def test_published_and_unpublished_before_the_worker_ran_is_not_told(
    indexnow: Any, editor: Any, site: Any, clock_at: Any
) -> None:
    page = publish(make_page(site.root_page, "oops"))
    editor.unpublish(page)

    assert indexnow.settled() == []
    assert not TrackedUrl.objects.exists()


def test_deleted_page_whose_address_another_took_is_told_as_that_pages_own(
    indexnow: Any, editor: Any, section: Any
) -> None:
    editor.delete(child(section, "one"))
    publish(make_page(section, "one"))

    assert indexnow.settled() == [f"{SECTION}one/"]
    row = TrackedUrl.objects.get(url=f"{SECTION}one/")
    assert row.change != "removed"
    assert row.page_id == child(section, "one").pk


def test_removal_intents_end(indexnow: Any, editor: Any, section: Any) -> None:
    editor.delete(section)
    indexnow.settle()

    assert not Intent.objects.planned().exists()
