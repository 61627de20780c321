"""Verbs on submissions: read what is ready, claim a slot for it, record the response, settle.

One POST of a channel is in flight at a time: `lease_until` is the fence, and its value the token
of whoever holds it. The response goes into the Submission first. From then on its URLs can be
settled by anyone, any number of times, so that a crash in the middle submits nothing again.

Which statement comes after which, and what each condition is there for, is told in
`docs/explanation/submission.md`. Each shorter form was seen to fail.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Case, F, Value, When

from .. import clock
from ..conf import conf
from ..constants import (
    MAX_BODY_BYTES,
    MAX_URLS_PER_POST,
    Change,
    Reason,
    SubmissionState,
    UrlState,
)
from ..ledger import backoff, channels, tracked_urls
from ..ledger.transactions import roll_back, writing
from ..models import Channel, Submission, TrackedUrl
from .redaction import mask
from .responses import Answer, PauseScope, Verdict

LEASE_FLOOR = timedelta(seconds=120)
RECHECK_DELAY = timedelta(seconds=60)
SETTLE_CHUNK = 5_000
BODY_OVERHEAD = 2_048  # bytes for host, key, keyLocation and the frame around the list
#: What else is kept waits for a pause to end, or goes again in halves.
_UNKNOWN_FATES = (Reason.NO_RESPONSE, Reason.SERVER_ERROR)
URL_OVERHEAD = 3  # bytes: two quotes and a comma; a URL in normal form needs no escape


class ReadyUrl(NamedTuple):
    """As much of a tracked URL as its POST needs: there are 10,000 of them."""

    pk: int
    version: int
    url: str
    url_hash: str
    change: str
    page_id: int | None
    reason: str
    submission: int | None

    @property
    def is_gone(self) -> bool:
        return self.change == Change.REMOVED

    @property
    def is_half(self) -> bool:
        """Return whether it waits to go again with half of a POST that was too large."""
        return self.reason == Reason.TOO_LARGE and self.submission is not None


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What is ready in a channel, and the channel as it was right before that was read."""

    channel: Channel
    rows: list[ReadyUrl]
    is_half: bool = False


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A submission in flight, and the lease of its channel."""

    submission: Submission
    channel: Channel
    token: datetime
    rows: list[ReadyUrl]
    is_half: bool

    @property
    def urls(self) -> list[str]:
        return [row.url for row in self.rows]


def lease() -> timedelta:
    """Return how long a channel stays with one worker."""
    return max(LEASE_FLOOR, timedelta(seconds=2 * conf.timeout_s + 30))


def read(channel: Channel, *, now: datetime, limit: int = MAX_URLS_PER_POST) -> Batch:
    """Read what is ready in a channel, first due first, without writing anything.

    At most 10,000 URLs and 5 MB. Of a POST that was too large, half.
    """
    ready = TrackedUrl.objects.filter(channel=channel.pk, not_before__lte=now)
    rows = ready.order_by("not_before", "pk").values_list(*ReadyUrl._fields)
    chosen, is_half = _choose([ReadyUrl(*values) for values in rows[:limit]])
    return Batch(channel=channel, rows=list(_fitting(chosen)), is_half=is_half)


def refuse(batch: Batch, refused: Collection[ReadyUrl]) -> Batch:
    """Let URLs wait whose pages are not public, and return the batch without them.

    Only the next check of their pages withdraws or removes them.
    """
    if not refused:
        return batch
    versions = {row.pk: row.version for row in refused}
    with writing():
        rows = tracked_urls.lock(sorted(versions)).values_list("pk", "version", "not_before")
        same = [pk for pk, version, due in rows if due and version == versions[pk]]
        TrackedUrl.objects.filter(pk__in=same).update(
            reason=Reason.NOT_PUBLIC_YET, not_before=clock.now() + RECHECK_DELAY
        )
        channels.recompute(channels.lock([batch.channel.pk]))
    rest = [row for row in batch.rows if row.pk not in versions]
    return Batch(channel=batch.channel, rows=rest, is_half=batch.is_half)


def claim(batch: Batch, *, key: str) -> Claim | datetime | None:
    """Take the endpoint's slot, and the channel's lease for one POST; or write nothing.

    :returns: if the endpoint's slot is taken, when the next one is; `None` if the channel is not
        as it was when its URLs were read: somebody else was faster, or it is paused.
    """
    channel = batch.channel
    urls = [_entry(row) for row in batch.rows]
    with writing():
        now, next_slot = _take_slot(channel.endpoint)
        if next_slot > now:
            roll_back()
            return next_slot
        token = now + lease()
        submission = Submission.objects.create(
            endpoint=channel.endpoint, host=channel.host, key=mask(key), started_at=now, urls=urls
        )
        as_read = Channel.objects.filter(
            pk=channel.pk, not_before=channel.not_before, not_before__lte=now, lease_until=None
        )
        is_taken = as_read.update(
            not_before=now + conf.host_interval,
            lease_until=token,
            ready_at=token,
            submission=submission.pk,
            handed_at=None,
        )
        if not is_taken:
            roll_back()
            return None
    return Claim(
        submission=submission,
        channel=channel,
        token=token,
        rows=batch.rows,
        is_half=batch.is_half,
    )


def is_fresh(claimed: Claim, now: datetime) -> bool:
    """Return whether enough of the lease is left for a POST."""
    return now < claimed.token - lease() / 2


def unsend(claimed: Claim) -> None:
    """End a claim whose POST was never begun: its URLs are as they were, and ready again."""
    with writing():
        if _end_lease(claimed.channel.pk, claimed.token):
            Submission.objects.filter(pk=claimed.submission.pk).delete()


def record_response(claimed: Claim, answer: Answer, verdict: Verdict) -> bool:
    """Write down a response, and the pause that it raises, in one transaction.

    :returns: `False` if it came too late: somebody else took the channel, and settled this POST
        as one of unknown fate. Nothing was written.
    """
    channel, started_at = claimed.channel, claimed.submission.started_at
    pauses: list[tuple[Channel, bool]] = []
    with writing():
        endpoint_row = _lock_endpoint(channel.endpoint, verdict)
        [row] = channels.lock([channel.pk])
        now = clock.now()
        in_flight = Submission.objects.filter(pk=claimed.submission.pk, finished_at=None)
        if not in_flight.update(**_response_fields(answer, verdict, now)):
            roll_back()
            return False
        paused = endpoint_row if verdict.pause is PauseScope.ENDPOINT else row
        if verdict.pause is not None and verdict.pause_until is not None and paused is not None:
            until, reason = verdict.pause_until, verdict.reason
            is_new = channels.pause(
                paused, reason=reason, until=until, now=now, started_at=started_at
            )
            pauses.append((paused, is_new))
        if verdict.proven:
            row.verified_at = now
            row.save(update_fields=["verified_at"])
            for proved in filter(None, (endpoint_row, row)):
                channels.clear(proved, before=started_at)
        channels.recompute([row])
    for paused, is_new in pauses:
        channels.log_pause(paused, is_new=is_new)
    return True


def settle(submission_pk: int | None, channel_pk: int, token: datetime) -> bool:
    """Give each URL of a finished submission its outcome, a chunk at a time, and end the lease.

    :param token: the lease under which this is done, renewed with each chunk.
    :returns: `False` if somebody else holds the channel by now, and goes on with this.
    """
    submission = Submission.objects.filter(pk=submission_pk or 0).first()
    pks = sorted(entry["id"] for entry in submission.urls) if submission else []
    for chunk in tracked_urls.chunks(pks, SETTLE_CHUNK):
        assert submission is not None  # noqa: S101
        with writing():
            touched = _settle_rows(submission, chunk)
            locked = channels.lock({channel_pk, *touched})
            renewed = _renew(channel_pk, token)
            if renewed is None:
                roll_back()
                return False
            channels.recompute([row for row in locked if row.pk != channel_pk])
        token = renewed
    with writing():
        return _end_lease(channel_pk, token)


def take_over(pk: int) -> tuple[int | None, datetime] | None:
    """Take a channel whose lease ran out, to settle what its worker left.

    Without a response its POST is an attempt of unknown fate.

    :returns: its submission and the token of the new lease; `None` if its lease has not run out.
    """
    with writing():
        rows = channels.lock([pk])
        now = clock.now()
        if not rows or rows[0].lease_until is None or rows[0].lease_until > now:
            return None
        [row] = rows
        row.lease_until = row.ready_at = token = now + lease()
        row.save(update_fields=["lease_until", "ready_at"])
        Submission.objects.filter(pk=row.submission or 0, finished_at=None).update(
            finished_at=now,
            state=SubmissionState.PENDING,
            reason=Reason.NO_RESPONSE,
            error_code="lost: the worker ended",
        )
    return row.submission, token


def _choose(rows: Sequence[ReadyUrl]) -> tuple[Sequence[ReadyUrl], bool]:
    """Return the rows to go, and whether they are half of a POST that was too large.

    The row that is due first decides: no search among a million others.
    """
    first = next(iter(rows), None)
    if first is not None and first.is_half:
        url_count = Submission.objects.filter(pk=first.submission or 0).values_list("url_count")
        count = next((count for (count,) in url_count), 0)
        if count:
            same = [row for row in rows if row.is_half and row.submission == first.submission]
            return same[: (count + 1) // 2], True
        return rows, False  # it was pruned: they go like any other
    return [row for row in rows if not row.is_half], False


def _fitting(rows: Iterable[ReadyUrl]) -> Iterator[ReadyUrl]:
    size = BODY_OVERHEAD
    for row in rows:
        size += len(row.url.encode()) + URL_OVERHEAD
        if size > MAX_BODY_BYTES:
            return
        yield row


def _entry(row: ReadyUrl) -> dict[str, Any]:
    return {
        "id": row.pk,
        "version": row.version,
        "url": row.url,
        "change": row.change,
        "page": row.page_id,
    }


def _take_slot(endpoint: str) -> tuple[datetime, datetime]:
    """Take the endpoint's slot, if it has come; return the time, and when that slot was.

    Half a slot late it still counts as taken in time, so that the next one does not move.
    """
    row = channels.lock_one(endpoint, channels.ENDPOINT)
    now = clock.now()
    if row is None:  # its host's channel was there: somebody removes the endpoint right now
        return now, clock.epoch()
    slot, due = channels.slot(), row.not_before
    if due <= now:
        row.not_before = max(due, now - slot / 2) + slot
        row.save(update_fields=["not_before"])
    return now, due


def _lock_endpoint(endpoint: str, verdict: Verdict) -> Channel | None:
    """Lock the endpoint's row where a response may change it: all hosts take slots from it."""
    if verdict.pause is PauseScope.ENDPOINT:
        return channels.lock_one(endpoint, channels.ENDPOINT)
    row = channels.get(endpoint, channels.ENDPOINT) if verdict.proven else None
    if row is not None and row.pause_reason:
        return channels.lock_one(endpoint, channels.ENDPOINT)
    return None


