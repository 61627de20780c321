"""The page that a person means: by its id, by a URL, by a path."""

from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.utils import translation
from wagtail.models import Site

from .. import hosts
from ..ledger.tracked_urls import url_hash
from ..models import TrackedUrl
from ..pages.model import page_model
from ..pages.public_urls import routing


def find_page(text: str) -> int | None:
    """Return the page that an id, a URL or a path means; `None` if there is none.

    A URL that engines know finds its page even if that is gone, or called otherwise by now.
    """
    text = text.strip()
    if text.isdecimal():
        return int(text)
    normal = hosts.normalise(text) if "://" in text else None
    return (normal and _by_known_url(normal)) or _by_path(text)


def _by_known_url(url: str) -> int | None:
    known = TrackedUrl.objects.filter(url_hash=url_hash(url), page_id__isnull=False)
    return known.order_by("-changed_at").values_list("page_id", flat=True).first()


def _by_path(text: str) -> int | None:
    parts = urlsplit(text)
    with routing():
        wanted = list(dict.fromkeys(_url_paths(parts.netloc, unquote(parts.path))))
    pages = page_model().objects.filter(url_path__in=wanted).values_list("url_path", "pk")
    found: dict[str, int] = dict(pages)
    return next((found[url_path] for url_path in wanted if url_path in found), None)


def _url_paths(netloc: str, path: str) -> Iterator[str]:
    """Yield the `url_path` that a path means below each Site, likeliest first."""
    language, path = _without_prefixes(path)
    host = hosts.normalise_host(netloc) if netloc else None
    for root in Site.get_site_root_paths():
        if host not in (None, _host_of_root(root.root_url)):
            continue
        if language is not None and root.language_code in (None, language):
            yield _below(root.root_path, path.partition("/")[2])
        else:
            yield _below(root.root_path, path)


def _below(root_path: str, rest: str) -> str:
    return f"{root_path.rstrip('/')}/{rest.strip('/')}".rstrip("/") + "/"


def _without_prefixes(path: str) -> tuple[str | None, str]:
    script = (settings.FORCE_SCRIPT_NAME or "").rstrip("/")
    path = path.removeprefix(script)
    language = translation.get_language_from_path(f"/{path.strip('/')}/")
    return language, path.strip("/")


def _host_of_root(root_url: str) -> str | None:
    url = hosts.normalise(root_url)
    return url and hosts.host_of(url)
