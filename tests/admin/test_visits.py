"""What the admin says of visits: never more than was seen."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from wagtail.models import Page

from tests.admin.conftest import ADMIN
from tests.factories import make_page
from wagtail_indexnow.diagnostics import health, visit_notes
from wagtail_indexnow.models import TrackedUrl, Visit
from wagtail_indexnow.views.visits import with_visits
from wagtail_indexnow.visits import figures, recording

pytestmark = pytest.mark.django_db

Submit = Callable[..., TrackedUrl]


@pytest.fixture
def seen_by_django(settings: Any) -> None:
    settings.MIDDLEWARE = [figures.MIDDLEWARE, *settings.MIDDLEWARE]


@pytest.fixture
def submit(tracked: Any, submission: Any) -> Submit:
    """Let a page have been submitted some time ago, and visited that long afterwards."""

    def make(page: Page, *, ago: timedelta, status: int = 200, **visits: timedelta) -> TrackedUrl:
        at = timezone.now() - ago
        post = submission(started_at=at, finished_at=at)
        row: TrackedUrl = tracked(page, submission=post.pk, sent_at=at, changed_at=at)
        for crawler, delay in visits.items():
            Visit.objects.create(
                submission=post.pk,
                url_hash=row.url_hash,
                crawler=crawler,
                visited_at=at + delay,
                status=status,
            )
        return row

    return make


def pages(home: Page, count: int) -> list[Page]:
    return [make_page(home, f"page-{number}", live=True) for number in range(count)]


class TestReport:
    def test_row_says_who_came_first_and_how_soon(
        self, superuser: Client, news: Page, submit: Submit
    ) -> None:
        submit(
            news,
            ago=timedelta(days=1),
            YandexBot=timedelta(hours=2),
            Bingbot=timedelta(minutes=3, seconds=40),
        )

        page = superuser.get(f"{ADMIN}urls/").content.decode()

        assert "Visited by" in page
        assert "Bingbot, YandexBot" in page
        assert "3 minutes" in page.replace("\xa0", " ")

    def test_export_has_the_visitors(self, superuser: Client, news: Page, submit: Submit) -> None:
        submit(news, ago=timedelta(days=1), Bingbot=timedelta(minutes=3))

        response = superuser.get(f"{ADMIN}urls/?export=csv")
        heading, row = b"".join(response.streaming_content).decode().splitlines()  # type: ignore[attr-defined]

        assert heading.endswith("Visited by")
        assert row.endswith("Bingbot")

    def test_refusal_is_no_visit(self, superuser: Client, news: Page, submit: Submit) -> None:
        submit(news, ago=timedelta(days=1), status=403, Bingbot=timedelta(minutes=3))

        assert "Bingbot" not in superuser.get(f"{ADMIN}urls/").content.decode()

    def test_filters(self, superuser: Client, home: Page, submit: Submit) -> None:
        visited, late, recent = pages(home, 3)
        rows = [
            submit(visited, ago=timedelta(days=9), Bingbot=timedelta(days=8)),
            submit(late, ago=timedelta(days=8)),
            submit(recent, ago=timedelta(days=6)),
        ]

        def found(value: str) -> list[int]:
            response = superuser.get(f"{ADMIN}urls/?visited={value}")
            return [row.pk for row in response.context["object_list"]]

        assert found("visited") == [rows[0].pk]
        assert found("not_visited") == [rows[1].pk]
        assert len(found("")) == 3

    def test_visits_of_a_page_of_rows_take_one_query(self, home: Page, submit: Submit) -> None:
        rows = [
            submit(page, ago=timedelta(days=1), Bingbot=timedelta(hours=1))
            for page in pages(home, 5)
        ]

        with CaptureQueriesContext(connection) as captured:
            found = with_visits(rows)

        assert [row.visited_by for row in found] == ["Bingbot"] * 5
        assert len(captured) == 1


class TestStatusPage:
    def text(self, client: Client, page: Page) -> str:
        response = client.get(f"{ADMIN}pages/{page.pk}/")
        return " ".join(response.context["sentences"]).replace("\xa0", " ")

    def test_visitor_is_not_taken_at_its_word(
        self, superuser: Client, news: Page, submit: Submit
    ) -> None:
        submit(news, ago=timedelta(days=1), Bingbot=timedelta(minutes=3), Yeti=timedelta(seconds=9))

        text = self.text(superuser, news)

        assert "A visitor calling itself Yeti came less than a minute later." in text
        assert "A visitor calling itself Bingbot came 3 minutes later." in text
        assert text.index("Yeti") < text.index("Bingbot")

    def test_absence_is_said_only_where_visits_would_have_been_seen(
        self, superuser: Client, news: Page, submit: Submit, settings: Any
    ) -> None:
        submit(news, ago=timedelta(days=8))
        sentence = "No search engine's crawler was seen in the week after the submission."

        assert sentence not in self.text(superuser, news)
        settings.MIDDLEWARE = [figures.MIDDLEWARE, *settings.MIDDLEWARE]
        assert sentence in self.text(superuser, news)


class TestFigures:
    def shares(self) -> dict[str, list[int | None]]:
        return {
            item.crawler: [
                round(100 * share) if share is not None else None for share in item.shares.values()
            ]
            for item in figures.by_crawler(timezone.now())
        }

    def test_share_counts_only_submissions_older_than_its_time(
        self, home: Page, submit: Submit
    ) -> None:
        old, older, today, now = pages(home, 4)
        submit(old, ago=timedelta(days=8), Bingbot=timedelta(minutes=30))
        submit(older, ago=timedelta(days=9), Bingbot=timedelta(days=2), Yeti=timedelta(days=8))
        submit(today, ago=timedelta(hours=2), Bingbot=timedelta(minutes=30))
        submit(now, ago=timedelta(minutes=5), Bingbot=timedelta(minutes=1))

        assert self.shares() == {"Bingbot": [67, 50, 100], "Yeti": [0, 0, 0]}

    def test_nothing_is_said_of_times_that_no_submission_has_reached(
        self, news: Page, submit: Submit
    ) -> None:
        submit(news, ago=timedelta(hours=2), Bingbot=timedelta(minutes=30))

        assert self.shares() == {"Bingbot": [100, None, None]}

    def test_median_is_of_visits_within_a_week(self, home: Page, submit: Submit) -> None:
        for page, days in zip(pages(home, 4), (1, 2, 3, 8), strict=True):
            submit(page, ago=timedelta(days=20), Bingbot=timedelta(days=days))

        [found] = figures.by_crawler(timezone.now())
        assert found.median == timedelta(days=2)

    def test_submission_that_was_rejected_does_not_count(
        self, news: Page, submission: Any, submit: Submit
    ) -> None:
        submit(news, ago=timedelta(hours=2), Bingbot=timedelta(minutes=30))
        submission(started_at=timezone.now() - timedelta(hours=3), status=422)

        assert self.shares()["Bingbot"][0] == 100

    def test_takes_few_queries_however_many_visits(self, home: Page, submit: Submit) -> None:
        for page in pages(home, 6):
            submit(page, ago=timedelta(days=8), Bingbot=timedelta(hours=1), Yeti=timedelta(hours=1))

        with CaptureQueriesContext(connection) as captured:
            figures.by_crawler(timezone.now())

        assert len(captured) == 4  # submissions, visits, and a median for each crawler


class TestSettings:
    def panel(self, client: Client) -> str:
        page = client.get(f"{ADMIN}settings/").content.decode()
        return page[page.index('id="visits') :].replace("\xa0", " ")

    def test_figures_with_their_caveats(
        self, superuser: Client, news: Page, submit: Submit, seen_by_django: None
    ) -> None:
        submit(news, ago=timedelta(days=8), Bingbot=timedelta(minutes=30))

        panel = self.panel(superuser)

        assert "Visitors calling themselves" in panel
        assert panel.count("100 %") == 3
        assert "30 minutes" in panel
        assert "a visit does not mean that the page is indexed" in panel
        assert "https://www.bing.com/webmasters/" in panel

    def test_says_how_to_record_visits(self, superuser: Client, home: Page) -> None:
        assert "Visits are not recorded." in self.panel(superuser)

    def test_says_that_there_were_none(
        self, superuser: Client, home: Page, seen_by_django: None
    ) -> None:
        assert "No visits in the last 30 days." in self.panel(superuser)

    @pytest.mark.parametrize("front", ["cache", "hosts"])
    def test_no_share_behind_a_cdn_until_its_logs_were_read(
        self,
        superuser: Client,
        news: Page,
        submit: Submit,
        seen_by_django: None,
        settings: Any,
        indexnow: Any,
        front: str,
    ) -> None:
        submit(news, ago=timedelta(days=8), Bingbot=timedelta(minutes=30))
        if front == "cache":
            settings.WAGTAILFRONTENDCACHE = {"cdn": {"BACKEND": "example"}}
        else:
            indexnow.configure(HOSTS=["www.example.com"])

        panel = self.panel(superuser)
        assert "Django sees only the visits" in panel
        assert "100 %" not in panel

        recording.note_logs_were_read()
        assert "100 %" in self.panel(superuser)


class TestRefusals:
    def found(self) -> list[Any]:
        return [finding for finding in health.check_all(live=False) if finding.name == "visits"]

    def test_refusals_of_ten_urls_are_a_finding(self, home: Page, submit: Submit) -> None:
        rows = pages(home, 10)
        for page in rows[:9]:
            submit(page, ago=timedelta(days=1), status=403, Bingbot=timedelta(hours=1))
        assert self.found() == []

        submit(rows[9], ago=timedelta(days=1), status=503, Bingbot=timedelta(hours=1))

        [finding] = self.found()
        assert "calling itself Bingbot was refused 10 submitted URLs" in finding.message

    def test_refusals_of_last_week_are_over(self, home: Page, submit: Submit) -> None:
        for page in pages(home, 10):
            submit(page, ago=timedelta(days=9), status=403, Bingbot=timedelta(hours=1))

        assert self.found() == []


@pytest.mark.parametrize(
    ("delay", "text"),
    [
        (timedelta(0), "less than a minute"),
        (timedelta(seconds=59), "less than a minute"),
        (timedelta(minutes=1, seconds=59), "1 minute"),
        (timedelta(hours=3, minutes=50), "3 hours"),
        (timedelta(days=15), "2 weeks"),
    ],
)
def test_duration_is_said_in_its_largest_unit(delay: timedelta, text: str) -> None:
    assert visit_notes.duration(delay).replace("\xa0", " ") == text
