"""Right before a POST: pages that are no longer public, on real pages."""

from collections.abc import Iterator
from typing import Any

import pytest
from wagtail.models import Page, PageViewRestriction

from example_site.engine import Engine
from tests.factories import make_page, make_site
from wagtail_indexnow import clock
from wagtail_indexnow.constants import Change, Reason, UrlState
from wagtail_indexnow.ledger import tracked_urls
from wagtail_indexnow.ledger.tracked_urls import Marked
from wagtail_indexnow.models import PublicUrl, TrackedUrl
from wagtail_indexnow.submission.submitting import submit_channel as submit

pytestmark = pytest.mark.django_db(transaction=True)

HOST = "www.example.com"


@pytest.fixture
def engine(settings: Any) -> Iterator[Engine]:
    with Engine(check_keys=False) as running:
        settings.WAGTAIL_INDEXNOW = {
            "ENABLED": True,
            "RELAY_INTERVAL": 0,
            "ENDPOINTS": {"one": running.endpoint},
            "VERIFY_KEY_FILE": False,
        }
        yield running


@pytest.fixture
def section() -> Page:
    return make_page(make_site(HOST).root_page, "section", live=True)


def mark(page: Page) -> None:
    url = f"https://{HOST}/en/{page.slug}/"
    marked = Marked(url=url, host=HOST, change=Change.ADDED, page_id=page.pk)
    tracked_urls.mark([marked], now=clock.now())
    PublicUrl.objects.create(page_id=page.pk, url=url, url_hash=marked.url_hash, host=HOST)


def test_w29_a_page_under_a_section_that_was_hidden_meanwhile_is_not_sent(
    engine: Engine, section: Page
) -> None:
    page = make_page(section, "article", live=True)
    mark(page)
    # As an import hides it: no signal tells anybody.
    PageViewRestriction.objects.bulk_create(
        [PageViewRestriction(page=section, restriction_type=PageViewRestriction.LOGIN)]
    )

    assert submit("one", HOST) == "idle"

    assert engine.requests == []
    url = TrackedUrl.objects.get()
    assert (url.state, url.reason) == (UrlState.PENDING, Reason.NOT_PUBLIC_YET)


@pytest.mark.parametrize("way", ["offline", "gone"])
def test_a_page_that_went_past_all_signals_is_not_sent(
    engine: Engine, section: Page, way: str
) -> None:
    page = make_page(section, "article", live=True)
    mark(page)
    mark(section)
    rows = Page.objects.filter(pk=page.pk)
    if way == "offline":
        rows.update(live=False)
    else:
        page.delete()

    assert submit("one", HOST) == "accepted"

    assert engine.urls() == [f"https://{HOST}/en/section/"]


def test_a_url_that_another_page_has_too_passes_while_one_of_them_is_public(
    engine: Engine, section: Page
) -> None:
    page = make_page(section, "article", live=True)
    mark(page)
    row = PublicUrl.objects.get()
    shared = {"url": row.url, "url_hash": row.url_hash, "host": HOST}
    PublicUrl.objects.create(page_id=section.pk, **shared)
    Page.objects.filter(pk=page.pk).update(live=False)
    assert submit("one", HOST) == "accepted"


def test_a_url_that_no_page_has_passes(engine: Engine, section: Page) -> None:
    mark(section)
    PublicUrl.objects.all().delete()
    Page.objects.filter(pk=section.pk).update(live=False)

    assert submit("one", HOST) == "accepted"
