"""Hand due work to Dramatiq, or do it here."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from wagtail_indexnow.conf import conf
from wagtail_indexnow.couriers import DramatiqCourier, InlineCourier
from wagtail_indexnow.middleware import survive
from wagtail_indexnow.relay import keep_house, run_until_idle, tick


class Command(BaseCommand):
    help = "Hand over the IndexNow announcements and deliveries that are due, until stopped."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="Look once and end.")
        parser.add_argument(
            "--inline",
            action="store_true",
            help="Do the work in this process, without broker or worker, and end: for cron.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not conf.enabled:
            raise CommandError("IndexNow is switched off here: see WAGTAIL_INDEXNOW['ENABLED'].")
        if options["inline"]:
            keep_house()
            run_until_idle(InlineCourier(), sleep=time.sleep)
        elif options["once"]:
            keep_house()
            self.stdout.write(str(tick(DramatiqCourier())))
        else:
            self._run()

    def _run(self) -> None:
        courier = DramatiqCourier()
        while True:
            survive(courier)
            time.sleep(conf.relay_interval_s or 2)
