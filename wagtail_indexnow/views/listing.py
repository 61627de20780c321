"""What all reports share: rows of the user's pages, a capped count, streamed exports."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar

from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.functional import Promise, cached_property
from django.utils.translation import gettext as _
from wagtail.admin.paginator import WagtailPaginator
from wagtail.admin.views.reports import ReportView
from wagtail.coreutils import get_content_languages

from .. import permissions
from ..models import Intent, TrackedUrl
from ..pages.model import page_model

EXPORT_CHUNK = 2_000
# Control characters, halves of surrogate pairs and non-characters: XML 1.0 has no place for them.
_NOT_IN_XML = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_FORMULA_SIGNS = frozenset("=+-@|\uff1d\uff0b\uff0d\uff20")  # and their full-width forms


class CappedPaginator(WagtailPaginator):  # Wagtail has no types
    """Counts up to a cap: a million rows are not counted for each page of results.

    One query finds the keys, and with them the count. Otherwise a filter that matches few of many
    rows would scan the whole table twice.
    """

    cap = 10_000
    cap_of_search = 1_000  # a text that many rows have is found in no index

    @cached_property
    def _keys(self) -> list[int]:
        return list(self.object_list.values_list("pk", flat=True)[: self.cap + 1])

    @cached_property
    def count(self) -> int:
        return min(len(self._keys), self.cap)

    @property
    def is_capped(self) -> bool:
        return len(self._keys) > self.cap

    def page(self, number: Any) -> Any:
        number = self.validate_number(number)
        keys = self._keys[: self.count][(number - 1) * self.per_page : number * self.per_page]
        return self._get_page(self.object_list.filter(pk__in=keys), number, self)

    @cached_property
    def items_count_label(self) -> str:
        if self.is_capped:
            return _("more than %(count)s, the first of which are shown") % {
                "count": intcomma(self.cap)
            }
        return str(super().items_count_label)


def harmless(value: str) -> str:
    """Return a text that no spreadsheet runs as a formula, and that XLSX can hold."""
    text = _NOT_IN_XML.sub("", value)
    return f"'{text}" if text.lstrip()[:1] in _FORMULA_SIGNS and text else text


class ExportedRows:
    """Rows with everything that belongs to them, a chunk at a time, for an export."""

    def __init__(self, queryset: Any, decorate: Callable[[Any], Iterable[Any]]) -> None:
        self.queryset, self.model = queryset, queryset.model
        self._decorate = decorate

    def __iter__(self) -> Iterator[Any]:
        rows = self.queryset.iterator(chunk_size=EXPORT_CHUNK)
        while chunk := list(islice(rows, EXPORT_CHUNK)):
            yield from self._decorate(chunk)


def with_pages(rows: Iterable[Any]) -> list[Any]:
    """Attach to each row its page, and what to call it, in one query for all.

    A row gets `page` (`None` if deleted), `shown_title` and `language`.
    """
    rows = list(rows)
    pages = (
        page_model()
        .objects.filter(pk__in={row.page_id for row in rows if row.page_id})
        .select_related("locale")
        .in_bulk()
    )
    languages, events = get_content_languages(), _events_of(rows)
    for row in rows:
        row.page = pages.get(row.page_id)
        event = events.get(row.intent or 0) if isinstance(row, TrackedUrl) else row
        row.shown_title = row.page.get_admin_display_title() if row.page else _former_title(event)
        code = row.page.locale.language_code if row.page else getattr(event, "locale", "")
        row.language = languages.get(code, code)
    return rows


def _events_of(rows: Iterable[Any]) -> dict[int, Intent]:
    """Return the events that still know what the pages of URLs were called."""
    pks = {row.intent for row in rows if isinstance(row, TrackedUrl) and row.intent}
    return Intent.objects.only("page_title", "locale").in_bulk(pks) if pks else {}


def _former_title(event: Any) -> str:
    if isinstance(event, Intent) and event.page_id is None:
        return _("All pages")
    title = getattr(event, "page_title", "")
    return _("%(title)s (deleted)") % {"title": title} if title else _("A deleted page")


class IndexNowReport(ReportView):
    """A report of one of our tables, for those who may see it, about pages they may edit."""

    paginator_class = CappedPaginator
    permission_required = "view"
    template_name = "wagtail_indexnow/reports/report.html"
    results_template_name = "wagtail_indexnow/reports/report_results.html"
    header_icon = "indexnow"
    custom_value_preprocess: ClassVar[dict[Any, Any]] = {
        **ReportView.custom_value_preprocess,
        (str, Promise): {
            ReportView.FORMAT_CSV: lambda value: harmless(str(value)),
            ReportView.FORMAT_XLSX: lambda value: harmless(str(value)),
        },
    }
    #: Bulk actions are offered to those who may change rows.
    is_actionable: ClassVar[bool] = False

    def get_paginator(self, *args: Any, **kwargs: Any) -> Any:
        paginator = super().get_paginator(*args, **kwargs)
        if self.is_searching:
            paginator.cap = paginator.cap_of_search
        return paginator

    def get_base_queryset(self) -> Any:
        return permissions.limit_to_pages_of(self.request.user, super().get_base_queryset())

    def get_filtered_queryset(self) -> Any:
        # Filtered already: a second time would only cost the database more.
        return self.get_queryset()

    def decorate_paginated_queryset(self, object_list: Any) -> Any:
        return with_pages(object_list)

    def get(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if self.is_export:
            # Bypasses the page's context, which would hold all rows in memory to count them.
            rows = ExportedRows(self.get_queryset(), self.decorate_paginated_queryset)
            return self.as_spreadsheet(rows, request.GET["export"])
        return super().get(request, *args, **kwargs)

    @cached_property
    def may_act(self) -> bool:
        return self.is_actionable and bool(self.user_has_permission("change"))

    def get_context_data(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(*args, **kwargs)
        context["may_act"] = self.may_act
        context["model_opts"] = self.model._meta
        context["is_capped"] = getattr(context["paginator"], "is_capped", False)
        return context
