"""Every current public URL of a page, from Wagtail's own routing, in normal form.

The same result in a request, a worker thread and cron, whatever language is active there. Call
the functions inside `routing()`, which sets the stage once for a batch of pages.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, cast
from urllib.parse import quote, urljoin, urlsplit

import swapper
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


@dataclass(frozen=True)
class PageUrls:
    """A page's public URLs, or the reason why it has none."""

    urls: tuple[str, ...]
    reason: str = ""


class Routing:
    """The sites as they are now, for the URLs of one batch of pages."""

    def __init__(self) -> None:
        # Wagtail keeps root paths for an hour, past changes that it does not see.
        Site.clear_site_root_paths_cache()
        self._requests: dict[int, HttpRequest] = {}
        self._sites: dict[int, Site] | None = None
        # Carries the root paths from page to page, and prefers no site where several match.
        self._nowhere = HttpRequest()
        self._nowhere._wagtail_site = None  # type: ignore[attr-defined]

    def public_urls(self, page: Any) -> PageUrls:
        """Return the URLs of a specific page that may be told to engines from here.

        Whatever the page's own methods or a hook raise passes through.
        """
        root_url = self._root_url(page)
        listed = self._listed(page)
        if not listed:
            return PageUrls((), Reason.EXCLUDED)
        urls = tuple(dict.fromkeys(_normalised(listed, root_url)))
        if not urls:
            return PageUrls((), Reason.NO_URL)
        served = tuple(url for url in urls if hosts.is_served(hosts.host_of(url)))
        return PageUrls(served, "" if served else Reason.FOREIGN_HOST)

    def base_url(self, page: Any) -> str | None:
        """Return where the page's path leads, whatever its type says of its own URL.

        Descendants live below it, so that their URLs can be derived from it.
        """
        parts = page_model().get_url_parts(page, self._nowhere)
        if not parts or parts[1] is None:
            return None
        return next(iter(_normalised([f"{parts[1]}{parts[2]}"], None)), None)

    def _listed(self, page: Any) -> list[str | None]:
        own = getattr(page, "get_indexnow_urls", None)
        urls: list[str | None] | None = None if own is None else own()
        if urls is None:
            urls = [entry.get("location") for entry in page.get_sitemap_urls(self._request(page))]
        urls = list(urls)
        for function in hooks.get_hooks(HOOK):
            function(page, urls)
        return urls

    def _root_url(self, page: Any) -> str | None:
        site = self._site(page)
        return None if site is None else cast(str, site.root_url)

    def _site(self, page: Any) -> Site | None:
        parts = page.get_url_parts(self._nowhere)
        if not parts:
            return None
        if self._sites is None:
            self._sites = {site.pk: site for site in Site.objects.all()}
        return self._sites.get(parts[0])

    def _request(self, page: Any) -> HttpRequest | None:
        site = self._site(page)
        if site is None:
            return None
        if site.pk not in self._requests:
            request = get_dummy_request(site=site)
            # Spares Wagtail a query for each page that several sites share.
            request._wagtail_site = site
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


def descendant_url(base: str, suffix: str) -> str:
    """Return the URL of a descendant below a base URL.

    :param suffix: the descendant's `url_path` after the top's, such as `events/party/`.
    """
    joined = f"{base.rstrip('/')}/{quote(suffix)}"
    return joined if base.endswith("/") else joined.rstrip("/")


def has_own_urls(model: type) -> bool:
    """Say whether a page type decides on its own URL, so that none can be derived for it."""
    base = page_model()
    overrides = any(
        getattr(model, name) is not getattr(base, name)
        for name in ("get_url_parts", "get_full_url")
    )
    return overrides or hasattr(model, "get_indexnow_urls")


@cache
def page_model() -> Any:
    """Return the site's base page model, which Wagtail 8 lets a project swap."""
    return swapper.load_model("wagtailcore", "Page")


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
