"""`python -m tests.benchmarks [NAME …]`: measure, print one table, assert nothing.

Runs on PostgreSQL where `DATABASE=postgres` names one, else on SQLite; with an embedded Redis and
a search engine on loopback. The database is made for the run and dropped afterwards.
"""

import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import django

from example_site.engine import Engine

Row = tuple[str, str, str]  # what, figure, remark


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name, Engine(check_keys=False) as engine:
        directory = Path(name)
        environment = _prepare(directory)
        django.setup()
        logging.getLogger("wagtail_indexnow").setLevel(logging.WARNING)

        from tests.acceptance.stage import Stage
        from tests.benchmarks import measurements

        chosen = [measurements.ALL[name] for name in names] or list(measurements.ALL.values())
        with _database():
            stage = Stage(directory, engine, environment)
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
        "DJANGO_SETTINGS_MODULE": "tests.acceptance.settings",
        "PROCESS_BROKER": "dramatiq.brokers.stub.StubBroker",
        "PROCESS_BROKER_OPTIONS": "{}",
        "PROCESS_INDEXNOW": json.dumps({"ENABLED": True}),
        "PROCESS_DIR": str(directory),
        "PROCESS_LEASE_S": "60",
    }
    return database


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


def _measure(stage: object, chosen: list[Callable[[object], Iterator[Row]]]) -> Iterator[Row]:
    from django.db import connection

    yield "database", connection.vendor, ""
    for measure in chosen:
        started = time.monotonic()
        yield from measure(stage)
        print(f"({measure.__name__}: {time.monotonic() - started:.0f} s)", file=sys.stderr)


def _print(rows: Iterator[Row]) -> None:
    lines = [("what", "figure", "remark"), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    for what, figure, remark in lines:
        print(f"{what:<{widths[0]}}  {figure:>{widths[1]}}  {remark}".rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
