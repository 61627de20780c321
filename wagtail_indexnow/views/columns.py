"""The columns of the reports: Wagtail's own, with a line of small print."""

from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from wagtail.admin.ui.tables import Column

from ..diagnostics import formatting
from .states import EventState, SubmissionStateShown, UrlStateShown

Text = str | Promise


class NotedColumn(Column):  # Wagtail has no types
    """A value, perhaps as a link or status tag, and below it a note in smaller print.

    The callables take the row.

    :param tag: the tag's CSS class, empty for a plain one.
    :param url: where the value leads; `None` for nowhere.
    :param note_url: the note as a link, which is then the address itself.
    """

    cell_template_name = "wagtail_indexnow/tables/noted_cell.html"

    def __init__(
        self,
        name: str,
        *,
        note: Callable[[Any], Text | None] | None = None,
        tag: Callable[[Any], str] | None = None,
        url: Callable[[Any], str | None] | None = None,
        note_url: Callable[[Any], str | None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._parts = {"note": note, "tag": tag, "url": url, "note_url": note_url}

    def get_cell_context_data(self, instance: Any, parent_context: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_cell_context_data(instance, parent_context)
        for name, part in self._parts.items():
            context[name] = None if part is None else part(instance)
        return context


class TitleColumn(NotedColumn):
    """The page of a row. It describes the row's checkbox, so it needs the id that that names."""

    cell_template_name = "wagtail_indexnow/tables/title_cell.html"

    def get_cell_context_data(self, instance: Any, parent_context: Any) -> dict[str, Any]:
        title_id = f"{instance._meta.model_name}_{instance.pk}_title"
        return super().get_cell_context_data(instance, parent_context) | {"title_id": title_id}


_CRITICAL = (UrlStateShown.REJECTED, UrlStateShown.FAILED)
_GOOD = (UrlStateShown.ACCEPTED, EventState.ANNOUNCED)


def state_tag(state: EventState | UrlStateShown | SubmissionStateShown) -> str:
    """Return the CSS class of a state as it is shown: waiting is never red."""
    if state in _CRITICAL:
        return "indexnow-status--critical"
    if state in (EventState.OVERDUE, UrlStateShown.PAUSED):
        return "indexnow-status--warning"
    return "w-status--primary" if state in _GOOD else ""


def format_time(value: datetime | None) -> str:
    """Return a date and time in the reader's language and time zone; nothing for `None`."""
    return formatting.format_time(value) if value is not None else ""


def response_phrase(status: int | None) -> str:
    """Return an HTTP status in words: `202 Accepted`."""
    if status is None:
        return ""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def planner(source: str, names: dict[str, str]) -> str:
    """Return who or what planned an event: a user's name or a command; empty if unknown."""
    kind, _colon, pk = source.partition(":")
    if kind == "user":
        return names.get(pk) or _("A deleted user")
    return source
