"""Thirty days as stacked bars: figures from the database, geometry for one SVG template.

Days are the reader's. The database is given their borders, so that it needs no time zones.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cached_property
from typing import Any

from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import Case, Count, IntegerField, Q, Sum, Value, When
from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from ..constants import IntentState, Kind, Reason
from ..models import Submission
from .outcomes import Outcome, outcome_named

DAYS = 30
MAX_SERIES = 5
WIDTH, HEIGHT = 900, 200  # units of the SVG's own
LEFT, BOTTOM, TOP = 60, 24, 12
_STEPS = (10, 12, 16, 20, 24, 30, 40, 50, 60, 80, 100)
_STEP = (WIDTH - LEFT) / DAYS
_GAP = 6
_OUTCOMES = (Outcome.TOLD, Outcome.KEPT, Outcome.REJECTED, Outcome.DRY_RUN)

#: Series → one figure for each day.
Figures = Mapping[str, Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One piece of one day's stack, in units of the SVG."""

    style: str
    x: int
    y: int
    width: int
    height: int
    title: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """A horizontal line with its figure."""

    y: int
    label: str


@dataclass(frozen=True)
class Plot:
    """What the template draws, and the table that says the same."""

    name: str
    title: str
    days: Sequence[date]
    labels: Mapping[str, str | Promise]
    styles: Mapping[str, str]
    figures: Figures

    @cached_property
    def is_empty(self) -> bool:
        return not any(any(row) for row in self.figures.values())

    @cached_property
    def description(self) -> str:
        """Sum the plot up in one sentence."""
        sums = (f"{intcomma(sum(row))} {self.labels[key]}" for key, row in self.figures.items())
        return "; ".join(sums)

    @cached_property
    def legend(self) -> list[tuple[str, str | Promise, str]]:
        """Return style, label and sum of each series."""
        return [
            (self.styles[key], self.labels[key], str(intcomma(sum(row))))
            for key, row in self.figures.items()
        ]

    @cached_property
    def table(self) -> list[tuple[str, list[str]]]:
        """Return each day that is not empty, with its figures, the latest first."""
        rows = zip(self.days, zip(*self.figures.values(), strict=True), strict=True)
        shown = [(_day(day), [str(intcomma(n)) for n in row]) for day, row in rows if any(row)]
        return shown[::-1]

    @cached_property
    def top(self) -> int:
        """Return the figure at the upper end of the scale: a round one."""
        highest = max((sum(day) for day in zip(*self.figures.values(), strict=True)), default=0)
        return _round_up(highest)

    @property
    def lines(self) -> list[Line]:
        parts = (0, 1, 2) if self.top % 2 == 0 else (0, 2)
        return [
            Line(y=self._y(self.top * part // 2), label=str(intcomma(self.top * part // 2)))
            for part in parts
        ]

    @property
    def ticks(self) -> list[tuple[int, str]]:
        """Return where along the axis which date is written."""
        shown = range(0, DAYS, 7)
        return [(round(LEFT + (n + 0.5) * _STEP), _day(self.days[n])) for n in shown]

    @property
    def bars(self) -> Iterator[Bar]:
        for number, day in enumerate(self.days):
            below = 0
            for key, row in self.figures.items():
                if row[number]:
                    yield self._bar(key, number, day, below, row[number])
                below += row[number]

    def _bar(self, key: str, number: int, day: date, below: int, figure: int) -> Bar:
        upper = self._y(below + figure)
        return Bar(
            style=self.styles[key],
            x=round(LEFT + number * _STEP + _GAP / 2),
            y=upper,
            width=round(_STEP - _GAP),
            height=max(self._y(below) - upper, 1),
            title=f"{_day(day)}: {intcomma(figure)} {self.labels[key]}",
        )

    def _y(self, figure: int) -> int:
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * figure / max(self.top, 1))


def submissions(now: datetime) -> Plot:
    """Return the URLs of the last 30 days by what became of their submission."""
    days = _days(now)
    rows = (
        Submission.objects.filter(started_at__gte=_start_of(days[0]))
        .annotate(day=_number_of_day("started_at", days))
        .order_by()
        .annotate(is_in_flight=Q(finished_at=None))
        .values_list("day", "state", "is_in_flight")
        .annotate(total=Sum("url_count"))
    )
    figures = _figures(
        (day, outcome_named(state, is_in_flight=is_in_flight), total)
        for day, state, is_in_flight, total in rows
    )
    shown = {key.value: figures[key] for key in _OUTCOMES if key in figures}
    return Plot(
        name="submissions",
        title=_("URLs in submissions of the last 30 days"),
        days=days,
        labels={key.value: key.label for key in _OUTCOMES},
        styles={key.value: key.value for key in _OUTCOMES},
        figures=shown,
    )


def skipped(go_lives: Any, now: datetime) -> Plot:
    """Return why go-lives of the last 30 days were not announced: a spike is news."""
    days = _days(now)
    rows = (
        go_lives.filter(
            kind=Kind.GO_LIVE,
            state__in=(IntentState.SKIPPED, IntentState.CANCELLED, IntentState.FAILED),
            finished_at__gte=_start_of(days[0]),
        )
        .annotate(day=_number_of_day("finished_at", days))
        .order_by()
        .values_list("day", "reason")
        .annotate(total=Count("pk"))
    )
    figures = _busiest(_figures(rows))
    sentences = {key: str(Reason(key).label) for key in figures if key in Reason.values}
    return Plot(
        name="skipped",
        title=_("Go-lives of the last 30 days that were not announced, by reason"),
        days=days,
        labels={key: sentences.get(key, _("Other")).rstrip(".") for key in figures},
        styles={key: f"series-{number}" for number, key in enumerate(figures, start=1)},
        figures=figures,
    )


def _days(now: datetime) -> list[date]:
    today = timezone.template_localtime(now).date()  # type: ignore[attr-defined]
    return [today - timedelta(days=ago) for ago in range(DAYS - 1, -1, -1)]


def _start_of(day: date) -> datetime:
    midnight = datetime.combine(day, time.min)
    return timezone.make_aware(midnight) if settings.USE_TZ else midnight


def _number_of_day(field: str, days: Sequence[date]) -> Case:
    cases = [
        When(**{f"{field}__lt": _start_of(day)}, then=Value(number))
        for number, day in enumerate(days[1:])
    ]
    return Case(*cases, default=Value(DAYS - 1), output_field=IntegerField())


def _figures(rows: Iterable[tuple[int, str, int]]) -> dict[str, list[int]]:
    figures: dict[str, list[int]] = defaultdict(lambda: [0] * DAYS)
    for day, key, total in rows:
        figures[key][day] += total
    return figures


def _busiest(figures: dict[str, list[int]]) -> dict[str, list[int]]:
    """Return the largest series first, with the small ones summed up as one."""
    ordered = sorted(figures.items(), key=lambda item: -sum(item[1]))
    kept, rest = dict(ordered[:MAX_SERIES]), [row for _key, row in ordered[MAX_SERIES:]]
    if rest:
        kept["other"] = [sum(day) for day in zip(*rest, strict=True)]
    return kept


def _day(day: date) -> str:
    return formats.date_format(day, "SHORT_DATE_FORMAT")


def _round_up(figure: int) -> int:
    """Return the next round figure: up to ten itself, then 12, 16, 20, 24, 30 … 120, 160 …"""
    if figure <= _STEPS[0]:
        return figure
    scale = 1
    while figure > _STEPS[-1] * scale:
        scale *= 10
    return next(step * scale for step in _STEPS if figure <= step * scale)
