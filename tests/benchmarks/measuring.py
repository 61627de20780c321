"""What the measurements share: settings, an empty ledger, and clocks."""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.test import override_settings
from wagtail.models import Page, Revision

from tests.acceptance.stage import Stage
from wagtail_indexnow.models import (
    Channel,
    CheckedPage,
    Intent,
    PublicUrl,
    Submission,
    TrackedUrl,
)

Row = tuple[str, str, str]  # what, figure, remark
HOST = "www.example.com"


@contextmanager
def site(stage: Stage, **indexnow: Any) -> Iterator[None]:
    """Let this process, and those that the stage starts meanwhile, have these settings."""
    before = stage.indexnow
    stage.indexnow = {**before, **indexnow}
    hosts = [*settings.ALLOWED_HOSTS, HOST]
    try:
        with override_settings(WAGTAIL_INDEXNOW=stage.indexnow, ALLOWED_HOSTS=hosts):
            yield
    finally:
        stage.indexnow = before


def forget() -> None:
    """Empty the ledger, and leave nothing of earlier pages that reconciliation would find."""
    for model in (TrackedUrl, Submission, Channel, Intent, PublicUrl, CheckedPage):
        model.objects.all()._raw_delete("default")
    Revision.objects.update(approved_go_live_at=None)
    Page.objects.update(live=False)


def tidy() -> None:
    """Do what autovacuum does a little later; SQLite only needs to know what there is."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


def took_ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1_000


def took_ms_each(work: Callable[[], object], *, times: int) -> list[float]:
    return [took_ms(work) for _ in range(times)]


def cpu_s() -> tuple[float, float]:
    """Return the CPU seconds of this process and of its database backend.

    They say more than the clock where other programs run too. SQLite works in this process; a
    server's backend can only be asked on the same machine, on Linux.
    """
    fields: list[str] = []
    if connection.vendor == "postgresql":
        connection.ensure_connection()
        stat = Path(f"/proc/{connection.connection.info.backend_pid}/stat")
        fields = stat.read_text().rpartition(")")[2].split() if stat.exists() else []
    ticks = sum(map(int, fields[11:13]))
    return time.process_time(), ticks / os.sysconf("SC_CLK_TCK")


def median_and_max(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.1f} / {max(seconds):.1f} s"
