"""``python -m example_site.engine``: the engine as a process of its own, for the demo."""

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from example_site.engine.engine import Engine
from example_site.engine.profiles import PROFILES

# How often lazy key checks whose delay is over are looked for.
TICK_S = 0.5


def parser() -> argparse.ArgumentParser:
    """Return the command line; options left out keep the profile's values."""
    options = argparse.ArgumentParser(
        prog="python -m example_site.engine",
        description="A local IndexNow engine. Loopback only; never talks to a real engine.",
        argument_default=argparse.SUPPRESS,
    )
    add = options.add_argument
    add("--address", help="loopback address to listen on (127.0.0.1)")
    add("--port", type=int, default=8800, help="port, 0 for a free one (8800)")
    add("--profile", choices=PROFILES, help="whose behaviour to show (lenient)")
    add(
        "--map",
        action="append",
        default=[],
        metavar="HOST=URL",
        help="where a public host is served: www.example.com=http://127.0.0.1:8000; repeatable",
    )
    add("--crawl", action="store_true", help="look at each accepted URL through the map")
    add("--no-key-check", dest="check_keys", action="store_false", help="take every key")
    add("--follow", dest="follow_redirects", action="store_true", help="key file may redirect")
    add("--exact", dest="newline_tolerant", action="store_false", help="no newline after the key")
    add("--key-check", choices=("lazy", "eager"), help="when a new key is checked")
    add("--key-check-delay", dest="key_check_delay_s", type=float, metavar="SECONDS")
    add("--pending", dest="pending_answer", choices=("accept", "refuse_repeats", "refuse_all"))
    add("--bind-keys", dest="bind_key_to_host", action="store_true", help="a key fits one host")
    add("--rate-limit", type=int, metavar="REQUESTS", help="per window and address")
    add("--rate-window", dest="rate_window_s", type=float, metavar="SECONDS")
    add("--day-budget", type=int, metavar="REQUESTS", help="per UTC day and address")
    add("--retry-after", choices=("none", "seconds", "date", "garbage"))
    add("--refuse-too-soon", action="store_true", help="429 for a URL sent again within the gap")
    return options


def engine_from(arguments: Sequence[str]) -> Engine:
    """Return the engine a command line asks for; exits with 2 and a message if it is wrong."""
    options = parser()
    values: dict[str, Any] = vars(options.parse_args(arguments))
    try:
        return Engine(host_map=dict(map_entry(text) for text in values.pop("map")), **values)
    except ValueError as error:
        options.error(str(error))


def map_entry(text: str) -> tuple[str, str]:
    """Return host and base URL of ``host=url``.

    :raises ValueError: if there is no equals sign.
    """
    host, found, base_url = text.partition("=")
    if not found:
        raise ValueError(f"--map wants HOST=URL, not {text!r}.")
    return host, base_url


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status."""
    engine = engine_from(arguments)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        engine.start()
    except OSError as error:
        print(f"Cannot listen: {error}", file=sys.stderr)
        return 1
    profile = engine.profile.name
    print(f"IndexNow engine ({profile}): {engine.url}/, POST to {engine.endpoint}", flush=True)
    while not ended.wait(TICK_S):
        engine.run_due_checks()
    engine.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
