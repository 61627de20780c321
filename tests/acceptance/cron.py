"""`python -m tests.acceptance.cron COMMAND SECONDS`: run a management command again and again."""

import sys
import time
import traceback

import django
from django.core.management import call_command
from django.db import close_old_connections


def main(command: str, every_s: float) -> None:
    django.setup()
    while True:
        close_old_connections()  # a real cron starts afresh
        try:
            call_command(command)
        except Exception:
            traceback.print_exc()  # cron sends a mail, and comes again
        time.sleep(every_s)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
