"""A pending URL says what it waits for wherever it is shown: pace and pauses are not in its row."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from example_site.engine import Answer
from tests.factories import make_page, publish
from wagtail_indexnow import clock
from wagtail_indexnow.constants import Reason
from wagtail_indexnow.diagnostics.explanation import explain, status_sentence
from wagtail_indexnow.diagnostics.health import check_all
from wagtail_indexnow.diagnostics.wait_reasons import Waits
from wagtail_indexnow.ledger import channels
from wagtail_indexnow.models import Channel, TrackedUrl
from wagtail_indexnow.relay.dispatch import tick
from wagtail_indexnow.relay.senders import InlineCourier

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


@pytest.fixture
def news(indexnow: Any, site: Any, clock_at: Any) -> Any:
    """A page whose URL is marked and not sent yet."""
    page = publish(make_page(site.root_page, "news"))
    announce(indexnow)
    return page


def announce(indexnow: Any) -> None:
    """Let time pass until what was published is marked, and carry no submission."""
    indexnow.travel_to(timezone.now() + timedelta(seconds=6))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(InlineCourier, "submit", lambda self, payload: None)
        tick(InlineCourier())
    Channel.objects.update(handed_at=None)


def said(page: Any) -> str:
    return str(Waits(clock.now()).of(TrackedUrl.objects.get(page_id=page.pk)))


def test_url_that_nothing_keeps_back_goes_next(news: Any) -> None:
    assert said(news) == "Goes with the next submission."


@pytest.mark.parametrize("host", ["", "www.example.com"], ids=["engine", "site"])
@pytest.mark.parametrize("reason", [Reason.OTHER_INSTALLATION, Reason.RATE_LIMITED])
def test_url_behind_a_hold_names_it_everywhere(news: Any, host: str, reason: Reason) -> None:
    until = timezone.now() + HOUR
    channels.pause_host("engine", host, reason=reason, until=until)

    assert said(news).startswith(f"{reason.label}. Next attempt: Dec. 1, 2026 10:0")
    assert str(reason.label) in status_sentence(news)
    [tracked] = explain(news.pk).tracked
    assert (tracked.wait.why, tracked.wait.until) == (f"{reason.label}.", until)
    assert tracked.wait.is_paused
    out = io.StringIO()
    call_command("indexnow_explain", str(news.pk), stdout=out)
    assert str(reason.label) in out.getvalue()


def test_hold_whose_time_is_over_is_named_until_it_is_proved_otherwise(
    indexnow: Any, news: Any
) -> None:
    channels.pause_host("engine", "www.example.com", reason=Reason.KEY_FILE, until=timezone.now())
    indexnow.travel_to(timezone.now() + HOUR)

    assert said(news) == f"{Reason.KEY_FILE.label}. Goes with the next submission."


def test_url_told_a_short_while_ago_says_so(indexnow: Any, news: Any) -> None:
    indexnow.settle()
    publish(news)
    announce(indexnow)

    assert said(news) == (
        "The URL was submitted a short while ago. Next attempt: Dec. 1, 2026 09:10."
    )


def test_url_behind_another_ones_submission_says_so(indexnow: Any, news: Any, site: Any) -> None:
    indexnow.work()
    later = publish(make_page(site.root_page, "later"))
    announce(indexnow)
    [sent] = Channel.objects.filter(host="www.example.com")
    assert sent.not_before > timezone.now()  # the interval of its last submission

    assert said(later).startswith("Waiting for this site's next submission slot. Next attempt")


def test_own_reason_and_hold_are_said_once_each(indexnow: Any, news: Any) -> None:
    indexnow.engine.answer(Answer(status=429, headers={"Retry-After": "7200"}))
    indexnow.work()
    channels.pause_host(
        "engine", "www.example.com", reason=Reason.KEY_FILE, until=timezone.now() + 3 * HOUR
    )

    assert said(news).startswith(
        f"{Reason.RATE_LIMITED.label}. {Reason.KEY_FILE.label}. Next attempt"
    )
    assert said(news).count(str(Reason.RATE_LIMITED.label)) == 1


def test_ended_url_waits_for_nothing(indexnow: Any, news: Any) -> None:
    indexnow.engine.answer(Answer(status=422))
    indexnow.work()
    channels.pause_host("engine", "", reason=Reason.RATE_LIMITED, until=timezone.now() + HOUR)

    assert said(news) == f"{Reason.UNPROCESSABLE.label}."


def test_any_number_of_urls_costs_one_query(news: Any, django_assert_num_queries: Any) -> None:
    rows = list(TrackedUrl.objects.all()) * 3
    with django_assert_num_queries(1):
        waits = Waits(timezone.now())
        assert len([waits.of(row) for row in rows]) == 3


def test_check_says_that_everything_pending_is_paused(news: Any) -> None:
    channels.pause_host("engine", "", reason=Reason.OTHER_INSTALLATION, until=timezone.now() + HOUR)

    [found] = [finding for finding in check_all(live=False) if finding.name == "pending"]

    assert found.severity == "info"
    assert found.message == "Everything pending is paused or rate-limited; nothing is stuck."
