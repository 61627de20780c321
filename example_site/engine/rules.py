"""The rules a request must pass before rate and key are looked at. Pure: no clock, no network.

Order (M3): method → body size → JSON object → required fields → key → list → count → each URL →
host → ``keyLocation`` → path scope. Rate and key follow in ``desk.py``.
"""

import json
import posixpath
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl

from example_site.engine.hosts import Authority, is_loopback, parse_authority
from example_site.engine.profiles import Profile
from example_site.engine.records import Incoming, Submission, Verdict

RULES: dict[str, str] = {
    "M1": "Only GET and POST on /indexnow.",
    "M3": "Body, JSON object, list and URLs are well formed.",
    "M4": "Required fields, key schema, at most 10,000 URLs.",
    "M5": "Every URL is on the host.",
    "M7": "keyLocation is on the host and covers every URL.",
    "M8": "The host is in the map.",
    "M9": "The key file answers exactly the key.",
    "M10": "The key is still being verified.",
    "M11": "The key failed before, and that is remembered.",
    "M13": "The key belongs to another host.",
    "M15": "Not too many requests from one address.",
    "M16": "Not the same URL again so soon.",
    "M17": "A scripted answer.",
}

INDEXNOW_PATH = re.compile(r"/(indexnow|IndexNow)/?")
KEY = re.compile(r"[A-Za-z0-9-]{8,128}")
ABSOLUTE_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)", re.IGNORECASE)
DEFAULT_PORTS = {"http": 80, "https": 443}

ParsedUrl = tuple[Authority, str]


