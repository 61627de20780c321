"""URLs: the key file first, then the admin, then the pages below their language."""

from django.conf.urls.i18n import i18n_patterns
from django.urls import include, path
from wagtail import urls as wagtail_urls
from wagtail.admin import urls as wagtailadmin_urls
from wagtail.documents import urls as wagtaildocs_urls

urlpatterns = [
    # A search engine asks for /<key>.txt at the root: ahead of all that would catch it, and
    # outside the language prefixes.
    path("", include("wagtail_indexnow.urls")),
    path("admin/", include(wagtailadmin_urls)),
    path("documents/", include(wagtaildocs_urls)),
    *i18n_patterns(path("", include(wagtail_urls))),
]
