"""Remarks on a request that refuse nothing (M21, and the repeats of M6)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

from example_site.engine.records import Incoming

KNOWN_FIELDS = {
    "POST": {"host", "key", "keyLocation", "urlList"},
    "GET": {"url", "key", "keyLocation", "noreping"},
}
# RFC 3986: the only characters a URL may hold, and percent signs only before two hex digits.
ESCAPED_URL = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")


def anomalies_of(incoming: Incoming, fields: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names of what is odd, each once: ``missing_charset``, ``unknown_field:x``, …"""
    found = [*_of_headers(incoming), *_of_fields(incoming, fields), *_of_urls(incoming, fields)]
    return tuple(dict.fromkeys(found))


def _of_headers(incoming: Incoming) -> Iterator[str]:
    headers = incoming.headers
    if not headers.get("user-agent"):
        yield "missing_user_agent"
    if "cookie" in headers:
        yield "cookie"
    if incoming.method == "GET" and incoming.raw:
        yield "get_with_body"
    if incoming.method == "POST":
        media_type, _, parameters = headers.get("content-type", "").lower().partition(";")
        if media_type.strip() != "application/json":
            yield "content_type"
        if "charset=" not in parameters:
            yield "missing_charset"


def _of_fields(incoming: Incoming, fields: Mapping[str, Any] | None) -> Iterator[str]:
    if "noreping" in dict(parse_qsl(incoming.query, keep_blank_values=True)):
        yield "noreping"
    known = KNOWN_FIELDS.get(incoming.method, set())
    yield from (f"unknown_field:{name}" for name in fields or () if name not in known)


def _of_urls(incoming: Incoming, fields: Mapping[str, Any] | None) -> Iterator[str]:
    urls = strings_in(incoming, fields)
    if len(set(urls)) < len(urls):
        yield "duplicate_url"
    if any("#" in url for url in urls):
        yield "fragment"
    if any(not ESCAPED_URL.fullmatch(url) for url in urls):
        yield "unescaped_url"


def strings_in(incoming: Incoming, fields: Mapping[str, Any] | None) -> list[str]:
    """Return every string where URLs belong, valid or not."""
    if fields is None:
        return []
    found = [fields.get("url")] if incoming.method == "GET" else fields.get("urlList")
    if not isinstance(found, list):
        return []
    return [url for url in found if isinstance(url, str)]
