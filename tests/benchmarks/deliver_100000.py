"""Queue, claim, post and record 100,000 URLs of one host: printed, not asserted.

    DATABASE=postgres PYTHONPATH=. python tests/benchmarks/deliver_100000.py

Uses a test database of its own and the local engine, both on this machine.
"""

import os
import sys
import time

import django

COUNT = 100_000
HOST = "www.example.com"

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.db import connection  # noqa: E402

from example_site.engine import Engine  # noqa: E402
from wagtail_indexnow import clock, tracked_urls  # noqa: E402
from wagtail_indexnow.constants import Change, UrlState  # noqa: E402
from wagtail_indexnow.delivering import deliver  # noqa: E402
from wagtail_indexnow.models import TrackedUrl  # noqa: E402
from wagtail_indexnow.tracked_urls import Marked  # noqa: E402


def say(what: str, count: int, seconds: float) -> None:
    sys.stdout.write(f"{what}: {seconds:.2f} s, {count / seconds:,.0f} URLs/s\n")


def run(engine: Engine) -> None:
    settings.WAGTAIL_INDEXNOW = {
        "ENABLED": True,
        "ENDPOINTS": {"local": engine.endpoint},
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
    started = time.perf_counter()
    tracked_urls.mark(marks, now=clock.now())
    say("mark", COUNT, time.perf_counter() - started)
    started = time.perf_counter()
    posts = 0
    while deliver("local", HOST) == "delivered":
        posts += 1
    say(f"deliver in {posts} POSTs", COUNT, time.perf_counter() - started)
    assert TrackedUrl.objects.filter(state=UrlState.DELIVERED).count() == COUNT
    assert len(engine.requests) == posts


def main() -> None:
    name = connection.creation.create_test_db(verbosity=0)
    try:
        with Engine(check_keys=False) as engine:
            run(engine)
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


if __name__ == "__main__":
    main()
