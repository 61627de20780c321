"""Requests per source address and gaps between two sends of one URL (M15, M16)."""

import math
import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from email.utils import formatdate

from example_site.engine.profiles import Profile
from example_site.engine.records import Verdict

DAY_S = 86_400


class Pace:
    """Counts requests that reach the rate step and remembers when each URL was taken.

    Thread-safe. Times are seconds of the engine's clock; days are UTC days of that clock.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all counts and times."""
        with self._lock:
            self._recent: defaultdict[str, deque[float]] = defaultdict(deque)
            self._today: dict[str, tuple[int, int]] = {}
            self._taken_at: dict[str, float] = {}

    def refuse(self, address: str, now: float) -> Verdict | None:
        """Count one request; return the 429 if it is one too many, which does not count."""
        with self._lock:
            free_at = max(self._window_free_at(address, now), self._day_free_at(address, now))
            if free_at > now:
                return self._verdict("M15", "Too many requests.", now=now, free_at=free_at)
            self._recent[address].append(now)
            day, used = self._today.get(address, (0, 0))
            today = int(now // DAY_S)
            self._today[address] = (today, used + 1 if day == today else 1)
            return None

    def too_soon(self, urls: Iterable[str], now: float) -> tuple[str, ...]:
        """Return those URLs that were taken less than the gap ago."""
        oldest = now - self._profile.resubmit_after_s
        with self._lock:
            return tuple(url for url in urls if self._taken_at.get(url, -math.inf) > oldest)

    def refuse_too_soon(self, too_soon: tuple[str, ...], now: float) -> Verdict | None:
        """Return the 429 for URLs that came again too soon, if the profile minds."""
        if not (too_soon and self._profile.refuse_too_soon):
            return None
        with self._lock:
            free_at = max(self._taken_at.get(url, now) for url in too_soon)
        free_at += self._profile.resubmit_after_s
        return self._verdict("M16", "The same URL again so soon.", now=now, free_at=free_at)

    def take(self, urls: Iterable[str], now: float) -> None:
        """Remember that these URLs were accepted now."""
        with self._lock:
            self._taken_at.update(dict.fromkeys(urls, now))

    def _window_free_at(self, address: str, now: float) -> float:
        limit, window_s = self._profile.rate_limit, self._profile.rate_window_s
        recent = self._recent[address]
        while recent and recent[0] <= now - window_s:
            recent.popleft()
        if limit is None or len(recent) < limit:
            return now
        return recent[-limit] + window_s if limit else math.inf

    def _day_free_at(self, address: str, now: float) -> float:
        budget = self._profile.day_budget
        today = int(now // DAY_S)
        day, used = self._today.get(address, (today, 0))
        if budget is None or day != today or used < budget:
            return now
        return float((today + 1) * DAY_S)

    def _verdict(self, rule: str, reason: str, *, now: float, free_at: float) -> Verdict:
        wait_s = DAY_S if math.isinf(free_at) else math.ceil(free_at - now)
        value = {
            "none": "",
            "seconds": str(wait_s),
            "date": formatdate(now + wait_s, usegmt=True),
            "garbage": "in a while",
        }[self._profile.retry_after]
        return Verdict(
            status=429,
            rule=rule,
            reason=reason,
            error_code="TooManyRequests",
            headers={"Retry-After": value} if value else {},
        )