def _response_fields(answer: Answer, verdict: Verdict, now: datetime) -> dict[str, Any]:
    return {
        "finished_at": now,
        "status": answer.status,
        "state": verdict.state,
        "reason": verdict.reason,
        "error_code": verdict.error_code,
        "excerpt": verdict.excerpt,
    }


def _renew(channel_pk: int, token: datetime) -> datetime | None:
    renewed = clock.now() + lease()
    held = Channel.objects.filter(pk=channel_pk, lease_until=token)
    return renewed if held.update(lease_until=renewed, ready_at=renewed) else None


def _end_lease(channel_pk: int, token: datetime) -> bool:
    rows = channels.lock([channel_pk])
    if not rows or rows[0].lease_until != token:
        return False
    rows[0].lease_until = rows[0].submission = None
    rows[0].save(update_fields=["lease_until", "submission"])
    channels.recompute(rows)
    return True


class _Unsettled(NamedTuple):
    """What the outcome of a locked URL depends on, besides the response."""

    pk: int
    version: int
    url_hash: str
    state: str
    reason: str
    attempts: int
    channel: int | None


def _settle_rows(submission: Submission, pks: Sequence[int]) -> set[int]:
    """Write the outcome of some URLs; return the channels that those wait in which changed.

    Those that are alike in one statement: there are 10,000 of them.
    """
    claimed = {entry["id"]: entry["version"] for entry in submission.urls}
    rows = tracked_urls.lock(pks).values_list(*_Unsettled._fields, "submission")
    # What is settled already says so: a crash in the middle counts no attempt twice.
    unsettled = [_Unsettled(*values) for *values, by in rows if by != submission.pk]
    same = [row for row in unsettled if row.version == claimed[row.pk]]
    moved = [row for row in unsettled if row.version != claimed[row.pk]]
    for attempts, group in _by_attempts(same).items():
        _update(group, submission, **_outcome(submission, attempts))
    if submission.reason == Reason.DRY_RUN:  # nothing was sent: the change is as it was
        return set()
    withdrawn = [row for row in moved if row.reason == Reason.WITHDRAWN]
    _update([row for row in moved if row not in withdrawn], submission, **_moved(submission))
    held = tracked_urls.holders(row.url_hash for row in withdrawn)
    for change in (Change.REMOVED, Change.UPDATED):
        is_held = change == Change.UPDATED
        group = [row for row in withdrawn if (row.url_hash in held) == is_held]
        _update(group, submission, **_revived(submission, change))
    return {row.channel for row in moved if row.channel is not None}


