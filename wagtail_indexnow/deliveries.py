"""Verbs on deliveries: claim what is ready, record the answer, finish what a crash left.

The answer goes into the Delivery first. From then on its URLs can be settled by anybody, any
number of times, so a crash in the middle sends nothing again.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connections, router, transaction
from django.db.models import F, QuerySet

from . import channels, tracked_urls
from .conf import conf
from .constants import (
    MAX_BODY_BYTES,
    MAX_URLS_PER_POST,
    RETRY_DELAY_MAX,
    RETRY_DELAYS,
    Change,
    Reason,
    UrlState,
)
from .models import Delivery, TrackedUrl
from .responses import Answer, Verdict

LEASE_FLOOR = timedelta(seconds=120)
RECHECK_DELAY = timedelta(seconds=60)
SETTLE_CHUNK = 2_000
CLAIM_CHUNK = 2_000
BODY_OVERHEAD = 2_048  # bytes for host, key, keyLocation and the frame around the list
URL_OVERHEAD = 3  # bytes: two quotes and a comma; a URL in normal form needs no escape
_CLAIMED_FIELDS = (
    "pk",
    "url",
    "page_id",
    "change",
    "sent_at",
    "version",
    "claimed_version",
    "reason",
    "delivery_id",
)
#: What a delivery's outcome says about URLs that a crash left unsettled.
_FINAL_OUTCOMES = {
    UrlState.DELIVERED.value: UrlState.DELIVERED,
    Reason.BAD_REQUEST.value: UrlState.REJECTED,
    Reason.UNPROCESSABLE.value: UrlState.REJECTED,
    Reason.DRY_RUN.value: UrlState.SKIPPED,
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A delivery in flight and the URLs that are ours until `lease_until`."""

    delivery: Delivery
    rows: list[TrackedUrl]
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
    with transaction.atomic():
        channels.one_at_a_time([endpoint])
        ready = TrackedUrl.objects.of_channel(endpoint, host).ready(now)
        rows, is_split = _choose(ready, limit)
        pks = [row.pk for row in _fitting(rows)]
        if not pks:
            return None
        delivery = Delivery.objects.create(endpoint=endpoint, host=host, started_at=now)
        for chunk in tracked_urls.chunks(pks, CLAIM_CHUNK):
            # By key alone: the rows are locked.
            TrackedUrl.objects.filter(pk__in=chunk).update(
                delivery=delivery, claimed_version=F("version"), lease_until=now + lease()
            )
        rows = list(delivery.tracked_urls.order_by("changed_at", "pk").only(*_CLAIMED_FIELDS))
        delivery.urls = [row.url for row in rows]
        delivery.save(update_fields=["urls"])
    return Claim(delivery=delivery, rows=rows, is_split=is_split)


def withdraw(claimed: Claim, page_ids: Collection[int], *, now: datetime) -> Claim | None:
    """Give up the claimed URLs of pages that are no longer public, and return the rest.

    One that was never told ends; any other is put back, for the next converge to remove.

    :returns: `None` if nothing is left to send.
    """
    refused = {row.pk for row in claimed.rows if _is_public(row) and row.page_id in page_ids}
    if not refused:
        return claimed
    rows = [row for row in claimed.rows if row.pk not in refused]
    with transaction.atomic():
        _put_back(claimed.delivery, refused, now)
        if not rows:
            claimed.delivery.delete()
            return None
        claimed.delivery.urls = [row.url for row in rows]
        claimed.delivery.save(update_fields=["urls"])
    return Claim(delivery=claimed.delivery, rows=rows, is_split=claimed.is_split)


def public_pages(claimed: Claim) -> set[int]:
    """Return the pages whose URLs a claim would announce as public."""
    return {row.page_id for row in claimed.rows if _is_public(row) and row.page_id is not None}


def unclaim(claimed: Claim) -> None:
    """Give all URLs of a claim back as they were: nothing was sent."""
    pks = sorted(row.pk for row in claimed.rows)
    with transaction.atomic():
        for chunk in tracked_urls.chunks(pks, SETTLE_CHUNK):
            tracked_urls.lock_still(claimed.delivery.tracked_urls.all(), chunk).update(
                lease_until=None
            )
        claimed.delivery.delete()


def record(claimed: Claim, answer: Answer, verdict: Verdict, *, now: datetime) -> None:
    """Write an answer down, then settle the URLs it is about."""
    delivery = claimed.delivery
    delivery.finished_at = now
    delivery.status = answer.status
    delivery.error_code = verdict.error_code
    delivery.excerpt = verdict.excerpt
    delivery.outcome = verdict.outcome
    delivery.save(update_fields=["finished_at", "status", "error_code", "excerpt", "outcome"])
    settle(delivery, verdict)


def settle_answered(endpoint: str, host: str, *, now: datetime) -> int:
    """Finish deliveries whose worker ended between answer and settling; return how many.

    Those whose worker ended before the answer are marked as such; their URLs are ready again.
    """
    Delivery.objects.filter(
        endpoint=endpoint, host=host, finished_at=None, outcome="", started_at__lte=now - lease()
    ).update(outcome=Reason.NO_ANSWER, error_code="lost: the worker ended")
    answered = Delivery.objects.filter(
        endpoint=endpoint,
        host=host,
        finished_at__isnull=False,
        tracked_urls__lease_until__lte=now,
    ).distinct()
    deliveries = list(answered)
    for delivery in deliveries:
        settle(delivery, _remembered(delivery))
    return len(deliveries)


