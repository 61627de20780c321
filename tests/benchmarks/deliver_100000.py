"""Queue, claim, post and record 100,000 URLs of one host: printed, not asserted.

    DATABASE=postgres PYTHONPATH=. python tests/benchmarks/deliver_100000.py

Uses a test database of its own and the local engine, a process of its own, on this machine. Where
other programs run too, the worker's own CPU seconds say more than the clock.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import django

COUNT = 100_000
HOST = "www.example.com"

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.db import connection  # noqa: E402

from wagtail_indexnow import clock, tracked_urls  # noqa: E402
from wagtail_indexnow.constants import Change, UrlState  # noqa: E402
from wagtail_indexnow.delivering import deliver  # noqa: E402
from wagtail_indexnow.models import Delivery, TrackedUrl  # noqa: E402
from wagtail_indexnow.tracked_urls import Marked  # noqa: E402


def run(endpoint: str) -> None:
    settings.WAGTAIL_INDEXNOW = {
        "ENABLED": True,
        "ENDPOINTS": {"local": endpoint},
        "VERIFY_KEY_FILE": False,
        # The pace is not what is measured.
        "HOST_INTERVAL": 0,
        "RATE_LIMIT": 1_000_000,
    }
    marks = [
        # As removed: no page of this benchmark exists, and a re-check would withdraw the rest.
        Marked(url=f"https://{HOST}/{n}/", host=HOST, change=Change.REMOVED, page_id=n)
        for n in range(COUNT)
    ]
    measure("mark", lambda: tracked_urls.mark(marks, now=clock.now()))
    measure("claim, POST and record", deliver_all)
    told = TrackedUrl.objects.filter(state=UrlState.DELIVERED)
    posts = Delivery.objects.filter(status=200)
    sys.stdout.write(f"{told.count():,} URLs told in {posts.count()} POSTs\n")


def deliver_all() -> None:
    while deliver("local", HOST) == UrlState.DELIVERED:
        pass


def measure(what: str, work: Callable[[], None]) -> None:
    started, cpu_started = time.perf_counter(), time.process_time()
    work()
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
    sys.stdout.write(
        f"{what}: {seconds:.2f} s, {COUNT / seconds:,.0f} URLs/s;"
        f" {cpu_s:.2f} s of them on this process's CPU\n"
    )


@contextmanager
def local_engine() -> Iterator[str]:
    """Run the engine in a process of its own, and yield its endpoint."""
    command = [sys.executable, "-m", "example_site.engine", "--port", "0", "--no-key-check"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            said = process.stdout.readline()
            found = re.search(r"POST to (\S+)", said)
            assert found, said
            yield found[1]
        finally:
            process.terminate()


def main() -> None:
    name = connection.creation.create_test_db(verbosity=0)
    try:
        with local_engine() as endpoint:
            run(endpoint)
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


if __name__ == "__main__":
    main()
