"""Reports → IndexNow events: what is planned, what it waits for, and what became of it."""

from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib.auth import get_user_model
from django.db.models import F
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _
from wagtail.admin.ui.tables import BulkActionsCheckboxColumn, Column
from wagtail.admin.utils import get_user_display_name
from wagtail.admin.widgets.button import HeaderButton

from .. import clock, permissions
from ..conf import conf
from ..constants import IntentState, Kind, Reason
from ..diagnostics.formatting import sentences
from ..models import Intent
from .columns import NotedColumn, TitleColumn, format_time, planner, state_tag
from .filters import EventFilterSet
from .listing import IndexNowReport
from .states import event_state
from .urls_report import page_edit_url


class EventsReport(IndexNowReport):
    """One row for each event: planned, waiting, or ended with a reason."""

    model = Intent
    permission_policy = permissions.schedule_policy
    page_title = _("IndexNow events")
    verbose_name_plural = _("events")
    index_url_name = "wagtail_indexnow_admin:events"
    index_results_url_name = "wagtail_indexnow_admin:events_results"
    filterset_class = EventFilterSet
    default_ordering = "-created_at"
    is_searchable = True
    search_fields: ClassVar[list[str]] = ["page_title"]
    is_actionable: ClassVar[bool] = True
    export_filename = "indexnow-events"
    export_headings: ClassVar[dict[str, Any]] = {
        "shown_title": _("Page"),
        "language": _("Language"),
        "get_kind_display": _("Trigger"),
        "planned_by": _("Planned by"),
        "created_at": _("Planned at"),
        "expected_at": _("Due"),
        "shown_state.label": _("State"),
        "reason_label": _("Reason"),
        "error": _("Error"),
        "run_at": _("Next check"),
        "finished_at": _("Ended"),
    }
    list_export = list(export_headings)

    @cached_property
    def columns(self) -> list[Any]:
        columns = [
            TitleColumn("shown_title", label=_("Page"), url=page_edit_url),
            Column("language", label=_("Language")),
            NotedColumn(
                "get_kind_display",
                label=_("Trigger"),
                sort_key="created_at",
                note=lambda row: format_time(row.created_at),
            ),
            Column(
                "expected_at",
                label=_("Due"),
                sort_key="expected_at",
                accessor=lambda row: format_time(row.expected_at),
            ),
            NotedColumn(
                "shown_state",
                label=_("State"),
                accessor=lambda row: row.shown_state.label,
                tag=lambda row: state_tag(row.shown_state),
                note=explanation,
            ),
            Column("planned_by", label=_("Planned by")),
        ]
        if not self.may_act:
            return columns
        return [BulkActionsCheckboxColumn("bulk_actions", obj_type="intent"), *columns]

    @cached_property
    def header_buttons(self) -> list[Any]:
        query = urlencode(
            {"kind": Kind.GO_LIVE, "state": IntentState.PLANNED, "ordering": "expected_at"}
        )
        url = f"{reverse(self.index_url_name)}?{query}"
        return [HeaderButton(_("Scheduled pages"), url=url, icon_name="calendar")]

    @cached_property
    def _now(self) -> datetime:
        # Once: the database is asked for it.
        return clock.now()

    def get_base_queryset(self) -> Any:
        rows = super().get_base_queryset().defer("detail")
        return rows.with_overdue(self._now, conf.go_live_grace)

    def order_queryset(self, queryset: Any) -> Any:
        match self.ordering:
            case "expected_at":
                return queryset.order_by(F("expected_at").asc(nulls_last=True), "pk")
            case "-expected_at":
                return queryset.order_by(F("expected_at").desc(nulls_last=True), "-pk")
            case ordering:
                # Rows are planned in the order of their keys; the time itself has no index.
                return queryset.order_by("pk" if ordering == "created_at" else "-pk")

    def decorate_paginated_queryset(self, object_list: Any) -> Any:
        """Attach to each row its page, who planned it and its state."""
        rows = super().decorate_paginated_queryset(object_list)
        names = _names(rows)
        for row in rows:
            row.planned_by = planner(row.scheduled_by, names)
            row.shown_state = event_state(row)
            row.reason_label = Reason.label_of(row.reason)
        return rows


def explanation(row: Any) -> str:
    """Return what an event waits for and until when, or why it ended."""
    when = ""
    if row.state == IntentState.PLANNED and row.run_at is not None:
        if row.reason or row.run_at != row.expected_at:
            when = _("Next check: %(time)s.") % {"time": format_time(row.run_at)}
    elif row.finished_at is not None:
        when = _("Ended %(time)s.") % {"time": format_time(row.finished_at)}
    return sentences(Reason.label_of(row.reason), row.error, when)


def _names(rows: Any) -> dict[str, str]:
    """Return the display names of the users among those who planned, in one query."""
    sources = (row.scheduled_by.partition(":") for row in rows)
    pks = {pk for kind, _colon, pk in sources if kind == "user"}
    users = get_user_model()._default_manager.filter(pk__in=pks) if pks else ()
    return {str(user.pk): get_user_display_name(user) for user in users}
