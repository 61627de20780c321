"""What is due → Dramatiq. The only sender of messages.

The rows are the schedule, the broker only carries: Dramatiq keeps every delayed message in a
worker's memory and stops submitting nearer ones behind a thousand far ones. So a go-live enters
the broker only within `SCHEDULE_HORIZON`, few at a time, and whatever gets lost there is handed
over again when its lease ends.

Many relays may run at once: each hand-over is conditional on the row as it was read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, F, Min, OuterRef
from django.db.models.functions import Coalesce, Greatest

from .. import clock
from ..conf import conf
from ..constants import (
    AUDIT_HEARTBEAT,
    LEASE_MIN,
    LIST_SIZE,
    PARKED_MESSAGES,
    RELAY_HEARTBEAT,
    Kind,
)
from ..ledger import heartbeats
from ..models import Channel, Intent, TrackedUrl, lease_for
from ..payloads import ChannelRef, IntentRef, announcement, iso, submission
from . import maintenance, reconciliation
from .senders import Courier

DUE_PER_TICK = 5_000
INLINE_WAIT = timedelta(seconds=60)
INLINE_MAX = timedelta(minutes=10)
CHANNEL_LEASE = LEASE_MIN  # a second message finds no slot and does no harm

#: Work that one process does for all: how often, and what; it says whether there is more.
JOBS: dict[str, tuple[timedelta, Callable[[], bool]]] = {
    "give_up": (timedelta(minutes=1), maintenance.give_up),
    "go_lives": (timedelta(minutes=1), reconciliation.plan_missing_go_lives),
    "reconcile": (timedelta(hours=1), reconciliation.reconcile),
    "prune": (timedelta(days=1), maintenance.prune),
}
NEVER_AGAIN = timedelta(days=36_500)


@dataclass(frozen=True)
class Tick:
    """What one round handed over."""

    intents: int = 0
    parked: int = 0
    channels: int = 0

    def __bool__(self) -> bool:
        return bool(self.intents or self.parked or self.channels)


def tick(courier: Courier) -> Tick:
    """Hand over everything that is due, and the go-lives that soon will be.

    :raises Exception: whatever the courier raised; its rows are as before.
    """
    if not conf.enabled:
        return Tick()
    now = clock.now()
    heartbeats.beat(RELAY_HEARTBEAT)
    due = parked = 0
    # Mostly there is nothing, and this cheap question answers for both.
    if Intent.objects.filter(run_at__lte=now + conf.schedule_horizon).exists():
        due = sum(_hand_over(courier, batch) for batch in _due_batches(now))
        parked = _park(courier, now) if courier.can_park else 0
    return Tick(due, parked, _hand_over_channels(courier, now))


def run_until_idle(courier: Courier, *, sleep: Callable[[float], None]) -> None:
    """Tick until nothing is due, waiting up to 60 s in all for what nearly is.

    Ends after ten minutes in any case: the next run of cron goes on.
    """
    started = clock.now()
    while clock.now() - started < INLINE_MAX:
        if tick(courier):
            continue
        due_at = next_due()
        if due_at is None or due_at > started + INLINE_WAIT:
            return
        sleep(max((due_at - clock.now()).total_seconds(), 0) + 0.05)


def next_due() -> datetime | None:
    """Return when the next intent or URL that nothing holds up is due, or `None`."""
    return min((moment for moment in (*_intents_due(), *_urls_due()) if moment), default=None)


def run_maintenance() -> None:
    """Reconcile, give up and prune, as far as it is this process's turn.

    :raises Exception: the first fault, after the rest was done: all had their turn taken.
    """
    if not conf.enabled:
        return
    faults = []
    jobs = {
        **JOBS,
        AUDIT_HEARTBEAT: (conf.audit_interval or NEVER_AGAIN, reconciliation.plan_audit),
    }
    for name in heartbeats.claim_due_jobs({name: every for name, (every, _) in jobs.items()}):
        try:
            if jobs[name][1]():
                heartbeats.release_job(name)
        except Exception as fault:
            faults.append(fault)
    if faults:
        raise faults[0]


def _intents_due() -> Iterator[datetime | None]:
    planned = Intent.objects.open()
    yield planned.filter(handed_at=None).aggregate(at=Min("run_at"))["at"]
    handed = planned.filter(handed_at__isnull=False).values("handed_count").order_by()
    for row in handed.annotate(at=Min(Greatest("handed_at", "run_at"))):
        yield row["at"] + lease_for(row["handed_count"])


def _urls_due() -> Iterator[datetime]:
    channels = {(row.endpoint, row.host): row for row in Channel.objects.all()}
    waiting = (
        TrackedUrl.objects.filter(not_before__isnull=False)
        .values_list("endpoint", "host")
        .annotate(at=Min(Greatest("not_before", Coalesce("lease_until", "not_before"))))
        .order_by()
    )
    for endpoint, host, at in waiting:
        rows = [channels.get((endpoint, "")), channels.get((endpoint, host))]
        yield max([at, *(moment for row in rows if row for moment in _gates(row))])


def _gates(channel: Channel) -> Iterator[datetime]:
    if channel.not_before is not None:
        yield channel.not_before
    if channel.handed_at is not None:
        yield channel.handed_at + CHANNEL_LEASE


def _due_batches(now: datetime) -> Iterator[Sequence[Intent]]:
    """Yield what is due in lists; a subtree travels alone, since it takes its time."""
    due = Intent.objects.due(now).free_to_hand_over(now).order_by("run_at", "pk")
    found = list(due.defer("detail", "error")[:DUE_PER_TICK])
    singles = [intent for intent in found if not _is_long(intent)]
    for start in range(0, len(singles), LIST_SIZE):
        yield singles[start : start + LIST_SIZE]
    for intent in found:
        if _is_long(intent):
            yield [intent]


def _is_long(intent: Intent) -> bool:
    return intent.subtree or intent.page_id is None


def _hand_over(courier: Courier, batch: Sequence[Intent], *, delay_ms: int = 0) -> int:
    # Not the time of the tick: before the last of many batches, its lease might be over.
    now = clock.now()
    mine = _take(batch, now)
    if not mine:
        return 0
    try:
        courier.announce(
            announcement([_ref(intent) for intent in mine], _meta(mine)), delay_ms=delay_ms
        )
    except Exception:
        _give_back(mine, now)
        raise
    return len(mine)


def _take(batch: Sequence[Intent], now: datetime) -> list[Intent]:
    """Mark rows as handed over, as far as they are as they were read and nobody was quicker."""
    ids = [intent.pk for intent in batch]
    moments = [intent.run_at for intent in batch if intent.run_at is not None]
    free = (
        Intent.objects.open()
        .free_to_hand_over(now)
        .filter(pk__in=ids, run_at__range=(min(moments), max(moments)))
    )
    taken = free.update(handed_at=now, handed_count=F("handed_count") + 1)
    if taken == len(ids):
        return list(batch)
    # `handed_at` is this relay's own mark: the database's clock counts microseconds.
    mine = set(Intent.objects.filter(pk__in=ids, handed_at=now).values_list("pk", flat=True))
    return [intent for intent in batch if intent.pk in mine] if taken else []


def _give_back(batch: Sequence[Intent], now: datetime) -> None:
    for intent in batch:
        Intent.objects.filter(pk=intent.pk, handed_at=now).update(
            handed_at=intent.handed_at, handed_count=intent.handed_count
        )


def _park(courier: Courier, now: datetime) -> int:
    """Send the nearest go-lives, each alone and delayed until it is due."""
    near = Intent.objects.planned().filter(
        kind=Kind.GO_LIVE, run_at__gt=now, run_at__lte=now + conf.schedule_horizon
    )
    # One that waits, or whose message came too early, is handed over when it is due.
    new = near.filter(handed_at=None, handed_count=0, waits=0, attempts=0)
    candidates = list(new.order_by("run_at", "pk")[:PARKED_MESSAGES])
    if not candidates:
        return 0
    room = max(PARKED_MESSAGES - near.filter(handed_at__isnull=False).count(), 0)
    return sum(
        _hand_over(courier, [intent], delay_ms=_delay_ms(intent, now))
        for intent in candidates[:room]
    )


def _delay_ms(intent: Intent, now: datetime) -> int:
    assert intent.run_at is not None  # noqa: S101
    # Rounded up: a message that came early would find its row not due.
    return -((now - intent.run_at) // timedelta(milliseconds=1))


def _hand_over_channels(courier: Courier, now: datetime) -> int:
    """Hand over each channel that has ready URLs, is not held and is in nobody's hands."""
    ready = TrackedUrl.objects.ready(now).filter(
        endpoint=OuterRef("endpoint"), host=OuterRef("host")
    )
    # Those first that have waited longest: an endpoint's pace may let only one of them go.
    channels = list(
        Channel.objects.filter(Exists(ready))
        .exclude(host="")
        .order_by(F("not_before").asc(nulls_first=True), "pk")
    )
    if not channels:
        return 0
    endpoints = Channel.objects.filter(host="", not_before__gt=now)
    held = set(endpoints.values_list("endpoint", flat=True))
    open_channels = [
        channel
        for channel in channels
        if channel.endpoint not in held and all(gate <= now for gate in _gates(channel))
    ]
    return sum(_hand_over_channel(courier, channel, now) for channel in open_channels)


def _hand_over_channel(courier: Courier, channel: Channel, now: datetime) -> int:
    as_read = Channel.objects.filter(pk=channel.pk, handed_at=channel.handed_at)
    if not as_read.update(handed_at=now):
        return 0
    try:
        courier.submit(submission(ChannelRef(endpoint=channel.endpoint, host=channel.host)))
    except Exception:
        Channel.objects.filter(pk=channel.pk, handed_at=now).update(handed_at=channel.handed_at)
        raise
    return 1


def _ref(intent: Intent) -> IntentRef:
    return IntentRef(key=intent.key, page_id=intent.page_id, expected_at=iso(intent.expected_at))


def _meta(batch: Sequence[Intent]) -> dict[str, str | None]:
    """Say who planned it, when and as part of what, for the logs: of the first, in a list."""
    first = batch[0]
    return {
        "scheduled_by": first.scheduled_by,
        "scheduled_at": iso(first.created_at),
        "correlation_id": first.correlation_id,
    }
