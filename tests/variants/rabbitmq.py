"""A site whose broker is RabbitMQ, with a queue of this run's own."""

import os

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES as _DATABASES
from tests.settings import DRAMATIQ_BROKER as _BROKER
from tests.settings import WAGTAIL_INDEXNOW as _INDEXNOW

DRAMATIQ_BROKER = {
    **_BROKER,
    "BROKER": "dramatiq.brokers.rabbitmq.RabbitmqBroker",
    "OPTIONS": {"url": os.environ.get("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/")},
}
WAGTAIL_INDEXNOW = {**_INDEXNOW, "QUEUE": f"indexnow-test-{os.getpid()}"}

DATABASES = {"default": dict(_DATABASES["default"])}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # Worker threads need a file: memory is not shared between them.
    _NAME = f"{DATABASES['default']['NAME']}-rabbitmq-{os.getpid()}"
    DATABASES["default"]["TEST"] = {"NAME": _NAME}
