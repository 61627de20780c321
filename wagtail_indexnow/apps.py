"""App config. Imports nothing of ours at module level: actors must find the site's broker."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class WagtailIndexNowConfig(AppConfig):
    name = "wagtail_indexnow"
    label = "wagtail_indexnow"
    verbose_name = _("IndexNow")
    default_auto_field = "django.db.models.BigAutoField"
