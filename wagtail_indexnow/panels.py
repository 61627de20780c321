"""Components for Wagtail's pages: a status for the page editor, a warning for the dashboard.

Wagtail has no hook for the side panels of the page editor, so the sentence stands in the header's
menu (`register_page_header_buttons`). A site that wants it in the form adds `IndexNowPanel()` to a
page type's panels, like any other panel:

    promote_panels = [*Page.promote_panels, IndexNowPanel()]
"""

import logging
from collections.abc import Sequence
from typing import Any, ClassVar

from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from wagtail.admin.panels import Panel
from wagtail.admin.ui.components import Component

from . import permissions
from .conf import conf
from .diagnostics import explanation, findings, health
from .ledger import intents

logger = logging.getLogger(__name__)


class IndexNowPanel(Panel):  # Wagtail has no types
    """Shows in a page's form whether it was submitted, and why not if it was not."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("heading", _("IndexNow"))
        kwargs.setdefault("icon", "indexnow")
        super().__init__(**kwargs)

    class BoundPanel(Panel.BoundPanel):
        template_name = "wagtail_indexnow/panels/status.html"

        def is_shown(self) -> bool:
            return bool(self.instance.pk) and bool(super().is_shown())

        def get_context_data(self, parent_context: Any = None) -> dict[str, Any]:
            context: dict[str, Any] = super().get_context_data(parent_context)
            return context | {
                "sentence": sentence(self.instance),
                "url": reverse("wagtail_indexnow_admin:page", args=[self.instance.pk]),
            }


class AttentionComponent(Component):
    """A dashboard panel that appears only when something needs attention."""

    order = 150
    template_name = "wagtail_indexnow/home/attention.html"

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["wagtail_indexnow/css/indexnow.css"]}

    def __init__(self, user: Any) -> None:
        self._user = user

    def render_html(self, parent_context: Any = None) -> str:
        self._findings = needing_attention()
        return str(super().render_html(parent_context)) if self._findings else ""

    def get_context_data(self, parent_context: Any = None) -> dict[str, Any]:
        may_manage = permissions.may_manage(self._user)
        return {"findings": self._findings, "may_manage": may_manage}


def sentence(page: Any) -> str:
    """Return a page's status, or nothing if even that fails: the editor must open."""
    try:
        with intents.savepoint():
            return explanation.status_sentence(page)
    except Exception:
        logger.exception("page=%s state=no_status", page.pk)
        return ""


def needing_attention() -> Sequence[findings.Finding]:
    """Return what needs a person, or nothing if even that fails: the dashboard must open."""
    if not conf.enabled:
        return ()  # on purpose, on a copy of the site and while developing
    try:
        with intents.savepoint():
            return findings.needing_action(health.check_all(live=False))
    except Exception:
        logger.exception("state=no_findings")
        return ()
