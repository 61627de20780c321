"""The plot: right figures on the right days, drawn to scale, and said in words."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from wagtail.models import Page

from tests.admin.conftest import ADMIN
from tests.admin.test_urls_report import shown
from wagtail_indexnow.views import plots
from wagtail_indexnow.views.plots import Plot
from wagtail_indexnow.views.states import SubmissionStateShown

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def plot_of(**figures: list[int]) -> Plot:
    days = [date(2026, 11, 1) + timedelta(days=number) for number in range(30)]
    padded = {
        SubmissionStateShown(key): [*row, *[0] * (30 - len(row))] for key, row in figures.items()
    }
    return Plot(title="Test", days=days, figures=padded)


class TestSubmissions:
    def test_counts_urls_by_day_and_state(self, submission: Any) -> None:
        urls = ["https://www.example.com/"]
        submission(started_at=NOW, urls=urls * 3)
        submission(started_at=NOW, urls=urls * 2)
        submission(started_at=NOW, state="rejected")
        submission(started_at=NOW, state="pending")
        submission(started_at=NOW, state="pending")
        submission(started_at=NOW - timedelta(days=29), urls=urls * 7)
        submission(started_at=NOW - timedelta(days=30))

        plot = plots.submissions(NOW)

        assert plot.days[0] == date(2026, 11, 1)
        assert plot.figures[SubmissionStateShown.ACCEPTED] == [7, *[0] * 28, 5]
        assert plot.figures[SubmissionStateShown.REJECTED][-1] == 1
        assert plot.figures[SubmissionStateShown.RETRYING][-1] == 2

    @pytest.mark.parametrize(
        ("zone", "day"), [("UTC", 30), ("Pacific/Auckland", 31), ("America/Los_Angeles", 30)]
    )
    def test_days_are_the_readers(self, zone: str, day: int, submission: Any) -> None:
        submission(started_at=NOW)

        with timezone.override(zone):
            plot = plots.submissions(NOW)

        assert plot.days[-1] == date(2026, 11, 1) + timedelta(days=day - 1)
        assert plot.figures[SubmissionStateShown.ACCEPTED][-1] == 1

    def test_midnight_of_the_reader_is_the_border(self, submission: Any) -> None:
        with timezone.override("Europe/Berlin"):
            submission(started_at=datetime(2026, 11, 29, 22, 59, tzinfo=UTC))
            submission(started_at=datetime(2026, 11, 29, 23, 0, tzinfo=UTC))
            plot = plots.submissions(NOW)

        assert plot.figures[SubmissionStateShown.ACCEPTED][-2:] == [1, 1]

    def test_day_of_the_clock_change_has_one_bar(self, submission: Any) -> None:
        with timezone.override("Europe/Berlin"):
            for hour in range(22, 24 + 23):
                submission(started_at=datetime(2026, 10, 24, tzinfo=UTC) + timedelta(hours=hour))
            plot = plots.submissions(datetime(2026, 10, 31, tzinfo=UTC))

        assert (
            plot.figures[SubmissionStateShown.ACCEPTED][plot.days.index(date(2026, 10, 25))] == 25
        )


class TestGeometry:
    def test_bars_stand_on_each_other_to_scale(self) -> None:
        plot = plot_of(accepted=[6], retrying=[2], rejected=[0])

        accepted, retrying = plot.bars

        assert plot.top == 8
        assert accepted.y == retrying.y + retrying.height
        assert accepted.height == pytest.approx(3 * retrying.height, abs=2)
        assert accepted.y + accepted.height == plot.lines[0].y

    def test_highest_stack_reaches_the_top_line(self) -> None:
        plot = plot_of(accepted=[103, 7])

        assert plot.top == 103
        assert min(bar.y for bar in plot.bars) == plot.lines[-1].y

    def test_smallest_figure_is_still_seen(self) -> None:
        plot = plot_of(accepted=[100_000], retrying=[0, 1])

        assert all(bar.height >= 1 for bar in plot.bars)

    def test_lines_have_whole_figures(self) -> None:
        assert [line.label for line in plot_of(accepted=[5]).lines] == ["0", "5"]
        assert [line.label for line in plot_of(accepted=[6]).lines] == ["0", "3", "6"]


class TestWords:
    def test_table_says_the_same_as_the_bars(self) -> None:
        plot = plot_of(accepted=[1234, 0, 5], retrying=[0, 0, 2])

        assert plot.table == [("11/03/2026", ["5", "2"]), ("11/01/2026", ["1,234", "0"])]
        assert plot.description == "1,239 Accepted; 2 Retrying"

    def test_page_shows_picture_and_table(self, superuser: Client, submission: Any) -> None:
        submission()

        page = shown(superuser, report=f"{ADMIN}urls/")

        assert "<svg class" in page
        assert 'role="img"' in page
        assert "Show the figures as a table" in page

    def test_page_without_history_says_so(self, superuser: Client, home: Page) -> None:
        page = shown(superuser, report=f"{ADMIN}urls/")

        assert "No submissions in the last 30 days." in page
        assert 'class="indexnow-plot__chart"' not in page

    def test_german_figures_leave_the_picture_whole(
        self, superuser: Client, submission: Any, settings: Any
    ) -> None:
        settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR = "de", True
        submission(urls=["https://www.example.com/"] * 2_345)

        page = shown(superuser, report=f"{ADMIN}urls/")

        assert "2.345" in page
        [rect] = [line for line in page.splitlines() if "<rect" in line]
        width = rect.split(' width="')[1].split('"')[0]
        assert width.isdecimal()
