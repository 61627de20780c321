"""Faults of a page, of the ledger and of our own code: what they cost, and what they never do."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.models import F
from django.utils import timezone
from wagtail.models import Page

from tests.factories import make_page, publish
from tests.testapp.models import ArticlePage, BrokenPage, ListedUrlsPage
from wagtail_indexnow import signal_handlers
from wagtail_indexnow.ledger import intents
from wagtail_indexnow.models import Intent, TrackedUrl
from wagtail_indexnow.pages import public_urls
from wagtail_indexnow.pages.announcing import announce_intents as announce
from wagtail_indexnow.payloads import IntentRef
from wagtail_indexnow.relay.dispatch import tick
from wagtail_indexnow.relay.senders import InlineCourier

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = "https://www.example.com/en/"
NEWS, BROKEN = f"{ROOT}news/", f"{ROOT}broken/"
T1 = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


def make_broken(site: Any, **fields: Any) -> Any:
    return make_page(site.root_page, "broken", model=BrokenPage, **fields)


def refs() -> list[IntentRef]:
    return [IntentRef(key=row.key, page_id=row.page_id) for row in Intent.objects.planned()]


def test_broken_page_is_tried_again_at_exact_times_and_then_fails(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    publish(make_broken(site))
    row = Intent.objects.get()
    indexnow.travel_to(row.run_at)
    for attempt, seconds in enumerate([60, 300, 900, 3600, 3600], start=1):
        tried_at = timezone.now()
        tick(InlineCourier())
        row.refresh_from_db()
        assert (row.state, row.reason, row.attempts) == ("planned", "page_error", attempt)
        assert row.run_at == tried_at + timedelta(seconds=seconds)
        assert row.error == "RuntimeError: this page is broken"
        indexnow.travel_to(row.run_at)

    indexnow.travel_to(row.created_at + timedelta(days=7))
    tick(InlineCourier())
    row.refresh_from_db()
    assert (row.state, row.reason, row.run_at) == ("failed", "page_error", None)
    assert row.error == "RuntimeError: this page is broken"


def test_broken_page_never_touches_the_rest_of_its_batch(
    indexnow: Any, site: Any, news: Any
) -> None:
    with transaction.atomic():
        publish(make_broken(site))
        publish(news)

    assert indexnow.settled(minutes=1) == [NEWS]
    assert {row.state for row in Intent.objects.all()} == {"planned", "announced"}


def test_mended_page_is_told_at_the_next_try(indexnow: Any, site: Any, clock_at: Any) -> None:
    page = publish(make_broken(site))
    assert indexnow.settled(minutes=2) == []
    BrokenPage.objects.filter(pk=page.pk).update(broken=False)

    assert indexnow.settled(minutes=30) == [BROKEN]


def test_broken_pages_known_url_stays_as_it_is(indexnow: Any, site: Any, clock_at: Any) -> None:
    page = publish(make_broken(site, broken=False))
    assert indexnow.settled() == [BROKEN]
    publish(page, broken=True)

    assert indexnow.settled(minutes=60) == []
    assert TrackedUrl.objects.get().change == "added"


def test_broken_page_within_a_moved_section_is_tried_alone(
    indexnow: Any, site: Any, news: Any
) -> None:
    section = publish(make_page(site.root_page, "section"))
    broken = publish(make_page(section, "broken", model=BrokenPage, broken=False))
    publish(make_page(section, "fine"))
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    BrokenPage.objects.update(broken=True)
    Page.objects.get(pk=section.pk).move(Page.objects.get(pk=news.pk), pos="last-child")

    told = indexnow.settled(minutes=3)
    assert f"{ROOT}news/section/fine/" in told
    assert not any("broken" in url for url in told)
    BrokenPage.objects.update(broken=False)
    told = indexnow.settled(minutes=60)
    assert told == [f"{ROOT}news/section/broken/", f"{ROOT}section/broken/"]
    assert not Intent.objects.planned().filter(page_id=broken.pk).exists()


def test_broken_page_within_a_section_survives_a_row_that_cannot_be_written(
    indexnow: Any, site: Any, news: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = publish(make_page(site.root_page, "section"))
    publish(make_page(section, "broken", model=BrokenPage, broken=False))
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    BrokenPage.objects.update(broken=True)
    Page.objects.get(pk=section.pk).move(Page.objects.get(pk=news.pk), pos="last-child")

    def failing(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("gone away")

    with monkeypatch.context() as patched:
        patched.setattr(intents, "insert", failing)
        assert indexnow.settled(minutes=0.5) == []
    BrokenPage.objects.update(broken=False)

    told = indexnow.settled(minutes=60)
    assert f"{ROOT}news/section/broken/" in told
    assert f"{ROOT}section/broken/" in told


def test_broken_own_url_type_within_a_moved_section_keeps_its_former_url(
    indexnow: Any, site: Any, news: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = publish(make_page(site.root_page, "section"))
    publish(make_page(section, "listed", model=ListedUrlsPage, listed=[f"{ROOT}listed/"]))
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    Page.objects.get(pk=section.pk).move(Page.objects.get(pk=news.pk), pos="last-child")

    def broken(self: Any) -> list[str]:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(ListedUrlsPage, "get_indexnow_urls", broken)
        told = indexnow.settled(minutes=1)
    assert told == [f"{ROOT}news/section/", f"{ROOT}section/"]
    assert TrackedUrl.objects.get(url=f"{ROOT}listed/").change == "added"
    assert indexnow.settled(minutes=60) == []


def test_broken_page_that_is_deleted_tells_its_known_url(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    page = publish(make_broken(site, broken=False))
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    BrokenPage.objects.update(broken=True)
    BrokenPage.objects.get(pk=page.pk).delete()

    assert indexnow.settled() == [BROKEN]


def test_broken_translation_does_not_hold_up_the_page_that_changed(
    indexnow: Any, site: Any, news: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wagtail.models import Locale

    french = Locale.objects.create(language_code="fr")
    site.root_page.copy_for_translation(french)
    page = publish(make_broken(site, broken=False))
    draft = page.copy_for_translation(french)
    publish(draft, broken=True)
    indexnow.settle(minutes=1)
    indexnow.told()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    BrokenPage.objects.get(pk=page.pk).unpublish()

    assert indexnow.settled(minutes=1) == [BROKEN]


def test_url_method_that_gives_nonsense_is_a_fault_of_its_page_alone(
    indexnow: Any, site: Any, news: Any
) -> None:
    publish(make_page(site.root_page, "listed", model=ListedUrlsPage, listed=[7, {}]))
    publish(news)

    assert indexnow.settled(minutes=1) == [NEWS]
    row = Intent.objects.planned().get()
    assert row.reason == "page_error"


def test_database_fault_costs_no_attempt(
    indexnow: Any, news: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(news)
    indexnow.travel_to(timezone.now() + timedelta(seconds=6))

    def refused() -> None:
        raise OperationalError("the server is not there")

    with monkeypatch.context() as patched:

        def away(*args: Any, **kwargs: Any) -> Any:
            connection.close()
            patched.setattr(connection, "connect", refused)
            raise DatabaseError("server closed the connection")

        patched.setattr(public_urls.Routing, "public_urls", away)
        with pytest.raises(DatabaseError):
            announce(refs())
    row = Intent.objects.get()
    assert (row.state, row.attempts, row.reason) == ("planned", 0, "")
    assert indexnow.settled() == [NEWS]


def test_row_that_was_released_while_it_was_worked_on_is_not_ended(
    indexnow: Any, news: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker computes on an old row; whoever raised `version` meanwhile wins."""
    publish(news)
    indexnow.travel_to(timezone.now() + timedelta(seconds=6))
    read = public_urls.Routing.public_urls

    def overtaken(self: Any, page: Any) -> Any:
        Intent.objects.update(version=F("version") + 1)
        return read(self, page)

    with monkeypatch.context() as patched:
        patched.setattr(public_urls.Routing, "public_urls", overtaken)
        announce(refs())

    assert Intent.objects.get().state == "planned"
    assert not TrackedUrl.objects.exists()
    assert indexnow.settled() == [NEWS]


