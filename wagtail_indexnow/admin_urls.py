"""The admin's routes, below `indexnow/`."""

from django.urls import URLPattern, path

from .views.events_report import EventsReport
from .views.page_status import PageStatusView
from .views.settings_page import Resume, RotateKeyView, SettingsView, SubmitHome, VerifyKey
from .views.submissions_report import SubmissionsReport, SubmissionView
from .views.urls_report import TrackedUrlsReport

app_name = "wagtail_indexnow_admin"


def _report(route: str, view: type, name: str) -> list[URLPattern]:
    """Return the routes of a report: the page, and its results alone for filters and search."""
    return [
        path(route, view.as_view(), name=name),  # type: ignore[attr-defined]
        path(f"{route}results/", view.as_view(results_only=True), name=f"{name}_results"),  # type: ignore[attr-defined]
    ]


urlpatterns = [
    *_report("urls/", TrackedUrlsReport, "urls"),
    *_report("submissions/", SubmissionsReport, "submissions"),
    path("submissions/<int:pk>/", SubmissionView.as_view(), name="submission"),
    *_report("events/", EventsReport, "events"),
    path("pages/<int:page_id>/", PageStatusView.as_view(), name="page"),
    path("settings/", SettingsView.as_view(), name="settings"),
    path("settings/keys/<str:host>/verify/", VerifyKey.as_view(), name="verify_key"),
    path("settings/keys/<str:host>/rotate/", RotateKeyView.as_view(), name="rotate_key"),
    path("settings/pauses/<int:pk>/resume/", Resume.as_view(), name="resume"),
    path("settings/sites/<int:pk>/submit/", SubmitHome.as_view(), name="submit_home"),
]
