"""Reports → IndexNow: every URL that was or will be submitted, at each search engine."""

from datetime import datetime
from typing import Any, ClassVar

from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _
from wagtail.admin.ui.tables import BulkActionsCheckboxColumn, Column
from wagtail.admin.widgets.button import HeaderButton

from .. import clock, permissions
from ..constants import Reason
from ..diagnostics.formatting import engine_name
from ..diagnostics.wait_reasons import Waits
from ..models import TrackedUrl
from ..pages.model import page_model
from . import plots
from .columns import NotedColumn, TitleColumn, format_time, response_phrase, state_tag
from .filters import TrackedUrlFilterSet
from .listing import IndexNowReport
from .states import url_state, url_state_label
from .visits import visited_by_column, with_visits

#: Titles that a search looks through; beyond that the words are too common to mean a page.
MAX_PAGES_FOUND = 1_000
_FIELDS = (
    "pk", "endpoint", "host", "url", "page_id", "change", "changed_at", "not_before", "state",
    "reason", "attempts", "sent_at", "last_status", "submission", "url_hash",
    "intent",
)  # fmt: skip


class TrackedUrlsReport(IndexNowReport):
    """One row for each URL at each search engine."""

    model = TrackedUrl
    permission_policy = permissions.urls_policy
    template_name = "wagtail_indexnow/reports/urls.html"
    page_title = _("IndexNow")
    verbose_name_plural = _("URLs")
    index_url_name = "wagtail_indexnow_admin:urls"
    index_results_url_name = "wagtail_indexnow_admin:urls_results"
    filterset_class = TrackedUrlFilterSet
    default_ordering = "-changed_at"
    is_searchable = True
    is_actionable: ClassVar[bool] = True
    export_filename = "indexnow-urls"
    export_headings: ClassVar[dict[str, Any]] = {
        "shown_title": _("Page"),
        "url": _("URL"),
        "language": _("Language"),
        "host": _("Site"),
        "engine": _("Search engine"),
        "get_change_display": _("Change type"),
        "changed_at": _("Changed on"),
        "state_label": _("State"),
        "reason_label": _("Reason"),
        "wait.until": _("Next attempt"),
        "last_status": _("Last response"),
        "sent_at": _("Accepted on"),
        "attempts": _("Attempts"),
        "visited_by": _("Visited by"),
    }
    list_export = list(export_headings)

    @cached_property
    def columns(self) -> list[Any]:
        checkbox = BulkActionsCheckboxColumn("bulk_actions", obj_type="trackedurl")
        columns = [
            TitleColumn(
                "shown_title",
                label=_("Page"),
                url=page_edit_url,
                note=lambda row: row.url,
                note_url=lambda row: row.url,
            ),
            Column("language", label=_("Language")),
            NotedColumn("host", label=_("Site"), note=lambda row: row.engine),
            NotedColumn(
                "get_change_display",
                label=_("Change type"),
                sort_key="changed_at",
                note=lambda row: format_time(row.changed_at),
            ),
            NotedColumn(
                "state_label",
                label=_("State"),
                tag=lambda row: state_tag(url_state(row, row.wait)),
                note=lambda row: str(row.wait),
            ),
            NotedColumn(
                "last_status",
                label=_("Last response"),
                accessor=lambda row: response_phrase(row.last_status),
                url=self._submission_url,
                note=lambda row: format_time(row.sent_at),
            ),
            Column("attempts", label=_("Attempts")),
            visited_by_column(),
        ]
        return [checkbox, *columns] if self.may_act else columns

    @cached_property
    def header_buttons(self) -> list[Any]:
        links = {
            "submissions": (_("Submissions"), "mail", self._sees_submissions),
            "events": (_("Events"), "history", self._sees_events),
        }
        return [
            HeaderButton(label, url=reverse(f"wagtail_indexnow_admin:{name}"), icon_name=icon_name)
            for name, (label, icon_name, is_shown) in links.items()
            if is_shown
        ]

    @cached_property
    def _now(self) -> datetime:
        # Once: the database is asked for it.
        return clock.now()

    @cached_property
    def _waits(self) -> Waits:
        return Waits(self._now)

    @cached_property
    def _sees_submissions(self) -> bool:
        return permissions.sees_all_pages(self.request.user)

    @property
    def _sees_events(self) -> bool:
        return bool(permissions.schedule_policy.user_has_permission(self.request.user, "view"))

    def _submission_url(self, row: TrackedUrl) -> str | None:
        if row.submission is None or not self._sees_submissions:
            return None
        return reverse("wagtail_indexnow_admin:submission", args=[row.submission])

    def decorate_paginated_queryset(self, object_list: Any) -> Any:
        """Attach to each row its page, and its state in words."""
        rows = super().decorate_paginated_queryset(object_list)
        for row in rows:
            row.wait = self._waits.of(row)
            row.engine = engine_name(row.endpoint)
            row.state_label = url_state_label(row, row.wait)
            row.reason_label = Reason.label_of(row.reason)
        return with_visits(rows)

    def order_queryset(self, queryset: Any) -> Any:
        # The key settles ties, so that no row is on two pages; both stand in one index.
        sign = "" if self.ordering == "changed_at" else "-"
        return queryset.order_by(f"{sign}changed_at", f"{sign}pk")

    def get_base_queryset(self) -> Any:
        return super().get_base_queryset().only(*_FIELDS)

    def search_queryset(self, queryset: Any) -> Any:
        """Find pages by words of their title; else, or with a slash, URLs by a piece of them.

        One or the other: a database uses its index for pages, and cannot if a URL would do too.
        """
        query = self.search_query
        if not self.is_searching:
            return queryset
        # Among the user's own pages: what others are called must not change what is found.
        titled = self._own_pages.filter(title__icontains=query).order_by("pk")
        pks = [] if "/" in query else list(titled.values_list("pk", flat=True)[:MAX_PAGES_FOUND])
        return queryset.filter(page_id__in=pks) if pks else queryset.filter(url__contains=query)

    @property
    def _own_pages(self) -> Any:
        user = self.request.user
        everything = permissions.sees_all_pages(user)
        return page_model().objects.all() if everything else permissions.pages_of(user)

    def get_context_data(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(*args, **kwargs)
        if not self.results_only and self._sees_submissions:
            context["plot"] = plots.submissions(self._now)
        return context


def page_edit_url(row: Any) -> str | None:
    """Return where a row's page is edited, while there is one."""
    return row.page and reverse("wagtailadmin_pages:edit", args=[row.page.pk])
