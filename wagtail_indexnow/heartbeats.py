"""When each part of the machinery was last seen at work."""

from datetime import datetime, timedelta

from . import clock
from .models import Heartbeat

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


def claim_turn(name: str, every: timedelta) -> bool:
    """Take the turn for work that one process does for all; `False` if it was done lately."""
    now = clock.now()
    if Heartbeat.objects.filter(name=name, seen_at__lte=now - every).update(seen_at=now):
        return True
    if Heartbeat.objects.filter(name=name).exists():
        return False
    Heartbeat.objects.bulk_create([Heartbeat(name=name, seen_at=now)], ignore_conflicts=True)
    return True
