"""Reports → IndexNow schedule: what goes live when, what it waits for, and what became of it."""

from typing import Any, ClassVar

from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _
from wagtail.admin.ui.tables import BulkActionsCheckboxColumn, Column
from wagtail.admin.utils import get_user_display_name
from wagtail.admin.widgets.button import HeaderButton

from .. import clock, permissions
from ..constants import IntentState, Kind
from ..models import Intent
from . import plots
from .columns import NotedColumn, TitleColumn, intent_tag, moment, person
from .filters import AnnouncementFilterSet, ScheduleFilterSet
from .listing import IndexNowReport
from .outcomes import progress_of
from .submissions_report import breadcrumbs
from .urls_report import page_edit_url


def explanation(row: Intent) -> str:
    """Return what an announcement waits for and until when, or why it ended."""
    sentences = [str(row.get_reason_display()) if row.reason else "", row.error]
    if row.state == IntentState.PLANNED and row.run_at is not None:
        if row.reason or row.run_at != row.expected_at:
            sentences.append(str(_("Next look: %(moment)s.") % {"moment": moment(row.run_at)}))
    elif row.finished_at is not None:
        sentences.append(str(_("Ended %(moment)s.") % {"moment": moment(row.finished_at)}))
    return " ".join(filter(None, sentences))


STATE = NotedColumn(
    "progress",
    label=_("State"),
    accessor=lambda row: row.progress.label,
    tag=lambda row: intent_tag(row.progress),
    note=explanation,
)


class LedgerReport(IndexNowReport):
    """One row for each announcement: planned, waiting, or ended with a reason."""

    model = Intent
    permission_policy = permissions.schedule_policy
    is_actionable: ClassVar[bool] = True
    export_headings: ClassVar[dict[str, Any]] = {
        "shown_title": _("Page"),
        "language": _("Language"),
        "get_kind_display": _("Cause"),
        "planned_by": _("Planned by"),
        "created_at": _("Planned at"),
        "expected_at": _("Due"),
        "progress.label": _("State"),
        "get_reason_display": _("Reason"),
        "error": _("Error"),
        "run_at": _("Next look"),
        "finished_at": _("Ended"),
    }
    list_export = list(export_headings)

    def get_base_queryset(self) -> Any:
        return super().get_base_queryset().defer("detail")

    def decorate_paginated_queryset(self, object_list: Any) -> Any:
        """Attach to each row its page, who planned it and how far it is."""
        rows = super().decorate_paginated_queryset(object_list)
        names = _names(rows)
        now = clock.now()
        for row in rows:
            row.planned_by = person(row.scheduled_by, names)
            row.progress = progress_of(row, now)
        return rows

    def _checked(self, columns: list[Any]) -> list[Any]:
        checkbox = BulkActionsCheckboxColumn("bulk_actions", obj_type="intent")
        return [checkbox, *columns] if self.may_act else columns


class ScheduleReport(LedgerReport):
    """Go-lives, the next one first; ended ones behind a filter."""

    template_name = "wagtail_indexnow/reports/plotted.html"
    page_title = _("IndexNow schedule")
    verbose_name_plural = _("go-lives")
    index_url_name = "wagtail_indexnow_admin:schedule"
    index_results_url_name = "wagtail_indexnow_admin:schedule_results"
    filterset_class = ScheduleFilterSet
    default_ordering = "expected_at"
    export_filename = "indexnow-schedule"

    @cached_property
    def columns(self) -> list[Any]:
        return self._checked(
            [
                TitleColumn("shown_title", label=_("Page"), url=page_edit_url),
                Column("language", label=_("Language")),
                NotedColumn(
                    "expected_at",
                    label=_("Due"),
                    sort_key="expected_at",
                    accessor=lambda row: moment(row.expected_at),
                ),
                STATE,
                NotedColumn(
                    "planned_by", label=_("Planned by"), note=lambda row: moment(row.created_at)
                ),
            ]
        )

    @cached_property
    def header_buttons(self) -> list[Any]:
        url = reverse("wagtail_indexnow_admin:announcements")
        return [HeaderButton(_("All announcements"), url=url, icon_name="history")]

    @cached_property
    def is_narrowed(self) -> bool:
        """Say whether the reader asked for a state or reason, and so perhaps for ended ones."""
        return any(self.request.GET.get(name) for name in ("state", "reason"))

    def get_base_queryset(self) -> Any:
        rows = super().get_base_queryset().filter(kind=Kind.GO_LIVE)
        return rows if self.is_narrowed else rows.filter(state=IntentState.PLANNED)

    def order_queryset(self, queryset: Any) -> Any:
        sign = "-" if self.ordering == "-expected_at" else ""
        return queryset.order_by(f"{sign}expected_at", f"{sign}pk")

    def get_context_data(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(*args, **kwargs)
        if not self.results_only:
            rows = permissions.limit_to_pages_of(self.request.user, Intent.objects.all())
            context["plot"] = plots.skipped(rows, clock.now())
        return context


class AnnouncementsReport(LedgerReport):
    """Every announcement of whatever cause: where an unsent page is looked for."""

    page_title = _("IndexNow schedule")
    page_subtitle = _("All announcements")
    verbose_name_plural = _("announcements")
    index_url_name = "wagtail_indexnow_admin:announcements"
    index_results_url_name = "wagtail_indexnow_admin:announcements_results"
    filterset_class = AnnouncementFilterSet
    default_ordering = "-created_at"
    is_searchable = True
    search_fields: ClassVar[list[str]] = ["page_title"]
    export_filename = "indexnow-announcements"

    @cached_property
    def columns(self) -> list[Any]:
        return self._checked(
            [
                TitleColumn("shown_title", label=_("Page"), url=page_edit_url),
                Column("language", label=_("Language")),
                NotedColumn(
                    "get_kind_display",
                    label=_("Cause"),
                    sort_key="created_at",
                    note=lambda row: moment(row.created_at),
                ),
                Column("expected_at", label=_("Due"), accessor=lambda row: moment(row.expected_at)),
                STATE,
                Column("planned_by", label=_("Planned by")),
            ]
        )

    def get_breadcrumbs_items(self) -> list[dict[str, Any]]:
        home = breadcrumbs()[0]
        schedule = reverse("wagtail_indexnow_admin:schedule")
        return [
            home,
            {"url": schedule, "label": _("IndexNow schedule")},
            {"url": "", "label": _("All announcements")},
        ]

    def order_queryset(self, queryset: Any) -> Any:
        # Rows are planned in the order of their keys; the time itself has no index.
        return queryset.order_by("pk" if self.ordering == "created_at" else "-pk")


def _names(rows: Any) -> dict[str, str]:
    """Return the display names of the users among those who planned, in one query."""
    sources = (row.scheduled_by.partition(":") for row in rows)
    pks = {pk for kind, _colon, pk in sources if kind == "user"}
    users = get_user_model()._default_manager.filter(pk__in=pks) if pks else ()
    return {str(user.pk): get_user_display_name(user) for user in users}
