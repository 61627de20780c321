"""How work reaches whoever does it: a message to a worker, or a call right here."""

from typing import Any, Protocol


class Courier(Protocol):
    """How work reaches whoever does it."""

    can_park: bool  # whether it carries a message until its time

    def announce(self, payload: dict[str, Any], *, delay_ms: int = 0) -> None: ...

    def deliver(self, payload: dict[str, Any]) -> None: ...


class DramatiqCourier:
    """Sends messages through the site's broker."""

    can_park = True

    def __init__(self) -> None:
        # Only here, since importing actors binds them to the broker of that moment, and
        # `--inline` works without any.
        from . import tasks

        self._tasks = tasks

    def announce(self, payload: dict[str, Any], *, delay_ms: int = 0) -> None:
        self._tasks.announce.send_with_options(args=(payload,), delay=delay_ms or None)

    def deliver(self, payload: dict[str, Any]) -> None:
        self._tasks.deliver.send(payload)


class InlineCourier:
    """Does the work itself, here and now, for a site without a worker."""

    can_park = False

    def announce(self, payload: dict[str, Any], *, delay_ms: int = 0) -> None:
        from . import working

        working.announce(payload)

    def deliver(self, payload: dict[str, Any]) -> None:
        from . import working

        working.deliver(payload)
