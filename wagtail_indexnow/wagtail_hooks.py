"""Registers everything with Wagtail's admin; nothing here decides."""

from collections.abc import Iterator
from typing import Any

from django.urls import include, path, reverse
from django.utils.translation import gettext_lazy as _
from wagtail import hooks
from wagtail.admin.menu import MenuItem
from wagtail.admin.widgets.button import Button

from . import admin_urls, log_actions, panels, permissions
from .views.bulk_actions import CancelEvents, ResubmitUrls, SubmitEventsNow, SubmitPages, submit_url


class PolicyMenuItem(MenuItem):  # Wagtail has no types
    """A menu item for users who may open what it leads to."""

    def __init__(self, *args: Any, is_for: Any, **kwargs: Any) -> None:
        super().__init__(*args, icon_name="indexnow", **kwargs)
        self._is_for = is_for

    def is_shown(self, request: Any) -> bool:
        return bool(self._is_for(request.user))


@hooks.register("register_admin_urls")
def register_admin_urls() -> list[Any]:
    return [path("indexnow/", include(admin_urls, namespace=admin_urls.app_name))]


@hooks.register("register_reports_menu_item")
def register_urls_report() -> MenuItem:
    return PolicyMenuItem(
        _("IndexNow"),
        reverse("wagtail_indexnow_admin:urls"),
        name="indexnow",
        order=1100,
        is_for=lambda user: permissions.urls_policy.user_has_permission(user, "view"),
    )


@hooks.register("register_reports_menu_item")
def register_submissions_report() -> MenuItem:
    return PolicyMenuItem(
        _("IndexNow submissions"),
        reverse("wagtail_indexnow_admin:submissions"),
        name="indexnow-submissions",
        order=1105,
        is_for=permissions.sees_submissions,
    )


@hooks.register("register_reports_menu_item")
def register_events_report() -> MenuItem:
    return PolicyMenuItem(
        _("IndexNow events"),
        reverse("wagtail_indexnow_admin:events"),
        name="indexnow-events",
        order=1110,
        is_for=lambda user: permissions.schedule_policy.user_has_permission(user, "view"),
    )


@hooks.register("register_settings_menu_item")
def register_settings() -> MenuItem:
    return PolicyMenuItem(
        _("IndexNow"),
        reverse("wagtail_indexnow_admin:settings"),
        name="indexnow-settings",
        order=1000,
        is_for=permissions.may_manage,
    )


@hooks.register("register_permissions")
def register_permissions() -> Any:
    return permissions.editable_in_groups()


@hooks.register("register_icons")
def register_icons(icons: list[str]) -> list[str]:
    return [*icons, "wagtail_indexnow/icons/indexnow.svg"]


@hooks.register("register_log_actions")
def register_log_actions(actions: Any) -> None:
    for action, (label, message) in log_actions.ACTIONS.items():
        actions.register_action(action, label, message)


@hooks.register("register_page_header_buttons")
def page_header_buttons(
    page: Any, user: Any, view_name: str, next_url: str | None = None
) -> Iterator[Button]:
    """Put the status sentence into the header's menu, in the editor and in the explorer."""
    sentence = (
        panels.sentence(page) if not page.is_root() and permissions.may_edit(user, page) else ""
    )
    if sentence:
        yield Button(
            _("IndexNow: %(sentence)s") % {"sentence": sentence},
            url=reverse("wagtail_indexnow_admin:page", args=[page.pk]),
            icon_name="indexnow",
            priority=200,
        )
        if permissions.may_submit(user, page):
            yield Button(
                _("Submit to IndexNow"),
                url=submit_url(page, next_url),
                icon_name="upload",
                priority=201,
            )


@hooks.register("register_page_listing_more_buttons")
def page_listing_more_buttons(
    page: Any, user: Any, next_url: str | None = None
) -> Iterator[Button]:
    """Link to the status of each page in the explorer; a sentence for each would cost queries."""
    if not page.is_root() and permissions.may_edit(user, page):
        yield Button(
            _("IndexNow"),
            url=reverse("wagtail_indexnow_admin:page", args=[page.pk]),
            icon_name="indexnow",
            priority=200,
        )


@hooks.register("construct_homepage_panels")
def homepage_panels(request: Any, components: list[Any]) -> None:
    if permissions.sees_reports(request.user):
        components.append(panels.AttentionComponent(request.user))


for action in (ResubmitUrls, CancelEvents, SubmitEventsNow, SubmitPages):
    hooks.register("register_bulk_action", action)
