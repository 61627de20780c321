"""`python -m example_site.demo`: start everything and keep it running until Ctrl-C."""

import argparse
import fcntl
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import IO
from zoneinfo import ZoneInfo

from example_site.demo import check
from example_site.demo.errors import DemoError, Interrupted
from example_site.demo.processes import SIGNALS, Processes
from example_site.demo.stack import Plan, make_plan, start
from example_site.time_zone import time_zone

VAR = Path(__file__).resolve().parent.parent / "var"
WATCH_S = 0.5
QUIET_S = 3.0
FIRST_LINES_S = 15.0

BANNER = """
  Museum    {museum}/   English, French, German
  News      {news}/   a second Site
  Admin     {museum}/admin/   admin / admin, also moderator and editor
  Engine    {engine}/   what it was told
  Logs      {logs}

  Try it: in the admin, find "A night at the museum", set a go-live time a minute ahead, and
  choose Publish. The admin's clock is {zone}; it is {now:%Y-%m-%d %H:%M} there.

  Ctrl-C ends everything.
"""


def main(arguments: Sequence[str]) -> int:
    """Run the demo or its check; return the exit status."""
    options = _parser().parse_args(arguments)
    for number in SIGNALS:
        # nohup means what it says; elsewhere, as in a script's background, an ignored signal
        # would leave no way to end the demo.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        if options.check:
            return check.main()
        return run(make_plan(VAR, web_port=options.port, engine_port=options.engine_port))
    except DemoError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except Interrupted:
        print("The demo has ended.", flush=True)
        return 1 if options.check else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m example_site.demo", description=__doc__)
    parser.add_argument("--check", action="store_true", help="schedule a page, judge, and end")
    parser.add_argument("--port", type=int, default=8000, help="of the sites (8000)")
    parser.add_argument("--engine-port", type=int, default=8800, help="of the engine (8800)")
    return parser


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Interrupted


def run(plan: Plan) -> int:
    """Keep the demo running until a signal comes.

    :raises DemoError: if a part of it ends by itself.
    """
    logs = plan.var / "logs"
    with locked(plan.var) as lock, Processes(logs, plan.all_environment(), lock=lock) as processes:
        start(processes, plan)
        try:
            _let_first_lines_pass(processes)
            _print_banner(plan, logs)
            while True:
                time.sleep(WATCH_S)
                processes.watch()
        except DemoError:
            print(processes.tails())
            raise


def _let_first_lines_pass(processes: Processes) -> None:
    """Wait a little, so that what is printed next is not pushed off the screen."""
    deadline = time.monotonic() + FIRST_LINES_S
    while processes.quiet_s() < QUIET_S and time.monotonic() < deadline:
        processes.watch()
        time.sleep(WATCH_S)


def _print_banner(plan: Plan, logs: Path) -> None:
    zone = time_zone()
    banner = BANNER.format(
        museum=plan.museum_url,
        news=plan.news_url,
        engine=plan.engine_url,
        logs=logs,
        zone=zone,
        now=datetime.now(ZoneInfo(zone)),
    )
    print(banner, flush=True)


@contextmanager
def locked(var: Path) -> Iterator[IO[str]]:
    """Keep a directory for one demo: two would change each other's Sites.

    :raises DemoError: if another demo has it.
    """
    var.mkdir(parents=True, exist_ok=True)
    with (var / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DemoError("Another demo is running here, or is just ending.") from error
        yield lock


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
