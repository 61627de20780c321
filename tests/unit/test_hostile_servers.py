"""Key files and engines behind servers and names that mean harm. Nothing is faked but the resolver.

R33, R35, R62: what is refused, is refused before a connection.
"""

import gzip
import json
import os
import socket
import ssl
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trustme

from tests.unit.test_client import HOST, KEY, OK, drips, replies, server, submit, within
from wagtail_indexnow.submission import addresses, client

PAGE = f"https://{HOST}/a/?x=1&y=2"


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say what names resolve to; the guard of the suite still refuses to connect anywhere else."""

    def resolves_to(*found: str) -> None:
        def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
            if not found:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            family = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in found]
            return [
                (kind, socket.SOCK_STREAM, 6, "", (address, port))
                for kind, address in zip(family, found, strict=True)
            ]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return resolves_to


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record what is connected to, and refuse it."""
    seen: list[tuple[Any, ...]] = []

    def connect(self: socket.socket, address: tuple[Any, ...]) -> None:
        seen.append(address[:2])
        raise ConnectionRefusedError("refused by the test")

    monkeypatch.setattr(socket.socket, "connect", connect)
    return seen


NOT_PUBLIC = {
    "loopback": "127.0.0.1",
    "other loopback": "127.1.2.3",
    "this network": "0.0.0.0",
    "private a": "10.0.0.5",
    "private b": "172.16.0.1",
    "private c": "192.168.1.1",
    "carrier": "100.64.0.1",
    "metadata": "169.254.169.254",
    "benchmarks": "198.18.0.1",
    "documentation": "192.0.2.1",
    "multicast": "224.0.0.1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "loopback 6": "::1",
    "unspecified 6": "::",
    "link-local 6": "fe80::1%eth0",
    "unique local 6": "fd00::1",
    "site-local 6": "fec0::1",
    "multicast 6": "ff0e::1",
    "documentation 6": "2001:db8::1",
    "mapped private": "::ffff:10.0.0.5",
    "mapped loopback": "::ffff:127.0.0.1",
    "mapped metadata": "::ffff:a9fe:a9fe",
    "compatible private": "::10.0.0.5",
    "translated private": "::ffff:0:10.0.0.5",
    "6to4 private": "2002:a00:5::1",
    "6to4 loopback": "2002:7f00:1::1",
    "nat64 private": "64:ff9b::10.0.0.5",
    "nat64 metadata": "64:ff9b::a9fe:a9fe",
    "nat64 local": "64:ff9b:1::10.0.0.5",
    "teredo": "2001:0:4136:e378:8000:63bf:f5ff:fffa",
    "unassigned 6": "5f00::1",
}
PUBLIC = {
    "v4": "93.184.216.34",
    "v6": "2606:2800:220:1::1",
    "mapped": "::ffff:5db8:d822",
    "6to4": "2002:5db8:d822::1",
    "nat64": "64:ff9b::5db8:d822",
}


@pytest.mark.parametrize("address", NOT_PUBLIC.values(), ids=NOT_PUBLIC)
def test_r62_a_name_that_resolves_to_no_public_address_is_refused_before_connecting(
    address: str, resolver: Any, connections: list[Any]
) -> None:
    """R62: whatever form the address is written in."""
    resolver(address)

    response = client.fetch_key_file(f"https://{HOST}/{KEY}.txt")

    assert response.status is None
    assert response.error == f"address: {HOST} resolves to {address} here: set CONNECT_TO"
    assert connections == []


@pytest.mark.parametrize("address", PUBLIC.values(), ids=PUBLIC)
def test_r62_a_public_address_is_connected_to(
    address: str, resolver: Any, connections: list[Any]
) -> None:
    """R62: exactly to what was judged, with no second look-up in between."""
    resolver(address)

    client.fetch_key_file(f"https://{HOST}/{KEY}.txt")

    assert connections == [(address, 443)]


