"""What can be done with selected rows and pages: Wagtail's bulk actions, each asks first.

The same confirmation serves a single row. Rows are found afresh, limited to pages that the user
may edit, whatever ids a request names.
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
    """An action on rows of ours that needs the *change* permission of their table."""

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
    question = _("Send these URLs to their search engine again?")
    confirm_label = _("Yes, resubmit")
    back_label = _("No, don't resubmit")

    def rows(self, ids: Sequence[int]) -> Any:
        return TrackedUrl.objects.filter(pk__in=ids).select_related("intent")

    @classmethod
    def execute_action(cls, objects: Sequence[Any], **kwargs: Any) -> tuple[int, int]:
        resubmitted = tracked_urls.resubmit([row.pk for row in objects], now=clock.now())
        _record(log_actions.RESUBMIT, objects, kwargs["user"])
        return resubmitted, 0

    def get_success_message(self, resubmitted: int, others: int) -> str:
        return ngettext(
            "%(count)s URL will be sent again, in its turn.",
            "%(count)s URLs will be sent again, in their turn.",
            resubmitted,
        ) % {"count": resubmitted}


class CancelIntents(RowsAction):
    models: ClassVar[list[Any]] = [Intent]
    policy = permissions.schedule_policy
    action_type = "cancel"
    display_name = _("Cancel")
    aria_label = _("Cancel selected announcements")
    question = _(
        "Cancel these announcements? The pages still go live as scheduled; search engines are not "
        "told of it."
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
            "%(count)s announcement is cancelled.",
            "%(count)s announcements are cancelled.",
            cancelled,
        ) % {"count": cancelled}


class SendIntentsNow(RowsAction):
    models: ClassVar[list[Any]] = [Intent]
    policy = permissions.schedule_policy
    action_type = "send_now"
    display_name = _("Send now")
    aria_label = _("Send selected announcements now")
    question = _(
        "Look at these pages now, and tell search engines what is public? A page that is not live "
        "yet stays unsent; its schedule stays as it is."
    )
    confirm_label = _("Yes, send now")
    back_label = _("No, don't send")

    def rows(self, ids: Sequence[int]) -> Any:
        return Intent.objects.filter(pk__in=ids)

    @classmethod
    def execute_action(cls, objects: Sequence[Any], **kwargs: Any) -> tuple[int, int]:
        page_ids = {row.page_id for row in objects}
        submit([row.page for row in objects if row.page], kwargs["user"])
        for page_id in page_ids - {row.page_id for row in objects if row.page}:
            intents.insert(Kind.MANUAL, page_id=page_id)
        return len(page_ids), 0

    def get_success_message(self, looked_at: int, others: int) -> str:
        return _submitted(looked_at)


class SubmitPages(PageBulkAction):
    """Have selected pages looked at again, and told as they are now."""

    template_name = "wagtail_indexnow/bulk_actions/confirm_pages.html"
    action_type = "indexnow_submit"
    display_name = _("Submit to IndexNow")
    aria_label = _("Submit selected pages to IndexNow")
    action_priority = 90
    confirm_label = _("Yes, submit")
    back_label = _("No, don't submit")
    question = _("Tell search engines of these pages as they are now?")

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
        submit(objects, kwargs["user"])
        return len(objects), 0

    def get_success_message(self, submitted: int, others: int) -> str:
        return _submitted(submitted)


def submit_url(page: Any, next_url: str | None) -> str:
    """Return where somebody confirms that a page is to be submitted."""
    options = page_model()._meta
    route = [options.app_label, options.model_name, SubmitPages.action_type]
    query = urlencode({"id": page.pk, "next": next_url or ""})
    return f"{reverse('wagtail_bulk_action', args=route)}?{query}"


def submit(pages: Sequence[Any], user: Any) -> None:
    """Have pages looked at again, once each, and note in their history who asked."""
    unique = list({page.pk: page for page in pages}.values())
    intents.plan_manual(unique)
    log_actions.record(log_actions.SUBMIT, unique, user)


def _submitted(count: int) -> str:
    return ngettext(
        "%(count)s page will be looked at; what is public is sent, in its turn.",
        "%(count)s pages will be looked at; what is public is sent, in its turn.",
        count,
    ) % {"count": count}


def _record(action: str, rows: Sequence[Any], user: Any) -> None:
    pages = {row.page.pk: row.page for row in rows if row.page}
    log_actions.record(action, pages.values(), user)
