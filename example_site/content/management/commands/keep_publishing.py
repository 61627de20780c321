import signal
import threading
from argparse import ArgumentParser
from logging import getLogger
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import close_old_connections

logger = getLogger(__name__)


class Command(BaseCommand):
    help = (
        "Runs Wagtail's publish_scheduled again and again: the demo's cron. On a real site, cron "
        "or a timer runs that command once a minute or so."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS")

    def handle(self, *_args: Any, **options: Any) -> None:
        ended = threading.Event()
        # Never in the middle: a publish that is cut off there loses its schedule.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        while not ended.wait(options["every"]):
            publish_due()


def publish_due() -> None:
    """Publish and expire what is due; a failure is logged, as cron would report it."""
    close_old_connections()
    try:
        call_command("publish_scheduled")
    except Exception:
        logger.exception("publish_scheduled failed")
