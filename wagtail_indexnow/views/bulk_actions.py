"""Actions on selected rows and pages: Wagtail's bulk actions, each with a confirmation.

Rows are read again and limited to pages that the user may edit, whatever ids a request names.
"""

import re
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from wagtail.admin.utils import get_valid_next_url_from_request
from wagtail.admin.views.bulk_action import BulkAction
from wagtail.admin.views.pages.bulk_actions.page_bulk_action import PageBulkAction

from .. import clock, log_actions, permissions
from ..constants import Kind
from ..ledger import intents, tracked_urls
from ..models import Intent, TrackedUrl
from ..pages.model import page_model
from .listing import with_pages

MAX_ROWS = 1_000
_ID = re.compile(r"[0-9]{1,18}")  # what fits into a BigAutoField, whatever the digits


def ids_of(values: Sequence[Any]) -> list[int]:
    """Return those of the values that a database can hold as ids."""
    return [int(value) for value in map(str, values) if _ID.fullmatch(value)]


def next_url(request: Any) -> str:
    """Return the path to go on to, if a request names one; never the name of a route."""
    url = str(get_valid_next_url_from_request(request))
    return url if url.startswith("/") and url.isprintable() else ""


class RowsAction(BulkAction):  # Wagtail has no types
    """An action on rows that needs the *change* permission of their table."""

    template_name = "wagtail_indexnow/bulk_actions/confirm.html"
    policy: ClassVar[Any]
    question: ClassVar[str | Promise]
    confirm_label: ClassVar[str | Promise]
    back_label: ClassVar[str | Promise]
    is_serious: ClassVar[bool] = False

    def __init__(self, request: Any, model: Any) -> None:
        super().__init__(request, model)
        self.next_url = next_url(request) or reverse("wagtail_indexnow_admin:urls")

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.policy.user_has_permission(request.user, "change"):
            raise PermissionDenied
        return super().dispatch(request, *args, **kwargs)

    def get_actionable_objects(self) -> tuple[list[Any], dict[str, Any]]:
        ids = ids_of(self.request.GET.getlist("id")[:MAX_ROWS])
        rows = permissions.limit_to_pages_of(self.request.user, self.rows(ids))
        return with_pages(rows.order_by("pk")), {"items_with_no_access": []}

    def rows(self, ids: Sequence[int]) -> Any:
        """Return those of the rows that the action can change."""
        raise NotImplementedError

    def get_execution_context(self) -> dict[str, Any]:
        return {"user": self.request.user}


class ResubmitUrls(RowsAction):
    models: ClassVar[list[Any]] = [TrackedUrl]
    policy = permissions.urls_policy
    action_type = "resubmit"
    display_name = _("Resubmit")
    aria_label = _("Resubmit selected URLs")
    question = _("Submit these URLs to their search engine again?")
    confirm_label = _("Yes, resubmit")
    back_label = _("No, don't resubmit")

    def rows(self, ids: Sequence[int]) -> Any:
        return TrackedUrl.objects.filter(pk__in=ids)

    @classmethod
    def execute_action(cls, objects: Sequence[Any], **kwargs: Any) -> tuple[int, int]:
        resubmitted = tracked_urls.resubmit([row.pk for row in objects], now=clock.now())
        for page_id in sorted(resubmitted.pages):
            intents.insert(Kind.MANUAL, page_id=page_id)
        _record(log_actions.RESUBMIT, objects, kwargs["user"])
        return resubmitted.count, 0

    def get_success_message(self, resubmitted: int, others: int) -> str:
        return ngettext(
            "%(count)s URL has been queued for submission.",
            "%(count)s URLs have been queued for submission.",
            resubmitted,
        ) % {"count": resubmitted}


