"""Reports → IndexNow: what each row says, how rows are found, taken out and sent again."""

import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import openpyxl
import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from wagtail.models import Page

from tests.admin.conftest import ADMIN
from tests.factories import make_page, publish
from tests.testapp.models import CalendarPage
from wagtail_indexnow import clock
from wagtail_indexnow.models import TrackedUrl
from wagtail_indexnow.views.listing import CappedPaginator

pytestmark = pytest.mark.django_db
REPORT = f"{ADMIN}urls/"


def shown(client: Client, query: str = "", report: str = REPORT) -> str:
    response = client.get(f"{report}{query}")
    assert response.status_code == 200
    return str(response.content.decode())


def rows(client: Client, query: str = "", report: str = REPORT) -> list[Any]:
    return list(client.get(f"{report}{query}").context["object_list"])


def queries(client: Client, path: str) -> int:
    client.get(path)  # caches of Wagtail's own
    with CaptureQueriesContext(connection) as captured:
        client.get(path)
    return len(captured)


class TestRow:
    def test_names_and_links_the_page(self, superuser: Client, news: Page, tracked: Any) -> None:
        tracked(news)

        page = shown(superuser)

        assert f'<a href="/admin/pages/{news.pk}/edit/">News</a>' in page
        assert "https://www.example.com/en/news/" in page
        assert "English" in page

    def test_names_a_deleted_page_without_a_link(
        self, superuser: Client, tracked: Any, news: Page, go_live: Any
    ) -> None:
        tracked(None, intent=go_live(news))

        page = shown(superuser)

        assert "News (deleted)" in page
        assert "/admin/pages/987654/" not in page

    def test_does_not_know_the_name_of_a_page_that_is_long_gone(
        self, superuser: Client, tracked: Any
    ) -> None:
        tracked(None)

        assert "A deleted page" in shown(superuser)

    def test_says_what_was_answered(self, superuser: Client, news: Page, tracked: Any) -> None:
        tracked(news, last_status=202, sent_at=datetime(2026, 11, 3, 14, 5, tzinfo=UTC))

        page = shown(superuser)

        assert "202 Accepted" in page
        assert "Nov. 3, 2026 14:05" in page
        assert "Told" in page

    def test_shows_a_status_that_has_no_name(
        self, superuser: Client, news: Page, tracked: Any
    ) -> None:
        tracked(news, last_status=299)

        assert "299" in shown(superuser)

    def test_leads_to_the_submission(
        self, superuser: Client, news: Page, tracked: Any, submission: Any
    ) -> None:
        sent = submission()
        tracked(news, last_status=200, submission=sent)

        assert f"{ADMIN}submissions/{sent.pk}/" in shown(superuser)

    def test_says_in_a_sentence_why_it_was_not_sent(
        self, superuser: Client, news: Page, tracked: Any
    ) -> None:
        tracked(news, state="rejected", reason="unprocessable")

        page = shown(superuser)

        assert "The engine rejected the URLs." in page
        assert "indexnow-status--critical" in page

    def test_says_until_when_it_waits_and_never_in_red(
        self, superuser: Client, news: Page, tracked: Any, clock_at: Any
    ) -> None:
        later = timezone.now() + timedelta(hours=1)
        tracked(news, state="pending", reason="rate_limited", not_before=later)

        page = shown(superuser)

        assert "The engine asked us to slow down. Not before Dec. 1, 2026 10:00." in page
        assert "indexnow-status--critical" not in page

    def test_says_that_it_goes_next(self, superuser: Client, news: Page, tracked: Any) -> None:
        tracked(news, state="pending", not_before=timezone.now() - timedelta(minutes=1))

        assert "Goes with the next submission." in shown(superuser)


@pytest.mark.django_db(transaction=True)
def test_told_page_is_there_with_its_answer(
    superuser: Client, indexnow: Any, home: Page, clock_at: Any
) -> None:
    publish(make_page(home, "story"))
    indexnow.settle()

    [row] = rows(superuser)

    assert (row.shown_title, row.get_state_display(), row.last_status) == ("Story", "Told", 200)


