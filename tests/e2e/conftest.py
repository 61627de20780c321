"""A real browser on a live server: Debian's chromium, driven by Playwright.

Not part of the ordinary run: `pytest tests/e2e`. Skipped where there is no browser.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connections
from django.utils import timezone
from wagtail.models import Page, Site
from wagtail.users.models import UserProfile

from tests.admin.conftest import entry_of
from tests.conftest import IndexNow
from tests.factories import make_page, publish
from wagtail_indexnow.ledger import channels
from wagtail_indexnow.models import HostKey, Intent, Submission, TrackedUrl
from wagtail_indexnow.submission import keys
from wagtail_indexnow.submission.key_files import instance_token

# Playwright's event loop runs in this thread while the tests use the database.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
HOST = "www.example.com"
SIZE = {"width": 1280, "height": 900}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install playwright"
    )
    if CHROMIUM is None:
        pytest.skip("There is no chromium; CHROMIUM may say where it is.")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def _nothing_from_elsewhere(settings: Any) -> None:
    settings.WAGTAIL_ENABLE_UPDATE_CHECK = False
    settings.WAGTAIL_GRAVATAR_PROVIDER_URL = None
    settings.WAGTAIL_SITE_NAME = "Harbour Museum"


class IndexNowApart(IndexNow):
    """Works in a thread of its own: in this one Playwright's event loop is running."""

    def work(self) -> None:
        shared = {alias: connections[alias] for alias in connections}
        with ThreadPoolExecutor(max_workers=1) as thread:
            thread.submit(self._work_on, shared).result()

    def _work_on(self, shared: dict[str, Any]) -> None:
        # As the live server does: a database in memory has one connection.
        for alias, connection in shared.items():
            connections[alias] = connection
            connection.inc_thread_sharing()
        super().work()
        for connection in shared.values():
            connection.dec_thread_sharing()


@pytest.fixture
def indexnow(indexnow: IndexNow, engine: Any, settings: Any) -> IndexNow:
    return IndexNowApart(engine, settings)


@pytest.fixture
def home(site: Any, indexnow: Any, clock_at: Any) -> Page:
    Site.objects.exclude(pk=site.pk).delete()
    Page.objects.filter(pk=site.root_page_id).update(title="Harbour Museum", live=True)
    return Page.objects.get(pk=site.root_page_id)


@pytest.fixture
def open_page(chromium: Any, live_server: Any, home: Page) -> Iterator[Callable[..., Any]]:
    """Log the administrator in and open a path; a fault in the browser's console is a failure."""
    faults: list[str] = []
    contexts: list[Any] = []

    def open_(path: str, *, theme: str = "light", language: str = "", **options: Any) -> Any:
        log_in = make_administrator(language)
        context = chromium.new_context(
            viewport=SIZE, color_scheme=theme, base_url=live_server.url, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        log_in(page)
        page.goto(path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert faults == []


def make_administrator(language: str) -> Callable[[Any], None]:
    user, is_made = get_user_model().objects.get_or_create(
        username="ada", defaults={"is_superuser": True, "first_name": "Ada", "last_name": "Byron"}
    )
    if is_made:
        user.set_password("ada")
        user.save()
    profile = UserProfile.get_for_user(user)
    profile.preferred_language = language
    profile.save()

    def log_in(page: Any) -> None:
        page.goto("/admin/login/")
        page.fill("[name=username]", "ada")
        page.fill("[name=password]", "ada")
        page.click("button[type=submit]")
        page.wait_for_url("**/admin/")

    return log_in


@pytest.fixture
def museum(home: Page, indexnow: Any) -> dict[str, Any]:
    """Months at a museum: pages accepted, pending, rejected; go-lives ahead, overdue and past."""
    titles = ["Charts of the coast", "Getting here", "A record year", "Opening hours", "Tides"]
    pages = [
        make_page(Page.objects.get(pk=home.pk), f"page-{n}", title=t, live=True)
        for n, t in enumerate(titles)
    ]
    for page in pages[:3]:
        publish(page)
    indexnow.settle()
    keys.key_for(HOST)
    keys_row = HostKey.objects.get(host=HOST)
    HostKey.objects.update(
        checked_key=keys_row.key,
        checked_at=timezone.now(),
        checked_by=instance_token(HOST),
        check_result="ok",
    )
    _add_trouble()
    _add_history()
    _add_schedule(pages)
    return {
        "pages": pages,
        "submission": Submission.objects.filter(state="rejected").latest("started_at").pk,
        "url": TrackedUrl.objects.order_by("pk")[0].pk,
    }


def _add_trouble() -> None:
    now = timezone.now()
    waiting, rejected, *_rest = TrackedUrl.objects.order_by("pk")
    waiting.state, waiting.reason, waiting.not_before = (
        "pending",
        "rate_limited",
        now + timedelta(hours=1),
    )
    waiting.save()
    rejected.state, rejected.reason, rejected.last_status = "rejected", "unprocessable", 422
    rejected.save()
    row = channels.lock_one("engine", "")
    assert row is not None
    channels.pause(row, reason="rate_limited", until=now + timedelta(hours=1), now=now)


def _add_history() -> None:
    outcomes = [("accepted", "", 200)] * 8
    outcomes += [("pending", "server_error", 503), ("rejected", "unprocessable", 422)]
    for number in range(90):
        state, reason, status = outcomes[number * 7 % len(outcomes)]
        started_at = timezone.now() - timedelta(hours=3 + number * 8)
        Submission.objects.create(
            endpoint="engine",
            host=HOST,
            started_at=started_at,
            finished_at=started_at + timedelta(milliseconds=340),
            status=status,
            state=state,
            reason=reason,
            urls=[entry_of(f"https://{HOST}/en/page-{n}/") for n in range(1 + number * 5 % 23)],
            error_code="InvalidRequestParameters" if status == 422 else "",
            excerpt='{"message": "One URL is not of this host."}' if status == 422 else "",
        )


def _add_schedule(pages: list[Page]) -> None:
    now = timezone.now()
    reasons = ["schedule_changed", "published_otherwise", "private", "schedule_changed"]
    for number in range(50):
        page, ago = pages[number % len(pages)], timedelta(hours=number * number * 7 % 690)
        _go_live(
            page,
            f"past-{number}",
            now - ago,
            state="skipped",
            finished_at=now - ago,
            reason=reasons[number % len(reasons)],
        )
    for number, page in enumerate(pages):
        _go_live(page, f"ahead-{number}", now + timedelta(days=1 + number * 3))
    _go_live(pages[0], "waits", now - timedelta(minutes=2), reason="not_published_yet")
    _go_live(pages[1], "late", now - timedelta(hours=5), reason="not_published_yet")


def _go_live(page: Page, key: str, at: Any, **fields: Any) -> None:
    is_ended = "finished_at" in fields
    Intent.objects.create(
        key=key,
        kind="go_live",
        page_id=page.pk,
        page_title=page.title,
        locale="en",
        expected_at=at,
        created_at=at - timedelta(days=4),
        scheduled_by="publish_scheduled",
        run_at=None if is_ended else max(at, timezone.now() + timedelta(minutes=4)),
        **fields,
    )


def screenshots() -> Path | None:
    """Return where pictures for the documentation go, if anybody asked for them."""
    wanted = os.environ.get("SCREENSHOTS")
    return Path(wanted) if wanted else None
