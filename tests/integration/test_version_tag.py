"""The version of a page, in its markup and in Wagtail's API, as VERIFY_PAGES reads it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from types import ModuleType
from types import SimpleNamespace as Published
from typing import Any

import pytest
from django.apps import apps
from django.template import Context, Template
from django.urls import clear_url_caches, path
from wagtail.api import APIField
from wagtail.api.v2.router import WagtailAPIRouter
from wagtail.api.v2.views import PagesAPIViewSet

from tests import urls
from tests.testapp.models import ArticlePage
from wagtail_indexnow.api_fields import VersionField
from wagtail_indexnow.submission.page_markup import read_markup
from wagtail_indexnow.submission.page_responses import PageResponse

PUBLISHED = datetime(2026, 12, 1, 18, 0, 0, 123456, tzinfo=UTC)
VERSION = "2026-12-01T18:00:00.123456+00:00"
META = f'<meta name="indexnow-published-at" content="{VERSION}">'


def render(text: str, **context: Any) -> str:
    source = "{% load wagtail_indexnow_tags %}" + text
    return Template(source).render(Context(context))


@pytest.mark.parametrize("name", ["page", "self"])
def test_tag_prints_the_version_of_the_template_page(name: str) -> None:
    page = Published(last_published_at=PUBLISHED)

    assert render("{% indexnow_version %}", **{name: page}) == META


def test_tag_prints_the_version_of_another_page() -> None:
    page = Published(last_published_at=PUBLISHED)

    assert (
        render("{% indexnow_version other %}", page=Published(last_published_at=None), other=page)
        == META
    )


def test_tag_prints_nothing_where_there_is_no_version() -> None:
    assert render("{% indexnow_version %}", page=Published(last_published_at=None)) == ""
    assert render("{% indexnow_version %}") == ""


def test_tag_is_read_back() -> None:
    page = Published(last_published_at=PUBLISHED)
    markup = render("<head>{% indexnow_version %}</head>", page=page)

    found = read_markup(PageResponse(status=200, body=markup.encode()))

    assert found.version == PUBLISHED


def test_tag_is_in_utc_where_the_site_has_no_time_zones(settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Berlin"
    page = Published(last_published_at=datetime(2026, 12, 1, 19))

    assert "2026-12-01T18:00:00.000000+00:00" in render("{% indexnow_version %}", page=page)


@pytest.fixture
def page(site: Any) -> Any:
    home = site.root_page
    ArticlePage.objects.filter(pk=home.pk).update(last_published_at=PUBLISHED)
    return home


@pytest.fixture
def api_v2(settings: Any) -> Iterator[None]:
    router = WagtailAPIRouter("wagtailapi")
    router.register_endpoint("pages", PagesAPIViewSet)
    urlconf = ModuleType("urlconf_with_api")
    urlconf.urlpatterns = [path("api/v2/", router.urls), *urls.urlpatterns]  # type: ignore[attr-defined]
    settings.ROOT_URLCONF = urlconf
    clear_url_caches()
    yield
    clear_url_caches()


@pytest.mark.parametrize("query", ["", "?fields=indexnow_version"])
def test_version_2_of_the_api_has_the_field(
    page: Any, api_v2: None, client: Any, query: str
) -> None:
    response = client.get(f"/api/v2/pages/{page.pk}/{query}", headers={"host": "www.example.com"})

    assert response.json()["indexnow_version"] == VERSION


@pytest.mark.skipif(not apps.is_installed("wagtail.api.v3"), reason="came with Wagtail 8")
def test_version_3_of_the_api_has_the_field(page: Any, client: Any) -> None:
    response = client.get(f"/api/v3/pages/{page.pk}/", headers={"host": "www.example.com"})

    assert response.json()["indexnow_version"] == VERSION


def test_field_may_have_another_name() -> None:
    field = APIField("version", serializer=VersionField())

    assert field.serializer.to_representation(Published(last_published_at=None)) is None
