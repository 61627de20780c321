"""Verbs on submissions: claim what is ready, record the answer, finish what a crash left.

The answer goes into the Submission first. From then on its URLs can be settled by anybody, any
number of times, so a crash in the middle sends nothing again.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Case, F, Q, QuerySet, Value, When

from ..conf import conf
from ..constants import (
    MAX_BODY_BYTES,
    MAX_URLS_PER_POST,
    UNKNOWN_FATES,
    Change,
    Reason,
    UrlState,
)
from ..ledger import channels, tracked_urls
from ..ledger.backoff import RETRY_DELAY_MAX, RETRY_DELAYS
from ..ledger.transactions import database, writing
from ..models import Submission, TrackedUrl
from .responses import Answer, Verdict

LEASE_FLOOR = timedelta(seconds=120)
RECHECK_DELAY = timedelta(seconds=60)
SETTLE_CHUNK = 5_000
CLAIM_CHUNK = 5_000
BODY_OVERHEAD = 2_048  # bytes for host, key, keyLocation and the frame around the list
URL_OVERHEAD = 3  # bytes: two quotes and a comma; a URL in normal form needs no escape
_SETTLED_BY = ("version", "claimed_version", "attempts")
#: What a submission's outcome says about URLs that a crash left unsettled.
_FINAL_OUTCOMES = {
    UrlState.ACCEPTED.value: UrlState.ACCEPTED,
    Reason.BAD_REQUEST.value: UrlState.REJECTED,
    Reason.UNPROCESSABLE.value: UrlState.REJECTED,
    Reason.DRY_RUN.value: UrlState.SKIPPED,
}


class ClaimedUrl(NamedTuple):
    """As much of a tracked URL as its POST needs: there are 10,000 of them."""

    pk: int
    url: str
    page_id: int | None
    change: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A submission in flight and the URLs that are ours until `lease_until`."""

    submission: Submission
    rows: list[ClaimedUrl]
    is_split: bool

    @property
    def urls(self) -> list[str]:
        return [row.url for row in self.rows]


def lease() -> timedelta:
    """Return how long claimed URLs stay with one worker."""
    return max(LEASE_FLOOR, timedelta(seconds=2 * conf.timeout_s + 30))


def claim(
    endpoint: str, host: str, *, now: datetime, limit: int = MAX_URLS_PER_POST
) -> Claim | None:
    """Take ready URLs of a channel, oldest first, for one POST; `None` if there are none.

    At most 10,000 and 5 MB. Of a POST that was too large, half.
    """
    with writing():
        channels.one_at_a_time([endpoint])
        ready = TrackedUrl.objects.of_channel(endpoint, host).ready(now)
        chosen, is_split = _choose(ready, limit)
        rows = list(_fitting(chosen))
        if not rows:
            return None
        submission = Submission.objects.create(
            endpoint=endpoint, host=host, started_at=now, urls=[row.url for row in rows]
        )
        for chunk in tracked_urls.chunks([row.pk for row in rows], CLAIM_CHUNK):
            # By key alone: the rows are locked.
            TrackedUrl.objects.filter(pk__in=chunk).update(
                submission=submission, claimed_version=F("version"), lease_until=now + lease()
            )
    return Claim(submission=submission, rows=rows, is_split=is_split)


def withdraw(claimed: Claim, page_ids: Collection[int], *, now: datetime) -> Claim | None:
    """Give up the claimed URLs of pages that are no longer public, and return the rest.

    One that was never told ends; any other is put back, for the next converge to remove.

    :returns: `None` if nothing is left to send.
    """
    refused = {row.pk for row in claimed.rows if _is_public(row) and row.page_id in page_ids}
    if not refused:
        return claimed
    rows = [row for row in claimed.rows if row.pk not in refused]
    with writing():
        _put_back(claimed.submission, refused, now)
        if not rows:
            claimed.submission.delete()
            return None
        claimed.submission.urls = [row.url for row in rows]
        claimed.submission.save(update_fields=["urls"])
    return Claim(submission=claimed.submission, rows=rows, is_split=claimed.is_split)


