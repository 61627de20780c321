"""One page: what engines were told of it, what waits, and each guard with what it found."""

import logging
from datetime import datetime
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

from .. import permissions
from ..conf import conf
from ..constants import Change, IntentState, Kind, Reason, UrlState
from ..diagnostics import explanation
from ..pages.model import page_model
from .bulk_actions import next_url, submit
from .columns import NotedColumn, answer, intent_tag, moment, url_tag

logger = logging.getLogger(__name__)

#: What it means that a guard has nothing against a page.
PASSED = {
    Reason.DISABLED: gettext_lazy("IndexNow is switched on."),
    Reason.NOT_LIVE: gettext_lazy("The page is live."),
    Reason.PRIVATE: gettext_lazy("Everybody may see the page."),
    Reason.ALIAS: gettext_lazy("The page is no alias, or aliases are announced here."),
    Reason.EMBARGOED: gettext_lazy("The page shows nothing that is not live yet elsewhere."),
    Reason.EXCLUDED: gettext_lazy("The page is not kept away from search engines."),
    Reason.NO_URL: gettext_lazy("The page has public URLs on a host served here."),
}
TRACKED = [
    NotedColumn(
        "url",
        label=gettext_lazy("URL"),
        classname="indexnow-url",
        note=lambda row: row.endpoint,
    ),
    NotedColumn(
        "change", label=gettext_lazy("Change"), accessor=lambda row: Change(row.change).label
    ),
    NotedColumn(
        "state",
        label=gettext_lazy("State"),
        accessor=lambda row: UrlState(row.state).label,
        tag=lambda row: url_tag(row.state),
        note=lambda row: _waiting(row.message, row.waits_until),
    ),
    NotedColumn(
        "last_status",
        label=gettext_lazy("Last answer"),
        accessor=lambda row: answer(row.last_status),
        note=lambda row: moment(row.sent_at),
    ),
]
ANNOUNCEMENTS = [
    NotedColumn(
        "kind",
        label=gettext_lazy("Cause"),
        accessor=lambda row: Kind(row.kind).label,
        note=lambda row: moment(row.created_at),
    ),
    NotedColumn(
        "state",
        label=gettext_lazy("State"),
        accessor=lambda row: IntentState(row.state).label,
        tag=lambda row: intent_tag(row.state),
        note=lambda row: _waiting(" ".join(filter(None, (row.message, row.error))), row.run_at),
    ),
    NotedColumn(
        "expected_at",
        label=gettext_lazy("Due"),
        accessor=lambda row: moment(row.expected_at),
    ),
    NotedColumn(
        "finished_at",
        label=gettext_lazy("Ended"),
        accessor=lambda row: moment(row.finished_at),
    ),
]


class PageStatusView(WagtailAdminTemplateMixin, TemplateView):
    """For whoever may edit the page; submitting it is for whoever may publish it."""

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
        found = explanation.explain(
            self.page.pk, shown_pages=permissions.shown_pages(self.request.user)
        )
        looks = [*found.open_intents, *found.past_intents]
        return super().get_context_data(**kwargs) | {
            "page": self.page,
            "sentences": explanation.status_sentences(self.page),
            "explanation": found,
            "guards": [(guard.passed, _said(guard)) for guard in found.guards],
            "tracked": Table(TRACKED, found.tracked) if found.tracked else None,
            "announcements": Table(ANNOUNCEMENTS, looks) if looks else None,
            "may_submit": permissions.may_submit(self.request.user, self.page) and conf.enabled,
            "next_url": next_url(self.request),
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Have the page looked at again."""
        if not permissions.may_submit(request.user, self.page):
            raise PermissionDenied
        title = self.page.get_admin_display_title()
        try:
            submit([self.page], request.user)
        except DatabaseError:
            logger.exception("page=%s state=not_submitted", self.page.pk)
            messages.error(request, _("“%(title)s” could not be submitted.") % {"title": title})
        else:
            text = _("“%(title)s” will be looked at; what is public is sent, in its turn.")
            messages.success(request, text % {"title": title})
        here = reverse("wagtail_indexnow_admin:page", args=[self.page.pk])
        return redirect(next_url(request) or here)


def _said(guard: explanation.Guard) -> str:
    """Return what a guard found, in an editor's words."""
    return str(PASSED.get(Reason(guard.name), guard.message)) if guard.passed else guard.message


def _waiting(message: str, until: datetime | None) -> str:
    """Return a reason with the time of the next try, if there is one."""
    if until is None:
        return message
    next_try = _("Not before %(moment)s.") % {"moment": moment(until)}
    return f"{message} {next_try}".strip()
