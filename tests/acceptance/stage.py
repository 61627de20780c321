"""What an operator has: a database, a Redis, an engine, and processes to start and to kill."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import connection
from django.utils import timezone
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries
from wagtail.models import Page

from example_site.engine import Engine
from tests.factories import make_page, make_site
from tests.processes import Process, Redis, eventually, python
from wagtail_indexnow.models import Intent, TrackedUrl

MANAGE = ("-m", "django")
#: Nothing paces or hides: what is told twice arrives twice.
INDEXNOW = {
    "ENABLED": True,
    "VERIFY_KEY_FILE": False,
    "SETTLE_SECONDS": 0,
    "HOST_INTERVAL": 0,
    "RATE_LIMIT": 6_000,
    "RESUBMIT_AFTER": 0,
    "RELAY_INTERVAL": 0.3,
    "TIMEOUT": 3,
}
LEASE_S = 4.0  # instead of a minute


class Stage:
    """What an operator has: processes to start and to kill, and an engine that is told."""

    def __init__(self, directory: Path, engine: Engine, database: Mapping[str, str]) -> None:
        self.directory = directory
        self.engine = engine
        self.redis = Redis(directory)
        self.indexnow: dict[str, Any] = {**INDEXNOW, "ENDPOINTS": {"engine": engine.endpoint}}
        self.environment = {
            **database,
            "DJANGO_SETTINGS_MODULE": "tests.acceptance.settings",
            "PROCESS_BROKER": "dramatiq.brokers.redis.RedisBroker",
            "PROCESS_BROKER_OPTIONS": json.dumps({"url": self.redis.url}),
            "PROCESS_DIR": str(directory),
            "PROCESS_LEASE_S": str(LEASE_S),
        }
        self._processes: list[Process] = []

    def start(self, name: str, *arguments: str) -> Process:
        """Start Python in the environment of the site."""
        env = {**self.environment, "PROCESS_INDEXNOW": json.dumps(self.indexnow)}
        log = self.directory / f"{name}-{len(self._processes)}.log"
        process = python(*arguments, env=env, log=log)
        self._processes.append(process)
        return process

    def start_worker(self, *, threads: int = 2, queue: str = "default") -> Process:
        return self.start(
            "worker",
            *MANAGE,
            *("rundramatiq", "--processes", "1", "--threads", str(threads)),
            *("--worker-shutdown-timeout", "10000", "--queues", queue),
        )

    def worker(self, *, threads: int = 2, queue: str = "default") -> Process:
        """Start a worker and wait until it works."""
        process = self.start_worker(threads=threads, queue=queue)
        eventually(lambda: "ready for action" in process.output(), timeout_s=40)
        return process

    def cron(self, command: str = "publish_scheduled", *, every_s: float = 0.3) -> Process:
        return self.start("cron", "-m", "tests.acceptance.cron", command, str(every_s))

    def command(self, *arguments: str) -> Process:
        return self.start(arguments[0], *MANAGE, *arguments)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
        self.redis.kill()

    # What the editor sees

    def drafts(self, count: int = 1, *, prefix: str = "page") -> list[Any]:
        home = make_site().root_page
        return [make_page(home, f"{prefix}-{number}") for number in range(count)]

    @staticmethod
    def schedule(pages: list[Any], *, seconds: float) -> datetime:
        """Schedule pages to go live some seconds from now."""
        at = timezone.now() + timedelta(seconds=seconds)
        for page in pages:
            page.go_live_at = at
            page.save_revision().publish()
        return at

    def send(self, actor: Any, *args: Any) -> None:
        """Send a message of the site's own through the Redis of the stage."""
        broker = RedisBroker(url=self.redis.url, middleware=[Retries()])
        broker.declare_queue(actor.queue_name)
        broker.enqueue(actor.message(*args))
        broker.close()

    def send_announcement(self, payload: dict[str, Any]) -> None:
        from wagtail_indexnow.tasks import announce

        self.send(announce, payload)

    def queue_is_empty(self, queue: str = "default") -> bool:
        """Say whether nothing waits, is being retried or is dead."""
        keys = [f"dramatiq:{queue}", f"dramatiq:{queue}.DQ", f"dramatiq:{queue}.XQ"]
        return not any(self.redis.call("EXISTS", key) for key in keys)

    # What comes of it

    def told_all_once(
        self,
        pages: list[Any],
        *,
        timeout_s: float = 40,
        doubles: int = 0,
        endings: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        """Wait until all is told and the ledger is at rest, and see that nothing came twice.

        :param doubles: how many more may have come: what a crash after a POST costs.
        :param endings: (state, reason) → number of events that ended without announcing.
        """
        wanted = sorted(f"https://www.example.com/en/{page.slug}/" for page in pages)
        eventually(lambda: set(self.engine.urls()) >= set(wanted), timeout_s=timeout_s)
        eventually(self.is_at_rest, timeout_s=timeout_s)
        told = sorted(self.engine.urls())
        assert sorted(set(told)) == wanted
        assert len(told) <= len(wanted) + doubles, told
        events = Intent.objects.exclude(page_id=None)  # audits aside
        announced = events.filter(state="announced").values_list("page_id", flat=True)
        assert set(announced) == {page.pk for page in pages}
        others = events.exclude(state="announced").values_list("state", "reason")
        assert Counter(others) == (endings or {})

    @staticmethod
    def is_at_rest() -> bool:
        waiting = TrackedUrl.objects.filter(not_before__isnull=False)
        return not (Intent.objects.planned().exists() or waiting.exists())

    @staticmethod
    def are_parked(count: int = 1) -> bool:
        parked = Intent.objects.planned().filter(kind="go_live", handed_at__isnull=False)
        return parked.count() >= count

    @staticmethod
    def are_live(pages: list[Any]) -> bool:
        return Page.objects.filter(pk__in=[page.pk for page in pages]).live().count() == len(pages)

    def written(self, name: str) -> str:
        """Return what a worker wrote into a file, or nothing."""
        path = self.directory / name
        return path.read_text() if path.exists() else ""

    # Faults

    @property
    def database_address(self) -> tuple[str, int]:
        settings = connection.settings_dict
        return settings["HOST"], int(settings["PORT"])

    @staticmethod
    def end_other_connections() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let a worker stay in the middle of announcing until the block ends."""
        (self.directory / "pause").touch()
        try:
            yield
        finally:
            (self.directory / "pause").unlink()

    def is_held(self) -> bool:
        return (self.directory / "held").exists()
