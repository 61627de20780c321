"""A site's own app that makes the faults of the process tests.

Files in `PROCESS_DIR` switch them. While `hold` exists, looking at a page's URLs takes its time.
The page whose slug stands in `dies-before` cannot be saved as live; the one in `dies-after` can,
but whatever follows its publish fails.
"""

import os
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.apps import AppConfig

HOLD_MAX_S = 60.0


class FaultsConfig(AppConfig):
    name = "tests.acceptance.faults"
    label = "faults"

    def ready(self) -> None:
        from django.db.models.signals import pre_save
        from wagtail import hooks
        from wagtail.signals import page_published

        hooks.register("construct_indexnow_urls", hold)
        pre_save.connect(die_before, dispatch_uid="faults.die_before")
        # Connected ahead of ours, which then hears nothing.
        page_published.connect(die_after, dispatch_uid="faults.die_after")
        shorten_waits(float(os.environ["PROCESS_LEASE_S"]))
        limit_posts(os.environ.get("PROCESS_URLS_PER_POST"))
        put_clock_ahead(float(os.environ.get("PROCESS_CLOCK_AHEAD_S", "0")))


def shorten_waits(seconds: float) -> None:
    """Let a test see in seconds what takes minutes: what was lost, or waits, comes back."""
    from wagtail_indexnow import models
    from wagtail_indexnow.ledger import backoff
    from wagtail_indexnow.pages import guards
    from wagtail_indexnow.relay import dispatch
    from wagtail_indexnow.submission import claims

    lease = timedelta(seconds=seconds)
    guards.WAIT_DELAYS = (lease, 2 * lease)
    guards.CANCEL_RECHECK = lease
    models.LEASE_MIN = dispatch.CHANNEL_LEASE = lease
    # More than the longest exchange: `TIMEOUT` is shorter here too.
    setattr(claims, "lease", lambda: 2 * lease)  # noqa: B010
    backoff.RETRY_DELAYS = (lease / 4,)
    backoff.RETRY_DELAY_MAX = lease / 2


def limit_posts(urls: str | None) -> None:
    """Let a test see many POSTs without millions of URLs."""
    from wagtail_indexnow.submission import claims

    if urls is not None:
        read = partial(claims.read, limit=int(urls))
        setattr(claims, "read", read)  # noqa: B010


def put_clock_ahead(seconds: float) -> None:
    """Let this process be wrong about the time, as a machine without time service is."""
    if seconds:
        import time_machine

        time_machine.travel(timedelta(seconds=seconds), tick=True).start()


def die_before(sender: type, instance: Any, **kwargs: Any) -> None:
    if getattr(instance, "live", False):
        _die(instance, "dies-before")


def die_after(sender: type, instance: Any, **kwargs: Any) -> None:
    _die(instance, "dies-after")


def _die(page: Any, name: str) -> None:
    path = Path(os.environ["PROCESS_DIR"]) / name
    if path.exists() and path.read_text() == getattr(page, "slug", ""):
        raise RuntimeError("this page cannot be published")


def hold(page: Any, urls: list[str]) -> None:
    """Note that a worker is in the middle of its work, and stay there while `hold` exists."""
    directory = Path(os.environ["PROCESS_DIR"])
    deadline = time.monotonic() + HOLD_MAX_S
    while (directory / "pause").exists() and time.monotonic() < deadline:
        (directory / "held").touch()
        time.sleep(0.02)
