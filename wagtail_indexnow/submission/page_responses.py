"""What an anonymous visitor is given at a URL: a response as facts. Pure.

What follows from them is in `page_decisions`; what a page says of itself, in `page_markup`.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from urllib.parse import unquote, urljoin, urlsplit

from .. import hosts
from ..constants import FetchedAs

_MAX_VALUES = 100  # of each kind that a page may name
_MAX_DATE_LENGTH = 64
_MAX_TARGET_LENGTH = 8_192
_FORBIDDING = frozenset({"noindex", "none"})
_WITH_VALUES = frozenset(
    {"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"}
)
_CHALLENGE_HEADERS = {  # header → values by which firewalls mark a page that is not the site's
    "cf-mitigated": ("challenge",),
    "x-amzn-waf-action": ("challenge", "captcha"),
    "x-vercel-mitigated": ("challenge", "deny"),
}
REFUSALS = frozenset({401, 403, 429, 503})
GONE = frozenset({404, 410})


@dataclass(frozen=True, kw_only=True)
class PageResponse:
    """What came back for a URL. `status` `None`: nothing did, and `error` says why.

    `body` is decoded from gzip and may be cut off.
    """

    status: int | None
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    is_cut_off: bool = False
    error: str = ""

    def values(self, name: str) -> list[str]:
        return [value for header, value in self.headers if header.lower() == name]


class Remark(StrEnum):
    """What is worth saying of a page although nothing follows from it."""

    CUT_OFF = "cut_off"  # its head is longer than what is read
    ONE_ENGINE = "one_engine"  # asks a single engine not to index it


@dataclass(kw_only=True)
class Markup:
    """What a page says of itself. `canonicals` and `base` count in its head alone."""

    robots: list[tuple[str, str]] = field(default_factory=list)
    canonicals: list[str] = field(default_factory=list)
    refreshes: list[str] = field(default_factory=list)
    base: str = ""
    version: datetime | None = None
    charset: str = ""
    is_complete: bool = False
    is_challenge: bool = False


@dataclass(frozen=True, kw_only=True)
class SeenPage:
    """The facts of a response. `target` is where a redirect or canonical leads."""

    fetched_as: FetchedAs
    status: int | None
    version: datetime | None = None
    etag: str = ""
    target: str = ""
    is_challenge: bool = False
    remarks: frozenset[Remark] = frozenset()


def is_same_address(url: str, other: str) -> bool:
    """Return whether two URLs differ in spelling only: in scheme, last slash or escapes."""
    return _spelling(url) == _spelling(other) is not None


def respelling(response: PageResponse, url: str) -> str | None:
    """Return where a redirect leads, if to the same address in another spelling: follow it once."""
    target = _location(response, url)
    return target if target and is_same_address(url, target) else None


def read_page(
    response: PageResponse,
    url: str,
    *,
    now: datetime,
    markup: Markup | None = None,
    is_forbidden: bool = False,
) -> SeenPage:
    """Return what a response shows of a page.

    :param url: where it was found, after a redirect to another spelling of its address.
    :param markup: what the page says of itself; without it, status and headers alone count.
    :param is_forbidden: robots.txt keeps every engine away.
    """
    status = response.status
    markup = markup or Markup()
    target = _redirect_target(response, markup, url)
    etag = next(iter(response.values("etag")), "")
    directives = _Directives(now)
    for value in response.values("x-robots-tag"):
        directives.add_header(value)
    for name, content in markup.robots:
        directives.add_meta(name, content)
    canonical = _canonical_elsewhere(response, markup, url)
    is_challenge = _is_challenge(response, markup)
    remarks = {Remark.CUT_OFF} if response.is_cut_off and not markup.is_complete else set()
    if directives.is_for_one_engine:
        remarks.add(Remark.ONE_ENGINE)
    fetched_as = _classify(
        status,
        is_challenge=is_challenge,
        is_forbidden=is_forbidden,
        is_noindex=directives.is_noindex,
        has_canonical_elsewhere=bool(canonical),
        is_redirect=bool(target),
    )
    return SeenPage(
        fetched_as=fetched_as,
        status=status,
        version=markup.version,
        etag=etag.removeprefix("W/"),
        target=canonical if fetched_as == FetchedAs.CANONICAL_ELSEWHERE else target,
        is_challenge=is_challenge,
        remarks=frozenset(remarks),
    )


def _classify(
    status: int | None,
    *,
    is_challenge: bool,
    is_forbidden: bool,
    is_noindex: bool,
    has_canonical_elsewhere: bool,
    is_redirect: bool,
) -> FetchedAs:
    """Return the first that fits. A 404 may well say `noindex`: many front ends' do."""
    if is_challenge:
        return FetchedAs.REFUSED
    if status == 200 and is_noindex:
        return FetchedAs.NOINDEX
    if status == 200 and has_canonical_elsewhere:
        return FetchedAs.CANONICAL_ELSEWHERE
    if is_redirect:
        return FetchedAs.REDIRECTS
    if is_forbidden and status not in {429, 503}:
        return FetchedAs.ROBOTS_TXT
    if status == 200:
        return FetchedAs.INDEXABLE
    if status in GONE:
        return FetchedAs.GONE
    return FetchedAs.REFUSED if status in REFUSALS else FetchedAs.ERROR


