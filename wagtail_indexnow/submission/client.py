"""The IndexNow exchange over HTTP: one POST, or one look at a key file. No Django models.

The only module that knows httpx. Nothing here raises for a fault of the network: an `Answer`
says what happened.
"""

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from .. import __version__
from ..hosts import is_loopback_url
from .responses import Answer

USER_AGENT = f"wagtail-indexnow-dramatiq/{__version__}"
MAX_ANSWER_BYTES = 16_384
MAX_KEY_FILE_BYTES = 1_024
KEY_FILE_TIMEOUT_S = 3.0
# Bytes as they are: no compressed answer that unfolds without end, no re-encoded key file.
_HEADERS = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", "Connection": "close"}
# httpx also lets ValueError (Unicode in a host name) and bare OSError through.
_FAULTS = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError)
_is_ours: ContextVar[bool] = ContextVar("is_ours", default=False)


class _Discreet(logging.Filter):
    """Keep httpx's own line on each of our requests out of the log.

    The address of a key file is the key. A site's own requests are logged as before.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_ours.get()


logging.getLogger("httpx").addFilter(_Discreet())


def post_urls(
    endpoint_url: str,
    *,
    host: str,
    key: str,
    key_location: str,
    urls: Sequence[str],
    timeout_s: float,
) -> Answer:
    """POST URLs of one host to an engine and return its answer.

    :param timeout_s: seconds for the whole exchange: name, connection, TLS, request, answer.
    """
    content = json.dumps(
        {"host": host, "key": key, "keyLocation": key_location, "urlList": list(urls)},
        separators=(",", ":"),
    ).encode()

    def build() -> httpx.Request:
        return httpx.Request(
            "POST",
            endpoint_url,
            headers={**_HEADERS, "Content-Type": "application/json; charset=utf-8"},
            content=content,
        )

    return _exchange(build, timeout_s, limit=MAX_ANSWER_BYTES)


def fetch_key_file(
    url: str, *, connect_to: str | None = None, timeout_s: float = KEY_FILE_TIMEOUT_S
) -> Answer:
    """GET a key file as an engine would: no redirect followed, at most 1 KB read.

    :param connect_to: base URL to connect to instead, with the original `Host` and SNI, as
        curl's connect-to; its path is not used.
    """

    def build() -> httpx.Request:
        parts = urlsplit(url)
        return httpx.Request(
            "GET",
            _redirected(url, connect_to) if connect_to else url,
            headers={**_HEADERS, "Host": parts.netloc},
            extensions={"sni_hostname": parts.hostname} if connect_to else {},
        )

    # One byte beyond the limit tells a longer file from one that just fits.
    return _exchange(build, timeout_s, limit=MAX_KEY_FILE_BYTES + 1, is_direct=bool(connect_to))


def _redirected(url: str, connect_to: str) -> str:
    target = urlsplit(connect_to)
    return f"{target.scheme}://{target.netloc}{urlsplit(url).path}"


def _exchange(
    build: Callable[[], httpx.Request], timeout_s: float, *, limit: int, is_direct: bool = False
) -> Answer:
    """Make a request and send it; an address that is none is an answer too.

    :param is_direct: go past any proxy.
    """
    try:
        request = build()
        # A proxy of the environment must not be asked for this machine itself.
        is_direct = is_direct or is_loopback_url(str(request.url))
        return _run(_talk(request, timeout_s, limit=limit, is_direct=is_direct))
    except TimeoutError:
        return Answer(status=None, error=f"timeout: no answer within {timeout_s:g} s")
    except _FAULTS as fault:
        return Answer(status=None, error=_name(fault))


def _run(talk: Coroutine[Any, Any, Answer]) -> Answer:
    """Run in an event loop of its own, which is left behind when time is up.

    The loop gives one deadline for everything, a name look-up included. Closing it does not
    wait for the thread of a look-up that hangs, as `asyncio.run` would.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(talk)
    finally:
        # A body that was not read to its end leaves a generator behind, as Python 3.13 remarks.
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _talk(request: httpx.Request, timeout_s: float, *, limit: int, is_direct: bool) -> Answer:
    client = httpx.AsyncClient(
        # The deadline below is the only clock: httpx's own start anew with every byte.
        timeout=None,  # noqa: S113
        follow_redirects=False,
        verify=_tls(),
        trust_env=not is_direct,
    )
    _is_ours.set(True)  # for the task that runs this
    # No cookies and no `auth`: this client lives for one request. `trust_env` would also read
    # ~/.netrc, whose passwords are not for engines.
    answer = Answer(status=None)
    try:
        async with asyncio.timeout(timeout_s), client:
            response = await client.send(request, stream=True, auth=None)
            answer = Answer(status=response.status_code, headers=_lower(response.headers))
            answer = await _read(response, answer, limit)
    except (TimeoutError, *_FAULTS):
        # The status is the engine's word; a body that stalls or breaks off takes nothing back.
        if answer.status is None:
            raise
    return answer


async def _read(response: httpx.Response, answer: Answer, limit: int) -> Answer:
    body = b""
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) >= limit:
                break
    except httpx.HTTPError:
        pass  # Broken off in the middle: what came is kept.
    return Answer(status=answer.status, headers=answer.headers, body=body[:limit])


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
    elif any(isinstance(cause, httpx.ConnectError | httpx.NetworkError) for cause in causes):
        kind = "connection"
    else:
        kind = "protocol"
    return f"{kind}: {fault}"[:200]


def _causes(fault: BaseException | None) -> Iterator[BaseException]:
    while fault is not None:
        yield fault
        fault = fault.__cause__ or fault.__context__
