"""URLs in normal form, and which hosts this installation serves: by settings and Site records.

A *host* is a URL's authority as we store and send it: lower case, IDN as punycode, and with
`:port` only where the port is not the scheme's own.
"""

import ipaddress
import re
from urllib.parse import quote, urlsplit, urlunsplit

import idna
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from wagtail.models import Site

from .conf import conf
from .constants import MAX_URL_LENGTH

_DEFAULT_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ASCII_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
# RFC 3986: what may stand unescaped in a path or query.
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"
_QUERY_SAFE = _PATH_SAFE + "?"
# RFC 2606 and RFC 6762: names that never resolve in public.
_PRIVATE_NAMES = ("localhost", "local", "test", "invalid")
# `127.1` and `0x7f.1` are addresses to a resolver: no top-level domain is a number (RFC 3696).
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def normalise(url: str) -> str | None:
    """Return a URL in normal form, or `None` if no engine could use it.

    Absolute http(s); lower-case host, punycode; default port and fragment dropped; path and query
    percent-encoded once and only where needed (RFC 3986); slash as served; at most 2,048
    characters. User names, control characters and empty hosts are refused.
    """
    if _CONTROL.search(url):
        return None
    try:
        parts = urlsplit(url.strip())
        authority = _authority(parts.scheme, parts.hostname, parts.port)
    except ValueError:
        return None
    if authority is None or parts.username is not None:
        return None
    normal = urlunsplit(
        (
            parts.scheme,
            authority,
            _escape(parts.path, _PATH_SAFE) or "/",
            _escape(parts.query, _QUERY_SAFE),
            "",
        )
    )
    return normal if len(normal) <= MAX_URL_LENGTH else None


def host_of(url: str) -> str:
    """Return the host of a URL in normal form, with `:port` where it is not the default."""
    return urlsplit(url).netloc


def normalise_host(host: str, scheme: str = "https") -> str | None:
    """Return a host name, with or without a port, in the form of `host_of`, or `None`."""
    normal = normalise(f"{scheme}://{host}/")
    return normal and host_of(normal)


def is_loopback_url(url: str) -> bool:
    """Say whether a URL's host is this machine itself."""
    hostname = urlsplit(url).hostname or ""
    if hostname == "localhost" or hostname.endswith(".localhost"):
        return True
    address = _address(hostname)
    return address is not None and address.is_loopback


def is_private(host: str) -> bool:
    """Return whether a host can have no public pages: an IP address, or a reserved name."""
    name = _hostname(host)
    if _address(name) is not None or "." not in name:
        return True
    last = name.rsplit(".", 1)[-1]
    return last in _PRIVATE_NAMES or _NUMBER.fullmatch(last) is not None


def is_served(host: str) -> bool:
    """Say whether this installation serves a host, and so may speak for it.

    `HOSTS` names it, or else Django's `ALLOWED_HOSTS` does; `*` proves nothing. Private
    addresses and non-default ports count only when every endpoint is on loopback (demo, tests).
    """
    is_public = not is_private(host) and host == _hostname(host)
    return (is_public or is_demo()) and is_named(host)


def is_demo() -> bool:
    """Return whether every endpoint is on this machine: a demonstration, or tests."""
    return all(is_loopback_url(endpoint) for endpoint in conf.endpoints.values())


def named_hosts() -> dict[str, str]:
    """Return host → scheme of each host that Sites and `HOSTS` name, served here or not."""
    found: dict[str, str] = {}
    for site in Site.objects.order_by("-is_default_site", "hostname"):
        url = normalise(site.root_url)
        if url is not None:
            found.setdefault(host_of(url), conf.scheme or url.partition(":")[0])
    for name in conf.hosts or ():
        host = normalise_host(name)
        if host is not None:
            found.setdefault(host, conf.scheme or "https")
    return found


def connect_to(host: str) -> str | None:
    """Return the base URL at which `CONNECT_TO` says that a host is reached from here."""
    return {normalise_host(name): url for name, url in conf.connect_to.items()}.get(host)


def is_named(host: str) -> bool:
    """Say whether `HOSTS`, or else `ALLOWED_HOSTS`, names a host."""
    if conf.hosts is not None:
        named = {normalise_host(name) for name in conf.hosts}
        return host in named or _hostname(host) in named
    patterns = [_encode_pattern(name) for name in settings.ALLOWED_HOSTS if name != "*"]
    return validate_host(split_domain_port(host)[0], patterns)


def _encode_pattern(pattern: str) -> str:
    dot = "." if pattern.startswith(".") else ""
    bare = pattern.removeprefix(".")
    return dot + (_encode_host(bare.lower().strip("[]")) or bare.lower())


def _authority(scheme: str, hostname: str | None, port: int | None) -> str | None:
    if scheme not in _DEFAULT_PORTS or not hostname:
        return None
    host = _encode_host(hostname.rstrip("."))
    if not host or port in (None, _DEFAULT_PORTS[scheme]):
        return host
    return f"{host}:{port}"


def _encode_host(hostname: str) -> str | None:
    if ":" in hostname:  # an IPv6 literal, whose brackets urlsplit took off
        return f"[{hostname}]" if _address(hostname) else None
    if hostname.isascii():
        return hostname if _ASCII_HOST.fullmatch(hostname) else None
    try:
        return idna.encode(hostname, uts46=True).decode()
    except idna.IDNAError:
        return None


def _escape(part: str, safe: str) -> str:
    return quote(_STRAY_PERCENT.sub("%25", part), safe=safe)


def _hostname(host: str) -> str:
    return urlsplit(f"//{host}").hostname or ""


def _address(hostname: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(hostname.strip("[]"))
    except ValueError:
        return None