def _by_attempts(rows: Iterable[_Unsettled]) -> dict[int, list[_Unsettled]]:
    groups: dict[int, list[_Unsettled]] = defaultdict(list)
    for row in rows:
        groups[min(row.attempts, len(backoff.RETRY_DELAYS))].append(row)
    return groups


def _update(rows: Sequence[_Unsettled], submission: Submission, **fields: Any) -> None:
    if not rows:
        return
    if submission.reason != Reason.DRY_RUN:  # `submission`: it was in a POST
        fields |= {
            "submission": submission.pk,
            "last_status": submission.status,
            "last_status_at": submission.finished_at,
        }
    if submission.state == SubmissionState.ACCEPTED:
        fields |= {
            "sent_at": submission.finished_at,
            "accepted_as": F("fetched_as"),
            "accepted_etag": F("fetched_etag"),
        }
    TrackedUrl.objects.filter(pk__in=[row.pk for row in rows]).update(**fields)


def _outcome(submission: Submission, attempts: int) -> dict[str, Any]:
    """Return the fields of a URL that is as it was claimed."""
    is_kept = submission.state == SubmissionState.PENDING
    return {
        "state": submission.state,
        "reason": submission.reason,
        "attempts": F("attempts") + 1,
        "not_before": _retry_at(submission, attempts + 1) if is_kept else None,
    }


