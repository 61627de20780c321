"""What the editor waits for, and what a bulk publish makes of it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median, quantiles
from unittest import mock

from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models.signals import ModelSignal
from django.dispatch import Signal
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from wagtail.models import Page

from tests.acceptance.stage import Stage
from tests.benchmarks.measuring import HOST, Row, forget, site, took_ms
from tests.factories import make_page, make_site
from wagtail_indexnow import signal_handlers
from wagtail_indexnow.constants import Kind
from wagtail_indexnow.models import Intent, TrackedUrl
from wagtail_indexnow.relay.dispatch import tick
from wagtail_indexnow.relay.senders import InlineCourier

PAIRS, WARM_UP = 250, 20


def publishing(stage: Stage) -> Iterator[Row]:
    """An editor's publish through the admin's form, with the app's handlers and without.

    In pairs, so that whatever else the machine does hits both alike; the first of a pair takes
    turns.
    """
    forget()
    publish = _form_of(make_page(make_site().root_page, "published"))
    samples: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    queries = {}
    with site(stage):
        for number in range(WARM_UP + PAIRS):
            for has_app in (True, False) if number % 2 else (False, True):
                with _handlers(connected=has_app):
                    samples[has_app].append(_took_and_cpu_ms(publish))
        for has_app in (True, False):
            with _handlers(connected=has_app), CaptureQueriesContext(connection) as captured:
                publish()
            queries[has_app] = len(captured)
    with_app, cpu_with = zip(*samples[True][WARM_UP:], strict=True)
    without, cpu_without = zip(*samples[False][WARM_UP:], strict=True)
    added = [slower - faster for slower, faster in zip(with_app, without, strict=True)]
    yield "publish in the admin, with the app", *_medians(with_app, cpu_with)
    yield "… without it", *_medians(without, cpu_without)
    of_cpu = f"wanted: at most 1.05; of CPU: {median(cpu_with) / median(cpu_without):.3f}"
    yield "… ratio", f"{median(with_app) / median(without):.3f}", of_cpu
    first, middle, third = quantiles(added, n=4)
    between = f"median of {PAIRS} pairs; half of them between {first:.1f} and {third:.1f}"
    yield "… difference", f"{middle:.1f} ms", between
    more = f"{queries[True]} and {queries[False]}; wanted: at most 3"
    yield "… more queries", f"{queries[True] - queries[False]}", more


def announcing(stage: Stage, count: int = 1_000) -> Iterator[Row]:
    """A bulk publish: intents that are due → tracked URLs, in lists of 100."""
    forget()
    home = make_site("bulk.example.com").root_page
    pages = [make_page(home, f"bulk-{number}") for number in range(count)]
    now = timezone.now()
    Page.objects.filter(pk__in=[page.pk for page in pages]).update(
        live=True, first_published_at=now, last_published_at=now
    )
    Intent.objects.bulk_create(
        Intent(
            key=f"page:{page.pk}:publish:bench",
            kind=Kind.PUBLISH,
            page_id=page.pk,
            translation_key=page.translation_key,
            run_at=now,
            created_at=now,
        )
        for page in pages
    )
    with site(stage), mock.patch.object(InlineCourier, "submit"):
        seconds = took_ms(lambda: tick(InlineCourier())) / 1_000
    assert TrackedUrl.objects.count() == count
    yield "bulk announce", f"{count / seconds:,.0f} pages/s", f"{count:,} pages, one process"


def _took_and_cpu_ms(work: Callable[[], object]) -> tuple[float, float]:
    before = time.process_time()
    return took_ms(work), (time.process_time() - before) * 1_000


def _medians(times_ms: Sequence[float], cpu_ms: Sequence[float]) -> tuple[str, str]:
    return f"{median(times_ms):.1f} ms", f"CPU {median(cpu_ms):.1f} ms"


def _form_of(page: Page) -> Callable[[], None]:
    """Return what changes a page's title and publishes it, as a superuser does."""
    user = get_user_model().objects.create_superuser("editor", "editor@example.com", "editor")
    client = Client(SERVER_NAME=HOST)
    client.force_login(user)
    fields = {"slug": page.slug, "body": "Text", "action-publish": "action-publish"}
    fields |= {"comments-TOTAL_FORMS": "0", "comments-INITIAL_FORMS": "0"}
    numbers = iter(range(1_000_000))

    def publish() -> None:
        title = f"Title {next(numbers)}"
        response = client.post(f"/admin/pages/{page.pk}/edit/", {**fields, "title": title})
        assert response.status_code == 302, response.content[:2_000]

    return publish


@contextmanager
def _handlers(*, connected: bool) -> Iterator[None]:
    """Let the signals find the app's handlers, or let them be as if it was not installed."""
    if not connected:
        with (
            mock.patch.object(Signal, "connect", _disconnect),
            mock.patch.object(ModelSignal, "connect", _disconnect),
        ):
            signal_handlers.connect()
    try:
        yield
    finally:
        signal_handlers.connect()


def _disconnect(signal: Signal, receiver: object, *, sender: object, dispatch_uid: str) -> None:
    """Stand in for `Signal.connect`, so that connecting them all takes them all away."""
    signal.disconnect(sender=sender, dispatch_uid=dispatch_uid)
