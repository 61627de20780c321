"""After accepting URLs, look at each as an engine would (M22): why old URLs are sent, too."""

import re
import threading
from queue import SimpleQueue

from example_site.engine.fetching import Fetched, FetchError, UnmappedHostError, fetch
from example_site.engine.hosts import HostMap
from example_site.engine.records import RequestRecord

TIMEOUT_S = 5.0
LIMIT_BYTES = 64 * 1024
NOINDEX_META = re.compile(rb"<meta\b(?=[^>]*name=.?robots)[^>]*noindex", re.IGNORECASE)

# (record number, URL) → what the site answered: "200", "301", "noindex", "no answer", …
Sightings = dict[tuple[int, str], str]


class Crawler:
    """Fetches accepted URLs one by one in a background thread, inside the map only."""

    def __init__(self, host_map: HostMap) -> None:
        self._host_map = host_map
        self._queue: SimpleQueue[tuple[int, RequestRecord] | None] = SimpleQueue()
        self._changed = threading.Condition()
        self._generation = 0
        self._unfinished = 0
        self._sightings: Sightings = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to work off what is queued."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._work, name="indexnow-crawl", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the fetch in hand."""
        if self._thread is None:
            return
        self._stopping.set()
        self._queue.put(None)
        self._thread.join()
        self._thread = None

    def add(self, record: RequestRecord) -> None:
        """Queue the URLs of an accepted record."""
        with self._changed:
            self._unfinished += 1
            self._queue.put((self._generation, record))

    def sightings(self) -> Sightings:
        """Return a copy of what was seen so far."""
        with self._changed:
            return dict(self._sightings)

    def wait(self, timeout_s: float) -> bool:
        """Wait, in real seconds, until nothing is queued; tell whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._unfinished == 0, timeout_s)

    def clear(self) -> None:
        """Forget what was seen, and what is still queued when its turn comes."""
        with self._changed:
            self._generation += 1
            self._sightings = {}

    def _work(self) -> None:
        while (entry := self._queue.get()) is not None:
            generation, record = entry
            try:
                self._look_at(record, generation)
            finally:
                with self._changed:
                    self._unfinished -= 1
                    self._changed.notify_all()

    def _look_at(self, record: RequestRecord, generation: int) -> None:
        for url in record.urls:
            if self._stopping.is_set() or generation != self._generation:
                return
            seen = sight(url, self._host_map)
            with self._changed:
                if generation == self._generation:
                    self._sightings[record.number, url] = seen


def sight(url: str, host_map: HostMap) -> str:
    """Return what the mapped site shows at a URL, in a word."""
    try:
        return label(fetch(url, host_map, timeout_s=TIMEOUT_S, limit=LIMIT_BYTES))
    except UnmappedHostError:
        return "not mapped"
    except FetchError:
        return "no answer"


def label(fetched: Fetched) -> str:
    """Return ``noindex`` for a page that asks for it, else the status."""
    if fetched.status != 200:
        return str(fetched.status)
    is_hidden = "noindex" in fetched.headers.get("x-robots-tag", "").lower()
    return "noindex" if is_hidden or NOINDEX_META.search(fetched.body) else "200"