def _moved(submission: Submission) -> dict[str, Any]:
    """Return the fields of a URL that changed meanwhile: it stays pending.

    Not before the gap after what was accepted is over, nor ahead of a retry.
    """
    until = _again_at(submission)
    # NULL stays NULL: nothing waits there any more.
    later = Case(When(not_before__lt=until, then=Value(until)), default=F("not_before"))
    return {"not_before": later}


def _revived(submission: Submission, change: str) -> dict[str, Any]:
    """Return the fields of a URL that was withdrawn while it was in a POST after all."""
    return {
        "change": change,
        "state": UrlState.PENDING,
        "reason": "",
        "version": F("version") + 1,
        "attempts": 0,
        "changed_at": _finished(submission),
        "not_before": _again_at(submission),
    }


def _again_at(submission: Submission) -> datetime:
    if submission.state == SubmissionState.ACCEPTED:
        return _finished(submission) + conf.resubmit_after
    is_kept = submission.state == SubmissionState.PENDING
    return _retry_at(submission, 1) if is_kept else _finished(submission)


def _retry_at(submission: Submission, attempts: int) -> datetime:
    is_unknown = submission.reason in _UNKNOWN_FATES
    delay = backoff.retry_delay(attempts) if is_unknown else timedelta(0)
    return _finished(submission) + delay


def _finished(submission: Submission) -> datetime:
    return submission.finished_at or submission.started_at
