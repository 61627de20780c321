"""How work reaches whoever does it: a message to a worker, or a call right here."""

from collections.abc import Callable
from typing import Any, Protocol


class Courier(Protocol):
    """How work reaches whoever does it."""

    can_park: bool  # whether it carries a message until its time

    def announce(self, payload: dict[str, Any], *, delay_ms: int = 0) -> None: ...

    def submit(self, payload: dict[str, Any]) -> None: ...


class DramatiqCourier:
    """Sends messages through the site's broker."""

    can_park = True

    def __init__(self) -> None:
        # Only here, since importing actors binds them to the broker of that moment, and
        # `--inline` works without any.
        from .. import tasks

        self._tasks = tasks

    def announce(self, payload: dict[str, Any], *, delay_ms: int = 0) -> None:
        self._tasks.announce.send_with_options(args=(payload,), delay=delay_ms or None)

    def submit(self, payload: dict[str, Any]) -> None:
        self._tasks.submit.send(payload)


class InlineCourier:
    """Does the work itself, here and now, for a site without a worker."""

    can_park = False

    def __init__(self) -> None:
        from .. import worker

        self._worker = worker
        self.faults = 0  # pieces of work that ended in an error; their rows come back

    def announce(self, payload: dict[str, Any], *, delay_ms: int = 0) -> None:
        self._do(self._worker.handle_announcement, payload)

    def submit(self, payload: dict[str, Any]) -> None:
        self._do(self._worker.handle_submission, payload)

    def _do(self, work: Callable[[Any], bool], payload: dict[str, Any]) -> None:
        # As with a worker, one piece of work never stops the others.
        if not work(payload):
            self.faults += 1
