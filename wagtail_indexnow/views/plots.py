"""Thirty days of submissions as stacked bars: figures, and the geometry of one SVG.

Days are in the reader's time zone. The database receives their limits, so it needs no time zones.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cached_property

from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import Case, IntegerField, Q, Sum, Value, When
from django.utils import formats, timezone
from django.utils.translation import gettext as _

from ..models import Submission
from .states import SubmissionStateShown, shown_state

DAYS = 30
WIDTH, HEIGHT = 900, 200  # units of the SVG's own
LEFT, BOTTOM, TOP = 60, 24, 12
_STEP = (WIDTH - LEFT) / DAYS
_GAP = 6
_STATES = (
    SubmissionStateShown.ACCEPTED,
    SubmissionStateShown.RETRYING,
    SubmissionStateShown.REJECTED,
    SubmissionStateShown.SKIPPED,
)

#: State → one figure for each day.
Figures = Mapping[SubmissionStateShown, Sequence[int]]


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

    title: str
    days: Sequence[date]
    figures: Figures

    @cached_property
    def is_empty(self) -> bool:
        return not any(any(row) for row in self.figures.values())

    @cached_property
    def description(self) -> str:
        """Return the sums in one sentence."""
        sums = (f"{intcomma(sum(row))} {state.label}" for state, row in self.figures.items())
        return "; ".join(sums)

    @cached_property
    def legend(self) -> list[tuple[SubmissionStateShown, str]]:
        """Return each state with its sum."""
        return [(state, str(intcomma(sum(row)))) for state, row in self.figures.items()]

    @cached_property
    def table(self) -> list[tuple[str, list[str]]]:
        """Return each day that is not empty, with its figures, the latest first."""
        rows = zip(self.days, zip(*self.figures.values(), strict=True), strict=True)
        shown = [(_day(day), [str(intcomma(n)) for n in row]) for day, row in rows if any(row)]
        return shown[::-1]

    @cached_property
    def top(self) -> int:
        """Return the figure at the upper end of the scale."""
        return max((sum(day) for day in zip(*self.figures.values(), strict=True)), default=0)

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
            for state, row in self.figures.items():
                if row[number]:
                    yield self._bar(state, number, day, below, row[number])
                below += row[number]

    def _bar(
        self, state: SubmissionStateShown, number: int, day: date, below: int, figure: int
    ) -> Bar:
        upper = self._y(below + figure)
        return Bar(
            style=state.value,
            x=round(LEFT + number * _STEP + _GAP / 2),
            y=upper,
            width=round(_STEP - _GAP),
            height=max(self._y(below) - upper, 1),
            title=f"{_day(day)}: {intcomma(figure)} {state.label}",
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
    figures: dict[SubmissionStateShown, list[int]] = defaultdict(lambda: [0] * DAYS)
    for day, state, is_in_flight, total in rows:
        figures[shown_state(state, is_in_flight=is_in_flight)][day] += total
    return Plot(
        title=_("Submitted URLs in the last 30 days"),
        days=days,
        figures={state: figures[state] for state in _STATES if state in figures},
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


def _day(day: date) -> str:
    return formats.date_format(day, "SHORT_DATE_FORMAT")
