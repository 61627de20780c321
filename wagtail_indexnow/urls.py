"""The key file's route. Include it at the root, before Wagtail's and outside `i18n_patterns`."""

from django.urls import URLPattern

app_name = "wagtail_indexnow"
urlpatterns: list[URLPattern] = []
