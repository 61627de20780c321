"""The HTTP exchange against real sockets on loopback."""

import json
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

import wagtail_indexnow
from example_site.engine import Answer as Scripted
from example_site.engine import Engine
from wagtail_indexnow.submission import client

HOST = "www.example.com"
KEY = "0123456789abcdef0123456789abcdef"

Talk = Callable[[socket.socket, threading.Event], None]


@contextmanager
def server(talk: Talk) -> Iterator[str]:
    """Serve each connection with a function; yields `host:port`."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                talk(connection, ended)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def replies(raw: bytes, seen: list[bytes] | None = None) -> Talk:
    def talk(connection: socket.socket, ended: threading.Event) -> None:
        request = connection.recv(65_536)
        if seen is not None:
            seen.append(request)
        connection.sendall(raw)

    return talk


def drips(head: bytes, forever: bytes) -> Talk:
    """Send a beginning, then the same bytes again and again."""

    def talk(connection: socket.socket, ended: threading.Event) -> None:
        connection.recv(65_536)
        connection.sendall(head)
        while not ended.wait(0.05):
            connection.sendall(forever)

    return talk


def submit(endpoint_url: str, *, timeout_s: float = 5.0, **values: Any) -> client.Response:
    arguments: dict[str, Any] = {
        "host": HOST,
        "key": KEY,
        "key_location": f"https://{HOST}/{KEY}.txt",
        "urls": [f"https://{HOST}/a/?x=1&y=2", f"https://{HOST}/b/"],
        **values,
    }
    return client.post_urls(endpoint_url, timeout_s=timeout_s, **arguments)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(check_keys=False) as running:
        yield running


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started <= seconds


def test_c01_c03_c17_the_body_is_a_json_object_of_four_fields_in_order(engine: Engine) -> None:
    submit(engine.endpoint)

    [record] = engine.requests
    assert (
        record.raw
        == (
            f'{{"host":"{HOST}","key":"{KEY}","keyLocation":"https://{HOST}/{KEY}.txt",'
            f'"urlList":["https://{HOST}/a/?x=1&y=2","https://{HOST}/b/"]}}'
        ).encode()
    )
    assert record.headers["content-type"] == "application/json; charset=utf-8"


def test_c11_the_client_names_itself_and_sends_nothing_else_of_itself(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))

    submit(engine.endpoint)
    submit(engine.endpoint)

    for record in engine.requests:
        version = wagtail_indexnow.__version__
        assert record.headers["user-agent"] == f"wagtail-indexnow-dramatiq/{version}"
        assert not {"cookie", "authorization"} & set(record.headers)
        assert "noreping" not in record.path
        assert record.anomalies == ()


def test_c74_no_library_logs_the_address_of_a_key_file(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        client.fetch_key_file(f"https://{HOST}/{KEY}.txt", connect_to=engine.url)
        httpx.get(engine.url)

    assert KEY not in caplog.text
    assert "HTTP Request: GET" in caplog.text  # the site's own request


def test_an_answer_has_status_lower_case_headers_and_body(engine: Engine) -> None:
    engine.answer(Scripted(status=429, headers={"Retry-After": "120"}, body=b"slow down"))

    answer = submit(engine.endpoint)

    assert (answer.status, answer.body, answer.error) == (429, b"slow down", "")
    assert answer.headers["retry-after"] == "120"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_c54_a_redirect_is_not_followed(engine: Engine, status: int) -> None:
    engine.answer(Scripted(status=status, redirect_to=f"{engine.url}/IndexNow"))

    answer = submit(engine.endpoint)

    assert answer.status == status
    assert len(engine.requests) == 1


def test_an_answer_is_read_up_to_a_limit() -> None:
    raw = b"HTTP/1.1 400 Bad\r\nContent-Length: 90000\r\n\r\n" + b"x" * 90_000

    with server(replies(raw)) as address:
        answer = submit(f"http://{address}/indexnow")

    assert answer.body == b"x" * client.MAX_RESPONSE_BYTES


def test_an_answer_without_end_is_read_up_to_the_limit() -> None:
    with server(drips(b"HTTP/1.1 400 Bad\r\n\r\n", b"x" * 9_000)) as address, within(3):
        answer = submit(f"http://{address}/indexnow")

    assert (answer.status, len(answer.body)) == (400, client.MAX_RESPONSE_BYTES)


def test_a_body_that_breaks_off_takes_the_status_not_back(engine: Engine) -> None:
    engine.answer(Scripted(status=200, body=b"some", truncate=True))

    answer = submit(engine.endpoint)

    assert (answer.status, answer.error) == (200, "")


def test_c53_a_dropped_connection_is_an_answer_without_status(engine: Engine) -> None:
    engine.answer(Scripted(drop=True))

    answer = submit(engine.endpoint)

    assert answer.status is None
    assert answer.error.startswith(("protocol", "connection"))


def test_c53_a_refused_connection_is_an_answer_without_status() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    answer = submit(f"http://127.0.0.1:{port}/indexnow")

    assert answer.status is None
    assert answer.error.startswith("connection")


def test_c53_a_server_that_never_answers_ends_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, within(1.5):
        answer = submit(f"http://127.0.0.1:{listener.getsockname()[1]}/x", timeout_s=0.5)

    assert answer == client.Response(status=None, error="timeout: no response within 0.5 s")


def test_c53_a_server_that_drips_headers_ends_at_the_deadline() -> None:
    talk = drips(b"HTTP/1.1 200 OK\r\n", b"X-Slow: 1\r\n")

    with server(talk) as address, within(1.5):
        answer = submit(f"http://{address}/indexnow", timeout_s=0.5)

    assert answer.error.startswith("timeout")


def test_c53_a_server_that_drips_its_body_ends_at_the_deadline_with_its_status() -> None:
    talk = drips(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", b" ")

    with server(talk) as address, within(1.5):
        answer = submit(f"http://{address}/indexnow", timeout_s=0.5)

    assert answer.status == 200


def test_c53_a_server_that_does_not_read_the_body_ends_at_the_deadline() -> None:
    urls = [f"https://{HOST}/{number:0500}" for number in range(9_000)]

    with socket.create_server(("127.0.0.1", 0)) as listener, within(1.8):
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        answer = submit(endpoint, timeout_s=0.5, urls=urls)

    assert answer.error.startswith("timeout")


def test_c53_a_name_look_up_that_hangs_ends_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = threading.Event()

    def hang(*args: Any, **kwargs: Any) -> Any:
        released.wait(20)
        raise socket.gaierror("too late")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        with within(1.5):
            answer = submit("http://engine.example/indexnow", timeout_s=0.5)
    finally:
        released.set()

    assert answer.error.startswith("timeout")


def test_c53_an_unknown_name_is_an_answer_without_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    answer = submit("http://engine.example/indexnow")

    assert answer.status is None
    assert answer.error.startswith("dns")


@pytest.mark.parametrize(
    "raw", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b""]
)
def test_c53_nonsense_is_an_answer_without_status(raw: bytes) -> None:
    with server(replies(raw)) as address:
        answer = submit(f"http://{address}/indexnow")

    assert answer.status is None
    assert answer.error


@pytest.mark.parametrize("endpoint", ["http://[::1/x", "http:///x", "http://\u2603.\u0001/x"])
def test_an_impossible_address_is_an_answer_too(endpoint: str) -> None:
    answer = submit(endpoint)

    assert answer.status is None
    assert answer.error


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Certificates of this run alone: no private key is kept in the repository."""
    return trustme.CA()


