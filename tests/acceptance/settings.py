"""Settings of the worker, cron and web processes that the process tests start.

The environment says which database, broker and `WAGTAIL_INDEXNOW` the test uses.
"""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import DRAMATIQ_BROKER, INSTALLED_APPS

INSTALLED_APPS = ["tests.acceptance.faults", *INSTALLED_APPS]
DRAMATIQ_BROKER = {
    **DRAMATIQ_BROKER,
    "BROKER": os.environ["PROCESS_BROKER"],
    "OPTIONS": json.loads(os.environ["PROCESS_BROKER_OPTIONS"]),
}
WAGTAIL_INDEXNOW = json.loads(os.environ["PROCESS_INDEXNOW"])
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(process)d %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {"wagtail_indexnow": {"level": "INFO", "handlers": ["console"]}},
}