class TestFinding:
    @pytest.fixture
    def mixed(self, news: Page, tracked: Any) -> None:
        calendar = make_page(Page.objects.get(pk=news.get_parent().pk), "fairs", model=CalendarPage)
        yesterday = timezone.now() - timedelta(days=1)
        tracked(news, "one", changed_at=timezone.now())
        tracked(news, "two", state="rejected", change="removed", changed_at=yesterday)
        tracked(calendar, "three", endpoint="other", host="shop.example.com", changed_at=yesterday)

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("", {"one", "two", "three"}),
            ("?state=rejected", {"two"}),
            ("?change=removed", {"two"}),
            ("?endpoint=other", {"three"}),
            ("?host=www.example.com", {"one", "two"}),
            ("?state=accepted&host=www.example.com", {"one"}),
            ("?q=/tw", {"two"}),
            ("?q=news", {"one", "two"}),
            ("?q=NEWS", {"one", "two"}),
            ("?q=/nothing", set()),
            ("?q=thre", {"three"}),
        ],
    )
    def test_finds(self, query: str, found: set[str], superuser: Client, mixed: None) -> None:
        assert {row.url.split("/")[-2] for row in rows(superuser, query)} == found

    def test_finds_by_page_type(self, superuser: Client, mixed: None) -> None:
        calendar = ContentType.objects.get_for_model(CalendarPage)

        [row] = rows(superuser, f"?page_type={calendar.pk}")

        assert row.url.endswith("/three/")

    def test_finds_by_day(self, superuser: Client, mixed: None) -> None:
        today = f"{timezone.now():%Y-%m-%d}"

        [row] = rows(superuser, f"?changed_at_from={today}&changed_at_to={today}")

        assert row.url.endswith("/one/")

    def test_latest_change_comes_first_or_last(self, superuser: Client, mixed: None) -> None:
        assert rows(superuser)[0].url.endswith("/one/")
        assert rows(superuser, "?ordering=changed_at")[-1].url.endswith("/one/")

    def test_results_alone_come_without_the_page_around_them(
        self, superuser: Client, mixed: None
    ) -> None:
        results = shown(superuser, "results/?state=rejected")

        assert "/en/two/" in results
        assert "<html" not in results


