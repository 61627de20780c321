"""Alias pages: by policy, and never while their source is under embargo."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from wagtail import VERSION
from wagtail.models import Page

from tests.factories import make_page, publish
from wagtail_indexnow.models import Intent, TrackedUrl
from wagtail_indexnow.relay.dispatch import run_maintenance

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = "https://www.example.com/en/"
ALIAS, SOURCE = f"{ROOT}alias/", f"{ROOT}source/"
T1 = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)


@pytest.fixture
def draft(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "source")


@pytest.fixture
def source(draft: Any, indexnow: Any) -> Any:
    page = publish(draft)
    assert indexnow.settled() == [SOURCE]
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    return page


def make_alias(source: Any) -> Any:
    return source.create_alias(update_slug="alias")


def test_w11_alias_of_a_live_page_is_not_told_by_default(indexnow: Any, source: Any) -> None:
    make_alias(source)
    publish(source)
    run_maintenance()

    assert indexnow.settled() == [SOURCE]
    run_maintenance()
    assert not TrackedUrl.objects.filter(url=ALIAS).exists()


def test_w11_alias_of_a_live_page_is_told_if_the_site_wants_it(indexnow: Any, source: Any) -> None:
    indexnow.configure(ALIASES=True)
    make_alias(source)

    assert indexnow.settled() == [ALIAS]


@pytest.mark.skipif(VERSION < (7, 4, 3), reason="until then Wagtail left an alias its old time")
def test_refreshed_alias_is_told_if_the_site_wants_it(indexnow: Any, source: Any) -> None:
    indexnow.configure(ALIASES=True)
    make_alias(source)
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    publish(source)

    assert indexnow.settled() == [ALIAS, SOURCE]


def test_w12_live_alias_without_publishing_time_is_told_without_fault(
    indexnow: Any, source: Any
) -> None:
    indexnow.configure(ALIASES=True)
    alias = make_alias(source)
    Page.objects.filter(pk=alias.pk).update(last_published_at=None, first_published_at=None)

    assert indexnow.settled() == [ALIAS]
    assert not Intent.objects.filter(state="failed").exists()


@pytest.mark.parametrize("aliases", [False, True], ids=["default", "aliases"])
def test_w10_alias_of_a_scheduled_draft_is_under_embargo(
    aliases: bool, indexnow: Any, draft: Any
) -> None:
    indexnow.configure(ALIASES=aliases)
    alias = make_alias(draft)
    page = Page.objects.get(pk=draft.pk).get_latest_revision_as_object()
    page.go_live_at = T1
    page.save_revision().publish()

    assert Page.objects.get(pk=alias.pk).live
    assert indexnow.settled() == []
    indexnow.travel_to(T1 + timedelta(seconds=20))
    call_command("publish_scheduled")
    assert indexnow.settled() == ([ALIAS, SOURCE] if aliases else [SOURCE])


def test_alias_of_a_private_source_is_not_told(indexnow: Any, editor: Any, source: Any) -> None:
    """It answers with its source's login form."""
    indexnow.configure(ALIASES=True)
    editor.restrict(source)
    assert indexnow.settled() == [SOURCE]
    make_alias(source)

    assert indexnow.settled() == []
    assert Intent.objects.latest("pk").reason == "private"


def test_hidden_source_hides_its_alias(indexnow: Any, editor: Any, source: Any) -> None:
    indexnow.configure(ALIASES=True)
    make_alias(source)
    assert indexnow.settled() == [ALIAS]
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    editor.restrict(source)

    assert indexnow.settled() == [ALIAS, SOURCE]
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    editor.restrict(source, "none")
    assert indexnow.settled() == [ALIAS, SOURCE]


def test_unpublished_source_takes_its_alias_along(indexnow: Any, editor: Any, source: Any) -> None:
    indexnow.configure(ALIASES=True)
    make_alias(source)
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    editor.unpublish(source)

    assert indexnow.settled() == [ALIAS, SOURCE]


def test_converted_alias_is_a_page_of_its_own(indexnow: Any, editor: Any, source: Any) -> None:
    alias = make_alias(source)
    assert indexnow.settled() == []
    editor.do("convert_alias", alias)
    indexnow.settle()
    publish(Page.objects.get(pk=alias.pk).specific)

    assert ALIAS in indexnow.settled()


def test_excluded_alias_that_moves_or_goes_is_not_told(
    indexnow: Any, editor: Any, source: Any
) -> None:
    alias = make_alias(source)
    alias.slug = "other"
    alias.save()
    editor.delete(alias)

    assert indexnow.settled() == []
    assert not TrackedUrl.objects.exclude(url=SOURCE).exists()
