"""The kit for sites' own tests: it records what engines would be told, and names a difference."""

import os
import socket
import subprocess
import sys
from datetime import timedelta
from typing import Any

import dramatiq
import pytest
import time_machine
from django.core.management import call_command
from django.db import transaction
from django.test import TestCase
from django.utils import timezone
from wagtail.models import PageViewRestriction, Site

from tests.factories import make_page, make_site, publish
from tests.testapp.models import BrokenPage
from wagtail_indexnow.conf import conf
from wagtail_indexnow.models import Intent
from wagtail_indexnow.testing import Submissions, indexnow_submissions, record_submissions

__all__ = ["indexnow_submissions"]  # as a site's conftest imports it

ROOT = "https://www.example.com/en/"
NEWS = f"{ROOT}news/"


def publish_now(page: Any) -> None:
    """Publish as a site's own test would, without any care for the copying guard."""
    page.save_revision().publish()


@pytest.fixture
def home(db: None) -> Any:
    return make_site().root_page


@pytest.fixture
def news(home: Any) -> Any:
    return make_page(home, "news")


def test_published_page_is_recorded(news: Any) -> None:
    with record_submissions() as submissions:
        publish_now(news)

    submissions.assert_submitted(NEWS)
    assert [(item.url, item.change, item.page_id) for item in submissions] == [
        (NEWS, "added", news.pk)
    ]


def test_fixture_records_too(news: Any, indexnow_submissions: Submissions) -> None:
    publish_now(news)

    indexnow_submissions.assert_submitted(NEWS)


@pytest.mark.django_db(transaction=True)
def test_works_without_a_surrounding_transaction(transactional_db: None) -> None:
    page = make_page(make_site().root_page, "news")

    with record_submissions() as submissions:
        publish_now(page)

    submissions.assert_submitted(NEWS)


class TestInATestCase(TestCase):
    def test_changed_slug_needs_the_commit_callbacks(self) -> None:
        page = publish(make_page(make_site().root_page, "news"))

        capture = self.captureOnCommitCallbacks(execute=True)
        with record_submissions() as submissions, capture:
            page.slug = "latest"
            publish_now(page)

        submissions.assert_submitted(NEWS, f"{ROOT}latest/")
        assert {item.change for item in submissions if item.url == NEWS} == {"removed"}

    def test_without_them_the_error_says_so(self) -> None:
        page = publish(make_page(make_site().root_page, "news"))

        with record_submissions() as submissions:
            page.slug = "latest"
            publish_now(page)

        with pytest.raises(AssertionError, match="captureOnCommitCallbacks"):
            submissions.assert_submitted(NEWS, f"{ROOT}latest/", f"{ROOT}other/")


def test_difference_names_what_is_missing_and_what_is_too_much(home: Any, news: Any) -> None:
    with record_submissions() as submissions:
        publish_now(news)

    with pytest.raises(AssertionError) as error:
        submissions.assert_submitted(f"{ROOT}other/")
    assert f"missing: {ROOT}other/" in str(error.value)
    assert f"unexpected: {NEWS} (added)" in str(error.value)


def test_difference_says_why_a_page_was_not_told(news: Any) -> None:
    PageViewRestriction.objects.create(page=news, restriction_type="login")
    with record_submissions() as submissions:
        publish_now(news)

    with pytest.raises(AssertionError, match=r"'News' skipped: private – The page is private"):
        submissions.assert_submitted(NEWS)


def test_difference_shows_the_fault_of_a_page(home: Any) -> None:
    page = make_page(home, "broken", model=BrokenPage)
    with record_submissions() as submissions:
        publish_now(page)

    with pytest.raises(AssertionError, match=r"waits: page_error .* RuntimeError: this page is"):
        submissions.assert_submitted(f"{ROOT}broken/")
    assert Intent.objects.get().attempts == 1


def test_nothing_submitted_is_an_assertion_too(news: Any) -> None:
    with record_submissions() as submissions:
        news.save_revision()
        submissions.assert_nothing_submitted()
        publish_now(news)

    with pytest.raises(AssertionError, match=f"unexpected: {NEWS}"):
        submissions.assert_nothing_submitted()