def public_pages(claimed: Claim) -> set[int]:
    """Return the pages whose URLs a claim would announce as public."""
    return {row.page_id for row in claimed.rows if _is_public(row) and row.page_id is not None}


def unclaim(claimed: Claim) -> None:
    """Give all URLs of a claim back as they were: nothing was sent."""
    pks = sorted(row.pk for row in claimed.rows)
    with writing():
        for chunk in tracked_urls.chunks(pks, SETTLE_CHUNK):
            tracked_urls.lock_still(claimed.submission.tracked_urls.all(), chunk).update(
                lease_until=None
            )
        claimed.submission.delete()


def record(claimed: Claim, answer: Answer, verdict: Verdict, *, now: datetime) -> None:
    """Write an answer down, then settle the URLs it is about."""
    submission = claimed.submission
    submission.finished_at = now
    submission.status = answer.status
    submission.error_code = verdict.error_code
    submission.excerpt = verdict.excerpt
    submission.outcome = verdict.outcome
    submission.save(update_fields=["finished_at", "status", "error_code", "excerpt", "outcome"])
    settle(submission, verdict)


def settle_answered(endpoint: str, host: str, *, now: datetime) -> int:
    """Finish submissions whose worker ended between answer and settling; return how many.

    Those whose worker ended before the answer are marked as such; their URLs are ready again.
    """
    Submission.objects.filter(
        endpoint=endpoint, host=host, finished_at=None, outcome="", started_at__lte=now - lease()
    ).update(outcome=Reason.NO_RESPONSE, error_code="lost: the worker ended")
    answered = Submission.objects.filter(
        endpoint=endpoint,
        host=host,
        finished_at__isnull=False,
        tracked_urls__lease_until__lte=now,
    ).distinct()
    submissions = list(answered)
    for submission in submissions:
        settle(submission, _remembered(submission))
    return len(submissions)


def settle(submission: Submission, verdict: Verdict) -> None:
    """Give each unsettled URL of an answered submission its outcome, a chunk at a time.

    One that was marked again meanwhile stays waiting.
    """
    unsettled = submission.tracked_urls.filter(lease_until__isnull=False)
    while True:
        with writing():
            channels.one_at_a_time([submission.endpoint])
            chunk = tracked_urls.in_turn(unsettled).values_list("pk", *_SETTLED_BY)
            locked = list(chunk[:SETTLE_CHUNK])
            if not locked:
                return
            last_pk = locked[-1][0]
            alike = {_trait(*values) for _pk, *values in locked}
            _settle_rows(unsettled.filter(pk__lte=last_pk), alike, submission, verdict)


def _choose(ready: QuerySet[TrackedUrl], limit: int) -> tuple[list[ClaimedUrl], bool]:
    """Return the rows to claim, locked if the database can, and whether they are a half."""
    # One that was taken out of its POST since then goes like any other.
    is_half = Q(reason=Reason.TOO_LARGE, submission__isnull=False)
    too_large = ready.filter(is_half)
    first = too_large.order_by("changed_at", "pk").select_related("submission").first()
    if first is not None and first.submission is not None:
        half = (len(first.submission.urls) + 1) // 2
        return _oldest(too_large.filter(submission=first.submission), min(half, limit)), True
    return _oldest(ready.exclude(is_half), limit), False


def _oldest(ready: QuerySet[TrackedUrl], limit: int) -> list[ClaimedUrl]:
    rows = ready.order_by("changed_at", "pk")
    if database().features.has_select_for_update_skip_locked:
        chosen = rows.select_for_update(skip_locked=True)[:limit]
    else:
        # Still: two workers may have chosen alike.
        pks = list(rows.values_list("pk", flat=True)[:limit])
        chosen = tracked_urls.lock_still(ready, pks).order_by("changed_at", "pk")
    return [ClaimedUrl(*values) for values in chosen.values_list(*ClaimedUrl._fields)]


def _fitting(rows: Iterable[ClaimedUrl]) -> Iterator[ClaimedUrl]:
    size = BODY_OVERHEAD
    for row in rows:
        size += len(row.url.encode()) + URL_OVERHEAD
        if size > MAX_BODY_BYTES:
            return
        yield row


def _is_public(row: ClaimedUrl) -> bool:
    return row.change != Change.REMOVED