class TestManyRows:
    @pytest.fixture
    def many(self, news: Page, tracked: Any) -> Callable[[int], None]:
        def make(count: int) -> None:
            for number in range(count):
                page = make_page(Page.objects.get(pk=news.pk), f"page-{number}-of-{count}")
                tracked(page, state="pending", not_before=timezone.now())

        return make

    def test_queries_do_not_grow_with_rows(self, superuser: Client, many: Any) -> None:
        many(2)
        few = queries(superuser, REPORT)
        many(30)

        assert queries(superuser, REPORT) == few

    def test_queries_of_an_export_do_not_grow_with_rows(self, superuser: Client, many: Any) -> None:
        def export() -> int:
            superuser.get(f"{REPORT}?export=csv").getvalue()
            with CaptureQueriesContext(connection) as captured:
                superuser.get(f"{REPORT}?export=csv").getvalue()
            return len(captured)

        many(2)
        few = export()
        many(30)

        assert export() == few

    def test_database_is_asked_for_the_time_once(
        self, superuser: Client, many: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        many(10)
        asked: list[datetime] = []
        monkeypatch.setattr(clock, "now", lambda: asked.append(timezone.now()) or asked[-1])

        superuser.get(f"{REPORT}results/")

        assert len(asked) == 1

    def test_counting_stops(
        self, superuser: Client, many: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(CappedPaginator, "cap", 5)
        many(7)

        page = shown(superuser, "?state=pending")

        assert "There are more than 5 matches" in page
        assert len(rows(superuser)) == 5

    def test_counting_stops_earlier_in_a_search(
        self, superuser: Client, many: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(CappedPaginator, "cap_of_search", 3)
        many(7)

        assert "There are more than 3 matches" in shown(superuser, "?q=/page-")

    def test_pages_are_turned(self, superuser: Client, many: Any) -> None:
        many(60)

        first, second = rows(superuser), rows(superuser, "?p=2")

        assert (len(first), len(second)) == (50, 10)
        assert not {row.pk for row in first} & {row.pk for row in second}


class TestExport:
    def test_csv_has_a_row_for_each_url(self, superuser: Client, news: Page, tracked: Any) -> None:
        tracked(news, state="rejected", reason="unprocessable", last_status=422, attempts=2)

        response = superuser.get(f"{REPORT}?export=csv")

        assert response["Content-Disposition"] == 'attachment; filename="indexnow-urls.csv"'
        [row] = csv.DictReader(io.StringIO(response.getvalue().decode()))
        assert row["Page"] == "News"
        assert row["URL"] == "https://www.example.com/en/news/"
        assert row["State"] == "Rejected"
        assert row["Reason"] == "The engine rejected the URLs."
        assert (row["Last answer"], row["Tries"], row["Language"]) == ("422", "2", "English")

    def test_xlsx_has_a_row_for_each_url(self, superuser: Client, news: Page, tracked: Any) -> None:
        tracked(news, last_status=200)

        response = superuser.get(f"{REPORT}?export=xlsx")

        sheet = openpyxl.load_workbook(io.BytesIO(response.getvalue())).active
        heading, row = sheet.iter_rows(values_only=True)
        assert dict(zip(heading, row, strict=True))["Page"] == "News"

    def test_export_follows_the_filters(self, superuser: Client, news: Page, tracked: Any) -> None:
        tracked(news, "one"), tracked(news, "two", state="failed")

        text = superuser.get(f"{REPORT}?state=failed&export=csv").getvalue().decode()

        assert "/en/two/" in text
        assert "/en/one/" not in text


class TestResubmit:
    def resubmit(self, client: Client, *urls: TrackedUrl) -> Any:
        query = "&".join(f"id={url.pk}" for url in urls)
        path = f"/admin/bulk/wagtail_indexnow/trackedurl/resubmit/?{query}&next={REPORT}"
        return client.post(path, follow=True)

    @pytest.mark.django_db(transaction=True)
    def test_sends_a_url_again(
        self, superuser: Client, indexnow: Any, home: Page, clock_at: Any
    ) -> None:
        publish(make_page(home, "story"))
        indexnow.settle()
        indexnow.told()
        clock_at.shift(timedelta(hours=1))

        response = self.resubmit(superuser, TrackedUrl.objects.get())

        assert "1 URL will be sent again" in response.content.decode()
        assert indexnow.settled() == ["https://www.example.com/en/story/"]

    def test_asks_first(self, superuser: Client, news: Page, tracked: Any) -> None:
        url = tracked(news)

        page = shown(
            superuser, report=f"/admin/bulk/wagtail_indexnow/trackedurl/resubmit/?id={url.pk}"
        )

        assert "Send these URLs to their search engine again?" in page
        assert "/en/news/" in page

    def test_never_sends_what_no_engine_may_hear_of(
        self, superuser: Client, news: Page, tracked: Any
    ) -> None:
        url = tracked(news, state="skipped", reason="withdrawn", change="removed")

        response = self.resubmit(superuser, url)

        url.refresh_from_db()
        assert url.state == "skipped"
        assert "0 URLs will be sent again" in response.content.decode()

    def test_is_in_the_history_of_the_page(
        self, superuser: Client, news: Page, tracked: Any
    ) -> None:
        self.resubmit(superuser, tracked(news))

        history = superuser.get(f"/admin/pages/{news.pk}/history/").content.decode()
        assert "URLs sent to IndexNow again by hand" in history

    @pytest.mark.parametrize("query", ["", "?id=all", "?id=x", "?id=0"])
    def test_nothing_selected_is_nothing_done(
        self, query: str, superuser: Client, news: Page, tracked: Any
    ) -> None:
        url = tracked(news)

        page = shown(superuser, report=f"/admin/bulk/wagtail_indexnow/trackedurl/resubmit/{query}")
        superuser.post(f"/admin/bulk/wagtail_indexnow/trackedurl/resubmit/{query}")

        url.refresh_from_db()
        assert "None of the selected rows can be changed any more." in page
        assert url.state == "accepted"
