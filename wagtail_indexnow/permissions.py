"""Who may see and do what in the admin: Django's model permissions, editable in Wagtail's groups.

Opening a report needs the *view* permission of its table, acting on its rows *change*. Keys and
pauses need `manage_indexnow`. Besides, users only see rows of pages that they may edit or publish.
"""

from typing import Any

from django.contrib.auth.models import Permission
from django.db.models import QuerySet
from wagtail.models import GroupPagePermission, Site
from wagtail.permission_policies import ModelPermissionPolicy
from wagtail.permission_policies.pages import PagePermissionPolicy

from . import hosts
from .constants import APP_LABEL
from .models import HostKey, Intent, TrackedUrl
from .pages.model import page_model

#: What the group editor offers, in the words of `Permission.codename`.
CODENAMES = (
    "view_trackedurl",
    "change_trackedurl",
    "view_intent",
    "change_intent",
    "manage_indexnow",
)
_EDITING = ("change", "publish")

urls_policy = ModelPermissionPolicy(TrackedUrl)
schedule_policy = ModelPermissionPolicy(Intent)
keys_policy = ModelPermissionPolicy(HostKey)


def editable_in_groups() -> QuerySet[Permission]:
    """Return the permissions that Wagtail's group editor shows."""
    return Permission.objects.filter(content_type__app_label=APP_LABEL, codename__in=CODENAMES)


def may_manage(user: Any) -> bool:
    """Return whether a user may see and rotate keys, and end pauses."""
    return bool(user.has_perm(f"{APP_LABEL}.manage_indexnow"))


def sees_reports(user: Any) -> bool:
    """Return whether a user may see the state of the whole site."""
    return may_manage(user) or sees_submissions(user)


def sees_submissions(user: Any) -> bool:
    """Return whether a user may see submissions: one POST holds URLs of many pages."""
    return bool(urls_policy.user_has_permission(user, "view")) and sees_all_pages(user)


def may_edit(user: Any, page: Any) -> bool:
    """Return whether a user may see a page's state."""
    policy = PagePermissionPolicy(page_model())
    return bool(policy.user_has_any_permission_for_instance(user, _EDITING, page))


def may_submit(user: Any, page: Any) -> bool:
    """Return whether a user may submit a page: users who may publish it."""
    return bool(page.permissions_for_user(user).can_publish())


def sees_all_pages(user: Any) -> bool:
    """Return whether a user may see all pages, and so what belongs to no single page."""
    root = None if user.is_superuser else page_model().get_first_root_node()
    return bool(user.is_superuser) or (root is not None and may_edit(user, root))


def pages_of(user: Any) -> Any:
    """Return the pages that a user may edit or publish."""
    policy = PagePermissionPolicy(page_model())
    return policy.instances_user_has_any_permission_for(user, _EDITING)


def limit_to_pages_of(user: Any, rows: Any) -> Any:
    """Leave out rows of pages that a user may not edit; rows of deleted pages need all pages."""
    if sees_all_pages(user):
        return rows
    return rows.filter(page_id__in=pages_of(user).order_by().values("pk"))


def shown_pages(user: Any) -> Any:
    """Return the pages whose titles Wagtail shows a user in its explorer."""
    return PagePermissionPolicy(page_model()).explorable_instances(user)


def hosts_of(user: Any) -> set[str]:
    """Return the hosts of the Sites in which a user may edit or publish something."""
    granted = GroupPagePermission.objects.filter(
        group__user=user, permission__codename__in=[f"{action}_page" for action in _EDITING]
    )
    paths = set(granted.values_list("page__path", flat=True))
    return {
        hosts.host_of(url)
        for site in Site.objects.select_related("root_page")
        if (url := hosts.normalise(site.root_url)) is not None
        and any(_are_related(site.root_page.path, path) for path in paths)
    }


def _are_related(one: str, other: str) -> bool:
    """Return whether one page lies above the other, by their paths."""
    return one.startswith(other) or other.startswith(one)
