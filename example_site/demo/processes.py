"""Child processes: start, watch and end them, and keep what they say."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from example_site.demo.errors import DemoError
from example_site.demo.lifeline import signal_group

STOP_WAIT_S = 15.0
TAIL_LINES = 40
SIGNALS: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Keep signals until the end of the block: no child may start that nobody knows of."""
    kept: list[int] = []
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, lambda came, _: kept.append(came))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for came in kept[:1]:
        signal.raise_signal(came)


class Child:
    """One process in a session of its own, so that Ctrl-C reaches the demo alone."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        is_shown: bool,
        stop_signal: signal.Signals,
    ) -> None:
        self.name = name
        self.log = log
        self.log.write_text("")  # of this start alone
        self._is_shown = is_shown
        self._stop_signal = stop_signal
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, name=f"{name}-output", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        output: IO[str] | None = self.process.stdout
        if output is None:
            return
        with output, self.log.open("a", encoding="utf-8") as log:
            for line in output:
                log.write(line)
                log.flush()
                self._show(line)

    def _show(self, line: str) -> None:
        if not (self._is_shown and line.strip()):
            return
        try:
            sys.stdout.write(f"{self.name:>7} | {line.rstrip()}\n")
            sys.stdout.flush()
        except OSError:
            self._is_shown = False  # nobody reads any more; the log still wants every line

    def stop(self) -> None:
        """End the process by its pid, then whatever it left in its group."""
        if self.process.poll() is None:
            self.process.send_signal(self._stop_signal)
            try:
                self.process.wait(STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                print(f"{self.name} does not end by itself and is killed.", flush=True)
        signal_group(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(1)

    def tail(self) -> str:
        """Return the last lines of its log."""
        with self.log.open(encoding="utf-8") as log:
            return "".join(deque(log, TAIL_LINES))


class Processes:
    """The demo's processes; leaving the block ends them, newest first."""

    def __init__(
        self, logs: Path, environment: Mapping[str, str], *, lock: IO[str] | None = None
    ) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._environment = environment
        self._children: list[Child] = []
        # It holds the lock as well: until it has ended what a killed demo left behind, a new
        # demo cannot start in the same directory.
        self._lifeline = subprocess.Popen(
            [sys.executable, "-m", "example_site.demo.lifeline"],
            stdin=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[lock.fileno()] if lock else [],
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # From here on nothing interrupts: every wait below has an end of its own.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        for child in reversed(self._children):
            child.stop()
            self._tell_lifeline(-child.process.pid)
        self._lifeline.communicate()

    def start(
        self,
        name: str,
        *command: str,
        is_shown: bool = True,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> Child:
        """Start a Python module, or a file, with its arguments."""
        with uninterrupted():
            child = Child(
                name,
                [sys.executable, *command],
                environment=os.environ | self._environment,
                log=self._logs / f"{name}.log",
                is_shown=is_shown,
                stop_signal=stop_signal,
            )
            self._children.append(child)
            self._tell_lifeline(child.process.pid)
        return child

    def run(self, name: str, *command: str) -> None:
        """Run something that ends by itself.

        :raises DemoError: if it fails.
        """
        child = self.start(name, *command, is_shown=False)
        status = child.process.wait()
        child.stop()
        self._children.remove(child)
        self._tell_lifeline(-child.process.pid)
        if status:
            raise DemoError(f"{name} failed with exit status {status}:\n{child.tail()}")

    def watch(self) -> None:
        """Look whether all are still there.

        :raises DemoError: if one has ended.
        """
        for child in self._children:
            status = child.process.poll()
            if status is not None:
                raise DemoError(f"{child.name} ended by itself with exit status {status}.")

    def quiet_s(self) -> float:
        """Return for how many seconds none of them has said anything."""
        last = max((child.log.stat().st_mtime for child in self._children), default=0.0)
        return time.time() - last

    def tails(self) -> str:
        """Return the ends of all logs, headed by their names."""
        return "\n".join(
            f"--- {child.name} ({child.log}) ---\n{child.tail()}" for child in self._children
        )

    def _tell_lifeline(self, number: int) -> None:
        if self._lifeline.stdin is not None:
            self._lifeline.stdin.write(f"{number}\n")
            self._lifeline.stdin.flush()
