"""What the engine got and what it was told to answer. Thread-safe."""

import threading
from collections import deque
from collections.abc import Callable, Iterable

from example_site.engine.records import Answer, RequestRecord


class Records:
    """Every request since the last reset, in order of arrival."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[RequestRecord] = []

    def add(self, make: Callable[[int], RequestRecord]) -> RequestRecord:
        """Store and return the record that ``make`` builds from its number."""
        with self._lock:
            record = make(len(self._records) + 1)
            self._records.append(record)
            return record

    def all(self) -> list[RequestRecord]:
        """Return a copy, oldest first."""
        with self._lock:
            return list(self._records)

    def clear(self) -> None:
        """Forget all; numbers start at 1 again."""
        with self._lock:
            self._records = []


class Script:
    """Scripted answers, each used once, first match first (M17)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[tuple[str | None, str | None, Answer]] = deque()

    def add(self, answers: Iterable[Answer], *, host: str | None, path: str | None) -> None:
        """Queue answers for one host or all, on one exact path or all IndexNow paths."""
        with self._lock:
            self._queue.extend((host, path, answer) for answer in answers)

    def take(self, *, host: str, path: str, is_indexnow: bool) -> Answer | None:
        """Return the first answer for this request and drop it from the queue."""
        with self._lock:
            for entry in self._queue:
                wanted_host, wanted_path, answer = entry
                fits_path = is_indexnow if wanted_path is None else wanted_path == path
                if fits_path and wanted_host in (None, host):
                    self._queue.remove(entry)
                    return answer
        return None

    def clear(self) -> None:
        """Drop all that is queued."""
        with self._lock:
            self._queue.clear()
