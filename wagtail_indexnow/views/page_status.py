"""One page: its submissions, its events, and whether it may be submitted."""

import logging
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse, reverse_lazy
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.generic import TemplateView
from wagtail.admin import messages
from wagtail.admin.ui.tables import Table
from wagtail.admin.views.generic import WagtailAdminTemplateMixin

from .. import clock, permissions
from ..conf import conf
from ..diagnostics import explanation, visit_notes
from ..diagnostics.formatting import engine_name
from ..pages.model import page_model
from .bulk_actions import next_url, plan_for_user
from .columns import NotedColumn, format_time, response_phrase, state_tag
from .events_report import explanation as event_note
from .states import event_state, url_state, url_state_label

logger = logging.getLogger(__name__)

TRACKED = [
    NotedColumn(
        "url",
        label=gettext_lazy("URL"),
        classname="indexnow-url",
        accessor=lambda item: item.row.url,
        note=lambda item: engine_name(item.row.endpoint),
    ),
    NotedColumn(
        "change",
        label=gettext_lazy("Change type"),
        accessor=lambda item: item.row.get_change_display(),
        note=lambda item: format_time(item.row.changed_at),
    ),
    NotedColumn(
        "state",
        label=gettext_lazy("State"),
        accessor=lambda item: url_state_label(item.row, item.wait),
        tag=lambda item: state_tag(url_state(item.row, item.wait)),
        note=lambda item: str(item.wait),
    ),
    NotedColumn(
        "last_status",
        label=gettext_lazy("Last response"),
        accessor=lambda item: response_phrase(item.row.last_status),
        note=lambda item: format_time(item.row.sent_at),
    ),
]
EVENTS = [
    NotedColumn(
        "kind",
        label=gettext_lazy("Trigger"),
        accessor=lambda item: item.row.get_kind_display(),
        note=lambda item: format_time(item.row.created_at),
    ),
    NotedColumn(
        "state",
        label=gettext_lazy("State"),
        accessor=lambda item: event_state(item.row).label,
        tag=lambda item: state_tag(event_state(item.row)),
        note=lambda item: event_note(item.row),
    ),
    NotedColumn(
        "expected_at",
        label=gettext_lazy("Due"),
        accessor=lambda item: format_time(item.row.expected_at),
    ),
]


class PageStatusView(WagtailAdminTemplateMixin, TemplateView):
    """For users who may edit the page; users who may publish it can submit it."""

    template_name = "wagtail_indexnow/pages/status.html"
    page_title = gettext_lazy("IndexNow")
    header_icon = "indexnow"

    @cached_property
    def page(self) -> Any:
        return get_object_or_404(page_model(), pk=self.kwargs["page_id"])

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if not permissions.may_edit(request.user, self.page):
            raise PermissionDenied
        return super().dispatch(request, *args, **kwargs)

    def get_page_subtitle(self) -> str:
        return str(self.page.get_admin_display_title())

    def get_breadcrumbs_items(self) -> list[dict[str, Any]]:
        edit_url = reverse("wagtailadmin_pages:edit", args=[self.page.pk])
        return [
            {"url": reverse_lazy("wagtailadmin_home"), "label": _("Home")},
            {"url": edit_url, "label": self.get_page_subtitle()},
            {"url": "", "label": _("IndexNow"), "sublabel": self.get_page_subtitle()},
        ]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        found = explanation.explain(self.page.pk)
        events = [*found.open_events, *found.past_events]
        return super().get_context_data(**kwargs) | {
            "page": self.page,
            "sentences": [
                *explanation.status_sentences(self.page),
                *visit_notes.page_sentences(self.page.pk, clock.now()),
            ],
            "explanation": found,
            "tracked": Table(TRACKED, found.tracked) if found.tracked else None,
            "events": Table(EVENTS, events) if events else None,
            "may_submit": permissions.may_submit(self.request.user, self.page) and conf.enabled,
            "next_url": next_url(self.request),
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Submit the page as it is now."""
        if not permissions.may_submit(request.user, self.page):
            raise PermissionDenied
        title = self.page.get_admin_display_title()
        try:
            plan_for_user([self.page], request.user)
        except DatabaseError:
            logger.exception("page=%s state=not_submitted", self.page.pk)
            messages.error(request, _("“%(title)s” could not be submitted.") % {"title": title})
        else:
            text = _("“%(title)s” has been queued for submission.")
            messages.success(request, text % {"title": title})
        here = reverse("wagtail_indexnow_admin:page", args=[self.page.pk])
        return redirect(next_url(request) or here)
