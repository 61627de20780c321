"""Reports → IndexNow events: what waits for what, cancel, submit now, and why past ones ended."""

import csv
import io
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from wagtail.models import Page

from tests.admin.conftest import ADMIN
from tests.admin.test_urls_report import queries, rows, shown
from tests.factories import make_page, publish
from wagtail_indexnow import clock
from wagtail_indexnow.models import Intent

pytestmark = pytest.mark.django_db
REPORT = f"{ADMIN}events/"


def schedule(page: Page, in_: timedelta) -> None:
    page = page.specific
    page.go_live_at = timezone.now() + in_
    page.save_revision().publish()


class TestRow:
    def test_scheduled_page_is_there_with_its_time(
        self, superuser: Client, home: Page, clock_at: Any
    ) -> None:
        schedule(make_page(home, "story"), timedelta(hours=2))

        page = shown(superuser, report=REPORT)

        assert "Story" in page
        assert "Dec. 1, 2026 11:00" in page
        assert "Planned" in page

    def test_says_who_planned_it(self, superuser: Client, news: Page, go_live: Any) -> None:
        user = superuser.user  # type: ignore[attr-defined]
        user.first_name, user.last_name = "Ada", "Lovelace"
        user.save()
        go_live(news, scheduled_by=f"user:{user.pk}")
        go_live(news, scheduled_by="user:99999")
        go_live(news, scheduled_by="publish_scheduled")

        page = shown(superuser, report=REPORT)

        assert "Ada Lovelace" in page
        assert "A deleted user" in page
        assert "publish_scheduled" in page

    def test_waiting_says_for_what_and_is_no_fault(
        self, superuser: Client, news: Page, go_live: Any, clock_at: Any
    ) -> None:
        now = timezone.now()
        go_live(
            news,
            expected_at=now - timedelta(minutes=5),
            run_at=now + timedelta(minutes=1),
            reason="not_published_yet",
        )

        page = shown(superuser, report=REPORT)

        assert "Waiting for publish_scheduled. Next check: Dec. 1, 2026 09:01." in page
        assert "indexnow-status--" not in page

    def test_overdue_says_so(self, superuser: Client, news: Page, go_live: Any) -> None:
        go_live(news, expected_at=timezone.now() - timedelta(hours=3), reason="not_published_yet")

        page = shown(superuser, report=REPORT)

        assert "Overdue" in page
        assert "indexnow-status--warning" in page

    def test_audit_is_of_all_pages(self, superuser: Client, home: Page) -> None:
        now = timezone.now()
        Intent.objects.create(
            key="site:audit", kind="audit", page_id=None, state="skipped", reason="mass_change",
            created_at=now, finished_at=now,
        )  # fmt: skip

        page = shown(superuser, report=REPORT)

        assert "All pages" in page
        assert "Too many changes at once." in page

    def test_shows_the_fault_of_a_page(self, superuser: Client, news: Page, go_live: Any) -> None:
        go_live(news, state="failed", reason="page_error", error="RuntimeError: no")

        page = shown(superuser, "?state=failed", REPORT)

        assert "RuntimeError: no" in page
        assert "indexnow-status--critical" in page


class TestFinding:
    @pytest.fixture
    def mixed(self, news: Page, go_live: Any) -> None:
        now = timezone.now()
        soon, past = now + timedelta(hours=1), now - timedelta(hours=5)
        go_live(news, key="later", expected_at=now + timedelta(days=9))
        go_live(news, key="soon", expected_at=soon)
        go_live(news, key="waits", expected_at=now, reason="not_published_yet")
        go_live(news, key="overdue", expected_at=past, reason="not_published_yet")
        go_live(news, key="skipped", state="skipped", reason="private", expected_at=past)
        go_live(news, key="done", state="announced", expected_at=past)
        Intent.objects.create(
            key="update", kind="publish", page_id=news.pk, page_title="News", created_at=now
        )

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("", ["update", "done", "skipped", "overdue", "waits", "soon", "later"]),
            ("?ordering=created_at&kind=go_live&state=planned", ["later", "soon"]),
            ("?ordering=expected_at&state=planned", ["soon", "later", "update"]),
            ("?ordering=-expected_at&state=planned", ["later", "soon", "update"]),
            ("?state=waiting", ["waits"]),
            ("?state=overdue", ["overdue"]),
            ("?state=skipped", ["skipped"]),
            ("?state=announced", ["done"]),
            ("?reason=private", ["skipped"]),
            ("?reason=not_published_yet", ["overdue", "waits"]),
            ("?kind=publish", ["update"]),
            ("?q=new&state=announced", ["done"]),
            ("?q=nothing", []),
        ],
    )
    def test_finds(self, query: str, found: list[str], superuser: Client, mixed: None) -> None:
        assert [row.key for row in rows(superuser, query, REPORT)] == found

    def test_filter_offers_the_reasons_of_events_alone(
        self, superuser: Client, mixed: None
    ) -> None:
        page = shown(superuser, report=REPORT)

        assert "Did not go live within seven days" in page
        assert "Too many requests (429)" not in page

    def test_header_leads_to_what_is_scheduled(self, superuser: Client, mixed: None) -> None:
        page = shown(superuser, report=REPORT)

        [query] = re.findall(r'events/(\?kind=[^"]*)"', page)
        assert [row.key for row in rows(superuser, unescape(query), REPORT)] == ["soon", "later"]


