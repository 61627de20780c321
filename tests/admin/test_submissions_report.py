"""Reports → IndexNow submissions: each request with its response, and no key anywhere."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from wagtail.models import Page

from example_site.engine import Answer
from tests.admin.conftest import ADMIN, HOST, entry_of
from tests.admin.test_urls_report import queries, rows, shown
from tests.factories import make_page, publish
from wagtail_indexnow.models import Submission
from wagtail_indexnow.submission import keys

pytestmark = pytest.mark.django_db
REPORT = f"{ADMIN}submissions/"


class TestList:
    @pytest.mark.parametrize(
        ("state", "reason", "label", "sentence"),
        [
            ("accepted", "", "Accepted", ""),
            ("rejected", "unprocessable", "Rejected", "URLs rejected (422)"),
            ("rejected", "too_large", "Rejected", "Request too large (413)"),
            ("pending", "server_error", "Retrying", "Server error at the search engine"),
            ("pending", "rate_limited", "Retrying", "Too many requests (429)"),
            ("skipped", "dry_run", "Skipped", "Dry run"),
        ],
    )
    def test_says_what_became_of_it(
        self,
        state: str,
        reason: str,
        label: str,
        sentence: str,
        superuser: Client,
        submission: Any,
    ) -> None:
        submission(state=state, reason=reason)

        page = shown(superuser, report=REPORT)

        assert label in page
        assert sentence in page

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("?state=accepted", {"accepted"}),
            ("?state=rejected", {"rejected"}),
            ("?state=retrying", {"kept"}),
            ("?state=skipped", {"skipped"}),
            ("?state=sending", {"in flight"}),
            ("?host=www.example.com", {"accepted", "rejected", "kept", "skipped", "in flight"}),
        ],
    )
    def test_finds_by_state(
        self, query: str, found: set[str], superuser: Client, submission: Any, tracked: Any
    ) -> None:
        tracked(None)
        for state in ("accepted", "rejected", "skipped"):
            submission(state=state, error_code=state)
        submission(state="pending", error_code="kept")
        submission(state="pending", error_code="in flight", finished_at=None)

        assert {row.error_code for row in rows(superuser, query, REPORT)} == found

    def test_counts_urls_without_reading_them(self, superuser: Client, submission: Any) -> None:
        submission(urls=[f"https://{HOST}/{number}/" for number in range(1234)])

        response = superuser.get(REPORT)

        assert "1,234" in response.content.decode()
        [row] = response.context["object_list"]
        assert "urls" in row.get_deferred_fields()

    def test_latest_comes_first(self, superuser: Client, submission: Any) -> None:
        early = submission(started_at=timezone.now() - timedelta(days=1))
        late = submission()

        assert [row.pk for row in rows(superuser, "", REPORT)] == [late.pk, early.pk]
        assert rows(superuser, "?ordering=started_at", REPORT)[0].pk == early.pk

    def test_queries_do_not_grow_with_rows(self, superuser: Client, submission: Any) -> None:
        submission()
        few = queries(superuser, REPORT)
        for _number in range(20):
            submission()

        assert queries(superuser, REPORT) == few

    def test_csv_has_a_row_for_each(self, superuser: Client, submission: Any) -> None:
        submission(excerpt="Bad Request", status=400, state="rejected", reason="bad_request")

        text = superuser.get(f"{REPORT}?export=csv").getvalue().decode()

        [row] = csv.DictReader(io.StringIO(text))
        assert (row["Response"], row["Response body"], row["URLs"]) == ("400", "Bad Request", "1")
        assert (row["State"], row["Reason"]) == ("Rejected", "Request rejected (400)")


class TestOne:
    def test_shows_request_and_response(
        self, superuser: Client, submission: Any, news: Page, tracked: Any
    ) -> None:
        sent = submission(
            started_at=datetime(2026, 11, 3, 14, 5, tzinfo=UTC),
            finished_at=datetime(2026, 11, 3, 14, 5, 1, 500_000, tzinfo=UTC),
            status=422,
            state="rejected",
            reason="unprocessable",
            error_code="InvalidUrls",
            excerpt="URLs of another host",
            urls=[{**entry_of(f"https://{HOST}/en/news/"), "page": news.pk}],
        )
        tracked(news, page_id=None, submission=sent.pk + 1)  # what came later changes nothing

        page = shown(superuser, report=f"{REPORT}{sent.pk}/")

        for text in (
            "Nov. 3, 2026 14:05",
            "1.5 s",
            "422 Unprocessable",
            "Rejected",
            "InvalidUrls",
            "URLs of another host",
            "https://www.example.com/en/news/",
            f"/admin/pages/{news.pk}/edit/",
        ):
            assert text in page

    @pytest.mark.django_db(transaction=True)
    def test_masks_the_key_in_request_and_response(
        self, superuser: Client, indexnow: Any, home: Page, clock_at: Any
    ) -> None:
        key = keys.key_for(HOST)
        indexnow.engine.answer(Answer(status=422, body=f'{{"message": "bad {key}"}}'.encode()))
        publish(make_page(home, "story"))
        indexnow.settle()

        page = shown(superuser, report=f"{REPORT}{Submission.objects.get().pk}/")

        assert keys.mask(key) in page
        assert key not in page

    def test_long_list_is_cut(self, superuser: Client, submission: Any) -> None:
        sent = submission(urls=[f"https://{HOST}/{number}/" for number in range(1_002)])

        page = shown(superuser, report=f"{REPORT}{sent.pk}/")

        assert "2 more URLs are not shown." in page

    def test_without_an_answer(self, superuser: Client, submission: Any) -> None:
        fields = {"state": "pending", "reason": "no_response", "endpoint": "gone"}
        sent = submission(status=None, finished_at=None, **fields)

        page = shown(superuser, report=f"{REPORT}{sent.pk}/")

        assert "No response" in page
        assert "Duration" not in page

    def test_is_not_there(self, superuser: Client, home: Page) -> None:
        assert superuser.get(f"{REPORT}987654/", follow=True).status_code == 404
