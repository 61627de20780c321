"""Every current public URL of a page, from Wagtail's own routing, in normal form.

The same result in a request, a worker thread and cron, whatever language is active there. Call
the functions inside `routing()`, which sets the stage once for a batch of pages.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

from django.conf import settings
from django.conf.urls.i18n import is_language_prefix_patterns_used
from django.http import HttpRequest
from django.urls import get_script_prefix, set_script_prefix
from django.utils import translation
from wagtail import hooks
from wagtail.coreutils import get_dummy_request
from wagtail.models import Site

from .. import hosts
from ..conf import conf
from ..constants import Reason

HOOK = "construct_indexnow_urls"


@dataclass(frozen=True, kw_only=True)
class PageUrls:
    """A page's public URLs, or the reason why it has none.

    `excluded`: the addresses of a page that keeps itself out, which engines may still know.
    """

    urls: tuple[str, ...] = ()
    reason: str = ""
    excluded: tuple[str, ...] = ()


class Routing:
    """The sites as they are now, for the URLs of one batch of pages."""

    def __init__(self) -> None:
        # Wagtail keeps root paths for an hour, past changes that it does not see.
        Site.clear_site_root_paths_cache()
        self._requests: dict[int, HttpRequest] = {}

    def public_urls(self, page: Any) -> PageUrls:
        """Return the URLs of a specific page that may be submitted from here.

        :raises Exception: whatever the page's own methods or a hook raise.
        """
        request = self._request(page)
        root_url = None if request is None else cast(str, request.site.root_url)  # type: ignore[attr-defined]
        listed = self._listed_or_nothing(page, request)
        if not listed:
            return PageUrls(reason=Reason.EXCLUDED, excluded=self.excluded_urls(page))
        urls = tuple(dict.fromkeys(_normalised(listed, root_url)))
        if not urls:
            return PageUrls(reason=Reason.NO_URL)
        served = tuple(url for url in urls if hosts.is_served(hosts.host_of(url)))
        return PageUrls(urls=served, reason="" if served else Reason.FOREIGN_HOST)

    def excluded_urls(self, page: Any) -> tuple[str, ...]:
        """Return the addresses that an excluded page still has: what it lists, or Wagtail's own.

        :raises Exception: whatever the page's own methods or a hook raise.
        """
        request = self._request(page)
        listed = self._listed_or_nothing(page, request) or [page.get_full_url(request)]
        return tuple(dict.fromkeys(_normalised(listed, None)))

    def _listed_or_nothing(self, page: Any, request: HttpRequest | None) -> list[str | None]:
        try:
            return self._listed(page, request)
        except Exception:
            # Code that builds upon its page's URL fails where there is none; that is no fault.
            if page.get_full_url(request) is None:
                return [None]
            raise

    def _listed(self, page: Any, request: HttpRequest | None) -> list[str | None]:
        own = getattr(page, "get_indexnow_urls", None)
        urls: list[str | None] | None = None if own is None else own()
        if urls is None:
            urls = [entry.get("location") for entry in page.get_sitemap_urls(request)]
        urls = list(urls)
        for function in hooks.get_hooks(HOOK):
            function(page, urls)
        return urls

    @cached_property
    def _roots(self) -> list[Any]:
        # The most specific first, then the default site, then by host name.
        return list(Site.get_site_root_paths())

    @cached_property
    def _sites(self) -> dict[int, Site]:
        return {site.pk: site for site in Site.objects.all()}

    def _request(self, page: Any) -> HttpRequest | None:
        """Return a request for the site that a page stands in, as Wagtail chooses among several."""
        above = (root for root in self._roots if page.url_path.startswith(root.root_path))
        site = next((self._sites.get(root.site_id) for root in above), None)
        if site is None:
            return None
        if site.pk not in self._requests:
            request = get_dummy_request(site=site)
            # Spares Wagtail a query for each page that several sites share.
            request._wagtail_site = request.site = site
            self._requests[site.pk] = request
        return self._requests[site.pk]


@contextmanager
def routing() -> Iterator[Routing]:
    """Set language and script prefix as every process has them outside a request."""
    prefix = get_script_prefix()
    # Django sets the prefix in the main thread only.
    set_script_prefix(f"{(settings.FORCE_SCRIPT_NAME or '').rstrip('/')}/")
    try:
        with translation.override(_language()):
            yield Routing()
    finally:
        set_script_prefix(prefix)


def _language() -> str:
    code = settings.LANGUAGE_CODE
    if is_language_prefix_patterns_used(settings.ROOT_URLCONF) == (True, True):
        # A variant such as en-us would give a prefix that the site does not serve.
        return translation.get_supported_language_variant(code)
    return code


def _normalised(urls: Iterable[str | None], root_url: str | None) -> Iterator[str]:
    for url in urls:
        absolute = (url and root_url and urljoin(root_url, url)) or url
        normal = hosts.normalise(_with_scheme(absolute)) if absolute else None
        if normal is not None:
            yield normal


def _with_scheme(url: str) -> str:
    parts = urlsplit(url)
    if conf.scheme is None or parts.port not in (None, 80, 443):
        return url
    return parts._replace(scheme=conf.scheme, netloc=parts.netloc.split(":")[0]).geturl()
