"""The key file's route. Include it at the root, before Wagtail's and outside `i18n_patterns`."""

from django.urls import path, register_converter

from .conf import KEY_PATTERN
from .submission import served_keys
from .views.key_file import key_file


class KeyConverter:
    """Matches the keys of this site alone, and asks no database.

    A site's own `/llms-full.txt` passes by.
    """

    regex = KEY_PATTERN.pattern

    def to_python(self, value: str) -> str:
        if not served_keys.is_known(value):
            raise ValueError("not a key of this site")
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(KeyConverter, "indexnow_key")

app_name = "wagtail_indexnow"
urlpatterns = [path("<indexnow_key:key>.txt", key_file, name="key_file")]
