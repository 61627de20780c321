"""The main job: an editor schedules a page, and engines hear of it when it is really live."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command

from tests.factories import make_page, publish
from wagtail_indexnow.models import Intent

pytestmark = pytest.mark.django_db(transaction=True)
URL = "https://www.example.com/en/news/"


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


def test_published_page_is_told_once(indexnow: Any, news: Any) -> None:
    publish(news)

    assert indexnow.settled() == [URL]
    assert indexnow.settled() == []


def test_scheduled_page_is_told_after_it_went_live(indexnow: Any, news: Any) -> None:
    go_live = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
    news.go_live_at = go_live
    news.save_revision().publish()

    assert indexnow.settled() == []
    indexnow.travel_to(go_live + timedelta(seconds=30))
    assert indexnow.settled(minutes=0) == []
    call_command("publish_scheduled")
    assert indexnow.settled() == [URL]
    assert {intent.state for intent in Intent.objects.all()} == {"announced"}
