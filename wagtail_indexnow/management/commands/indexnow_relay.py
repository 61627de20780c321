"""Hand due work to Dramatiq, or do it here."""

import signal
import time
from argparse import ArgumentParser
from threading import Event
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from wagtail_indexnow.conf import conf
from wagtail_indexnow.relay.dispatch import run_maintenance, run_until_idle, tick
from wagtail_indexnow.relay.senders import DramatiqCourier, InlineCourier
from wagtail_indexnow.relay.worker_thread import relay_until


class Command(BaseCommand):
    help = "Hand over the IndexNow announcements and submissions that are due, until stopped."

    def add_arguments(self, parser: ArgumentParser) -> None:
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--once", action="store_true", help="Look once and end.")
        how.add_argument(
            "--inline",
            action="store_true",
            help="Do the work in this process, without broker or worker, and end: for cron.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not conf.enabled:
            raise CommandError("IndexNow is switched off here: see WAGTAIL_INDEXNOW['ENABLED'].")
        if options["inline"]:
            _work_inline()
        elif options["once"]:
            run_maintenance()
            self.stdout.write(str(tick(DramatiqCourier())))
        else:
            _relay_until_signalled()


def _work_inline() -> None:
    courier = InlineCourier()
    run_maintenance()
    run_until_idle(courier, sleep=time.sleep)
    if courier.faults:
        raise CommandError(f"{courier.faults} pieces of work failed and will be tried again.")


def _relay_until_signalled() -> None:
    """Relay until SIGTERM or Ctrl-C, and finish the tick under way."""
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    relay_until(stopping, DramatiqCourier())
