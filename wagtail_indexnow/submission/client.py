"""The IndexNow exchange over HTTP: one POST, or one GET of a key file or page. No Django models.

The only module that knows httpx. Nothing here raises for a fault of the network: a `Response`
says what happened.
"""

import asyncio
import json
import logging
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from .. import __version__
from ..hosts import is_loopback_url
from . import addresses
from .addresses import RefusedAddressError
from .responses import Answer

USER_AGENT = f"wagtail-indexnow-dramatiq/{__version__}"
MAX_RESPONSE_BYTES = 16_384
MAX_KEY_FILE_BYTES = 1_024
KEY_FILE_TIMEOUT_S = 3.0
ADDRESS_REFUSED = "address"  # how the `error` of a request begins that was never made
# Bytes as they are: engines read key files that way.
_HEADERS = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", "Connection": "close"}
# httpx also lets ValueError (Unicode in a host name), ImportError (SOCKS without its package) and
# bare OSError through.
_FAULTS = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ImportError)
_UNREACHABLE = (httpx.ConnectError, httpx.ConnectTimeout, socket.gaierror)
_PORTS = {"http": 80, "https": 443}
_is_ours: ContextVar[bool] = ContextVar("is_ours", default=False)


class _OwnRequestsFilter(logging.Filter):
    """Keep httpx's own line on each of our requests out of the log.

    The address of a key file is the key. A site's own requests are logged as before.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_ours.get()


logging.getLogger("httpx").addFilter(_OwnRequestsFilter())


@dataclass(frozen=True, kw_only=True)
class Response(Answer):
    """What came back, with the body decoded.

    `is_complete`: the body was read to its end, and that is where its headers put it. `is_cut`:
    it went on past the limit. `is_proxied`: a proxy of the environment resolved the name.
    """

    is_complete: bool = False
    is_cut: bool = False
    is_proxied: bool = False


@dataclass(frozen=True, kw_only=True)
class _Route:
    """A request, and the way it goes."""

    request: httpx.Request
    limit: int
    proxy: str | None = None
    connect_timeout_s: float | None = None


def post_urls(
    endpoint_url: str,
    *,
    host: str,
    key: str,
    key_location: str,
    urls: Sequence[str],
    timeout_s: float,
) -> Response:
    """POST URLs of one host to an engine and return its response.

    :param timeout_s: seconds for the whole exchange: name, connection, TLS, request, response.
    """
    content = json.dumps(
        {"host": host, "key": key, "keyLocation": key_location, "urlList": list(urls)},
        separators=(",", ":"),
    ).encode()
    headers = {**_HEADERS, "Content-Type": "application/json; charset=utf-8"}

    async def exchange() -> Response:
        request = httpx.Request("POST", endpoint_url, headers=headers, content=content)
        proxy = _proxy_for(urlsplit(endpoint_url))
        return await _send(_Route(request=request, limit=MAX_RESPONSE_BYTES, proxy=proxy))

    return _run(exchange, timeout_s)


def fetch_key_file(
    url: str,
    *,
    connect_to: str | None = None,
    allow_loopback: bool = False,
    timeout_s: float = KEY_FILE_TIMEOUT_S,
) -> Response:
    """GET a key file as an engine would: no redirect followed, at most 1 KB read."""
    return fetch(
        url,
        limit=MAX_KEY_FILE_BYTES,
        timeout_s=timeout_s,
        connect_to=connect_to,
        allow_loopback=allow_loopback,
    )


def fetch(
    url: str,
    *,
    limit: int,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    connect_to: str | None = None,
    allow_loopback: bool = False,
) -> Response:
    """GET an address of one of the site's own hosts. No redirect is followed.

    Connects to a public address that the name resolves to, on port 80 or 443, with the right
    name in `Host` and TLS. Only if none answers is a proxy of the environment asked.

    :param limit: bytes of the decoded body; one that goes on comes back cut there.
    :param timeout_s: seconds for the whole exchange.
    :param headers: go along, and replace the usual ones; `Host` is set here.
    :param connect_to: base URL to connect to instead, with the original `Host` and SNI, as
        curl's connect-to; its path is not used. The operator's word: any address will do.
    :param allow_loopback: let the name resolve to this machine, at any port.
    """

    async def exchange() -> Response:
        parts = urlsplit(url)
        outgoing = {**_HEADERS, **(headers or {}), "Host": parts.netloc}
        if connect_to:
            request = _aimed(parts, urlsplit(connect_to), outgoing)
            return await _send(_Route(request=request, limit=limit))
        return await _fetch_public(parts, outgoing, limit, timeout_s, allow_loopback)

    return _run(exchange, timeout_s)


def proxy_problem(url: str) -> str:
    """Return why the environment's proxy for an address cannot be used, or an empty text."""
    proxy = _proxy_for(urlsplit(url))
    try:
        if proxy is not None:
            httpx.AsyncHTTPTransport(proxy=httpx.Proxy(proxy))
    except _FAULTS as fault:
        return _name(fault)
    return ""


async def _fetch_public(
    parts: SplitResult,
    headers: Mapping[str, str],
    limit: int,
    timeout_s: float,
    allow_loopback: bool,
) -> Response:
    if parts.scheme not in _PORTS or not parts.hostname:  # "" would resolve to this machine
        raise ValueError("not an absolute http(s) URL")
    host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    addresses.check_port(host, port, allow_loopback=allow_loopback)
    proxy = _proxy_for(parts)
    try:
        found = await addresses.resolve(host, port, allow_loopback=allow_loopback)
        # Each address gets its share of the time, and so does the proxy.
        share_s = timeout_s / (len(found) + (proxy is not None))
        return await _first_answering(parts, found, headers, limit, share_s)
    except _UNREACHABLE as fault:
        # A wrong certificate is a response: no proxy makes it right.
        if proxy is None or _name(fault).startswith("tls"):
            raise
    request = httpx.Request("GET", parts.geturl(), headers=dict(headers))
    response = await _send(_Route(request=request, limit=limit, proxy=proxy))
    return replace(response, is_proxied=True)


