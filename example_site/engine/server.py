"""HTTP on a loopback socket: reads requests, routes them, writes replies and scripted faults."""

import http.client
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from example_site.engine.records import Incoming, Reply

# A body beyond this is not read at all; below it is read and kept even if it is then refused.
HARD_LIMIT_BYTES = 64 * 1024 * 1024
STOP_WAIT_S = 5.0

Route = Callable[[Incoming], Reply]


class EngineServer(ThreadingHTTPServer):
    """Serves one route on keep-alive connections, a thread each, and can end them all."""

    # The default of 5 would refuse connections when a hundred arrive at once.
    request_queue_size = 256
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: str, port: int, route: Route) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.route = route
        self.stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__((address, port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer's own would look its name up, which can wait for a resolver.
        socketserver.TCPServer.server_bind(self)
        self.server_name = "localhost"
        self.server_port = self.socket.getsockname()[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away; a fault of ours still prints its traceback."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        """Stop serving, end open connections and wait for their threads."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        with self._changed:
            for connection in self._open:
                _hang_up(connection)
            self._changed.wait_for(lambda: not self._open, timeout=STOP_WAIT_S)


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # The other side was first.


class _Handler(BaseHTTPRequestHandler):
    server: EngineServer
    protocol_version = "HTTP/1.1"
    # One buffered write per reply, sent at once: no wait for the other side's delayed ACK.
    wbufsize = -1
    disable_nagle_algorithm = True

    def __getattr__(self, name: str) -> Callable[[], None]:
        # The base class asks for do_<METHOD>; any method at all is ours to judge (M1).
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def version_string(self) -> str:
        """Return the Server header, without Python's version."""
        return "LocalIndexNow/1"

    def log_message(self, *_: Any) -> None:
        """Keep quiet: the record is on the page and in the admin answers."""

    def _serve(self) -> None:
        reply = self.server.route(self._incoming())
        script = reply.script
        if script is not None:
            self.server.stopping.wait(script.delay_s)
            if script.drop:
                self.close_connection = True
                return
        self._write(reply)

    def _incoming(self) -> Incoming:
        path, _, query = self.path.partition("?")
        raw, unreadable = self._body()
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            name = name.lower()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return Incoming(
            method=self.command,
            path=path,
            query=query,
            headers=headers,
            raw=raw,
            client_address=self.client_address[0],
            unreadable=unreadable,
        )

    def _body(self) -> tuple[bytes, str]:
        """Return the body and, if it could not be read, why; the connection then ends."""
        if "transfer-encoding" in self.headers:
            return self._give_up("it has no Content-Length")
        try:
            length = int(self.headers.get("content-length", "0"))
        except ValueError:
            return self._give_up("its Content-Length is not a number")
        if not 0 <= length <= HARD_LIMIT_BYTES:
            return self._give_up("too large")
        raw = self.rfile.read(length) if length else b""
        if len(raw) < length:
            return self._give_up("it ended early")
        return raw, ""

    def _give_up(self, reason: str) -> tuple[bytes, str]:
        self.close_connection = True
        return b"", reason

    def _write(self, reply: Reply) -> None:
        script, body = reply.script, reply.body
        if script is not None and script.slow_drip_s:
            body = body or b" " * 64
        has_body = self.command != "HEAD" and reply.status not in (204, 304)
        length = len(body)
        if script is not None and script.truncate:
            length += 64
            self.close_connection = True
        self.send_response(reply.status, http.client.responses.get(reply.status, "Scripted"))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if has_body:
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if has_body and script is not None and script.slow_drip_s:
            self._drip(body, script.slow_drip_s)
        elif has_body:
            self.wfile.write(body)

    def _drip(self, body: bytes, pause_s: float) -> None:
        for position in range(len(body)):
            self.wfile.flush()
            if self.server.stopping.wait(pause_s):
                self.close_connection = True
                return
            self.wfile.write(body[position : position + 1])
