"""The Dramatiq middleware whose thread is the relay of each worker process."""

import logging
import threading

import dramatiq
from django.db import close_old_connections

from .conf import conf
from .couriers import Courier, DramatiqCourier
from .relay import keep_house, tick

logger = logging.getLogger(__name__)


class RelayThread(threading.Thread):
    """Ticks every `RELAY_INTERVAL` until stopped, whatever is away meanwhile."""

    def __init__(self) -> None:
        super().__init__(name="wagtail_indexnow.relay", daemon=True)
        self._stopping = threading.Event()

    def run(self) -> None:
        courier = DramatiqCourier()
        while not self._stopping.wait(conf.relay_interval_s):
            survive(courier)

    def stop(self) -> None:
        self._stopping.set()
        self.join(timeout=10)


def survive(courier: Courier) -> None:
    """Tick and keep house once, whatever is away."""
    close_old_connections()
    for work in (lambda: tick(courier), keep_house):
        try:
            work()
        except Exception as error:
            # Database or broker are away: the rows are the schedule, the next tick goes on.
            logger.warning("relay=tick state=interrupted error=%r", error)
    close_old_connections()


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