def test_what_happened_before_counts_as_told(news: Any) -> None:
    publish(news)

    with record_submissions() as submissions:
        submissions.assert_nothing_submitted()
        news.refresh_from_db()
        news.unpublish()

    assert [(item.url, item.change) for item in submissions] == [(NEWS, "removed")]


def test_forgetting_starts_anew(news: Any, indexnow_submissions: Submissions) -> None:
    publish_now(news)
    indexnow_submissions.forget()

    indexnow_submissions.assert_nothing_submitted()
    assert indexnow_submissions.urls == []


def test_after_the_block_nothing_more_is_done(news: Any, settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {"ENABLED": True, "SETTLE_SECONDS": 0}
    with record_submissions() as submissions:
        pass
    publish_now(news)

    submissions.assert_nothing_submitted()
    assert Intent.objects.planned().exists()


def test_schedule_is_recorded_once_it_is_live(news: Any) -> None:
    go_live = timezone.now() + timedelta(days=30)
    with record_submissions() as submissions:
        news.go_live_at = go_live
        news.save_revision().publish()
        submissions.assert_nothing_submitted()

        with time_machine.travel(go_live + timedelta(minutes=1)):
            submissions.assert_nothing_submitted()
            call_command("publish_scheduled")
            submissions.assert_submitted(NEWS)


def test_schedule_that_is_due_and_not_live_says_what_it_waits_for(news: Any) -> None:
    go_live = timezone.now() + timedelta(days=30)
    with record_submissions() as submissions:
        news.go_live_at = go_live
        news.save_revision().publish()

        with (
            time_machine.travel(go_live + timedelta(minutes=1)),
            pytest.raises(AssertionError, match="waits: not_published_yet"),
        ):
            submissions.assert_submitted(NEWS)


def test_copied_page_is_not_waited_for(news: Any) -> None:
    page = publish(news)
    with record_submissions() as submissions, time_machine.travel(timezone.now(), tick=False):
        page.copy(update_attrs={"slug": "copy"}, keep_live=True)

    submissions.assert_submitted(f"{ROOT}copy/")


def test_site_called_localhost_counts(db: None) -> None:
    Site.objects.filter(hostname="localhost").delete()  # the one that Wagtail's migrations make
    home = make_site("localhost", port=80).root_page
    with record_submissions() as submissions:
        publish_now(make_page(home, "news"))

    submissions.assert_submitted("http://localhost/en/news/")


def test_site_that_is_made_inside_the_block_counts(db: None) -> None:
    with record_submissions() as submissions:
        publish_now(make_page(make_site("new.example.net").root_page, "news"))

    submissions.assert_submitted("https://new.example.net/en/news/")
    assert Site.objects.filter(hostname="new.example.net").exists()


def test_app_is_switched_on_and_back_again(settings: Any, news: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {"ENABLED": False}

    with record_submissions(SCHEME="http") as submissions:
        publish_now(news)

    submissions.assert_submitted("http://www.example.com/en/news/")
    assert not conf.enabled


def test_expected_urls_may_be_written_as_people_write_them(home: Any) -> None:
    page = make_page(home, "straße")
    with record_submissions() as submissions:
        publish_now(page)

    submissions.assert_submitted("HTTPS://www.example.com:443/en/straße/")


def test_nothing_is_sent_and_no_broker_is_touched(
    news: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("this should not have been called")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(dramatiq.get_broker(), "enqueue", refuse)
    with record_submissions() as submissions:
        publish_now(news)

    submissions.assert_submitted(NEWS)


def test_failing_block_shows_its_own_error(news: Any) -> None:
    def break_off() -> None:
        with record_submissions(), transaction.atomic():
            publish_now(news)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert not Intent.objects.exists()


def test_submissions_read_like_a_list(news: Any, indexnow_submissions: Submissions) -> None:
    publish_now(news)
    indexnow_submissions.collect()

    assert len(indexnow_submissions) == 1
    assert indexnow_submissions[0] == indexnow_submissions[:1][0]
    assert NEWS in repr(indexnow_submissions)


def test_kit_needs_no_pytest_and_the_package_never_loads_the_kit() -> None:
    program = """
import sys
sys.modules["pytest"] = None
import django
from django.conf import settings
import tests.settings
django.setup()
assert "wagtail_indexnow.testing" not in sys.modules
import wagtail_indexnow.testing as kit
assert not hasattr(kit, "indexnow_submissions")
"""
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {"DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