class _Directives:
    """What robots directives ask for, in headers and in the page."""

    def __init__(self, now: datetime) -> None:
        self.is_noindex = False
        self.is_for_one_engine = False
        self._now = now

    def add_header(self, value: str) -> None:
        agent, colon, rest = value.partition(":")
        is_named = colon and "," not in agent and agent.strip().lower() not in _WITH_VALUES
        self._add(rest if is_named else value, is_for_all=not is_named)

    def add_meta(self, name: str, content: str) -> None:
        self._add(content, is_for_all=name == "robots")

    def _add(self, content: str, *, is_for_all: bool) -> None:
        words = {word.strip() for word in content.lower().split(",")}
        if words & _FORBIDDING or self._has_expired(content):
            self.is_noindex = self.is_noindex or is_for_all
            self.is_for_one_engine = self.is_for_one_engine or not is_for_all

    def _has_expired(self, content: str) -> bool:
        _before, found, rest = content.lower().partition("unavailable_after:")
        date = rest[:_MAX_DATE_LENGTH].strip()
        # It may have a comma in it, and another directive behind it.
        expires_at = parse_date(date) or parse_date(date.partition(",")[0])
        return bool(found) and expires_at is not None and expires_at <= self._now


def _redirect_target(response: PageResponse, markup: Markup, url: str) -> str:
    """Return the other address that a response leads to, by status or by the page; else nothing."""
    location = _location(response, url)
    targets = [location] if location else []
    if response.status == 200:
        base = _join(url, markup.base) or url
        targets += [_join(base, _refresh_target(content)) for content in markup.refreshes]
    return next((found for found in targets if found and not is_same_address(url, found)), "")


def _location(response: PageResponse, url: str) -> str:
    if response.status not in {301, 302, 303, 307, 308}:
        return ""
    return _join(url, next(iter(response.values("location")), ""))


def _refresh_target(content: str) -> str:
    """Return where `5; url=/new/` leads; empty where the page only loads itself again."""
    _delay, _separator, rest = content.replace(",", ";", 1).partition(";")
    name, equals, target = rest.strip().partition("=")
    return target.strip().strip("\"'") if equals and name.strip().lower() == "url" else ""


def _canonical_elsewhere(response: PageResponse, markup: Markup, url: str) -> str:
    """Return a canonical that is another address; several that disagree are elsewhere too."""
    base = _join(url, markup.base) or url
    named = [_join(base, href) for href in markup.canonicals]
    for value in response.values("link"):
        named += [_join(url, target) for target in _canonical_links(value)]
    return next((found for found in named if found and not is_same_address(url, found)), "")


def _canonical_links(value: str) -> list[str]:
    """Return the targets of a `Link` header that are canonical."""
    found: list[str] = []
    for link in value.split("<")[1 : _MAX_VALUES + 1]:
        target, _bracket, parameters = link.partition(">")
        for parameter in parameters.split(";"):
            name, _equals, relation = parameter.partition("=")
            if (
                name.strip().lower() == "rel"
                and "canonical" in relation.lower().strip(' ",').split()
            ):
                found.append(target)
    return found


def _is_challenge(response: PageResponse, markup: Markup) -> bool:
    return markup.is_challenge or any(
        value.strip().lower() in marks
        for header, marks in _CHALLENGE_HEADERS.items()
        for value in response.values(header)
    )


def _join(base: str, target: str) -> str:
    """Return an address in normal form, or nothing if it is none."""
    if not target.strip() or len(target) > _MAX_TARGET_LENGTH:
        return ""
    try:
        return hosts.normalise(urljoin(base, target.strip())) or ""
    except ValueError:
        return ""


def _spelling(url: str) -> tuple[str, str, str] | None:
    normal = hosts.normalise(url)
    if normal is None:
        return None
    parts = urlsplit(normal)
    return parts.netloc, unquote(parts.path).rstrip("/"), parts.query


def parse_date(text: str) -> datetime | None:
    """Read a date in ISO 8601 or as mail and HTTP write it; one without a zone is UTC."""
    text = text.strip()
    if not text or len(text) > _MAX_DATE_LENGTH:
        return None
    at = None
    with suppress(ValueError):
        at = datetime.fromisoformat(text.upper())
    with suppress(ValueError, TypeError, LookupError, OverflowError):
        at = at or parsedate_to_datetime(text)
    return at.replace(tzinfo=at.tzinfo or UTC) if at else None
