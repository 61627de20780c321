"""`python -m tests.benchmarks [NAME …]`: measure, print one table, assert no time.

Runs on PostgreSQL where `DATABASE=postgres` names one, else on SQLite; with an embedded Redis and
a search engine on loopback. The database is made for the run and dropped afterwards.
"""

import json
import logging
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django

from example_site.engine import Engine

Row = tuple[str, str, str]  # what, figure, remark
Measurement = Callable[[Any], Iterator[Row]]


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as temporary, Engine(check_keys=False) as engine:
        directory = Path(temporary)
        environment = _prepare(directory)
        django.setup()
        logging.getLogger("wagtail_indexnow").setLevel(logging.WARNING)

        from tests.acceptance.stage import Stage

        chosen = _choose(names)
        with _database():
            stage = Stage(directory, engine, environment)
            # What the fault tests are impatient with, a site is not.
            for name in ("DJANGO_SETTINGS_MODULE", "PROCESS_LEASE_S"):
                stage.environment[name] = os.environ[name]
            stage.redis.start()
            try:
                _print(_measure(stage, chosen))
            finally:
                stage.stop()


def _prepare(directory: Path) -> dict[str, str]:
    """Choose the database and let the settings find it; return the environment for children."""
    if os.environ.get("DATABASE") == "postgres":
        database = {"DATABASE": "postgres", "TEST_DB_NAME": f"indexnow_bench_{os.getpid()}"}
    else:
        database = {"DATABASE": "sqlite", "SQLITE_PATH": str(directory / "site.sqlite3")}
    os.environ |= {
        **database,
        "DJANGO_SETTINGS_MODULE": "tests.benchmarks.settings",
        "PROCESS_BROKER": "dramatiq.brokers.stub.StubBroker",
        "PROCESS_BROKER_OPTIONS": "{}",
        "PROCESS_INDEXNOW": json.dumps({"ENABLED": True}),
        "PROCESS_DIR": str(directory),
        "PROCESS_LEASE_S": "60",
    }
    return database


def _choose(names: list[str]) -> list[Measurement]:
    from tests.benchmarks.admin_lists import admin_lists
    from tests.benchmarks.publishing import announcing, publishing
    from tests.benchmarks.schedules import schedules
    from tests.benchmarks.submitting import latency, submitting

    every = [publishing, announcing, submitting, latency, schedules, admin_lists]
    known = {measurement.__name__: measurement for measurement in every}
    if unknown := set(names) - known.keys():
        sys.exit(f"There is no {', '.join(sorted(unknown))}, but {', '.join(known)}.")
    return [known[name] for name in names] or every


@contextmanager
def _database() -> Iterator[None]:
    from django.core.management import call_command
    from django.db import connection

    name = connection.settings_dict["NAME"]
    if connection.vendor == "postgresql":
        with connection._nodb_cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{name}"')
    try:
        call_command("migrate", verbosity=0)
        yield
    finally:
        connection.close()
        if connection.vendor == "postgresql":
            with connection._nodb_cursor() as cursor:
                cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _measure(stage: Any, chosen: list[Measurement]) -> Iterator[Row]:
    yield from _surroundings()
    for measure in chosen:
        started = time.monotonic()
        yield from measure(stage)
        print(f"({measure.__name__}: {time.monotonic() - started:.0f} s)", file=sys.stderr)


def _surroundings() -> Iterator[Row]:
    import wagtail
    from django.db import connection

    with connection.cursor() as cursor:
        is_sqlite = connection.vendor == "sqlite"
        cursor.execute("SELECT sqlite_version()" if is_sqlite else "SHOW server_version")
        version = cursor.fetchone()[0].split()[0]
    python, load = platform.python_version(), os.getloadavg()[0]
    versions = f"Python {python}, Django {django.__version__}, Wagtail {wagtail.__version__}"
    yield "database", f"{connection.vendor} {version}", versions
    yield "machine", f"{os.cpu_count()} cores", f"{platform.machine()}; load before: {load:.1f}"


def _print(rows: Iterator[Row]) -> None:
    lines = [("what", "figure", "remark")]
    try:
        lines.extend(rows)
    finally:  # a measurement that fails does not take the others along
        widths = [max(len(line[column]) for line in lines) for column in range(2)]
        for what, figure, remark in lines:
            print(f"{what:<{widths[0]}}  {figure:>{widths[1]}}  {remark}".rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
