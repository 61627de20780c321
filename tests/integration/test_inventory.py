"""What pages were called comes from the inventory, whatever their types and editors do.

Faults that an earlier version showed on other projects' code, by their ids (R01…).
"""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from wagtail import hooks
from wagtail.models import Page, PageViewRestriction, Site

from tests.factories import make_page, publish
from tests.testapp.models import (
    FolderPage,
    HeadlessPage,
    HiddenFromSitemapPage,
    MembersPage,
    PrintedPage,
    RequestHostPage,
    SectionEntryPage,
)
from wagtail_indexnow import clock
from wagtail_indexnow.models import Intent, PublicUrl, TrackedUrl
from wagtail_indexnow.pages import audits
from wagtail_indexnow.pages.announcing import announce_intents
from wagtail_indexnow.pages.public_urls import HOOK
from wagtail_indexnow.payloads import IntentRef

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = "https://www.example.com/en/"


@pytest.fixture(autouse=True)
def _one_moment(site: Any, clock_at: Any) -> None:
    audits.record()


def fresh(page: Any) -> Any:
    return Page.objects.get(pk=page.pk).specific


def live(parent: Any, slug: str, **fields: Any) -> Any:
    """Make a live page that the inventory knows."""
    page = make_page(parent, slug, live=True, **fields)
    audits.record([page.pk])
    return fresh(page)


def changes() -> dict[str, str]:
    rows = TrackedUrl.objects.exclude(reason="withdrawn")
    return {url.removeprefix(ROOT): change for url, change in rows.values_list("url", "change")}


def restrict(page: Any) -> Any:
    return PageViewRestriction.objects.create(page=page, restriction_type="login")


def rename(page: Any, slug: str) -> None:
    publish(fresh(page), slug=slug)


class TestSections:
    def test_r01_renamed_section_of_own_url_types_sends_every_old_and_new_address(
        self, indexnow: Any, site: Any
    ) -> None:
        section = live(site.root_page, "old", model=HeadlessPage)
        pages = [live(section, f"p{number}", model=HeadlessPage) for number in range(3)]
        live(pages[0], "deep", model=HeadlessPage)

        rename(section, "new")
        indexnow.settle()

        tails = ("", "p0/", "p0/deep/", "p1/", "p2/")
        expected = {f"old/{tail}": "removed" for tail in tails}
        assert changes() == expected | {f"new/{tail}": "added" for tail in tails}

    def test_r02_moved_section_sends_the_old_addresses_of_descendants_engines_knew(
        self, indexnow: Any, site: Any
    ) -> None:
        section = publish(make_page(site.root_page, "old", model=HeadlessPage))
        publish(make_page(section, "page", model=HeadlessPage))
        shelf = publish(make_page(site.root_page, "shelf"))
        indexnow.settled()

        fresh(section).move(fresh(shelf), pos="last-child")

        told = {f"{ROOT}{tail}" for tail in ("old/", "old/page/")}
        told |= {f"{ROOT}shelf/{tail}" for tail in ("old/", "old/page/")}
        assert set(indexnow.settled(minutes=60)) == told
        assert changes()["old/page/"] == "removed"

    @pytest.mark.parametrize("change", ["renamed", "moved", "hidden"])
    def test_r03_addresses_that_do_not_lie_below_the_section_follow_it(
        self, indexnow: Any, site: Any, change: str
    ) -> None:
        def add_mirror(page: Any, urls: list[str]) -> None:
            path = fresh(page).url_path.strip("/").replace("/", "-")
            urls.append(f"https://www.example.com/mirror/{path}/")

        with hooks.register_temporarily(HOOK, add_mirror):
            section = live(site.root_page, "section")
            live(section, "page")
            shelf = live(site.root_page, "shelf")
            rows = PublicUrl.objects.filter(url__contains="section")
            known = set(rows.values_list("url", flat=True))
            if change == "renamed":
                rename(section, "other")
            elif change == "moved":
                section.move(shelf, pos="last-child")
            else:
                restrict(section)
            indexnow.settle()

        removed = TrackedUrl.objects.filter(change="removed").values_list("url", flat=True)
        assert set(removed) == known
        new = TrackedUrl.objects.filter(change="added").count()
        assert new == (0 if change == "hidden" else len(known))

    @pytest.mark.parametrize("change", ["renamed", "moved", "hidden", "scheduled"])
    def test_r04_imported_pages_without_publishing_times_are_remembered(
        self, indexnow: Any, site: Any, change: str
    ) -> None:
        section = live(site.root_page, "section")
        page = live(section, "page")
        assert page.first_published_at is None
        shelf = live(site.root_page, "shelf")
        if change == "renamed":
            rename(section, "other")
        elif change == "moved":
            section.move(shelf, pos="last-child")
        elif change == "hidden":
            restrict(section)
        else:  # Wagtail takes such a page offline, and says nothing
            page.go_live_at = timezone.now() + timedelta(days=1)
            page.save_revision().publish()
        indexnow.settle()

        gone = {"section/page/"} if change == "scheduled" else {"section/", "section/page/"}
        assert {url for url, kind in changes().items() if kind == "removed"} == gone

    def test_r07_trash_can_sends_only_former_and_restored_addresses(
        self, indexnow: Any, site: Any
    ) -> None:
        trash = live(site.root_page, "trash")
        restrict(trash)
        page = live(site.root_page, "page")
        indexnow.settled()
        fresh(page).unpublish()
        fresh(page).move(fresh(trash), pos="last-child")
        fresh(page).move(fresh(site.root_page), pos="last-child")
        publish(fresh(page))

        assert indexnow.settled() == [f"{ROOT}page/"]

    def test_r08_renamed_and_unpublished_at_once_removes_the_address_that_was_public(
        self, indexnow: Any, site: Any
    ) -> None:
        page = live(site.root_page, "page")
        with transaction.atomic():
            rename(page, "never")
            fresh(page).unpublish()
        indexnow.settle()

        assert changes() == {"page/": "removed"}

    def test_r14_dated_addresses_below_a_renamed_blog_are_both_sent(
        self, indexnow: Any, site: Any
    ) -> None:
        blog = live(site.root_page, "blog")
        live(blog, "entry", model=SectionEntryPage)
        rename(blog, "news")
        indexnow.settle()

        assert changes() == {
            "blog/": "removed",
            "blog/2026/12/01/entry/": "removed",
            "news/": "added",
            "news/2026/12/01/entry/": "added",
        }