def test_r62_of_several_addresses_only_public_ones_are_tried(
    resolver: Any, connections: list[Any]
) -> None:
    """R62: one after the other, and no more than four."""
    public = [f"93.184.216.{number}" for number in range(1, 7)]
    resolver("10.0.0.5", public[0], "::1", *public[1:])

    response = client.fetch_key_file(f"http://{HOST}/{KEY}.txt")

    assert connections == [(address, 80) for address in public[: addresses.MAX_ADDRESSES]]
    assert response.error.startswith("connection")


@pytest.mark.parametrize("url", [f"https://{HOST}:8443/x", f"http://{HOST}:22/x"])
def test_r62_odd_ports_are_refused_before_anything_is_asked(
    url: str, resolver: Any, connections: list[Any]
) -> None:
    """R62: another port is another service."""
    resolver("93.184.216.34")

    response = client.fetch_key_file(url)

    assert "only 80 and 443" in response.error
    assert connections == []


@pytest.mark.parametrize("name", ["127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]"])
def test_r62_addresses_in_disguise_are_refused(
    name: str, resolver: Any, connections: list[Any]
) -> None:
    """R62: a resolver takes these for loopback."""
    resolver("127.0.0.1")

    response = client.fetch_key_file(f"http://{name}/x")

    assert response.error.startswith("address")
    assert connections == []


@pytest.mark.parametrize("url", ["http:///x", "ftp://www.example.com/x", "//www.example.com/x"])
def test_r62_what_is_no_address_is_not_fetched(url: str, connections: list[Any]) -> None:
    """R62: an empty host would resolve to this machine."""
    assert client.fetch(url, limit=10, timeout_s=1, allow_loopback=True).status is None
    assert connections == []


def test_r62_loopback_is_for_demonstrations(resolver: Any) -> None:
    """R62: only with an endpoint on loopback, and then at any port."""
    seen: list[bytes] = []
    with server(replies(OK, seen)) as address:
        resolver("127.0.0.1")
        url = f"http://{HOST}:{address.partition(':')[2]}/x"

        refused = client.fetch(url, limit=10, timeout_s=2)
        response = client.fetch(url, limit=10, timeout_s=2, allow_loopback=True)

    assert refused.status is None
    assert (response.status, len(seen)) == (200, 1)
    assert f"Host: {HOST}:".encode() in seen[0]


def test_r62_private_addresses_stay_refused_in_demonstrations(
    resolver: Any, connections: list[Any]
) -> None:
    """R62: an engine on loopback opens no door to the network inside."""
    resolver("10.0.0.5")

    response = client.fetch(f"http://{HOST}/x", limit=10, timeout_s=2, allow_loopback=True)

    assert "CONNECT_TO" in response.error
    assert connections == []


