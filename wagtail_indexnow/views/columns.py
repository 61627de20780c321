"""What the reports' tables are made of: Wagtail's columns with a line of small print."""

from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from wagtail.admin.ui.tables import Column

from ..constants import UrlState
from ..diagnostics import formatting
from .outcomes import Progress

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


def url_tag(state: str) -> str:
    """Return the CSS class of a URL's state: waiting is never red."""
    if state in (UrlState.REJECTED, UrlState.FAILED):
        return "indexnow-status--critical"
    return "w-status--primary" if state == UrlState.ACCEPTED else ""


def intent_tag(state: str) -> str:
    """Return the CSS class of an announcement's state or progress: waiting is never red."""
    match state:
        case Progress.FAILED:
            return "indexnow-status--critical"
        case Progress.OVERDUE:
            return "indexnow-status--warning"
        case Progress.ANNOUNCED:
            return "w-status--primary"
        case _:
            return ""


def moment(value: datetime | None) -> str:
    """Return a date and time in the reader's language and time zone; nothing for `None`."""
    return formatting.moment(value) if value is not None else ""


def answer(status: int | None) -> str:
    """Return an HTTP status in words: `202 Accepted`."""
    if status is None:
        return ""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def person(source: str, names: dict[str, str]) -> str:
    """Return who or what planned something: a user's name, a command, or nobody known."""
    kind, _colon, pk = source.partition(":")
    if kind == "user":
        return names.get(pk) or _("A user who is gone")
    return source