def test_queries_do_not_grow_with_rows(superuser: Client, news: Page, go_live: Any) -> None:
    go_live(news, scheduled_by=f"user:{superuser.user.pk}")  # type: ignore[attr-defined]
    few = queries(superuser, REPORT)
    for number in range(20):
        page = make_page(Page.objects.get(pk=news.pk), f"page-{number}")
        go_live(page, scheduled_by=f"user:{number}")

    assert queries(superuser, REPORT) == few


def test_database_is_asked_for_the_time_as_often_whatever_the_rows(
    superuser: Client, news: Page, go_live: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _number in range(10):
        go_live(news)
    asked: list[Any] = []
    monkeypatch.setattr(clock, "now", lambda: asked.append(timezone.now()) or asked[-1])

    superuser.get(f"{REPORT}results/")

    assert len(asked) == 1


def test_csv_has_a_row_for_each(superuser: Client, news: Page, go_live: Any) -> None:
    go_live(news, scheduled_by="publish_scheduled")

    text = superuser.get(f"{REPORT}?export=csv").getvalue().decode()

    [row] = csv.DictReader(io.StringIO(text))
    assert (row["Page"], row["State"], row["Planned by"]) == (
        "News",
        "Planned",
        "publish_scheduled",
    )


class TestActions:
    def act(self, client: Client, name: str, *intents: Intent) -> str:
        query = "&".join(f"id={intent.pk}" for intent in intents)
        path = f"/admin/bulk/wagtail_indexnow/intent/{name}/?{query}&next={REPORT}"
        return str(client.post(path, follow=True).content.decode())

    @pytest.mark.django_db(transaction=True)
    def test_cancelled_go_live_is_not_submitted(
        self, superuser: Client, indexnow: Any, home: Page, clock_at: Any
    ) -> None:
        schedule(make_page(home, "story"), timedelta(hours=1))

        page_after = self.act(superuser, "cancel", Intent.objects.get())
        clock_at.shift(timedelta(hours=1, minutes=1))
        call_command("publish_scheduled")

        assert "1 event has been cancelled." in page_after
        assert Page.objects.get(slug="story").live
        assert indexnow.settled() == []

    def test_cancelling_is_in_the_history_of_the_page(
        self, superuser: Client, news: Page, go_live: Any
    ) -> None:
        self.act(superuser, "cancel", go_live(news))

        history = superuser.get(f"/admin/pages/{news.pk}/history/").content.decode()
        assert "IndexNow event cancelled" in history

    def test_what_has_ended_is_not_cancelled(
        self, superuser: Client, news: Page, go_live: Any
    ) -> None:
        done = go_live(news, state="announced")

        self.act(superuser, "cancel", done)

        done.refresh_from_db()
        assert done.state == "announced"

    @pytest.mark.django_db(transaction=True)
    def test_submitting_now_takes_what_is_public_and_keeps_the_schedule(
        self, superuser: Client, indexnow: Any, home: Page, clock_at: Any
    ) -> None:
        page = publish(make_page(home, "story"))
        indexnow.settled()
        clock_at.shift(timedelta(hours=1))
        schedule(page, timedelta(days=3))

        page_after = self.act(superuser, "submit_now", Intent.objects.get(kind="go_live"))

        assert "1 page has been queued for submission." in page_after
        assert indexnow.settled() == ["https://www.example.com/en/story/"]
        assert Intent.objects.get(kind="go_live").state == "planned"

    @pytest.mark.django_db(transaction=True)
    def test_submitting_now_skips_a_draft(
        self, superuser: Client, indexnow: Any, home: Page, clock_at: Any
    ) -> None:
        schedule(make_page(home, "story"), timedelta(days=3))

        self.act(superuser, "submit_now", Intent.objects.get())

        assert indexnow.settled() == []
        assert Intent.objects.get(kind="manual").reason == "not_live"

    def test_submitting_now_checks_a_deleted_page_too(
        self, superuser: Client, news: Page, go_live: Any
    ) -> None:
        intent = go_live(news)
        Page.objects.filter(pk=news.pk).delete()

        self.act(superuser, "submit_now", intent)

        assert Intent.objects.get(kind="manual").page_id == news.pk