class TestNeverPublic:
    @pytest.mark.parametrize("go_live_in", [None, timedelta(days=365)])
    def test_r05_page_that_is_private_from_its_first_second_is_never_sent(
        self, indexnow: Any, site: Any, go_live_in: timedelta | None
    ) -> None:
        user = get_user_model().objects.create_superuser("editor", "e@example.com", "pass")
        client = Client()
        client.force_login(user)
        form = {"title": "Club", "slug": "club", "action-publish": "1"}
        form |= {"comments-TOTAL_FORMS": "0", "comments-INITIAL_FORMS": "0"}
        if go_live_in:
            form["go_live_at"] = (timezone.now() + go_live_in).strftime("%Y-%m-%d %H:%M:%S")
        args = ("testapp", "memberspage", site.root_page.pk)
        response = client.post(reverse("wagtailadmin_pages:add", args=args), form)
        assert response.status_code == 302
        assert MembersPage.objects.get().get_view_restrictions().exists()

        assert indexnow.settled() == []
        assert not TrackedUrl.objects.exists()

    def test_r09_alias_below_a_hidden_section_sends_nothing_of_it(
        self, indexnow: Any, site: Any
    ) -> None:
        indexnow.configure(ALIASES=True)
        section = live(site.root_page, "section")
        source = live(site.root_page, "source")
        draft = make_page(section, "draft")
        indexnow.settled()
        restrict(section)
        source.create_alias(parent=section)
        publish(draft)
        indexnow.settle()

        assert changes() == {"section/": "removed"}

    @pytest.mark.parametrize("end", ["leaves every site", "deleted after a move"])
    def test_r10_excluded_page_of_a_section_that_ends_is_never_sent(
        self, indexnow: Any, site: Any, end: str
    ) -> None:
        section = live(site.root_page, "section")
        shy = live(section, "shy", model=HiddenFromSitemapPage)
        shelf = live(site.root_page, "shelf")
        if end == "leaves every site":
            section.move(Page.get_first_root_node(), pos="last-child")
        else:
            section.move(shelf, pos="last-child")
            fresh(shy).delete()
        indexnow.settle()

        assert not TrackedUrl.objects.filter(url__contains="shy").exists()

    def test_r11_address_without_a_slash_is_removed_as_it_was_served(
        self, indexnow: Any, site: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("wagtail.models.pages.WAGTAIL_APPEND_SLASH", False)
        page = live(site.root_page, "page")
        restrict(site.root_page)
        fresh(page).delete()
        audits.record([site.root_page.pk])
        indexnow.settle()

        assert changes() == {"page": "removed"}


class TestSharedUrls:
    def test_r06_folders_url_stays_while_its_child_is_live(self, indexnow: Any, site: Any) -> None:
        folder = live(site.root_page, "folder", model=FolderPage)
        live(folder, "child")
        audits.record([folder.pk])
        fresh(folder).unpublish()
        indexnow.settle()

        assert changes() == {}

    def test_r06_childs_url_is_removed_when_no_page_has_it(self, indexnow: Any, site: Any) -> None:
        folder = live(site.root_page, "folder", model=FolderPage)
        child = live(folder, "child")
        audits.record([folder.pk])
        fresh(child).unpublish()
        indexnow.settle()

        # The folder has its own address again, and nobody the child's.
        assert changes() == {"folder/child/": "removed", "folder/": "added"}


class TestUnseen:
    def test_r12_moves_and_restrictions_that_were_lost_are_found_by_the_audit(
        self, indexnow: Any, site: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        moved, hidden = live(site.root_page, "moved"), live(site.root_page, "hidden")
        shelf = live(site.root_page, "shelf")
        with monkeypatch.context() as broken:
            broken.setattr(Intent.objects, "bulk_create", _fail)
            moved.move(shelf, pos="last-child")
            restrict(hidden)
        assert not Intent.objects.exists()

        audits.plan_audit()
        indexnow.settle()

        assert changes() == {"moved/": "removed", "shelf/moved/": "added", "hidden/": "removed"}

    def test_r13_removals_of_a_renamed_site_are_sent_once_applied(
        self, indexnow: Any, site: Any, clock_at: Any
    ) -> None:
        for number in range(20):
            live(site.root_page, f"p{number}")
        Site.objects.update(hostname="new.example.com")
        audits.plan_audit()
        indexnow.settle()
        assert changes() == {}
        assert audits.last_audit().reason == "mass_change"

        clock_at.shift(60)
        call_command("indexnow_audit", apply=True, verbosity=0)
        indexnow.settle(minutes=60)

        removed = TrackedUrl.objects.filter(change="removed", state="accepted")
        assert removed.count() == 21
        assert all(row.host == "www.example.com" for row in removed)
        assert TrackedUrl.objects.filter(host="new.example.com").count() == 21

    def test_r75_unscheduled_update_of_a_live_page_does_not_say_another_version_was_published(
        self, indexnow: Any, site: Any, clock_at: Any
    ) -> None:
        page = publish(make_page(site.root_page, "page"))
        indexnow.settled()
        clock_at.shift(600)
        page.go_live_at = timezone.now() + timedelta(hours=1)
        page.save_revision().publish()
        revision = page.revisions.get(approved_go_live_at__isnull=False)
        revision.approved_go_live_at = None
        revision.save()
        clock_at.shift(3_600)
        indexnow.settle()

        row = Intent.objects.get(kind="go_live")
        assert (row.state, row.reason) == ("skipped", "schedule_cancelled")


class TestOneBadPage:
    def test_r20_database_errors_of_one_page_stop_no_other(
        self, indexnow: Any, site: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(HiddenFromSitemapPage, "get_sitemap_urls", _query_a_missing_table)
        bad = publish(make_page(site.root_page, "bad", model=HiddenFromSitemapPage))
        publish(make_page(site.root_page, "good"))

        assert indexnow.settled() == [f"{ROOT}good/"]
        assert Intent.objects.get(page_id=bad.pk).reason == "page_error"
        indexnow.settle(minutes=60 * 24 * 8)
        row = Intent.objects.get(page_id=bad.pk)
        assert (row.state, row.reason) == ("failed", "page_error")
        assert "no_such_table" in row.error

    def test_r20_bad_page_of_a_section_gets_an_event_of_its_own(
        self, indexnow: Any, site: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        section = live(site.root_page, "section")
        bad = live(section, "bad", model=HiddenFromSitemapPage, noindex=False)
        live(section, "good")
        with monkeypatch.context() as broken:
            broken.setattr(HiddenFromSitemapPage, "get_sitemap_urls", _query_a_missing_table)
            rename(section, "new")
            indexnow.work()
            told = {"section/", "section/good/", "new/", "new/good/"}
            assert set(changes()) == told
            row = Intent.objects.get(page_id=bad.pk)
            assert (row.state, row.reason, row.subtree) == ("planned", "page_error", False)

        indexnow.settle()
        assert changes()["section/bad/"] == "removed"
        assert changes()["new/bad/"] == "added"

    def test_r21_exclusion_that_starts_to_raise_stops_no_other(
        self, indexnow: Any, site: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(make_page(site.root_page, "bad", model=HeadlessPage))
        publish(make_page(site.root_page, "good"))
        indexnow.travel_to(timezone.now() + timedelta(seconds=6))
        broken = property(lambda self: 1 / 0)
        monkeypatch.setattr(HeadlessPage, "indexnow_excluded", broken, raising=False)

        assert indexnow.settled() == [f"{ROOT}good/"]

    def test_r22_approved_revisions_of_pages_gone_hide_no_real_schedule(
        self, indexnow: Any, site: Any
    ) -> None:
        from wagtail.models import Revision

        from wagtail_indexnow.relay import reconciliation

        page = make_page(site.root_page, "page")
        page.go_live_at = timezone.now() + timedelta(hours=1)
        revision = page.save_revision()
        revision.publish()
        Intent.objects.all().delete()
        ghosts = [
            Revision(
                content_type=revision.content_type,
                base_content_type=revision.base_content_type,
                object_id=str(900_000 + number),
                created_at=timezone.now(),
                approved_go_live_at=timezone.now() + timedelta(minutes=30),
                content={},
            )
            for number in range(500)
        ]
        Revision.objects.bulk_create(ghosts)
        # Found before the real one.
        Revision.objects.filter(pk=revision.pk).update(approved_go_live_at=None)
        copy = Revision.objects.get(pk=revision.pk)
        copy.pk, copy.approved_go_live_at = None, timezone.now() + timedelta(hours=1)
        Revision.objects.bulk_create([copy])

        reconciliation.plan_missing_go_lives()

        assert [row.page_id for row in Intent.objects.filter(kind="go_live")] == [page.pk]

    def test_r23_drafts_saved_below_a_copy_do_not_hold_it_back(
        self, indexnow: Any, site: Any, clock_at: Any
    ) -> None:
        section = publish(make_page(site.root_page, "section"))
        child = publish(make_page(section, "child"))
        indexnow.settled()
        clock_at.shift(3_600)
        copy = fresh(section).copy(
            recursive=True, update_attrs={"slug": "copy", "title": "Copy"}, keep_live=True
        )
        draft = Page.objects.get(slug="child", path__startswith=copy.path).specific
        for _round in range(4):
            clock_at.shift(25)
            draft.save_revision()
            indexnow.work()

        assert changes()["copy/"] == "added"
        assert child.pk != draft.pk

    def test_r24_publish_of_a_revision_whose_cancelled_schedule_has_ended_is_sent(
        self, indexnow: Any, site: Any, clock_at: Any
    ) -> None:
        from wagtail_indexnow.ledger import intents

        page = make_page(site.root_page, "page")
        page.go_live_at = timezone.now() + timedelta(hours=1)
        revision = page.save_revision()
        revision.publish()
        intents.cancel(Intent.objects.values_list("pk", flat=True))
        revision.refresh_from_db()
        revision.approved_go_live_at = None
        revision.save()
        clock_at.shift(7_200)
        assert indexnow.settled() == []
        clock_at.shift(30 * 86_400)
        Page.objects.update(go_live_at=None)
        content = revision.content
        content["go_live_at"] = None
        revision.content = content
        revision.save()
        revision.publish()

        assert indexnow.settled() == [f"{ROOT}page/"]


class TestDatabases:
    def test_r31_replica_that_lags_is_never_asked(
        self, indexnow: Any, site: Any, settings: Any
    ) -> None:
        page = publish(make_page(site.root_page, "page"))
        refs = [IntentRef(key=key, page_id=page.pk) for key in _due(indexnow)]
        settings.DATABASE_ROUTERS = ["tests.integration.test_inventory.ReplicaForReads"]

        # Every read that is not pinned to the primary fails: there is no such database.
        announce_intents(refs)

        settings.DATABASE_ROUTERS = []
        assert changes() == {"page/": "added"}

    def test_r38_web_server_whose_clock_is_ahead_delays_nothing(
        self, indexnow: Any, site: Any, clock_at: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The database's clock says when an event is due; the web server's is 10 minutes ahead."""
        page = make_page(site.root_page, "page")
        database_now = timezone.now()
        monkeypatch.setattr(clock, "now", lambda: database_now)
        monkeypatch.setattr(clock, "later", lambda delay: database_now + delay)
        clock_at.shift(600)
        publish(page)

        assert Intent.objects.get().run_at == database_now + timedelta(seconds=5)


class ReplicaForReads:
    """A router as sites with a replica have it."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


class TestEditorsPay:
    def test_r54_deleting_a_section_of_40_live_pages_costs_a_row_each(
        self, indexnow: Any, site: Any
    ) -> None:
        section = live(site.root_page, "section")
        for number in range(40):
            live(section, f"p{number}")
        with CaptureQueriesContext(connection) as captured:
            fresh(section).delete()
        queries = [query["sql"] for query in captured if "wagtail_indexnow" in query["sql"]]

        assert Intent.objects.filter(kind="remove").count() == 41
        assert len([sql for sql in queries if "SAVEPOINT" not in sql]) <= 2 * 41

    def test_r37_publish_touches_no_row_that_a_worker_writes(
        self, indexnow: Any, site: Any, clock_at: Any
    ) -> None:
        """What an editor's block holds locked, a worker never waits for in another order."""
        pages = [make_page(site.root_page, f"p{number}") for number in range(2)]
        for page in pages:
            page.go_live_at = timezone.now() + timedelta(hours=1)
            page.save_revision().publish()
        clock_at.shift(7_200)
        go_lives = list(Intent.objects.order_by("pk").values())
        with CaptureQueriesContext(connection) as captured, transaction.atomic():
            for page in reversed(pages):
                fresh(page).get_latest_revision().publish()
        written = [
            query["sql"]
            for query in captured
            if "wagtail_indexnow" in query["sql"] and not query["sql"].startswith("SELECT")
        ]

        assert all(sql.startswith(("INSERT", "SAVEPOINT", "RELEASE")) for sql in written)
        assert list(Intent.objects.filter(kind="go_live").order_by("pk").values()) == go_lives


class TestRouting:
    def test_r39_type_that_asks_for_the_site_of_its_request_works_in_a_worker(
        self, indexnow: Any, site: Any
    ) -> None:
        publish(make_page(site.root_page, "page", model=RequestHostPage))

        assert indexnow.settled() == [f"{ROOT}page/"]

    def test_r40_code_that_builds_on_a_missing_url_is_no_fault(
        self, indexnow: Any, site: Any
    ) -> None:
        page = make_page(Page.get_first_root_node(), "nowhere", model=PrintedPage)
        publish(page)
        indexnow.settle()

        row = Intent.objects.get(page_id=page.pk)
        assert (row.state, row.reason) == ("skipped", "no_url")


def _due(indexnow: Any) -> list[str]:
    indexnow.travel_to(timezone.now() + timedelta(seconds=6))
    return list(Intent.objects.values_list("key", flat=True))


def _fail(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("the ledger cannot be written")


def _query_a_missing_table(self: Any, request: Any = None) -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM no_such_table")
