"""Who looks at the admin, and rows of every kind to look at."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.utils import timezone
from wagtail.models import GroupPagePermission, Page, Site

from tests.factories import make_page, make_site
from wagtail_indexnow.ledger import channels
from wagtail_indexnow.ledger.tracked_urls import url_hash
from wagtail_indexnow.models import Intent, Submission, TrackedUrl

HOST = "www.example.com"
ADMIN = "/admin/indexnow/"


@pytest.fixture
def home(indexnow: Any, db: None) -> Page:
    """The home page of the only Site."""
    site = make_site()
    Site.objects.exclude(pk=site.pk).delete()
    return site.root_page


@pytest.fixture
def news(home: Page) -> Page:
    return make_page(home, "news", live=True)


@pytest.fixture
def person(db: None) -> Callable[..., Client]:
    """Log somebody in whose group has these permissions, for the admin and for pages below."""

    def log_in(name: str, *may: str, pages: Page | None = None, edit: str = "publish_page") -> Any:
        user = get_user_model().objects.create_user(name, f"{name}@example.com", name)
        group = Group.objects.create(name=f"Group of {name}")
        codenames = ["access_admin", *may]
        group.permissions.set(Permission.objects.filter(codename__in=codenames))
        if pages is not None:
            permission = Permission.objects.get(codename=edit)
            GroupPagePermission.objects.create(group=group, page=pages, permission=permission)
        user.groups.add(group)
        client = Client()
        client.force_login(user)
        client.user = user  # type: ignore[attr-defined]
        return client

    return log_in


@pytest.fixture
def superuser(db: None) -> Client:
    user = get_user_model().objects.create_superuser("admin", "admin@example.com", "admin")
    client = Client()
    client.force_login(user)
    client.user = user  # type: ignore[attr-defined]
    return client


@pytest.fixture
def tracked(home: Page) -> Callable[..., TrackedUrl]:
    """Make a tracked URL as the rest of the app would have left it."""

    def make(page: Page | None, path: str = "", **fields: Any) -> TrackedUrl:
        url = f"https://{HOST}/en/{path or (page.slug if page else 'gone')}/"
        values = {
            "endpoint": "engine",
            "host": HOST,
            "url": url,
            "url_hash": url_hash(url),
            "page_id": page.pk if page else 987_654,
            "change": "updated",
            "changed_at": timezone.now(),
            "version": 1,
            "state": "accepted",
            "attempts": 1,
            **fields,
        }
        channels.ensure((values["endpoint"], host) for host in ("", values["host"]))
        return TrackedUrl.objects.create(**values)

    return make


@pytest.fixture
def go_live(home: Page) -> Callable[..., Intent]:
    """Make a go-live that is due in a day, unless told otherwise."""

    def make(page: Page, **fields: Any) -> Intent:
        due = fields.pop("expected_at", timezone.now() + timedelta(days=1))
        number = Intent.objects.count()
        values = {
            "key": f"page:{page.pk}:go_live:{number}",
            "kind": "go_live",
            "page_id": page.pk,
            "page_title": page.title,
            "locale": "en",
            "expected_at": due,
            "run_at": due if fields.get("state", "planned") == "planned" else None,
            "created_at": timezone.now(),
            **fields,
        }
        return Intent.objects.create(**values)

    return make


@pytest.fixture
def submission(home: Page) -> Callable[..., Submission]:
    def make(**fields: Any) -> Submission:
        now = timezone.now()
        values = {
            "endpoint": "engine",
            "host": HOST,
            "started_at": now,
            "finished_at": now + timedelta(seconds=1),
            "status": 200,
            "state": "accepted",
            "urls": [f"https://{HOST}/en/news/"],
            **fields,
        }
        values["urls"] = [
            entry if isinstance(entry, dict) else entry_of(entry) for entry in values["urls"]
        ]
        return Submission.objects.create(**values)

    return make


def entry_of(url: str) -> dict[str, Any]:
    """Return a URL as a submission keeps it."""
    return {"id": 1, "version": 1, "url": url, "change": "updated", "page": None}