def test_row_that_is_not_due_yet_is_left(indexnow: Any, news: Any) -> None:
    publish(news)
    announce(refs())

    assert Intent.objects.get().state == "planned"
    assert not TrackedUrl.objects.exists()


def test_same_message_twice_tells_once(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.travel_to(timezone.now() + timedelta(seconds=6))
    message = refs()
    announce(message)
    announce(message)

    assert indexnow.settled() == [NEWS]
    assert TrackedUrl.objects.get().version == 1


@pytest.mark.parametrize("where", ["handler", "plan"])
def test_our_own_fault_never_reaches_the_editor(
    where: str, indexnow: Any, editor: Any, news: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = publish(news)
    indexnow.settled()
    indexnow.travel_to(timezone.now() + timedelta(hours=1))

    def failing(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("a fault of ours")

    with monkeypatch.context() as patched:
        if where == "handler":
            for verb in ("plan", "plan_publish", "plan_go_live"):
                patched.setattr(intents, verb, failing)
        else:
            patched.setattr(intents, "_new", failing)
        editor.publish(page, slug="other")
        editor.restrict(page)
        editor.restrict(page, "none")
        editor.move(page, make_page(page.get_parent(), "shelf"))
        editor.unpublish(page)
        editor.delete(page)

    assert not Page.objects.filter(pk=news.pk).exists()


@pytest.fixture
def no_ledger() -> Any:
    """Take the ledger's table away for a while, as before the first migrate."""
    name = connection.ops.quote_name

    def rename(old: str, new: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {name(old)} RENAME TO {name(new)}")

    table = Intent._meta.db_table
    rename(table, f"{table}_away")
    yield
    rename(f"{table}_away", table)


def change_everything(page: Any) -> None:
    page = publish(page)
    page.go_live_at = T1
    page.save_revision().publish()
    page = ArticlePage.objects.get(pk=page.pk)
    page.slug = "other"
    page.save()
    page.view_restrictions.create(restriction_type="login").delete()
    page.move(make_page(page.get_parent(), "shelf"), pos="last-child")
    page = ArticlePage.objects.get(pk=page.pk)
    page.unpublish()
    publish(page)


@pytest.mark.parametrize("is_atomic", [False, True], ids=["autocommit", "open_transaction"])
def test_missing_ledger_table_costs_the_row_and_never_the_publish(
    is_atomic: bool, indexnow: Any, news: Any, no_ledger: Any
) -> None:
    """PostgreSQL refuses everything after a failed statement, but for our savepoint."""
    if is_atomic:
        with transaction.atomic():
            change_everything(news)
    else:
        change_everything(news)

    page = Page.objects.get(pk=news.pk)
    assert page.live
    assert page.slug == "other"


def test_missing_ledger_table_does_not_stop_publish_scheduled(
    indexnow: Any, news: Any, no_ledger: Any
) -> None:
    other = make_page(news.get_parent(), "other")
    for page in (news, other):
        page.go_live_at = T1
        page.save_revision().publish()
    indexnow.travel_to(T1 + timedelta(minutes=1))
    call_command("publish_scheduled")

    assert Page.objects.filter(slug__in=["news", "other"], live=True).count() == 2


def test_r12_what_a_missing_ledger_cost_is_found_by_the_audit(indexnow: Any, news: Any) -> None:
    indexnow.audit()
    Intent.objects.all().delete()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(intents, "_new", lambda *args, **kwargs: 1 / 0)
        publish(news)
    assert not Intent.objects.exists()

    indexnow.audit()

    assert indexnow.settled() == [NEWS]


def test_handlers_ignore_fixtures_that_are_loaded_raw(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    page = publish(make_page(site.root_page, "news"))
    revision = page.save_revision(approved_go_live_at=T1)
    restriction = page.view_restrictions.create(restriction_type="login")
    Intent.objects.all().delete()
    signal_handlers.on_revision_saved(type(revision), revision, raw=True)
    signal_handlers.on_restriction_saved(type(restriction), restriction, created=True, raw=True)
    signal_handlers.on_alias_created(type(page), page, created=True, raw=True)

    assert not Intent.objects.exists()


def test_revisions_of_snippets_are_none_of_our_business(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    from django.contrib.contenttypes.models import ContentType
    from wagtail.models import Revision

    other = ContentType.objects.get_for_model(ContentType)
    Revision.objects.create(
        content_type=other,
        base_content_type=other,
        object_id="1",
        content={},
        created_at=timezone.now(),
        approved_go_live_at=T1,
    )

    assert not Intent.objects.exists()