def test_r62_the_right_name_goes_into_tls_and_host(
    resolver: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """R62: the connection goes to an address, the certificate is that of the name."""
    authority, names = trustme.CA(), []
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    client._tls.cache_clear()
    seen: list[bytes] = []
    with tls_server(authority, HOST, seen, names) as port:
        resolver("127.0.0.1")
        right = client.fetch(
            f"https://{HOST}:{port}/a/?x=1&y=2", limit=10, timeout_s=3, allow_loopback=True
        )
        wrong = client.fetch(
            f"https://shop.example.com:{port}/", limit=10, timeout_s=3, allow_loopback=True
        )
    client._tls.cache_clear()

    assert right.status == 200
    assert names[0] == HOST
    assert seen[0].startswith(b"GET /a/?x=1&y=2 HTTP/1.1\r\n")
    assert wrong.error.startswith("tls")


@contextmanager
def tls_server(
    authority: trustme.CA, name: str, seen: list[bytes], names: list[str | None]
) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    context.sni_callback = lambda _socket, given, _context: names.append(given)

    def talk(connection: socket.socket, ended: threading.Event) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            replies(OK, seen)(secure, ended)

    with server(talk) as address:
        yield address.partition(":")[2]


class TestProxies:
    """R33, R62: own hosts are asked directly; a proxy comes in where nothing else responds."""

    @pytest.fixture
    def proxy(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
        seen: list[bytes] = []
        with server(replies(OK, seen)) as address:
            for name in ("http_proxy", "HTTP_PROXY"):
                monkeypatch.setenv(name, f"http://{address}")
            yield seen

    def test_is_not_asked_for_a_name_that_resolves_here(
        self, resolver: Any, proxy: list[bytes]
    ) -> None:
        with server(replies(OK)) as address:
            resolver("127.0.0.1")
            response = client.fetch(
                f"http://{HOST}:{address.partition(':')[2]}/x",
                limit=10,
                timeout_s=3,
                allow_loopback=True,
            )

        assert (response.status, response.is_proxied, proxy) == (200, False, [])

    def test_is_never_asked_for_a_private_name(self, resolver: Any, proxy: list[bytes]) -> None:
        resolver("10.0.0.5")

        assert client.fetch(f"http://{HOST}/x", limit=10, timeout_s=3).error.startswith("address")
        assert proxy == []

    def test_is_not_asked_where_a_certificate_is_wrong(
        self, resolver: Any, proxy: list[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("https_proxy", os.environ["http_proxy"])
        with server(replies(OK)) as address:
            resolver("127.0.0.1")
            url = f"https://{HOST}:{address.partition(':')[2]}/x"
            response = client.fetch(url, limit=10, timeout_s=3, allow_loopback=True)

        assert response.error.startswith("tls")
        assert proxy == []

    def test_is_asked_where_names_do_not_resolve(self, resolver: Any, proxy: list[bytes]) -> None:
        resolver()

        response = client.fetch(f"http://{HOST}/x?y=1", limit=10, timeout_s=3)

        assert (response.status, response.is_proxied) == (200, True)
        assert proxy[0].startswith(f"GET http://{HOST}/x?y=1 HTTP/1.1\r\n".encode())

    def test_without_one_a_name_that_does_not_resolve_says_so(self, resolver: Any) -> None:
        resolver()

        assert client.fetch(f"http://{HOST}/x", limit=10, timeout_s=3).error.startswith("dns")

    @pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "gopher://127.0.0.1:70"])
    def test_that_cannot_be_used_is_a_reason(
        self, proxy: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R33: as `no_response` of each URL, with these words."""
        monkeypatch.setitem(sys.modules, "socksio", None)
        monkeypatch.setenv("ALL_PROXY", proxy)

        response = submit("http://engine.example/indexnow")

        assert response.status is None
        assert "socksio" in response.error or "proxy" in response.error

    @pytest.mark.parametrize(
        "entries", ["fd00::/64", "[::1]", "10.0.0.0/8,*.example,:::", "[", "http://x"]
    )
    def test_odd_entries_of_no_proxy_stop_nothing(
        self, entries: str, proxy: list[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R33: they are about other hosts."""
        monkeypatch.setenv("NO_PROXY", entries)

        assert submit("http://engine.example.net/indexnow").status == 200
        assert len(proxy) == 1


def http(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {size}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def key_file(raw: bytes) -> client.Response:
    with server(replies(raw)) as address:
        return client.fetch_key_file(f"http://{address}/{KEY}.txt", allow_loopback=True)


BOMB = gzip.compress(b"\0" * 67_000_000)


@pytest.mark.parametrize("what", ["key file", "engine", "page"])
def test_a_compressed_body_is_unfolded_within_its_limit(what: str) -> None:
    """One 64 KB chunk of gzip can hold 67 MB."""
    raw = http(BOMB, "Content-Encoding: gzip")
    with server(replies(raw)) as address, within(5):
        tracemalloc.start()
        if what == "key file":
            response = client.fetch_key_file(f"http://{address}/x", allow_loopback=True)
        elif what == "engine":
            response = submit(f"http://{address}/indexnow")
        else:
            response = client.fetch(
                f"http://{address}/x", limit=512_000, timeout_s=5, allow_loopback=True
            )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert response.is_cut
    assert len(response.body) <= 512_000
    assert peak < 8_000_000


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress)],
)
def test_r35_a_key_file_that_is_compressed_unasked_is_read(
    encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    """R35: some front ends compress whatever was asked for."""
    response = key_file(http(encode(KEY.encode()), f"Content-Encoding: {encoding}"))

    assert (response.body, response.is_complete) == (KEY.encode(), True)


def test_a_body_that_only_claims_to_be_compressed_is_no_key() -> None:
    response = key_file(http(KEY.encode(), "Content-Encoding: gzip"))

    assert (response.status, response.body, response.is_complete) == (200, b"", False)


@pytest.mark.parametrize(
    ("raw", "is_complete"),
    [
        (http(KEY.encode()), True),
        (http(KEY.encode(), length=5_000), False),
        (http(KEY.encode() + b"and more", length=len(KEY)), True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n" + KEY.encode(), False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFFF\r\n", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", None),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 300_000, None),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000, None),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000 + http(KEY.encode()), True),
        (b"\x16\x03\x01" + b"\0" * 500, None),
    ],
    ids=[
        "right", "too long", "too short", "chunk that breaks off", "chunk without end",
        "two lengths", "a header without end", "headers without end", "a thousand before", "tls",
    ],
)  # fmt: skip
def test_wrong_lengths_and_endless_headers_end_in_a_response(
    raw: bytes, is_complete: bool | None
) -> None:
    with within(6):
        response = key_file(raw)

    if is_complete is None:
        assert not response.is_complete
    else:
        assert (response.body, response.is_complete) == (KEY.encode(), is_complete)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_of_a_key_file_are_not_followed(status: int) -> None:
    response = key_file(http(b"", "Location: http://169.254.169.254/", status=f"{status} Found"))

    assert response.status == status


def test_slow_bytes_end_at_the_deadline_and_no_later() -> None:
    with server(drips(b"HTTP/1.1 200 OK\r\n\r\n", b"a")) as address, within(2):
        response = client.fetch(
            f"http://{address}/x", limit=9_999, timeout_s=0.5, allow_loopback=True
        )

    assert (response.status, response.is_complete) == (200, False)


def test_a_server_that_accepts_and_says_nothing_ends_at_the_deadline(resolver: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf, within(2):
        resolver("127.0.0.1")
        url = f"http://{HOST}:{deaf.getsockname()[1]}/x"
        response = client.fetch(url, limit=10, timeout_s=0.5, allow_loopback=True)

    assert response.error.startswith("timeout")


def test_redirects_keep_their_query_string() -> None:
    seen: list[bytes] = []
    with server(replies(OK, seen)) as address:
        client.fetch(PAGE, limit=10, timeout_s=2, connect_to=f"http://{address}")

    assert seen[0].startswith(b"GET /a/?x=1&y=2 HTTP/1.1\r\n")
    assert f"Host: {HOST}\r\n".encode() in seen[0]


def test_a_fetch_sends_the_headers_it_is_given() -> None:
    seen: list[bytes] = []
    with server(replies(OK, seen)) as address:
        client.fetch(
            PAGE,
            limit=10,
            timeout_s=2,
            connect_to=f"http://{address}",
            headers={"Accept-Encoding": "gzip", "Host": "evil.example"},
        )

    request = seen[0].decode().lower()
    assert "accept-encoding: gzip\r\n" in request
    assert f"host: {HOST}\r\n" in request
    assert "evil" not in request
    assert "user-agent: wagtail-indexnow" in request


def test_hostile_json_of_an_engine_is_read_as_bytes() -> None:
    body = json.dumps({"errorCode": "x"}).encode() + b"[" * 100_000
    with server(replies(http(body, status="400 Bad"))) as address:
        response = submit(f"http://{address}/indexnow")

    assert (response.status, len(response.body)) == (400, client.MAX_RESPONSE_BYTES)
