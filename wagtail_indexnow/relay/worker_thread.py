"""The Dramatiq middleware whose thread is the relay of each worker process."""

import logging
import threading
from collections.abc import Callable

import dramatiq
from django.db import close_old_connections, connections

from ..conf import SETTINGS, conf
from .dispatch import run_maintenance, tick
from .senders import Courier, DramatiqCourier

logger = logging.getLogger(__name__)

STOP_WAIT_S = 10.0


class RelayThread(threading.Thread):
    """Relays until stopped, whatever is away meanwhile."""

    def __init__(self) -> None:
        super().__init__(name="wagtail_indexnow.relay", daemon=True)
        self._stopping = threading.Event()

    def run(self) -> None:
        relay_until(self._stopping, DramatiqCourier())

    def stop(self) -> None:
        """End after the tick under way, or leave it behind if its broker never answers."""
        self._stopping.set()
        self.join(STOP_WAIT_S)


def relay_until(stopping: threading.Event, courier: Courier) -> None:
    """Tick every `RELAY_INTERVAL` until told to stop."""
    is_well = True
    while not stopping.wait(conf.relay_interval_s or SETTINGS["RELAY_INTERVAL"].default):
        is_well = survive(courier, was_well=is_well)
    connections.close_all()


def survive(courier: Courier, *, was_well: bool = True) -> bool:
    """Tick and keep house once, whatever is away; say whether nothing was.

    :param was_well: whether the last time went well: what lasts is not logged again and again.
    """
    faults = [fault for work in (lambda: tick(courier), run_maintenance) if (fault := _fault(work))]
    for fault in faults if was_well else ():
        # Database or broker are away: the rows are the schedule, the next tick goes on.
        logger.warning("relay=tick state=interrupted error=%r", fault, exc_info=fault)
    if not (faults or was_well):
        logger.warning("relay=tick state=resumed")
    return not faults


def _fault(work: Callable[[], object]) -> Exception | None:
    close_old_connections()
    try:
        work()
    except Exception as fault:
        return fault
    finally:
        close_old_connections()
    return None


class RelayMiddleware(dramatiq.Middleware):
    """Runs the relay in each worker process, and nowhere else."""

    def __init__(self) -> None:
        self._thread: RelayThread | None = None

    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        if conf.enabled and conf.relay_interval_s > 0:
            self._thread = RelayThread()
            self._thread.start()

    def before_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
