"""A middleware for sites: note when crawlers of participating engines visit submitted URLs."""

import logging
from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from . import hosts
from .conf import conf
from .visits import recording
from .visits.crawlers import named_in

logger = logging.getLogger(__name__)

SCHEMES = ("https", "http")

GetResponse = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]


class VisitMiddleware:
    """Stands first in MIDDLEWARE, so that it sees what every other one answers.

    Of most requests it reads the User-Agent alone. No address of a visitor is stored, and no
    fault of ours becomes one of the site.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._respond(request)
        response = self.get_response(request)
        crawler = _crawler_of(request)
        if crawler is not None:
            _note(request, crawler, response.status_code)  # type: ignore[union-attr]
        return response

    async def _respond(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await self.get_response(request)  # type: ignore[misc]
        crawler = _crawler_of(request)
        if crawler is not None:
            await sync_to_async(_note)(request, crawler, response.status_code)
        return response


def _crawler_of(request: HttpRequest) -> str | None:
    return named_in(request.META.get("HTTP_USER_AGENT", "")) if request.method == "GET" else None


def _note(request: HttpRequest, crawler: str, status: int) -> None:
    try:
        if conf.enabled:
            recording.note(_spellings(request), crawler, status)
    except Exception:
        logger.exception("crawler=%s state=not_noted", crawler)


def _spellings(request: HttpRequest) -> list[str]:
    """Return a request's URL in normal form, with both schemes: a proxy may have taken TLS off."""
    try:
        address = f"://{request.get_host()}{request.get_full_path()}"
    except DisallowedHost:
        return []
    urls = [hosts.normalise(f"{scheme}{address}") for scheme in SCHEMES]
    return [url for url in urls if url is not None]
