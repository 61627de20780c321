"""The events that matter, on sites that are set up in another way: see `tests/variants`.

`tox -e variants` runs this file once for each of them; here it runs as things ship.
"""

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connections, router, transaction
from django.urls import reverse
from django.utils import timezone
from wagtail.models import PageViewRestriction

from tests.factories import make_page, publish
from wagtail_indexnow.diagnostics.explanation import explain, status_sentence
from wagtail_indexnow.diagnostics.health import findings
from wagtail_indexnow.models import Intent, TrackedUrl
from wagtail_indexnow.pages.model import page_model
from wagtail_indexnow.relay.dispatch import run_maintenance

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")
HOME = "https://www.example.com/en/"
NEWS = f"{HOME}news/"


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


@pytest.fixture
def later(indexnow: Any) -> Any:
    """Let time pass, so that a URL may be sent again."""

    def travel(**duration: float) -> None:
        indexnow.travel_to(timezone.now() + timedelta(**(duration or {"hours": 1})))

    return travel


@pytest.fixture
def editor(client: Any) -> Any:
    """A browser whose user may do everything."""
    user = get_user_model()
    name = {user.USERNAME_FIELD: "editor@example.com"}
    client.force_login(user.objects.create_superuser(password="x", **name))
    return client


def fresh(page: Any) -> Any:
    return page_model().objects.get(pk=page.pk).specific


def test_published_updated_and_unpublished(indexnow: Any, news: Any, later: Any) -> None:
    publish(news)
    assert indexnow.settled() == [NEWS]

    later()
    publish(fresh(news), title="Newer")
    assert indexnow.settled() == [NEWS]

    later()
    fresh(news).unpublish()
    assert indexnow.settled() == [NEWS]
    assert TrackedUrl.objects.get().change == "removed"


def test_scheduled_page_is_told_once_it_is_live(indexnow: Any, news: Any, later: Any) -> None:
    news.go_live_at = timezone.now() + timedelta(hours=9)
    news.save_revision().publish()
    assert indexnow.settled() == []
    assert "Search engines will be told after" in status_sentence(news)

    later(hours=10)
    assert indexnow.settled(minutes=0) == []
    call_command("publish_scheduled")

    assert indexnow.settled() == [NEWS]
    assert indexnow.settled() == []


def test_rescheduled_page_keeps_its_latest_time(indexnow: Any, news: Any, later: Any) -> None:
    for hours in (2, 6):
        news.go_live_at = timezone.now() + timedelta(hours=hours)
        news.save_revision().publish()

    later(hours=3)
    call_command("publish_scheduled")
    assert indexnow.settled(minutes=0) == []
    later(hours=4)
    call_command("publish_scheduled")
    assert indexnow.settled() == [NEWS]


def test_moved_and_renamed_section(indexnow: Any, news: Any, later: Any) -> None:
    publish(news)
    publish(make_page(news, "child"))
    other = publish(make_page(fresh(news).get_parent(), "other"))
    indexnow.settled()

    later()
    fresh(news).move(fresh(other), "last-child")
    assert indexnow.settled() == sorted(
        [NEWS, f"{NEWS}child/", f"{HOME}other/news/", f"{HOME}other/news/child/"]
    )

    later()
    page = fresh(news)
    page.slug = "olds"
    page.save_revision().publish()
    assert f"{HOME}other/olds/child/" in indexnow.settled()


def test_hidden_and_shown_section(indexnow: Any, news: Any, later: Any) -> None:
    publish(news)
    indexnow.settled()

    later()
    restriction = PageViewRestriction.objects.create(page=fresh(news), restriction_type="login")
    assert indexnow.settled() == [NEWS]

    later()
    restriction.delete()
    assert indexnow.settled() == [NEWS]


def test_deleted_section(indexnow: Any, news: Any, later: Any) -> None:
    publish(news)
    publish(make_page(news, "child"))
    indexnow.settled()

    later()
    fresh(news).delete()

    assert indexnow.settled() == sorted([NEWS, f"{NEWS}child/"])


def test_publish_that_is_rolled_back_is_never_told(indexnow: Any, news: Any) -> None:
    alias = router.db_for_write(Intent)

    with transaction.atomic(using=alias):
        publish(news)
        transaction.set_rollback(True, using=alias)

    assert not Intent.objects.exists()
    assert indexnow.settled() == []


def test_publish_in_the_admin(indexnow: Any, news: Any, editor: Any) -> None:
    """One row, in the request's transaction if it has one, and nothing sent."""
    url = reverse("wagtailadmin_pages:edit", args=[news.pk])
    form = {"title": "News", "slug": "news", "action-publish": "action-publish"}
    form |= {f"comments-{name}_FORMS": "0" for name in ("TOTAL", "INITIAL", "MIN_NUM")}

    answer = editor.post(url, form)

    assert answer.status_code == 302
    intent = Intent.objects.get()
    assert (intent.kind, intent.state) == ("publish", "planned")
    assert intent.scheduled_by.startswith("user:")
    assert indexnow.settled() == [NEWS]


def test_import_past_all_signals_is_found(indexnow: Any, news: Any) -> None:
    now = timezone.now()
    page_model().objects.filter(pk=news.pk).update(live=True, last_published_at=now)

    run_maintenance()

    assert indexnow.settled() == [NEWS]


def test_commands_do_their_work(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.settled()
    out = io.StringIO()

    call_command("indexnow_submit", str(news.pk), stdout=out)
    call_command("indexnow_submit", missed=True, dry_run=True, since="2026-12-01", stdout=out)
    call_command("indexnow_explain", "/en/news/", json=True, stdout=out)

    assert "Planned 1 page." in out.getvalue()
    assert "Would submit 0 pages." in out.getvalue()
    assert json.loads(out.getvalue().partition("{")[1] + out.getvalue().partition("{")[2])
    assert indexnow.settled() == [NEWS]


def test_findings_and_explanations_hold(indexnow: Any, news: Any) -> None:
    publish(news)
    indexnow.settle()

    found = {finding.name: finding.ok for finding in findings()}
    assert found["relay"] is found["last_response"] is True
    assert explain(news.pk).urls == (NEWS,)
    assert "answer 200" in status_sentence(news)


def test_models_match_their_migrations() -> None:
    alias = router.db_for_write(Intent)
    assert "wagtail_indexnow_intent" in connections[alias].introspection.table_names()
    call_command("makemigrations", "wagtail_indexnow", check=True, dry_run=True, verbosity=0)
