"""The filters of the reports. Choices come from small tables, never from a million rows."""

from typing import Any

import django_filters
from django import forms
from django.contrib.contenttypes.models import ContentType
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from wagtail.admin.filters import ContentTypeFilter, DateRangePickerWidget, WagtailFilterSet
from wagtail.models import get_page_models

from .. import clock, permissions
from ..constants import Change, Kind, Reason, Use
from ..diagnostics.formatting import engine_name
from ..models import Channel, Intent, Submission, TrackedUrl
from ..pages.model import page_model
from . import states, visits


def radio(**kwargs: Any) -> Any:
    """Return a choice of one, or all."""
    return django_filters.ChoiceFilter(
        widget=forms.RadioSelect, empty_label=_("All"), **{"label": "", **kwargs}
    )


def date_range(**kwargs: Any) -> Any:
    return django_filters.DateFromToRangeFilter(widget=DateRangePickerWidget, **kwargs)


def _endpoints() -> list[tuple[str, str]]:
    names = Channel.objects.order_by("endpoint").values_list("endpoint", flat=True).distinct()
    return [(name, engine_name(name)) for name in names]


def _hosts(user: Any) -> list[tuple[str, str]]:
    """Return the hosts that a user can filter by: nobody learns of those of other sections."""
    rows = Channel.objects.exclude(host="").order_by("host")
    if not permissions.sees_all_pages(user):
        rows = rows.filter(host__in=permissions.hosts_of(user))
    return [(host, host) for host in rows.values_list("host", flat=True).distinct()]


def _page_types(request: Any) -> QuerySet[ContentType]:
    models = get_page_models()
    types = ContentType.objects.get_for_models(*models).values()
    return ContentType.objects.filter(pk__in=[type_.pk for type_ in types]).order_by("model")


class ChannelFilterSet(WagtailFilterSet):  # Wagtail has no types
    host = radio(label=_("Site"))
    endpoint = radio(label=_("Search engine"), choices=_endpoints)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.filters["host"].extra["choices"] = _hosts(self.request.user)


class TrackedUrlFilterSet(ChannelFilterSet):
    state = radio(label=_("State"), choices=states.UrlStateShown.choices, method="with_state")
    change = radio(label=_("Change type"), choices=Change.choices)
    changed_at = date_range(label=_("Changed on"))
    page_type = ContentTypeFilter(
        label=_("Page type"),
        queryset=_page_types,
        method="of_page_type",
        widget=forms.RadioSelect,
        empty_label=_("All"),
    )

    visited = radio(label=_("Visits"), choices=visits.CHOICES, method="of_visits")

    class Meta:
        model = TrackedUrl
        fields = ["state", "host", "endpoint", "change", "changed_at", "page_type", "visited"]

    def of_visits(self, rows: Any, name: str, value: str) -> Any:
        return visits.filter_visited(rows, value, clock.now())

    def with_state(self, rows: Any, name: str, value: str) -> Any:
        return states.with_url_state(rows, value)

    def of_page_type(self, rows: Any, name: str, page_type: ContentType) -> Any:
        pages = page_model().objects.filter(content_type=page_type).order_by()
        return rows.filter(page_id__in=pages.values("pk"))


class SubmissionFilterSet(ChannelFilterSet):
    state = radio(
        label=_("State"), choices=states.SubmissionStateShown.choices, method="with_state"
    )
    started_at = date_range(label=_("Sent"))

    class Meta:
        model = Submission
        fields = ["state", "host", "endpoint", "started_at"]

    def with_state(self, rows: Any, name: str, value: str) -> Any:
        return states.with_submission_state(rows, value)


class EventFilterSet(WagtailFilterSet):
    kind = radio(label=_("Trigger"), choices=Kind.choices)
    state = radio(label=_("State"), choices=states.EventState.choices, method="with_state")
    reason = django_filters.ChoiceFilter(label=_("Reason"), choices=Reason.choices_for(Use.EVENT))
    expected_at = date_range(label=_("Due"))
    created_at = date_range(label=_("Planned at"))

    class Meta:
        model = Intent
        fields = ["kind", "state", "reason", "expected_at", "created_at"]

    def with_state(self, rows: Any, name: str, value: str) -> Any:
        return states.with_event_state(rows, value, clock.now())
