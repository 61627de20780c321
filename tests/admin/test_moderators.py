"""The migration that lets Moderators see both reports."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.db import connection

pytestmark = pytest.mark.django_db
migration = import_module("wagtail_indexnow.migrations.0002_moderators_may_view_reports")


def migrate() -> None:
    migration.grant(apps, SimpleNamespace(connection=connection))


def granted() -> set[str]:
    found = Permission.objects.filter(
        group__name="Moderators", content_type__app_label="wagtail_indexnow"
    )
    return set(found.values_list("codename", flat=True))


@pytest.fixture
def moderators() -> Any:
    group, _made = Group.objects.get_or_create(name="Moderators")
    group.permissions.clear()
    return group


def test_moderators_may_view_both_reports(moderators: Any) -> None:
    migrate()

    assert granted() == {"view_trackedurl", "view_intent"}


def test_permissions_are_made_if_django_has_not_yet(moderators: Any) -> None:
    Permission.objects.filter(content_type__app_label="wagtail_indexnow").delete()

    migrate()

    assert granted() == {"view_trackedurl", "view_intent"}


def test_names_are_those_that_django_gives(moderators: Any) -> None:
    names = dict(
        Permission.objects.filter(
            codename__in=["view_trackedurl", "view_intent"],
        ).values_list("codename", "name")
    )

    assert {f"view_{model}": name for model, name in migration.REPORTS.items()} == names


def test_site_without_the_group_is_left_alone() -> None:
    Group.objects.filter(name="Moderators").delete()

    migrate()

    assert not Group.objects.filter(name="Moderators").exists()
