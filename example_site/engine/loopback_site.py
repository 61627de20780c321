"""A tiny site on loopback that serves fixed pages: key files for self-test and tests."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Page:
    """What one path answers."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/plain"})


class LoopbackSite:
    """Serves ``pages`` (path → page, may be changed while serving) and notes who asked.

    ``visits`` lists (``Host`` header, path) in order of arrival.
    """

    def __init__(self, pages: Mapping[str, Page] | None = None) -> None:
        self.pages: dict[str, Page] = dict(pages or {})
        self.visits: list[tuple[str, str]] = []
        self._server = _SiteServer(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True
        )

    @property
    def url(self) -> str:
        """Base URL, without a final slash."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def serve_key(self, key: str, body: bytes | None = None) -> None:
        """Serve ``/<key>.txt`` with the key, or with another body."""
        self.pages[f"/{key}.txt"] = Page(body=key.encode() if body is None else body)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _SiteServer(ThreadingHTTPServer):
    # Threads are joined on close, so that no socket outlives a test.
    daemon_threads = False

    def __init__(self, site: LoopbackSite) -> None:
        self.site = site
        super().__init__(("127.0.0.1", 0), _SiteHandler)


class _SiteHandler(BaseHTTPRequestHandler):
    server: _SiteServer

    def do_GET(self) -> None:
        site = self.server.site
        site.visits.append((self.headers.get("Host", ""), self.path))
        page = site.pages.get(self.path, Page(status=404))
        self.send_response(page.status)
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page.body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""
