"""The ways in which people change pages: the admin, as a browser uses it."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone


class Editor:
    """A superuser in the admin. Each verb is one click on one button, without redirect."""

    def __init__(self) -> None:
        self.user = get_user_model().objects.create_superuser("editor", "e@example.com", "pass")
        self.client = Client()
        self.client.force_login(self.user)

    def create(self, parent: Any, slug: str, **fields: Any) -> Any:
        """Create a draft, or publish it at once with `publish=True`; return the page."""
        address = reverse("wagtailadmin_pages:add", args=("testapp", "articlepage", parent.pk))
        self.post(address, self._form(title=slug.title(), slug=slug, **fields))
        return type(parent).objects.get(pk=parent.pk).get_children().get(slug=slug).specific

    def edit(self, page: Any, **fields: Any) -> None:
        """Save a draft of a page, or publish it with `publish=True`."""
        page = type(page).objects.get(pk=page.pk).get_latest_revision_as_object()
        form = self._form(**{"title": page.title, "slug": page.slug, **fields})
        self.post(reverse("wagtailadmin_pages:edit", args=(page.pk,)), form)

    def publish(self, page: Any, **fields: Any) -> None:
        self.edit(page, publish=True, **fields)

    def unschedule(self, page: Any) -> None:
        revision = page.revisions.get(approved_go_live_at__isnull=False)
        self.do("revisions_unschedule", page, revision.pk)

    def unpublish(self, page: Any, *, with_descendants: bool = False) -> None:
        self.do("unpublish", page, include_descendants="on" if with_descendants else "")

    def delete(self, page: Any) -> None:
        self.do("delete", page)

    def move(self, page: Any, target: Any) -> None:
        self.do("move_confirm", page, target.pk)

    def restrict(self, page: Any, kind: str = "login", **fields: Any) -> None:
        """Set a page's privacy: `none`, `login` or `password`."""
        self.do("set_privacy", page, restriction_type=kind, **fields)

    def copy(self, page: Any, slug: str, parent: Any, **fields: Any) -> None:
        form = {"new_title": slug.title(), "new_slug": slug, "new_parent_page": parent.pk}
        self.do("copy", page, **form, **fields)

    def bulk(self, action: str, pages: Iterable[Any], **form: Any) -> None:
        address = reverse("wagtail_bulk_action", args=("wagtailcore", "page", action))
        ids = urlencode({"id": [page.pk for page in pages]}, doseq=True)
        self.post(f"{address}?{ids}", form)

    def do(self, view: str, page: Any, *args: Any, **form: Any) -> Any:
        return self.post(reverse(f"wagtailadmin_pages:{view}", args=(page.pk, *args)), form)

    def post(self, address: str, fields: dict[str, Any]) -> Any:
        response = self.client.post(address, fields)
        assert response.status_code in (200, 302), response.content
        form = response.context and response.context.get("form")
        assert form is None or not form.errors, form.errors
        return response

    def _form(self, *, publish: bool = False, **fields: Any) -> dict[str, Any]:
        for name in ("go_live_at", "expire_at"):
            if name in fields:
                moment = timezone.localtime(fields[name])
                fields[name] = moment.strftime("%Y-%m-%d %H:%M:%S")
        form = {"body": "", "comments-TOTAL_FORMS": 0, "comments-INITIAL_FORMS": 0, **fields}
        return {**form, "action-publish": "1"} if publish else form


@pytest.fixture
def editor(transactional_db: None) -> Editor:
    return Editor()
