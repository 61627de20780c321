"""The engine as an object: start it in a test, steer it, read what it got."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from example_site.engine.admin import PREFIX, serve_admin
from example_site.engine.crawl import Crawler, Sightings
from example_site.engine.desk import Desk
from example_site.engine.hosts import HostMap, parse_authority, require_loopback_address
from example_site.engine.key_check import KeyCheckResult, check_key_file
from example_site.engine.keys import HostAndKey, KeyBook, KeyState
from example_site.engine.pace import Pace
from example_site.engine.page import STYLE_PATH, page_reply, render_page
from example_site.engine.profiles import PROFILES
from example_site.engine.records import Answer, Incoming, Reply, RequestRecord
from example_site.engine.server import EngineServer
from example_site.engine.state import Records, Script

Clock = Callable[[], float]


class Engine:
    """A local IndexNow engine on loopback.

    ``with Engine(host_map={"www.example.com": "http://127.0.0.1:8000"}) as engine: …``

    :param profile: ``bing``, ``yandex``, ``seznam``, ``naver`` or ``lenient``.
    :param host_map: public host → base URL on loopback; other hosts are never contacted.
    :param clock: seconds since 1970 as a callable; the only time rules look at.
    :param port: 0 picks a free one.
    :param check_keys: ``False`` takes any well-formed key without fetching its file.
    :param address: where to listen; loopback only.
    :param crawl: look at each accepted URL through the map, in a background thread.
    :param overrides: fields of :class:`~example_site.engine.profiles.Profile`.
    :raises ValueError: on an unknown profile, an address or a map target that is not loopback,
        or a map that names a real engine.
    :raises TypeError: on an override that is no profile field.
    """

    def __init__(
        self,
        profile: str = "lenient",
        host_map: Mapping[str, str] | None = None,
        clock: Clock = time.time,
        port: int = 0,
        check_keys: bool = True,
        *,
        address: str = "127.0.0.1",
        crawl: bool = False,
        **overrides: Any,
    ) -> None:
        if profile not in PROFILES:
            raise ValueError(f"No such profile: {profile!r}. There are {', '.join(PROFILES)}.")
        self.profile = replace(PROFILES[profile], **overrides)
        self._address = require_loopback_address(address)
        self._port = port
        self._clock = clock
        self._map = HostMap(host_map or {})
        self._records = Records()
        self._script = Script()
        self._pace = Pace(self.profile)
        self._keys = KeyBook(self.profile, self._check_key, takes_every_key=not check_keys)
        self._crawler = Crawler(self._map)
        self._is_crawling = crawl
        self._server: EngineServer | None = None
        self._thread: threading.Thread | None = None
        self._desk = Desk(
            profile=self.profile,
            host_map=self._map,
            records=self._records,
            script=self._script,
            keys=self._keys,
            pace=self._pace,
            now=self.now,
            on_accepted=self._accepted,
        )

    def start(self) -> Self:
        """Listen, serve in a thread, and return the engine."""
        if self._server is not None:
            raise RuntimeError("The engine is already running.")
        self._server = EngineServer(self._address, self._port, self._route)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.02},
            name="indexnow-engine",
            daemon=True,
        )
        self._thread.start()
        if self._is_crawling:
            self._crawler.start()
        return self

    def stop(self) -> None:
        """End all connections and stop; what was recorded stays readable."""
        if self._server is None or self._thread is None:
            return
        self._server.stop()
        self._thread.join()
        self._crawler.stop()
        self._server = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Base URL, without a final slash.

        :raises RuntimeError: if the engine is not running.
        """
        if self._server is None:
            raise RuntimeError("The engine is not running.")
        address = f"[{self._address}]" if ":" in self._address else self._address
        return f"http://{address}:{self._server.server_port}"

    @property
    def endpoint(self) -> str:
        """Where to POST."""
        return f"{self.url}/indexnow"

    @property
    def requests(self) -> list[RequestRecord]:
        """Every request since the last reset, oldest first; admin and page requests excepted."""
        return self._records.all()

    @property
    def submissions(self) -> list[RequestRecord]:
        """The requests that were accepted: 200 or 202."""
        return [record for record in self.requests if record.is_accepted]

    @property
    def keys(self) -> dict[HostAndKey, KeyState]:
        """State of every (host, key) that reached the key check."""
        self.run_due_checks()
        return self._keys.snapshot()

    @property
    def sightings(self) -> Sightings:
        """What the crawl saw: (record number, URL) → ``200``, ``301``, ``404``, ``noindex`` …"""
        return self._crawler.sightings()

    def urls(self, host: str | None = None) -> list[str]:
        """Return the received URLs in order; those sent again come again.

        A URL that one request repeats counts once for that request (M6).
        """
        wanted = None if host is None else parse_authority(host).host
        return [
            url
            for record in self.submissions
            if wanted in (None, record.host)
            for url in record.urls
        ]

    def answer(self, *answers: Answer, host: str | None = None, path: str | None = None) -> None:
        """Queue scripted answers for the next requests, of one host or on one path if given."""
        wanted = None if host is None else parse_authority(host).host
        self._script.add(answers, host=wanted, path=path)

    def map_host(self, host: str, base_url: str) -> None:
        """Add or change a host of the map.

        :raises ValueError: as the constructor.
        """
        self._map.add(host, base_url)

    def reset(self) -> None:
        """Forget requests, keys, pace and scripted answers; map and clock stay."""
        self._records.clear()
        self._script.clear()
        self._keys.clear()
        self._pace.clear()
        self._crawler.clear()

    def set_clock(self, clock: Clock | float) -> None:
        """Use another clock, or stand still at a time, and make the key checks now due."""
        if callable(clock):
            self._clock = clock
        else:
            fixed_at = float(clock)
            self._clock = lambda: fixed_at
        self.run_due_checks()

    def run_due_checks(self) -> None:
        """Make the lazy key checks whose delay is over."""
        self._keys.run_due(self.now())

    def advance(self, seconds: float) -> None:
        """Move the clock on, whether it runs or stands still, and make the checks now due."""
        clock = self._clock
        self.set_clock(lambda: clock() + seconds)

    def wait_crawled(self, timeout_s: float = 5.0) -> bool:
        """Wait, in real seconds, until every accepted URL was looked at; tell whether so."""
        return self._crawler.wait(timeout_s)

    def now(self) -> float:
        """Return the engine's time in seconds since 1970."""
        return self._clock()

    def _check_key(self, location: str, key: str) -> KeyCheckResult:
        return check_key_file(location, key, self._map, self.profile)

    def _accepted(self, record: RequestRecord) -> None:
        if self._is_crawling:
            self._crawler.add(record)

    def _route(self, incoming: Incoming) -> Reply:
        if incoming.path.startswith(PREFIX):
            return serve_admin(self, incoming)
        if incoming.method in ("GET", "HEAD"):
            if incoming.path in ("/", STYLE_PATH):
                return page_reply(incoming, self._page())
            if incoming.path == "/favicon.ico":
                # Browsers ask for it unbidden; it is no request to the engine.
                return Reply(status=404, headers={}, body=b"")
        return self._desk.take_in(incoming)

    def _page(self) -> str:
        return render_page(
            profile=self.profile.name,
            now=self.now(),
            requests=self.requests,
            keys=self.keys,
            sightings=self.sightings,
        )
