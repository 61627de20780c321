"""When each part was last seen at work, and when common jobs were last claimed."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from .. import clock
from ..models import Heartbeat

EVERY = timedelta(seconds=10)


def beat(name: str) -> None:
    """Note that a part is alive, at most every ten seconds."""
    now = clock.now()
    if Heartbeat.objects.filter(name=name, seen_at__gt=now - EVERY).exists():
        return
    if not Heartbeat.objects.filter(name=name).update(seen_at=now):
        Heartbeat.objects.bulk_create([Heartbeat(name=name, seen_at=now)], ignore_conflicts=True)


def last_seen(name: str) -> datetime | None:
    """Return when a part was last seen, or `None` if never."""
    return Heartbeat.objects.filter(name=name).values_list("seen_at", flat=True).first()


def claim_due_jobs(jobs: Mapping[str, timedelta]) -> list[str]:
    """Claim the jobs that are due, of those that one process does for all; one query if none is.

    :param jobs: name → how often. Of several processes that ask at once, one gets each.
    """
    now = clock.now()
    last = dict(Heartbeat.objects.filter(name__in=jobs).values_list("name", "seen_at"))
    return [
        name
        for name, every in jobs.items()
        if (name not in last or last[name] <= now - every) and _claim(name, last.get(name), now)
    ]


def release_job(name: str) -> None:
    """Let a job be claimed again at once, by any process."""
    Heartbeat.objects.filter(name=name).delete()


def _claim(name: str, seen_at: datetime | None, now: datetime) -> bool:
    if seen_at is None:
        _row, is_new = Heartbeat.objects.get_or_create(name=name, defaults={"seen_at": now})
        return is_new
    return Heartbeat.objects.filter(name=name, seen_at=seen_at).update(seen_at=now) == 1
