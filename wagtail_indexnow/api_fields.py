"""A field for Wagtail's API, versions 2 and 3: a front end of its own prints it into its pages."""

from typing import Any

from rest_framework.fields import Field
from wagtail.api import APIField

from .payloads import iso


class VersionField(Field):  # DRF has no types
    """When a page was last published, as `<meta name="indexnow-published-at">` says it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(read_only=True, source="*", **kwargs)

    def to_representation(self, page: Any) -> str | None:
        return iso(page.last_published_at)


#: For `api_fields` of page models.
indexnow_version = APIField("indexnow_version", serializer=VersionField())
