"""Delivery against a real engine on loopback: claim, pace, POST, answer, outcome."""

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.test import override_settings
from django.utils import timezone

from example_site.engine import Answer, Engine
from wagtail_indexnow import channels, clock, delivering, tracked_urls
from wagtail_indexnow.constants import Change, Reason, UrlState
from wagtail_indexnow.delivering import deliver
from wagtail_indexnow.models import Channel, Delivery, HostKey, TrackedUrl
from wagtail_indexnow.tracked_urls import Marked

pytestmark = pytest.mark.django_db(transaction=True)

HOST = "www.example.com"
START = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)


@pytest.fixture
def at() -> Iterator[Any]:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


@pytest.fixture
def engine(at: Any) -> Iterator[Engine]:
    with Engine(check_keys=False, clock=lambda: timezone.now().timestamp()) as running:
        yield running


@pytest.fixture
def configure(engine: Engine) -> Iterator[Callable[..., None]]:
    overrides = []

    def change(**values: Any) -> None:
        setting = {
            "ENABLED": True,
            "RELAY_INTERVAL": 0,
            "ENDPOINTS": {"one": engine.endpoint},
            "VERIFY_KEY_FILE": False,
            **values,
        }
        override = override_settings(WAGTAIL_INDEXNOW=setting)
        override.enable()
        overrides.append(override)

    change()
    yield change
    for override in reversed(overrides):
        override.disable()


@pytest.fixture(autouse=True)
def public(configure: Any, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Page ids that count as public; every page of these tests by default."""
    pages = set(range(100))
    monkeypatch.setattr(
        "wagtail_indexnow.page_facts.still_public", lambda ids: pages & set(ids)
    )
    return pages


def url(path: str, host: str = HOST) -> str:
    return f"https://{host}/{path}"


def mark(*paths: str, host: str = HOST, change: str = Change.ADDED, page_id: int = 1) -> None:
    tracked_urls.mark(
        [
            Marked(url=url(path, host), host=host, change=change, page_id=page_id)
            for path in paths
        ],
        now=clock.now(),
    )


def row(path: str, endpoint: str = "one") -> TrackedUrl:
    return TrackedUrl.objects.get(url__endswith=f"/{path}", endpoint=endpoint)


def channel(host: str = HOST, endpoint: str = "one") -> Channel:
    return Channel.objects.get(endpoint=endpoint, host=host)


def bodies(engine: Engine) -> list[dict[str, Any]]:
    return [json.loads(record.raw) for record in engine.requests]


def test_c01_one_url_goes_out_in_one_post_with_exactly_four_fields(engine: Engine) -> None:
    mark("a/")

    outcome = deliver("one", HOST)

    key = HostKey.objects.get(host=HOST).key
    [record] = engine.requests
    assert outcome == "delivered"
    assert (record.method, record.path) == ("POST", "/indexnow")
    assert record.headers["content-type"] == "application/json; charset=utf-8"
    assert json.loads(record.raw) == {
        "host": HOST,
        "key": key,
        "keyLocation": f"https://{HOST}/{key}.txt",
        "urlList": [url("a/")],
    }
    assert record.anomalies == ()


def test_c35_an_accepted_url_is_delivered_and_proves_the_key(engine: Engine) -> None:
    mark("a/")

    deliver("one", HOST)

    sent = row("a/")
    assert (sent.state, sent.reason, sent.last_status) == (UrlState.DELIVERED, "", 200)
    assert (sent.sent_at, sent.not_before, sent.lease_until) == (START, None, None)
    assert channel().verified_at == START
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.outcome, delivery.urls) == (200, "delivered", [url("a/")])