class RefusedRequestError(Exception):
    """The request broke a rule; ``verdict`` says which and what to answer."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


def refusal(rule: str, status: int, reason: str, *, target: str = "") -> RefusedRequestError:
    """Return the exception for a request that is malformed in one named part."""
    return RefusedRequestError(
        Verdict(
            status=status,
            rule=rule,
            reason=reason,
            error_code="InvalidRequestParameters",
            target=target,
        )
    )


def fields_of(incoming: Incoming) -> dict[str, Any] | None:
    """Return what the request says: a POST's JSON object, a GET's parameters, else ``None``."""
    if incoming.method == "GET":
        return dict(parse_qsl(incoming.query, keep_blank_values=True))
    try:
        parsed = json.loads(incoming.raw)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def check_route(incoming: Incoming) -> None:
    """Refuse other paths and methods (M1).

    :raises RefusedRequestError: with 404 or 405.
    """
    if not INDEXNOW_PATH.fullmatch(incoming.path):
        raise refusal("M1", 404, "There is nothing at this path.")
    if incoming.method not in ("GET", "POST"):
        raise RefusedRequestError(
            Verdict(
                status=405,
                rule="M1",
                reason=f"Method {incoming.method} is not allowed.",
                error_code="InvalidRequestParameters",
                headers={"Allow": "GET, POST"},
            )
        )


def judge(
    incoming: Incoming,
    fields: Mapping[str, Any] | None,
    profile: Profile,
    mapped_hosts: Collection[str],
) -> Submission:
    """Return the submission a well-formed request makes.

    :param fields: what :func:`fields_of` returned for this request.
    :param mapped_hosts: hosts in the map, whose ports are ignored (M5).
    :raises RefusedRequestError: on the first broken rule, in the order of M3.
    """
    check_route(incoming)
    fields = _readable(incoming, fields, profile)
    _require_fields(incoming, fields, profile)
    key = _valid_key(fields["key"], profile)
    urls = _valid_list(incoming, fields, profile)
    parsed = [_absolute(url) for url in urls]
    site = _site(incoming, fields, parsed)
    same = _host_test(site, mapped_hosts)
    _require_same_host(urls, parsed, same)
    location = _key_location(fields, key, site, same, profile)
    _require_scope(location, urls, parsed)
    return Submission(
        host=site.host, key=key, key_location=location, urls=tuple(dict.fromkeys(urls))
    )


def _readable(
    incoming: Incoming, fields: Mapping[str, Any] | None, profile: Profile
) -> Mapping[str, Any]:
    if len(incoming.raw) > profile.max_body_bytes or incoming.unreadable == "too large":
        raise refusal("M3", 413, f"The body is longer than {profile.max_body_bytes} bytes.")
    if incoming.unreadable:
        raise refusal("M3", 400, f"The body cannot be read: {incoming.unreadable}.")
    if fields is None:
        raise refusal("M3", 400, "The body is not a JSON object.")
    return fields


def _require_fields(incoming: Incoming, fields: Mapping[str, Any], profile: Profile) -> None:
    required = ("url", "key") if incoming.method == "GET" else ("host", "key", "urlList")
    for name in required:
        if fields.get(name) in (None, ""):
            raise refusal(
                "M4", profile.missing_field_status, f"The field {name} is missing.", target=name
            )


def _valid_key(key: Any, profile: Profile) -> str:
    if not isinstance(key, str) or not KEY.fullmatch(key):
        reason = "The key is not 8 to 128 characters of a-z, A-Z, 0-9 and hyphen."
        raise refusal("M4", profile.bad_key_status, reason, target="key")
    return key


def _valid_list(incoming: Incoming, fields: Mapping[str, Any], profile: Profile) -> list[str]:
    if incoming.method == "GET":
        return [fields["url"]]
    urls = fields["urlList"]
    if not isinstance(urls, list) or not urls:
        raise refusal(
            "M3", profile.bad_list_status, "urlList is not a list of URLs.", target="urlList"
        )
    if not all(isinstance(url, str) for url in urls):
        reason = "urlList has something that is not a string."
        raise refusal("M3", profile.bad_list_status, reason, target="urlList")
    if len(urls) > profile.max_urls:
        reason = f"urlList has {len(urls)} URLs, {profile.max_urls} are allowed."
        raise refusal("M4", profile.too_many_urls_status, reason, target="urlList")
    return urls


def _split(url: str) -> ParsedUrl:
    """Return authority (default port dropped) and path; ``ValueError`` if not absolute http(s)."""
    match = ABSOLUTE_URL.match(url)
    if match is None:
        raise ValueError("not an absolute http(s) URL")
    scheme, authority_text, path = match.groups()
    authority = parse_authority(authority_text)
    if authority.port == DEFAULT_PORTS[scheme.lower()]:
        authority = Authority(authority.host, None)
    return authority, path or "/"


def _absolute(url: str) -> ParsedUrl:
    try:
        return _split(url)
    except ValueError as error:
        reason = f"Not an absolute http(s) URL: {url[:200]}"
        raise refusal("M3", 422, reason, target="urlList") from error


def _site(incoming: Incoming, fields: Mapping[str, Any], parsed: list[ParsedUrl]) -> Authority:
    """Return the host the request speaks for; a GET speaks for that of its URL."""
    if incoming.method == "GET":
        return parsed[0][0]
    try:
        if not isinstance(fields["host"], str):
            raise ValueError("not a string")
        return parse_authority(fields["host"])
    except ValueError as error:
        raise refusal("M5", 422, "host is not a bare host name.", target="host") from error


def _host_test(site: Authority, mapped_hosts: Collection[str]) -> Callable[[Authority], bool]:
    if site.host in mapped_hosts or is_loopback(site.host):
        return lambda other: other.host == site.host
    return lambda other: other == site


def _require_same_host(
    urls: list[str], parsed: list[ParsedUrl], same: Callable[[Authority], bool]
) -> None:
    for url, (authority, _path) in zip(urls, parsed, strict=True):
        if not same(authority):
            raise refusal("M5", 422, f"This URL is not on the host: {url[:200]}", target="urlList")


def _key_location(
    fields: Mapping[str, Any],
    key: str,
    site: Authority,
    same: Callable[[Authority], bool],
    profile: Profile,
) -> str:
    if "keyLocation" not in fields:
        return f"https://{site}/{key}.txt"
    location = fields["keyLocation"]
    try:
        authority, _path = _split(location if isinstance(location, str) else "")
    except ValueError as error:
        raise refusal(
            "M7",
            profile.malformed_key_location_status,
            "keyLocation is not an absolute http(s) URL.",
            target="keyLocation",
        ) from error
    if not same(authority):
        raise refusal("M7", 422, "keyLocation is on another host.", target="keyLocation")
    return str(location)


def _require_scope(location: str, urls: list[str], parsed: list[ParsedUrl]) -> None:
    folder = _plain_path(_split(location)[1]).rpartition("/")[0] + "/"
    if folder == "/":
        return
    for url, (_authority, path) in zip(urls, parsed, strict=True):
        if not _plain_path(path).startswith(folder):
            reason = f"keyLocation covers {folder} only, not {url[:200]}"
            raise refusal("M7", 422, reason, target="keyLocation")


def _plain_path(path: str) -> str:
    """Return the path without dot segments, which would step out of the folder unseen."""
    if "/." not in path:
        return path
    plain = posixpath.normpath(path)
    return plain + "/" if path.endswith("/") and plain != "/" else plain
