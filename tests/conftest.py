"""Fixtures for the whole suite, and the guard that keeps every test on this machine."""

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from wagtail_indexnow import clock


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


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    from django.contrib.contenttypes.models import ContentType
    from wagtail.models import Site

    yield
    Site.clear_site_root_paths_cache()
    ContentType.objects.clear_cache()
