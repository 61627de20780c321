"""Components for Wagtail's pages: a status for the page editor, a warning for the dashboard.

Wagtail has no hook that adds to the side panels of the page editor. The sentence therefore
stands in the header's menu by itself (`register_page_header_buttons`); a site that wants it in
the form adds `IndexNowPanel()` to a page type's panels, as any other panel:

    promote_panels = [*Page.promote_panels, IndexNowPanel()]
"""

import logging
from collections.abc import Sequence
from typing import Any, ClassVar

from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from wagtail.admin.panels import Panel
from wagtail.admin.ui.components import Component

from . import clock, permissions
from .diagnostics import advice, explanation, findings, health, ledger_health
from .ledger import intents
from .models import Intent

logger = logging.getLogger(__name__)

_FOR_THE_DASHBOARD = frozenset(
    {"key_file", "worker", "publish_scheduled", "pending", "pause", "rejected", "last_response"}
)


class IndexNowPanel(Panel):  # Wagtail has no types
    """Say in a page's form what search engines were told of it, and why if they were not."""

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


class TroubleComponent(Component):
    """A dashboard panel that is there only when a person is needed."""

    order = 150
    template_name = "wagtail_indexnow/home/trouble.html"

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["wagtail_indexnow/css/indexnow.css"]}

    def __init__(self, user: Any) -> None:
        self._user = user

    def render_html(self, parent_context: Any = None) -> str:
        self._findings = trouble()
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


def trouble() -> Sequence[findings.Finding]:
    """Return what needs a person, or nothing if even that fails: the dashboard must open."""
    try:
        with intents.savepoint():
            found = findings.trouble(health.findings(live=False))
    except Exception:
        logger.exception("state=no_findings")
        return ()
    return [finding for finding in found if needs_a_person(finding)]


def needs_a_person(finding: findings.Finding) -> bool:
    """Leave out what passes by itself, and what is for the checklist alone.

    A copy of the site is switched off on purpose, and without work nobody misses a worker.
    """
    if finding.name == "relay":
        return Intent.objects.due(clock.now() - ledger_health.SEEN_LATELY).exists()
    return finding.name in _FOR_THE_DASHBOARD and not advice.is_patience(finding.fix)
