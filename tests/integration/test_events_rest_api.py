"""Wagtail 8's REST API: the same sends as the admin's, past all of its hooks."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone
from wagtail.models import Page

from tests.factories import make_page, publish
from wagtail_indexnow.models import TrackedUrl

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        not apps.is_installed("wagtail.api.v3"), reason="needs the REST API of Wagtail 8"
    ),
]
ROOT = "https://www.example.com/en/"
NEWS = f"{ROOT}news/"


class Api:
    """An authorised client of the REST API."""

    def __init__(self, user: Any) -> None:
        from wagtail.models import APIToken

        _token, plaintext = APIToken.create_token(user=user, name="tests")
        self.client = Client(headers={"authorization": f"Bearer {plaintext}"})

    def call(self, method: str, path: str, **body: Any) -> Any:
        response = getattr(self.client, method)(
            f"/api/v3/pages/{path}", data=json.dumps(body), content_type="application/json"
        )
        assert response.status_code < 300, response.content
        return response


@pytest.fixture
def api(editor: Any, indexnow: Any, site: Any, clock_at: Any) -> Api:
    return Api(editor.user)


@pytest.fixture
def live(api: Api, site: Any, indexnow: Any) -> Any:
    page = publish(make_page(site.root_page, "news"))
    publish(make_page(page, "one"))
    assert indexnow.settled() == [NEWS, f"{NEWS}one/"]
    indexnow.travel_to(timezone.now() + timedelta(hours=1))
    return page


def test_created_draft_is_not_told_and_published_page_is(
    api: Api, indexnow: Any, site: Any
) -> None:
    for slug, action in (("draft", None), ("news", "publish")):
        meta = {"type": "testapp.ArticlePage", "parent_id": site.root_page.pk}
        meta |= {"action": action} if action else {}
        api.call("post", "", meta=meta, title=slug, slug=slug, body="")

    assert indexnow.settled() == [NEWS]


def test_patched_and_published_page_is_told(api: Api, indexnow: Any, live: Any) -> None:
    api.call(
        "patch",
        f"{live.pk}/",
        meta={"type": "testapp.ArticlePage", "action": "publish"},
        slug="fresh",
    )

    assert indexnow.settled() == [f"{ROOT}fresh/", f"{ROOT}fresh/one/", NEWS, f"{NEWS}one/"]


def test_published_page_is_told(api: Api, indexnow: Any, live: Any) -> None:
    api.call("post", f"{live.pk}/actions/publish/")

    assert indexnow.settled() == [NEWS]


@pytest.mark.parametrize("recursive", [False, True])
def test_unpublished_page_is_told(recursive: bool, api: Api, indexnow: Any, live: Any) -> None:
    api.call("post", f"{live.pk}/actions/unpublish/", recursive=recursive)

    assert indexnow.settled() == [NEWS, *([f"{NEWS}one/"] if recursive else [])]


def test_moved_section_tells_old_and_new_urls(
    api: Api, indexnow: Any, live: Any, site: Any
) -> None:
    shelf = make_page(site.root_page, "shelf")
    api.call("post", f"{live.pk}/actions/move/", destination_id=shelf.pk, position="last-child")

    moved = f"{ROOT}shelf/news/"
    assert indexnow.settled() == [NEWS, f"{NEWS}one/", moved, f"{moved}one/"]


def test_copied_section_is_told_once(api: Api, indexnow: Any, live: Any, site: Any) -> None:
    api.call(
        "post",
        f"{live.pk}/actions/copy/",
        destination_id=site.root_page.pk,
        recursive=True,
        slug="copy",
    )

    assert indexnow.settled() == [f"{ROOT}copy/", f"{ROOT}copy/one/"]


def test_deleted_section_tells_every_former_url(api: Api, indexnow: Any, live: Any) -> None:
    api.call("delete", f"{live.pk}/")

    assert not Page.objects.filter(pk=live.pk).exists()
    assert indexnow.settled() == [NEWS, f"{NEWS}one/"]
    assert set(TrackedUrl.objects.values_list("change", flat=True)) == {"removed"}