def _put_back(submission: Submission, pks: Collection[int], now: datetime) -> None:
    rows = tracked_urls.lock_still(submission.tracked_urls.all(), pks)
    untold = rows.filter(change=Change.ADDED, sent_at=None, claimed_version=F("version")).exclude(
        reason__in=UNKNOWN_FATES
    )
    untold.update(
        change=Change.REMOVED,
        state=UrlState.SKIPPED,
        reason=Reason.WITHDRAWN,
        not_before=None,
        lease_until=None,
        submission=None,
    )
    rows.filter(not_before__lt=now + RECHECK_DELAY).update(not_before=now + RECHECK_DELAY)
    rows.update(lease_until=None, submission=None)


class _Trait(NamedTuple):
    """What the outcome of a URL depends on, besides the answer."""

    is_moved: bool  # it changed since it was claimed
    tries: int  # at most as many as there are delays

    @property
    def condition(self) -> Q:
        is_last = self.tries == len(RETRY_DELAYS)
        tried = Q(attempts__gte=self.tries) if is_last else Q(attempts=self.tries)
        as_claimed = Q(version=F("claimed_version"))
        return tried & (~as_claimed if self.is_moved else as_claimed)


def _trait(version: int, claimed_version: int, attempts: int) -> _Trait:
    return _Trait(version != claimed_version, min(attempts, len(RETRY_DELAYS)))


def _settle_rows(
    rows: QuerySet[TrackedUrl], alike: Collection[_Trait], submission: Submission, verdict: Verdict
) -> None:
    """Update locked rows, those that are alike in one statement: there are 10,000 of them.

    One that is settled drops out of `rows`.
    """
    for trait in alike:
        outcome = _outcome_of_moved if trait.is_moved else _outcome
        rows.filter(trait.condition).update(
            lease_until=None,
            last_status=submission.status,
            **outcome(submission, verdict, trait.tries),
        )


def _outcome(submission: Submission, verdict: Verdict, tries: int) -> dict[str, Any]:
    """Return the fields of a URL that is as it was claimed."""
    is_kept = verdict.url_state == UrlState.PENDING
    fields = {
        "state": verdict.url_state,
        "reason": verdict.reason,
        "attempts": F("attempts") + 1,
        "not_before": _retry_at(submission, verdict, tries) if is_kept else None,
    }
    if verdict.url_state == UrlState.ACCEPTED:
        fields["sent_at"] = submission.finished_at
    return fields


def _outcome_of_moved(submission: Submission, verdict: Verdict, tries: int) -> dict[str, Any]:
    """Return the fields of a URL that changed meanwhile: it waits for its own turn.

    Not before the gap after what was accepted is over, and not ahead of the retry.
    """
    if verdict.url_state == UrlState.ACCEPTED:
        until = _finished(submission) + conf.resubmit_after
        return {"sent_at": submission.finished_at, "not_before": _not_earlier_than(until)}
    if verdict.url_state == UrlState.PENDING:
        return {"not_before": _not_earlier_than(_retry_at(submission, verdict, tries))}
    return {}


def _not_earlier_than(until: datetime) -> Case:
    # NULL stays NULL: nothing waits there any more.
    return Case(When(not_before__lt=until, then=Value(until)), default=F("not_before"))


def _retry_at(submission: Submission, verdict: Verdict, tries: int) -> datetime:
    delay = verdict.retry
    if delay is None:
        delay = (*RETRY_DELAYS, RETRY_DELAY_MAX)[tries]
    return _finished(submission) + delay


def _finished(submission: Submission) -> datetime:
    return submission.finished_at or submission.started_at


def _remembered(submission: Submission) -> Verdict:
    """Return as much of the verdict as the URLs need."""
    state = _FINAL_OUTCOMES.get(submission.outcome, UrlState.PENDING)
    if state == UrlState.PENDING and submission.outcome == Reason.TOO_LARGE:
        return Verdict(url_state=state, reason=Reason.TOO_LARGE, retry=timedelta(0))
    is_told = state == UrlState.ACCEPTED
    return Verdict(url_state=state, reason="" if is_told else submission.outcome)