class CancelEvents(RowsAction):
    models: ClassVar[list[Any]] = [Intent]
    policy = permissions.schedule_policy
    action_type = "cancel"
    display_name = _("Cancel")
    aria_label = _("Cancel selected events")
    question = _(
        "Cancel these events? The pages still go live as scheduled, but they are not submitted to "
        "search engines."
    )
    confirm_label = _("Yes, cancel")
    back_label = _("No, don't cancel")
    is_serious = True

    def rows(self, ids: Sequence[int]) -> Any:
        return Intent.objects.planned().filter(pk__in=ids, kind=Kind.GO_LIVE)

    @classmethod
    def execute_action(cls, objects: Sequence[Any], **kwargs: Any) -> tuple[int, int]:
        cancelled = intents.cancel([row.pk for row in objects])
        _record(log_actions.CANCEL, objects, kwargs["user"])
        return cancelled, 0

    def get_success_message(self, cancelled: int, others: int) -> str:
        return ngettext(
            "%(count)s event has been cancelled.",
            "%(count)s events have been cancelled.",
            cancelled,
        ) % {"count": cancelled}


class SubmitEventsNow(RowsAction):
    models: ClassVar[list[Any]] = [Intent]
    policy = permissions.schedule_policy
    action_type = "submit_now"
    display_name = _("Submit now")
    aria_label = _("Submit the pages of selected events now")
    question = _(
        "Check these pages now, and submit what is public? Pages that are not live yet are not "
        "submitted. Their schedules stay as they are."
    )
    confirm_label = _("Yes, submit now")
    back_label = _("No, don't submit")

    def rows(self, ids: Sequence[int]) -> Any:
        return Intent.objects.filter(pk__in=ids)

    @classmethod
    def execute_action(cls, objects: Sequence[Any], **kwargs: Any) -> tuple[int, int]:
        page_ids = {row.page_id for row in objects}
        plan_for_user([row.page for row in objects if row.page], kwargs["user"])
        for page_id in page_ids - {row.page_id for row in objects if row.page}:
            intents.insert(Kind.MANUAL, page_id=page_id)
        return len(page_ids), 0

    def get_success_message(self, submitted: int, others: int) -> str:
        return _queued(submitted)


class SubmitPages(PageBulkAction):
    """Submit selected pages as they are now."""

    template_name = "wagtail_indexnow/bulk_actions/confirm_pages.html"
    action_type = "indexnow_submit"
    display_name = _("Submit to IndexNow")
    aria_label = _("Submit selected pages to IndexNow")
    action_priority = 90
    confirm_label = _("Yes, submit")
    back_label = _("No, don't submit")
    question = _("Submit these pages to search engines as they are now?")

    def __init__(self, request: Any, model: Any) -> None:
        super().__init__(request, model)
        self.next_url = next_url(request) or reverse("wagtailadmin_home")

    @classmethod
    def get_queryset(cls, model: Any, object_ids: Any) -> Any:
        return super().get_queryset(model, ids_of(list(object_ids)))

    def get_all_objects_in_listing_query(self, parent_id: str | None) -> Any:
        is_given = parent_id is not None
        if is_given and not self.model.objects.filter(pk__in=ids_of([parent_id])).exists():
            return self.model.objects.none()
        return super().get_all_objects_in_listing_query(parent_id)

    def check_perm(self, page: Any) -> bool:
        return permissions.may_submit(self.request.user, page)

    @classmethod
    def execute_action(cls, objects: Sequence[Any], **kwargs: Any) -> tuple[int, int]:
        plan_for_user(objects, kwargs["user"])
        return len(objects), 0

    def get_success_message(self, submitted: int, others: int) -> str:
        return _queued(submitted)


def submit_url(page: Any, next_url: str | None) -> str:
    """Return the address where a user confirms the submission of a page."""
    options = page_model()._meta
    route = [options.app_label, options.model_name, SubmitPages.action_type]
    query = urlencode({"id": page.pk, "next": next_url or ""})
    return f"{reverse('wagtail_bulk_action', args=route)}?{query}"


def plan_for_user(pages: Sequence[Any], user: Any) -> None:
    """Plan a check of each page, and log in its history who asked for it."""
    unique = list({page.pk: page for page in pages}.values())
    intents.plan_manual(unique)
    log_actions.record(log_actions.SUBMIT, unique, user)


def _queued(count: int) -> str:
    return ngettext(
        "%(count)s page has been queued for submission.",
        "%(count)s pages have been queued for submission.",
        count,
    ) % {"count": count}


def _record(action: str, rows: Sequence[Any], user: Any) -> None:
    pages = {row.page.pk: row.page for row in rows if row.page}
    log_actions.record(action, pages.values(), user)
