"""`{% indexnow_version %}`: lets VERIFY_PAGES see which version of a page the public gets."""

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ..payloads import iso

register = template.Library()


@register.simple_tag(takes_context=True)
def indexnow_version(context: template.Context, page: Any = None) -> SafeString | str:
    """Return the meta element for a page's head; nothing for a page that was never published.

    :param page: the page, unless it is the template's own.
    """
    page = page or context.get("page") or context.get("self")
    version = iso(getattr(page, "last_published_at", None))
    if version is None:
        return ""
    return format_html('<meta name="indexnow-published-at" content="{}">', version)
