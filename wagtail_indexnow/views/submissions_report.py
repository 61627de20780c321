"""Reports → IndexNow → Submissions: what was sent in one request, and what came back."""

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
from ..models import Submission
from ..pages.model import page_model
from ..submission import keys
from .columns import NotedColumn, answer, moment
from .filters import SubmissionFilterSet
from .listing import IndexNowReport
from .outcomes import Outcome, outcome_of

MAX_URLS_SHOWN = 1_000


class SubmissionsReport(IndexNowReport):
    """One row for each POST. It carries URLs of many pages, so it needs all pages to be seen."""

    model = Submission
    permission_policy = permissions.urls_policy
    page_title = _("IndexNow")
    page_subtitle = _("Submissions")
    verbose_name_plural = _("submissions")
    index_url_name = "wagtail_indexnow_admin:submissions"
    index_results_url_name = "wagtail_indexnow_admin:submissions_results"
    filterset_class = SubmissionFilterSet
    default_ordering = "-started_at"
    export_filename = "indexnow-submissions"
    export_headings: ClassVar[dict[str, Any]] = {
        "started_at": _("Sent"),
        "finished_at": _("Answered"),
        "host": _("Site"),
        "endpoint": _("Search engine"),
        "url_count": _("URLs"),
        "status": _("Answer"),
        "outcome": _("Outcome"),
        "error_code": _("Error code"),
        "excerpt": _("Excerpt"),
    }
    list_export = list(export_headings)

    columns: ClassVar[list[Any]] = [
        NotedColumn(
            "started_at",
            label=_("Sent"),
            sort_key="started_at",
            accessor=lambda row: moment(row.started_at),
            url=lambda row: reverse("wagtail_indexnow_admin:submission", args=[row.pk]),
        ),
        NotedColumn("host", label=_("Site"), note=lambda row: row.endpoint),
        NumberColumn("url_count", label=_("URLs")),
        NotedColumn(
            "outcome",
            label=_("Outcome"),
            accessor=lambda row: outcome_of(row).label,
            tag=lambda row: tag(row),
            note=lambda row: reason(row),
        ),
        NotedColumn(
            "status",
            label=_("Answer"),
            accessor=lambda row: answer(row.status),
            note=lambda row: row.error_code,
        ),
        Column("duration", label=_("Took"), accessor=lambda row: duration(row)),
    ]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        require_submissions(request.user)
        return super().dispatch(request, *args, **kwargs)

    def get_breadcrumbs_items(self) -> list[dict[str, Any]]:
        return breadcrumbs({"url": "", "label": _("Submissions")})

    def get_base_queryset(self) -> Any:
        rows = Submission.objects.defer("urls")
        return rows if self.is_export else rows.defer("urls", "excerpt")

    def order_queryset(self, queryset: Any) -> Any:
        sign = "" if self.ordering == "started_at" else "-"
        return queryset.order_by(f"{sign}started_at", f"{sign}pk")

    def decorate_paginated_queryset(self, object_list: Any) -> Any:
        return object_list


class SubmissionView(WagtailAdminTemplateMixin, PermissionCheckedMixin, TemplateView):
    """One request and its answer. The key is masked, in what was sent and what came back."""

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
        return moment(self.submission.started_at)

    def get_breadcrumbs_items(self) -> list[dict[str, Any]]:
        submissions = reverse("wagtail_indexnow_admin:submissions")
        return breadcrumbs(
            {"url": submissions, "label": _("Submissions")},
            {"url": "", "label": _("Submission"), "sublabel": self.get_page_subtitle()},
        )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        submission = self.submission
        return super().get_context_data(**kwargs) | {
            "submission": submission,
            "subtitle": self.get_page_subtitle(),
            "outcome": outcome_of(submission),
            "reason": reason(submission),
            "tag": tag(submission),
            "answer": answer(submission.status),
            "duration": duration(submission),
            "endpoint_url": conf.endpoints.get(submission.endpoint, ""),
            "key_location": _masked_key_location(submission.host),
            "urls": self._urls(),
            "more": max(len(submission.urls) - MAX_URLS_SHOWN, 0),
        }

    def _urls(self) -> list[tuple[str, Any]]:
        """Return the URLs with the page that each was last tracked for, if it still exists."""
        tracked = dict(
            self.submission.tracked_urls.exclude(page_id=None).values_list("url", "page_id")
        )
        urls = self.submission.urls[:MAX_URLS_SHOWN]
        page_ids = {tracked[url] for url in urls if url in tracked}
        pages = page_model().objects.filter(pk__in=page_ids).in_bulk()
        return [(url, pages.get(tracked.get(url))) for url in urls]


def require_submissions(user: Any) -> None:
    """Keep out those who may not see every page. Anonymous users are sent to log in before.

    :raises PermissionDenied: also with the permission for the report.
    """
    if not permissions.sees_all_pages(user):
        raise PermissionDenied


def breadcrumbs(*items: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the way from the dashboard through Reports → IndexNow to a page."""
    return [
        {"url": reverse_lazy("wagtailadmin_home"), "label": _("Home")},
        {"url": reverse_lazy("wagtail_indexnow_admin:urls"), "label": _("IndexNow")},
        *items,
    ]


def tag(submission: Submission) -> str:
    """Return the CSS class of an outcome."""
    match outcome_of(submission):
        case Outcome.TOLD:
            return "w-status--primary"
        case Outcome.REJECTED:
            return "indexnow-status--critical"
        case _:
            return ""


def reason(submission: Submission) -> str:
    """Return the outcome's reason as a sentence, if there is one."""
    return str(Reason(submission.outcome).label) if submission.outcome in Reason.values else ""


def duration(submission: Submission) -> str:
    """Return how long the exchange took, in seconds."""
    if submission.finished_at is None:
        return ""
    seconds = (submission.finished_at - submission.started_at).total_seconds()
    return str(_("%(seconds)s s") % {"seconds": formats.number_format(seconds, 1)})


def _masked_key_location(host: str) -> str:
    key = keys.newest_key(host)
    scheme = hosts.named_hosts().get(host, "https")
    return keys.key_location(scheme, host, keys.mask(key)) if key else ""
