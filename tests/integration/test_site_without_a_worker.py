"""A site that runs neither Dramatiq nor Redis: cron does all of it, as the docs say."""

import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import dramatiq
import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone

from example_site.engine import Answer
from tests.factories import make_page, publish
from wagtail_indexnow.models import Intent, TrackedUrl

pytestmark = pytest.mark.django_db(transaction=True)
NEWS = "https://www.example.com/en/news/"


@pytest.fixture
def news(site: Any, indexnow: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A page of a site that has no broker, and whose engine is told without any pause."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a site without a broker sent a message")

    monkeypatch.setattr(dramatiq.get_broker(), "enqueue", refuse)
    indexnow.configure(SETTLE_SECONDS=0, RELAY_INTERVAL=0)
    return make_page(site.root_page, "news")


def run_cron() -> None:
    call_command("publish_scheduled")
    call_command("indexnow_relay", "--inline")


def test_cron_tells_what_was_published(news: Any, indexnow: Any) -> None:
    publish(news)

    run_cron()
    assert indexnow.told() == [NEWS]
    run_cron()
    assert indexnow.told() == []


def test_cron_tells_a_schedule_once_it_is_live(news: Any, indexnow: Any) -> None:
    news.go_live_at = timezone.now() + timedelta(days=30)
    news.save_revision().publish()
    run_cron()
    assert indexnow.told() == []

    with time_machine.travel(news.go_live_at + timedelta(minutes=1)):
        run_cron()

    assert indexnow.told() == [NEWS]


def test_cron_makes_up_for_a_missed_run(news: Any, indexnow: Any) -> None:
    publish(news)
    Intent.objects.update(run_at=timezone.now() - timedelta(days=1))

    run_cron()

    assert indexnow.told() == [NEWS]


def test_cron_leaves_to_a_later_run_what_has_to_wait(news: Any, indexnow: Any) -> None:
    indexnow.engine.answer(Answer(status=429, headers={"Retry-After": "3600"}))
    publish(news)

    run_cron()

    assert TrackedUrl.objects.get().state == "pending"
    assert TrackedUrl.objects.get().reason == "rate_limited"


def test_switched_off_site_says_so(indexnow: Any) -> None:
    indexnow.configure(ENABLED=False)

    with pytest.raises(CommandError, match="switched off"):
        call_command("indexnow_relay", "--inline")


def test_app_starts_without_django_dramatiq() -> None:
    program = """
import sys
from django.conf import settings
import tests.settings as full
names = [name for name in dir(full) if name.isupper()]
values = {name: getattr(full, name) for name in names if name != "DRAMATIQ_BROKER"}
values["INSTALLED_APPS"] = [app for app in full.INSTALLED_APPS if app != "django_dramatiq"]
values["WAGTAIL_INDEXNOW"] = {"ENABLED": True, "RELAY_INTERVAL": 0}
# Some checks of Django's ask the database; the one of the tests is not there under this name.
database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
values["DATABASES"] = {"default": {**database, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}}
settings.configure(**values)
import django
django.setup()
from django.core.management import call_command
call_command("check", "--fail-level", "WARNING")
assert "wagtail_indexnow.tasks" not in sys.modules
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
