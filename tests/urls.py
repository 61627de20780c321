from django.apps import apps
from django.conf.urls.i18n import i18n_patterns
from django.urls import URLResolver, include, path
from wagtail import urls as wagtail_urls
from wagtail.admin import urls as wagtailadmin_urls


def _rest_api() -> list[URLResolver]:
    """Return the REST API of Wagtail 8, which looks at page types when it is imported."""
    if not apps.is_installed("wagtail.api.v3"):
        return []
    from wagtail.api.v3.urls import api

    return [path("api/v3/", api.urls)]


urlpatterns = [
    path("", include("wagtail_indexnow.urls")),
    path("admin/", include(wagtailadmin_urls)),
    *_rest_api(),
    *i18n_patterns(path("", include(wagtail_urls)), prefix_default_language=True),
]
