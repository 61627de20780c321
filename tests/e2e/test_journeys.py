"""What users do, in the real forms: schedule, submit, cancel, resubmit, rotate, export."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from wagtail.models import Page

from tests.e2e.conftest import HOST
from tests.factories import make_page, publish
from wagtail_indexnow.models import Intent
from wagtail_indexnow.submission import keys

pytestmark = pytest.mark.timeout(300)
ADMIN = "/admin/indexnow/"


@pytest.fixture
def night(home: Page) -> Page:
    """A draft that is about to be scheduled. The clock says 1 December, 9 a.m."""
    return make_page(home, "night", title="A night at the museum")


def schedule(browser_page: Any, at: str) -> None:
    """Set a go-live time in the editor's dialog, and choose Publish."""
    browser_page.get_by_role("button", name="Toggle status").click()
    browser_page.get_by_role("button", name="Set schedule").click()
    browser_page.locator("#id_go_live_at").fill(at)
    # By keyboard: the calendar may still lie over the button.
    browser_page.get_by_role("button", name="Save schedule").press("Enter")
    browser_page.wait_for_load_state("networkidle")


def test_scheduled_page_is_seen_among_the_events_and_then_accepted(
    open_page: Callable[..., Any], night: Page, indexnow: Any, clock_at: Any
) -> None:
    page = open_page(f"/admin/pages/{night.pk}/edit/")
    schedule(page, "2026-12-01 18:00")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("button", name="Schedule to publish").click()
    page.get_by_text("has been scheduled for publishing").wait_for()

    page.goto(f"{ADMIN}events/")
    row = page.get_by_role("row", name="A night at the museum")
    assert "Dec. 1, 2026 18:00" in row.inner_text()
    assert "Ada Byron" in row.inner_text()

    clock_at.shift(timedelta(hours=9, minutes=1))
    call_command("publish_scheduled")
    indexnow.settle()

    page.goto(f"{ADMIN}urls/")
    row = page.get_by_role("row", name="A night at the museum")
    assert "200 OK" in row.inner_text()
    assert "accepted" in row.inner_text().casefold()
    assert indexnow.told() == [f"https://{HOST}/en/night/"]


def test_event_is_cancelled(open_page: Callable[..., Any], museum: Any, indexnow: Any) -> None:
    page = open_page(f"{ADMIN}events/?state=planned")
    intent = Intent.objects.get(key="ahead-0")

    page.locator(f'[data-object-id="{intent.pk}"]').check(force=True)
    page.get_by_role("link", name="Cancel selected events").click()
    page.get_by_role("button", name="Yes, cancel").click()

    page.get_by_text("1 event has been cancelled.").wait_for()
    intent.refresh_from_db()
    assert intent.state == "cancelled"


def test_url_is_resubmitted(
    open_page: Callable[..., Any], home: Page, indexnow: Any, clock_at: Any
) -> None:
    publish(make_page(home, "story"))
    indexnow.settled()
    clock_at.shift(timedelta(hours=1))
    page = open_page(f"{ADMIN}urls/")

    page.locator("tbody [data-bulk-action-checkbox]").first.check(force=True)
    page.get_by_role("link", name="Resubmit selected URLs").click()
    page.get_by_role("button", name="Yes, resubmit").click()

    page.get_by_text("1 URL has been queued for submission.").wait_for()
    assert indexnow.settled() == [f"https://{HOST}/en/story/"]


def test_key_is_shown_and_rotated(open_page: Callable[..., Any], home: Page) -> None:
    key = keys.key_for(HOST)
    page = open_page(f"{ADMIN}settings/")
    assert key not in page.content()

    page.get_by_role("link", name=f"Show the key of {HOST}").click()
    page.get_by_text(key).wait_for()
    page.get_by_role("link", name=f"Rotate the key of {HOST}").click()
    page.get_by_role("button", name="Yes, rotate").click()

    page.get_by_text(f"{HOST} has a new key.").wait_for()
    assert keys.key_for(HOST) != key


@pytest.mark.parametrize("kind", ["CSV", "XLSX"])
def test_report_is_downloaded(kind: str, open_page: Callable[..., Any], museum: Any) -> None:
    page = open_page(f"{ADMIN}urls/")

    page.get_by_role("button", name="Actions", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name=f"Download {kind}").click()

    assert download.value.suggested_filename == f"indexnow-urls.{kind.lower()}"


def test_page_is_submitted_from_the_editor(
    open_page: Callable[..., Any], home: Page, indexnow: Any, clock_at: Any
) -> None:
    page_row = publish(make_page(home, "story"))
    indexnow.settled()
    clock_at.shift(timedelta(hours=1))
    page = open_page(f"/admin/pages/{page_row.pk}/edit/")

    page.get_by_role("button", name="Actions", exact=True).click()
    page.get_by_role("link", name="IndexNow: engine accepted").click()
    page.get_by_role("button", name="Submit to IndexNow").click()

    page.get_by_text("has been queued for submission.").wait_for()
    assert indexnow.settled() == [f"https://{HOST}/en/story/"]


def test_filter_narrows_the_report_without_a_reload(
    open_page: Callable[..., Any], museum: Any
) -> None:
    page = open_page(f"{ADMIN}urls/")

    page.get_by_role("button", name="Show filters").click()
    page.get_by_role("button", name="State").click()
    page.get_by_role("radio", name="Rejected").check()

    page.get_by_text("There is 1 match").wait_for()
    assert page.locator("tbody [data-bulk-action-checkbox]").count() == 1