def settle(delivery: Delivery, verdict: Verdict) -> None:
    """Give each unsettled URL of an answered delivery its outcome, a chunk at a time.

    One that was marked again meanwhile stays waiting.
    """
    unsettled = delivery.tracked_urls.filter(lease_until__isnull=False)
    while True:
        pks = list(unsettled.order_by("pk").values_list("pk", flat=True)[:SETTLE_CHUNK])
        with transaction.atomic():
            # Still: another worker may have claimed a row since.
            rows = tracked_urls.lock_still(unsettled, pks)
            _settle_moved(rows.moved_since_claim(), delivery, verdict)
            _settle_unmoved(rows.filter(claimed_version=F("version")), delivery, verdict)
            rows.update(lease_until=None, last_status=delivery.status)
        if len(pks) < SETTLE_CHUNK:
            return


def _choose(ready: QuerySet[TrackedUrl], limit: int) -> tuple[list[TrackedUrl], bool]:
    """Return the rows to claim, locked if the database can, and whether they are a half."""
    too_large = ready.filter(reason=Reason.TOO_LARGE)
    first = too_large.order_by("changed_at", "pk").select_related("delivery").first()
    if first is not None and first.delivery is not None:
        half = (len(first.delivery.urls) + 1) // 2
        return _oldest(too_large.filter(delivery=first.delivery), min(half, limit)), True
    return _oldest(ready.exclude(reason=Reason.TOO_LARGE), limit), False


def _oldest(ready: QuerySet[TrackedUrl], limit: int) -> list[TrackedUrl]:
    rows = ready.order_by("changed_at", "pk").only("pk", "url")
    if connections[router.db_for_write(TrackedUrl)].features.has_select_for_update_skip_locked:
        return list(rows.select_for_update(skip_locked=True)[:limit])
    # Still: two workers may have chosen alike.
    chosen = list(rows.values_list("pk", flat=True)[:limit])
    return list(tracked_urls.lock_still(ready, chosen).order_by("changed_at", "pk"))


def _fitting(rows: Iterable[TrackedUrl]) -> Iterable[TrackedUrl]:
    size = BODY_OVERHEAD
    for row in rows:
        size += len(row.url.encode()) + URL_OVERHEAD
        if size > MAX_BODY_BYTES:
            return
        yield row


def _is_public(row: TrackedUrl) -> bool:
    return row.change != Change.REMOVED


def _put_back(delivery: Delivery, pks: Collection[int], now: datetime) -> None:
    rows = tracked_urls.lock_still(delivery.tracked_urls.all(), pks)
    untold = rows.filter(change=Change.ADDED, sent_at=None, claimed_version=F("version"))
    untold.update(
        change=Change.REMOVED,
        state=UrlState.SKIPPED,
        reason=Reason.WITHDRAWN,
        not_before=None,
        lease_until=None,
        delivery=None,
    )
    rows.filter(not_before__lt=now + RECHECK_DELAY).update(not_before=now + RECHECK_DELAY)
    rows.update(lease_until=None, delivery=None)


def _settle_unmoved(rows: QuerySet[TrackedUrl], delivery: Delivery, verdict: Verdict) -> None:
    if verdict.url_state == UrlState.WAITING:
        _for_each_delay(rows, delivery, verdict, _keep)
        return
    rows.update(
        state=verdict.url_state,
        reason=verdict.reason,
        not_before=None,
        attempts=F("attempts") + 1,
    )
    if verdict.url_state == UrlState.DELIVERED:
        rows.update(sent_at=delivery.finished_at)


def _settle_moved(rows: QuerySet[TrackedUrl], delivery: Delivery, verdict: Verdict) -> None:
    """Let a newer change wait: for the gap after what was delivered, or for the retry."""
    if verdict.url_state == UrlState.WAITING:
        _for_each_delay(rows, delivery, verdict, _postpone)
    elif verdict.url_state == UrlState.DELIVERED:
        _postpone(rows, _finished(delivery) + conf.resubmit_after, verdict)
        rows.update(sent_at=delivery.finished_at)


def _for_each_delay(
    rows: QuerySet[TrackedUrl],
    delivery: Delivery,
    verdict: Verdict,
    wait: Callable[[QuerySet[TrackedUrl], datetime, Verdict], None],
) -> None:
    answered_at = _finished(delivery)
    if verdict.retry is not None:
        wait(rows, answered_at + verdict.retry, verdict)
        return
    # The last first: keeping a row raises its number of tries.
    wait(rows.filter(attempts__gte=len(RETRY_DELAYS)), answered_at + RETRY_DELAY_MAX, verdict)
    for tries, delay in reversed(list(enumerate(RETRY_DELAYS))):
        wait(rows.filter(attempts=tries), answered_at + delay, verdict)


def _keep(rows: QuerySet[TrackedUrl], until: datetime, verdict: Verdict) -> None:
    rows.update(
        state=UrlState.WAITING,
        reason=verdict.reason,
        not_before=until,
        attempts=F("attempts") + 1,
    )


def _postpone(rows: QuerySet[TrackedUrl], until: datetime, verdict: Verdict) -> None:
    del verdict  # says nothing about a change that the engine has not seen
    rows.filter(not_before__lt=until).update(not_before=until)


def _finished(delivery: Delivery) -> datetime:
    return delivery.finished_at or delivery.started_at


def _remembered(delivery: Delivery) -> Verdict:
    """Return as much of the verdict as the URLs need."""
    state = _FINAL_OUTCOMES.get(delivery.outcome, UrlState.WAITING)
    if state == UrlState.WAITING and delivery.outcome == Reason.TOO_LARGE:
        return Verdict(url_state=state, reason=Reason.TOO_LARGE, retry=timedelta(0))
    is_told = state == UrlState.DELIVERED
    return Verdict(url_state=state, reason="" if is_told else delivery.outcome)
