"""How reports sum up many states: outcomes of submissions, progress of announcements."""

from datetime import datetime
from typing import Any

from django.db.models import Q, TextChoices
from django.utils.translation import gettext_lazy as _

from .. import clock
from ..conf import conf
from ..constants import IntentState, Kind, Reason, SubmissionState
from ..models import Intent, Submission


class Outcome(TextChoices):
    """What became of a submission, seen from afar."""

    TOLD = "told", _("Told")
    KEPT = "kept", _("Kept for another try")
    REJECTED = "rejected", _("Rejected")
    DRY_RUN = "dry_run", _("Dry run")
    IN_FLIGHT = "in_flight", _("On its way")


_OF_STATE = {
    SubmissionState.ACCEPTED: Outcome.TOLD,
    SubmissionState.REJECTED: Outcome.REJECTED,
    SubmissionState.SKIPPED: Outcome.DRY_RUN,
}


def condition(outcome: str) -> Q:
    """Return what selects the submissions of an outcome."""
    states = [state for state, found in _OF_STATE.items() if found == outcome]
    if states:
        return Q(state__in=states)
    return Q(state=SubmissionState.PENDING, finished_at__isnull=outcome == Outcome.IN_FLIGHT)


def outcome_of(submission: Submission) -> Outcome:
    """Return what became of one submission."""
    return outcome_named(submission.state, is_in_flight=submission.finished_at is None)


def outcome_named(state: str, *, is_in_flight: bool) -> Outcome:
    """Return the outcome that a state stands for."""
    kept = Outcome.IN_FLIGHT if is_in_flight else Outcome.KEPT
    return _OF_STATE.get(SubmissionState(state), kept)


class Progress(TextChoices):
    """How far an announcement is."""

    PLANNED = "planned", _("Planned")
    WAITING = "waiting", _("Waiting")
    OVERDUE = "overdue", _("Overdue")
    ANNOUNCED = "announced", _("Announced")
    SKIPPED = "skipped", _("Skipped")
    CANCELLED = "cancelled", _("Cancelled")
    FAILED = "failed", _("Failed")


OPEN = (Progress.PLANNED, Progress.WAITING, Progress.OVERDUE)


def progress_of(intent: Intent, now: datetime) -> Progress:
    """Return how far an announcement is."""
    if intent.state != IntentState.PLANNED:
        return Progress(intent.state)
    if intent.is_overdue(now, conf.go_live_grace):
        return Progress.OVERDUE
    return Progress.WAITING if intent.reason else Progress.PLANNED


def in_progress(rows: Any, progress: str) -> Any:
    """Select announcements by how far they are."""
    if progress not in OPEN:
        return rows.filter(state=progress)
    rows = rows.planned()
    overdue = Q(
        kind=Kind.GO_LIVE,
        reason=Reason.NOT_PUBLISHED_YET,
        expected_at__lte=clock.now() - conf.go_live_grace,
    )
    match progress:
        case Progress.PLANNED:
            return rows.filter(reason="")
        case Progress.OVERDUE:
            return rows.filter(overdue)
        case _:
            return rows.exclude(reason="").exclude(overdue)
