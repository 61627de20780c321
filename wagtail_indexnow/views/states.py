"""States as the reports show them: finer than the column, where other rows or times decide too."""

from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, TextChoices
from django.utils.translation import gettext_lazy as _

from .. import clock
from ..conf import conf
from ..constants import IntentState, SubmissionState, UrlState
from ..diagnostics.wait_reasons import Wait
from ..ledger.channels import ENDPOINT
from ..models import Channel, Intent, Submission, TrackedUrl


class EventState(TextChoices):
    """How far an event is."""

    PLANNED = "planned", _("Planned")
    WAITING = "waiting", _("Waiting")
    OVERDUE = "overdue", _("Overdue")
    ANNOUNCED = "announced", _("Processed")
    SKIPPED = "skipped", _("Skipped")
    CANCELLED = "cancelled", _("Cancelled")
    FAILED = "failed", _("Failed")


class UrlStateShown(TextChoices):
    """What became of a URL, or what it waits for."""

    PENDING = "pending", _("Pending")
    RETRYING = "retrying", _("Retrying")
    PAUSED = "paused", _("Paused")
    ACCEPTED = "accepted", _("Accepted")
    REJECTED = "rejected", _("Rejected")
    FAILED = "failed", _("Failed")
    SKIPPED = "skipped", _("Skipped")


class SubmissionStateShown(TextChoices):
    """What became of a submission."""

    SENDING = "sending", _("Sending")
    ACCEPTED = "accepted", _("Accepted")
    RETRYING = "retrying", _("Retrying")
    REJECTED = "rejected", _("Rejected")
    SKIPPED = "skipped", _("Skipped")


ACCEPTED_UNVERIFIED = _("Accepted, key validation pending")


def event_state(intent: Any) -> EventState:
    """Return how far an event is; the row is annotated by `with_overdue()`."""
    if intent.state != IntentState.PLANNED:
        return EventState(intent.state)
    if intent.is_overdue:
        return EventState.OVERDUE
    return EventState.WAITING if intent.reason else EventState.PLANNED


def with_event_state(rows: Any, state: str, now: datetime) -> Any:
    """Select events by how far they are."""
    overdue = Intent.objects.overdue(now, conf.go_live_grace)
    match state:
        case EventState.PLANNED:
            return rows.planned().filter(reason="")
        case EventState.WAITING:
            waiting = rows.planned().exclude(reason="")
            return waiting.exclude(pk__in=overdue.values("pk"))
        case EventState.OVERDUE:
            return rows.overdue(now, conf.go_live_grace)
        case _:
            return rows.filter(state=state)


def url_state(url: TrackedUrl, wait: Wait) -> UrlStateShown:
    """Return what became of a URL, or what it waits for."""
    if url.state != UrlState.PENDING:
        return UrlStateShown(url.state)
    if wait.is_paused:
        return UrlStateShown.PAUSED
    return UrlStateShown.RETRYING if url.attempts else UrlStateShown.PENDING


def url_state_label(url: TrackedUrl, wait: Wait) -> Any:
    """Return a URL's state in words: a 202 is an acceptance with a reservation."""
    is_unverified = url.state == UrlState.ACCEPTED and url.last_status == 202
    return ACCEPTED_UNVERIFIED if is_unverified else url_state(url, wait).label


def with_url_state(rows: Any, state: str) -> Any:
    """Select URLs by what became of them, or what they wait for."""
    if state not in (UrlStateShown.PENDING, UrlStateShown.RETRYING, UrlStateShown.PAUSED):
        return rows.filter(state=state)
    pauses = Channel.objects.exclude(pause_reason="").filter(
        Q(host=OuterRef("host")) | Q(host=ENDPOINT),
        endpoint=OuterRef("endpoint"),
        not_before__gt=clock.now(),
    )
    rows = rows.filter(state=UrlState.PENDING)
    match state:
        case UrlStateShown.PAUSED:
            return rows.filter(Exists(pauses))
        case UrlStateShown.RETRYING:
            return rows.filter(~Exists(pauses), attempts__gt=0)
        case _:
            return rows.filter(~Exists(pauses), attempts=0)


def submission_state(submission: Submission) -> SubmissionStateShown:
    """Return what became of a submission."""
    return shown_state(submission.state, is_in_flight=submission.finished_at is None)


def shown_state(state: str, *, is_in_flight: bool) -> SubmissionStateShown:
    """Return what a submission's state stands for: pending is both sending and retrying."""
    if state != SubmissionState.PENDING:
        return SubmissionStateShown(state)
    return SubmissionStateShown.SENDING if is_in_flight else SubmissionStateShown.RETRYING


def with_submission_state(rows: Any, state: str) -> Any:
    """Select submissions by what became of them."""
    if state not in (SubmissionStateShown.SENDING, SubmissionStateShown.RETRYING):
        return rows.filter(state=state)
    is_in_flight = state == SubmissionStateShown.SENDING
    return rows.filter(state=SubmissionState.PENDING, finished_at__isnull=is_in_flight)
