"""One GET through the host map: original ``Host`` header, loopback target, bounded (M8)."""

import http.client
import ssl
import time
from contextlib import closing
from dataclasses import dataclass, field
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from example_site.engine.hosts import HostMap, parse_authority

USER_AGENT = "wagtail-indexnow-local-engine/1"
MAX_REDIRECTS = 5
# What a URL may hold goes out as it came; anything else is escaped as a browser would.
UNTOUCHED = "/%:@!$&'()*+,;=~"
REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What the site answered: status, lower-case headers, at most ``limit`` + 1 bytes of body."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class UnmappedHostError(Exception):
    """The host is not in the map, so nothing was contacted."""


class FetchError(Exception):
    """No usable answer: connection, time limit or HTTP syntax."""


def fetch(
    url: str, host_map: HostMap, *, timeout_s: float, limit: int, follow: bool = False
) -> Fetched:
    """Return the answer of the mapped site for a public URL.

    :param timeout_s: real seconds, for all of it.
    :param limit: bytes of body that are of interest.
    :param follow: follow redirects, inside the map only.
    :raises UnmappedHostError: if the URL, or a redirect, names a host outside the map.
    :raises FetchError: if there is no usable answer.
    """
    deadline = time.monotonic() + timeout_s
    for _ in range(MAX_REDIRECTS + 1):
        fetched = _fetch_once(url, host_map, deadline, limit)
        location = fetched.headers.get("location")
        if not (follow and fetched.status in REDIRECTS and location):
            return fetched
        url = urljoin(url, location)
    raise FetchError("too many redirects")


def _fetch_once(url: str, host_map: HostMap, deadline: float, limit: int) -> Fetched:
    try:
        parts = urlsplit(url)
        authority = parse_authority(parts.netloc)
        base = host_map.base_for(authority.host)
        if base is None:
            raise UnmappedHostError(authority.host)
        with closing(_connection(base, deadline)) as connection:
            return _exchange(connection, _target(parts), str(authority), deadline, limit)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchError(f"{type(error).__name__}: {error}") from error


def _target(parts: SplitResult) -> str:
    path, query = quote(parts.path or "/", safe=UNTOUCHED), quote(parts.query, safe=UNTOUCHED + "?")
    return f"{path}?{query}" if query else path


def _connection(base: str, deadline: float) -> http.client.HTTPConnection:
    target = urlsplit(base)
    name, timeout_s = target.hostname or "", _left(deadline)
    if target.scheme == "http":
        return http.client.HTTPConnection(name, target.port, timeout=timeout_s)
    # A certificate for the public name cannot be had for a loopback demo; nothing leaves the
    # machine, because the map holds loopback targets only.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(name, target.port, timeout=timeout_s, context=context)


def _exchange(
    connection: http.client.HTTPConnection, target: str, host: str, deadline: float, limit: int
) -> Fetched:
    headers = {"Host": host, "User-Agent": USER_AGENT, "Accept": "*/*", "Connection": "close"}
    connection.request("GET", target, headers=headers)
    # The response may take the socket from the connection, so it is kept for its time limit.
    sock = connection.sock
    response = connection.getresponse()
    body = b""
    with response:
        while len(body) <= limit:
            sock.settimeout(_left(deadline))
            chunk = response.read1(limit + 1 - len(body))
            if not chunk:
                break
            body += chunk
    found = {name.lower(): value for name, value in response.getheaders()}
    return Fetched(status=response.status, headers=found, body=body)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("time is up")
    return left