@contextmanager
def tls_server(
    authority: trustme.CA, raw: bytes, seen: list[bytes], names: list[str | None]
) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    context.sni_callback = lambda _socket, name, _context: names.append(name)

    def talk(connection: socket.socket, ended: threading.Event) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            replies(raw, seen)(secure, ended)

    with server(talk) as address:
        yield address


@pytest.fixture
def fresh_tls() -> Iterator[None]:
    client._tls.cache_clear()
    yield
    client._tls.cache_clear()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.usefixtures("fresh_tls")
def test_c12_c53_a_certificate_that_nobody_vouches_for_is_refused(authority: trustme.CA) -> None:
    seen: list[bytes] = []

    with tls_server(authority, OK, seen, []) as address:
        answer = submit(f"https://{address}/indexnow")

    assert answer.status is None
    assert answer.error.startswith("tls")
    assert seen == []


def test_c53_a_server_without_tls_is_never_spoken_to_in_clear() -> None:
    seen: list[bytes] = []

    with server(replies(OK, seen)) as address:
        answer = submit(f"https://{address}/indexnow")

    assert answer.error.startswith("tls")
    assert all(KEY.encode() not in request for request in seen)


@pytest.mark.usefixtures("fresh_tls")
def test_c12_the_environments_certificates_are_honoured_and_sni_is_the_hosts(
    monkeypatch: pytest.MonkeyPatch, authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    seen: list[bytes] = []
    names: list[str | None] = []

    with tls_server(authority, OK, seen, names) as address:
        answer = client.fetch_key_file(f"https://{HOST}/{KEY}.txt", connect_to=f"https://{address}")

    assert (answer.status, answer.body) == (200, b"ok")
    assert names == [HOST]
    assert f"Host: {HOST}\r\n".encode() in seen[0]


def test_c12_the_environments_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    with server(replies(OK, seen)) as address:
        monkeypatch.setenv("HTTP_PROXY", f"http://{address}")
        monkeypatch.setenv("http_proxy", f"http://{address}")
        answer = submit("http://engine.example/indexnow")

    assert answer.status == 200
    assert seen[0].startswith(b"POST http://engine.example/indexnow HTTP/1.1\r\n")


def test_a_proxy_is_not_asked_for_this_machine(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert submit(engine.endpoint).status == 200


def test_c29_a_key_file_is_fetched_as_an_engine_would() -> None:
    seen: list[bytes] = []

    with server(replies(OK, seen)) as address:
        answer = client.fetch_key_file(f"http://{address}/{KEY}.txt", allow_loopback=True)

    assert answer.body == b"ok"
    request = seen[0].decode()
    assert request.startswith(f"GET /{KEY}.txt HTTP/1.1\r\n")
    assert re.search(rf"^Host: {address}\r$", request, re.MULTILINE)
    assert "accept-encoding: identity" in request.lower()
    assert "cookie" not in request.lower()


def test_c29_a_key_file_is_read_up_to_1_kb_and_no_redirect_followed() -> None:
    raw = b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5_000
    seen: list[bytes] = []

    with server(replies(raw, seen)) as address:
        answer = client.fetch_key_file(f"http://{address}/{KEY}.txt", allow_loopback=True)

    assert answer.status == 302
    assert (len(answer.body), answer.is_cut) == (client.MAX_KEY_FILE_BYTES, True)
    assert len(seen) == 1


def test_connect_to_keeps_host_and_path_and_goes_past_any_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    seen: list[bytes] = []

    with server(replies(OK, seen)) as address:
        client.fetch_key_file(
            f"https://{HOST}:8443/{KEY}.txt", connect_to=f"http://{address}/elsewhere?x=1"
        )

    request = seen[0].decode()
    assert request.startswith(f"GET /{KEY}.txt HTTP/1.1\r\n")
    assert f"Host: {HOST}:8443\r\n" in request


def test_c29_a_slow_key_file_ends_at_the_deadline() -> None:
    with server(drips(b"HTTP/1.1 200 OK\r\n", b"X-Slow: 1\r\n")) as address, within(1.5):
        answer = client.fetch_key_file(
            f"http://{address}/{KEY}.txt", allow_loopback=True, timeout_s=0.5
        )

    assert answer.error.startswith("timeout")


def test_only_the_client_knows_httpx() -> None:
    package = Path(wagtail_indexnow.__file__).parent
    importing = [
        path.name
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) httpx", path.read_text(), re.MULTILINE)
    ]

    assert importing == ["client.py"]


def test_c10_there_is_no_get_mode() -> None:
    # No object: DESIGN has POST only, so nothing needs escaping into a query.
    assert [name for name in dir(client) if "post" in name] == ["post_urls"]


def test_large_lists_are_json_too(engine: Engine) -> None:
    urls = [f"https://{HOST}/{number}/" for number in range(10_000)]

    submit(engine.endpoint, urls=urls)

    assert json.loads(engine.requests[0].raw)["urlList"] == urls