async def _first_answering(
    parts: SplitResult, found: Sequence[str], headers: Mapping[str, str], limit: int, share_s: float
) -> Response:
    for number, address in enumerate(found, start=1):
        literal = f"[{address}]" if ":" in address else address
        port = f":{parts.port}" if parts.port else ""
        target = parts._replace(netloc=literal + port)
        request = _aimed(parts, target, headers)
        try:
            return await _send(_Route(request=request, limit=limit, connect_timeout_s=share_s))
        except (httpx.ConnectError, httpx.ConnectTimeout):
            if number == len(found):
                raise
    raise AssertionError("there is at least one address")


def _aimed(parts: SplitResult, target: SplitResult, headers: Mapping[str, str]) -> httpx.Request:
    """Return the request for a URL that connects elsewhere, under the URL's own name."""
    query = f"?{parts.query}" if parts.query else ""
    return httpx.Request(
        "GET",
        f"{target.scheme}://{target.netloc}{parts.path}{query}",
        headers=dict(headers),
        extensions={"sni_hostname": parts.hostname},
    )


def _proxy_for(parts: SplitResult) -> str | None:
    """Return the proxy that the environment names for an address.

    Read here and not by httpx, which an odd entry of NO_PROXY makes fail altogether.
    """
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback_url(parts.geturl()):  # never asked for this machine itself
        return None
    if proxy_bypass(parts.netloc):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _run(exchange: Callable[[], Awaitable[Response]], timeout_s: float) -> Response:
    """Run in an event loop of its own, which is left behind when time is up.

    The loop gives one deadline for everything, a name look-up included. Closing it does not
    wait for the thread of a look-up that hangs, as `asyncio.run` would.
    """

    async def within_time() -> Response:
        _is_ours.set(True)  # for the task that runs this
        async with asyncio.timeout(timeout_s):
            return await exchange()

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(within_time())
    except TimeoutError:
        return Response(status=None, error=f"timeout: no response within {timeout_s:g} s")
    except RefusedAddressError as refusal:
        return Response(status=None, error=f"{ADDRESS_REFUSED}: {refusal}"[:200])
    except _FAULTS as fault:
        return Response(status=None, error=_name(fault))
    finally:
        # A body that was not read to its end leaves a generator behind, as Python 3.13 remarks.
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _send(route: _Route) -> Response:
    # No cookies and no `auth`: this client lives for one request. `trust_env` would read proxies
    # its own way, and ~/.netrc, whose passwords are not for engines.
    response = Response(status=None)
    try:
        async with httpx.AsyncClient(
            # The caller's deadline is the only clock: httpx's own start again with every byte.
            timeout=httpx.Timeout(None, connect=route.connect_timeout_s),
            follow_redirects=False,
            verify=_tls(),
            trust_env=False,
            proxy=route.proxy,
        ) as session:
            reply = await session.send(route.request, stream=True, auth=None)
            response = Response(status=reply.status_code, headers=_lower(reply.headers))
            return await _read(reply, response, route.limit)
    except (TimeoutError, asyncio.CancelledError, *_FAULTS):
        # The status is the engine's word; a body that stalls or breaks off takes nothing back.
        if response.status is None:
            raise
        return response


async def _read(reply: httpx.Response, response: Response, limit: int) -> Response:
    """Read a body up to its limit. What comes is decoded no further than that."""
    decode = _decoder(response.headers.get("content-encoding", ""))
    body = b""
    try:
        async for chunk in reply.aiter_raw():
            # One byte more than the limit tells a longer body from one that just fits.
            body += decode(chunk, limit + 1 - len(body))
            if len(body) > limit:
                return replace(response, body=body[:limit], is_cut=True)
    except (httpx.HTTPError, zlib.error):
        return replace(response, body=body)  # Broken off in the middle: what came is kept.
    return replace(response, body=body, is_complete=True)


def _decoder(encoding: str) -> Callable[[bytes, int], bytes]:
    """Return how to decode the next bytes of a body, to no more than so many."""
    if encoding.strip().lower() not in {"gzip", "x-gzip", "deflate"}:
        return lambda chunk, room: chunk[:room]
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # recognises gzip and zlib
    return lambda chunk, room: inflate.decompress(chunk, max_length=room)


def _lower(headers: httpx.Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Return the TLS settings: always verifying; SSL_CERT_FILE and SSL_CERT_DIR are honoured.

    Made once: reading the certificates takes longer than a whole POST.
    """
    return httpx.create_ssl_context(verify=True, trust_env=True)


def _name(fault: BaseException) -> str:
    causes = list(_causes(fault))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        kind = "tls"
    elif any(isinstance(cause, socket.gaierror) for cause in causes):
        kind = "dns"
    elif isinstance(fault, httpx.TimeoutException):
        kind = "timeout"
    elif isinstance(fault, ImportError | httpx.ProxyError):
        kind = "proxy"
    elif any(isinstance(cause, httpx.ConnectError | httpx.NetworkError) for cause in causes):
        kind = "connection"
    else:
        kind = "protocol"
    return f"{kind}: {fault}"[:200]


def _causes(fault: BaseException | None) -> Iterator[BaseException]:
    while fault is not None:
        yield fault
        fault = fault.__cause__ or fault.__context__
