"""What the engine knows of each (host, key): when it checks, what it remembers (M10 to M13)."""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from example_site.engine.key_check import KeyCheckResult
from example_site.engine.profiles import Profile
from example_site.engine.records import Submission, Verdict

KeyStatus = Literal["pending", "verified", "refused", "unchecked"]
CheckKey = Callable[[str, str], KeyCheckResult]
HostAndKey = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class KeyState:
    """State of one (host, key). Times are seconds of the engine's clock, ``None`` if not yet.

    ``checks`` counts how often the key file was fetched.
    """

    status: KeyStatus
    key_location: str
    first_seen_at: float
    check_due_at: float
    checked_at: float | None = None
    rule: str = ""
    reason: str = ""
    content_type: str = ""
    checks: int = 0


class KeyBook:
    """Decides the last step of a submission. Thread-safe; fetches outside the shared lock."""

    def __init__(self, profile: Profile, check_key: CheckKey, *, takes_every_key: bool) -> None:
        """:param check_key: (location, key) → result; not called if every key is taken."""
        self._profile = profile
        self._check_key = check_key
        self._takes_every_key = takes_every_key
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget every key, refused ones too."""
        with self._lock:
            self._states: dict[HostAndKey, KeyState] = {}
            self._bound_to: dict[str, str] = {}
            # One lock per key: parallel first requests must lead to one fetch, not to many.
            self._turns: defaultdict[HostAndKey, threading.Lock] = defaultdict(threading.Lock)

    def snapshot(self) -> dict[HostAndKey, KeyState]:
        """Return a copy of all states."""
        with self._lock:
            return dict(self._states)

    def decide(self, submission: Submission, now: float) -> Verdict:
        """Return 200, 202 or 403 for a submission that passed everything else."""
        pair = (submission.host, submission.key)
        if self._is_bound_elsewhere(pair):
            return forbidden("M13", "This key was first used on another host.")
        with self._turn(pair):
            return self._decide(pair, submission.key_location, now)

    def run_due(self, now: float) -> None:
        """Make the lazy checks whose delay is over."""
        for pair, state in self.snapshot().items():
            if state.status == "pending" and state.check_due_at <= now:
                with self._turn(pair):
                    current = self._state(pair)
                    if current is not None and current.status == "pending":
                        self._check(pair, current, now)

    def _decide(self, pair: HostAndKey, location: str, now: float) -> Verdict:
        state = self._state(pair)
        if state is None:
            return self._first(pair, location, now)
        if state.status == "pending":
            if now < state.check_due_at:
                return self._pending_verdict(is_first=False)
            return verdict_on(self._check(pair, state, now))
        return self._decided(pair, replace(state, key_location=location), now)

    def _first(self, pair: HostAndKey, location: str, now: float) -> Verdict:
        is_lazy = self._profile.key_check == "lazy"
        state = KeyState(
            status="unchecked" if self._takes_every_key else "pending",
            key_location=location,
            first_seen_at=now,
            check_due_at=now + self._profile.key_check_delay_s if is_lazy else now,
        )
        self._store(pair, state)
        if self._takes_every_key:
            return verdict_on(state)
        if state.check_due_at <= now:
            state = self._check(pair, state, now)
        return self._pending_verdict(is_first=True) if is_lazy else verdict_on(state)

    def _decided(self, pair: HostAndKey, state: KeyState, now: float) -> Verdict:
        if state.status == "refused" and self._profile.negative_cache:
            return forbidden("M11", f"The key was refused before: {state.reason}")
        is_settled = state.status == "verified" and self._profile.positive_cache
        if state.status == "unchecked" or is_settled:
            return verdict_on(state)
        return verdict_on(self._check(pair, state, now))

    def _check(self, pair: HostAndKey, state: KeyState, now: float) -> KeyState:
        result = self._check_key(state.key_location, pair[1])
        state = replace(
            state,
            status="refused" if result.rule else "verified",
            checked_at=now,
            rule=result.rule,
            reason=result.reason,
            content_type=result.content_type,
            checks=state.checks + 1,
        )
        self._store(pair, state)
        return state

    def _pending_verdict(self, *, is_first: bool) -> Verdict:
        mode = self._profile.pending_answer
        if mode == "refuse_all" or (mode == "refuse_repeats" and not is_first):
            return forbidden(
                "M10", "The key is still being verified.", "SiteVerificationNotCompleted"
            )
        return Verdict(status=202, rule="M10", reason="The key is still being verified.")

    def _is_bound_elsewhere(self, pair: HostAndKey) -> bool:
        host, key = pair
        with self._lock:
            first_host = self._bound_to.setdefault(key, host)
        return self._profile.bind_key_to_host and first_host != host

    def _turn(self, pair: HostAndKey) -> threading.Lock:
        with self._lock:
            return self._turns[pair]

    def _state(self, pair: HostAndKey) -> KeyState | None:
        with self._lock:
            return self._states.get(pair)

    def _store(self, pair: HostAndKey, state: KeyState) -> None:
        with self._lock:
            self._states[pair] = state


def verdict_on(state: KeyState) -> Verdict:
    """Return 200 for a proved or unchecked key, 403 with the broken rule for a refused one."""
    if state.status == "refused":
        return forbidden(state.rule, state.reason)
    return Verdict(status=200)


# The misspelling is Bing's own, and clients match on it.
def forbidden(rule: str, reason: str, error_code: str = "UserForbiddedToAccessSite") -> Verdict:
    """Return a 403."""
    return Verdict(status=403, rule=rule, reason=reason, error_code=error_code)
