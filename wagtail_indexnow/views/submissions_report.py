"""Reports → IndexNow submissions: what was sent in one request, and the response."""

from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.urls import reverse, reverse_lazy
from django.utils import formats
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _
from django.views.generic import TemplateView
from wagtail.admin.ui.tables import Column, NumberColumn
from wagtail.admin.views.generic import PermissionCheckedMixin, WagtailAdminTemplateMixin

from .. import hosts, permissions
from ..conf import conf
from ..constants import Reason
from ..diagnostics.formatting import engine_name
from ..models import Submission
from ..pages.model import page_model
from ..submission import keys
from .columns import NotedColumn, format_time, response_phrase, state_tag
from .filters import SubmissionFilterSet
from .listing import IndexNowReport
from .states import submission_state

MAX_URLS_SHOWN = 1_000


class SubmissionsReport(IndexNowReport):
    """One row for each POST. It carries URLs of many pages, so it needs all pages to be seen."""

    model = Submission
    permission_policy = permissions.urls_policy
    page_title = _("IndexNow submissions")
    verbose_name_plural = _("submissions")
    index_url_name = "wagtail_indexnow_admin:submissions"
    index_results_url_name = "wagtail_indexnow_admin:submissions_results"
    filterset_class = SubmissionFilterSet
    default_ordering = "-started_at"
    export_filename = "indexnow-submissions"
    export_headings: ClassVar[dict[str, Any]] = {
        "started_at": _("Sent"),
        "finished_at": _("Finished"),
        "host": _("Site"),
        "engine": _("Search engine"),
        "url_count": _("URLs"),
        "shown_state.label": _("State"),
        "reason_label": _("Reason"),
        "status": _("Response"),
        "error_code": _("Error code"),
        "excerpt": _("Response body"),
    }
    list_export = list(export_headings)

    columns: ClassVar[list[Any]] = [
        NotedColumn(
            "started_at",
            label=_("Sent"),
            sort_key="started_at",
            accessor=lambda row: format_time(row.started_at),
            url=lambda row: reverse("wagtail_indexnow_admin:submission", args=[row.pk]),
        ),
        NotedColumn("host", label=_("Site"), note=lambda row: row.engine),
        NumberColumn("url_count", label=_("URLs")),
        NotedColumn(
            "shown_state",
            label=_("State"),
            accessor=lambda row: row.shown_state.label,
            tag=lambda row: state_tag(row.shown_state),
            note=lambda row: row.reason_label,
        ),
        NotedColumn(
            "status",
            label=_("Response"),
            accessor=lambda row: response_phrase(row.status),
            note=lambda row: row.error_code,
        ),
        Column("duration", label=_("Duration"), accessor=lambda row: duration(row)),
    ]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        require_submissions(request.user)
        return super().dispatch(request, *args, **kwargs)

    def get_breadcrumbs_items(self) -> list[dict[str, Any]]:
        return breadcrumbs({"url": "", "label": self.page_title})

    def get_base_queryset(self) -> Any:
        rows = Submission.objects.defer("urls")
        return rows if self.is_export else rows.defer("urls", "excerpt")

    def order_queryset(self, queryset: Any) -> Any:
        sign = "" if self.ordering == "started_at" else "-"
        return queryset.order_by(f"{sign}started_at", f"{sign}pk")

    def decorate_paginated_queryset(self, object_list: Any) -> Any:
        rows = list(object_list)
        for row in rows:
            row.engine = engine_name(row.endpoint)
            row.shown_state = submission_state(row)
            row.reason_label = Reason.label_of(row.reason)
        return rows


class SubmissionView(WagtailAdminTemplateMixin, PermissionCheckedMixin, TemplateView):
    """One request and its response. The key is masked in both."""

    permission_policy = permissions.urls_policy
    permission_required = "view"
    template_name = "wagtail_indexnow/reports/submission.html"
    page_title = _("Submission")
    header_icon = "indexnow"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        require_submissions(request.user)
        return super().dispatch(request, *args, **kwargs)

    @cached_property
    def submission(self) -> Submission:
        return get_object_or_404(Submission, pk=self.kwargs["pk"])

    def get_page_subtitle(self) -> str:
        return format_time(self.submission.started_at)

    def get_breadcrumbs_items(self) -> list[dict[str, Any]]:
        submissions = reverse("wagtail_indexnow_admin:submissions")
        return breadcrumbs(
            {"url": submissions, "label": _("IndexNow submissions")},
            {"url": "", "label": _("Submission"), "sublabel": self.get_page_subtitle()},
        )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        submission = self.submission
        state = submission_state(submission)
        return super().get_context_data(**kwargs) | {
            "submission": submission,
            "subtitle": self.get_page_subtitle(),
            "engine": engine_name(submission.endpoint),
            "state": state,
            "reason": Reason.label_of(submission.reason),
            "tag": state_tag(state),
            "response": response_phrase(submission.status),
            "duration": duration(submission),
            "endpoint_url": conf.endpoints.get(submission.endpoint, ""),
            "key_location": _masked_key_location(submission.host),
            "urls": self._urls(),
            "more": max(len(submission.urls) - MAX_URLS_SHOWN, 0),
        }

    def _urls(self) -> list[tuple[str, Any]]:
        """Return the URLs with the page that each was submitted for, if it still exists."""
        entries = self.submission.urls[:MAX_URLS_SHOWN]
        page_ids = {entry["page"] for entry in entries} - {None}
        pages = page_model().objects.filter(pk__in=page_ids).in_bulk()
        return [(entry["url"], pages.get(entry["page"])) for entry in entries]


def require_submissions(user: Any) -> None:
    """Refuse users who may not see every page. Anonymous users have been sent to log in before.

    :raises PermissionDenied: even for users with the report's permission.
    """
    if not permissions.sees_all_pages(user):
        raise PermissionDenied


def breadcrumbs(*items: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the breadcrumbs from the dashboard through Reports → IndexNow to a page."""
    return [
        {"url": reverse_lazy("wagtailadmin_home"), "label": _("Home")},
        {"url": reverse_lazy("wagtail_indexnow_admin:urls"), "label": _("IndexNow")},
        *items,
    ]


def duration(submission: Submission) -> str:
    """Return the duration of the exchange, in seconds."""
    if submission.finished_at is None:
        return ""
    seconds = (submission.finished_at - submission.started_at).total_seconds()
    return str(_("%(seconds)s s") % {"seconds": formats.number_format(seconds, 1)})


def _masked_key_location(host: str) -> str:
    key = keys.newest_key(host)
    scheme = hosts.named_hosts().get(host, "https")
    return keys.key_location(scheme, host, keys.mask(key)) if key else ""
