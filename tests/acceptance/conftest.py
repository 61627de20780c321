"""A stage for real processes: a database, a Redis and an engine of the test's own."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections
from wagtail.models import Site

from example_site.engine import Engine
from tests.acceptance.stage import Stage


@pytest.fixture
def database(
    transactional_db: None, django_db_blocker: Any, tmp_path: Path
) -> Iterator[Mapping[str, str]]:
    """Make a migrated database for one test's processes, and work on it here as well.

    :returns: the environment that names it.
    """
    copies = {"sqlite": _sqlite_copy, "postgresql": _postgres_copy, "mysql": _mariadb_copy}
    with django_db_blocker.unblock(), ExitStack() as stack:
        environment = stack.enter_context(copies[connection.vendor](tmp_path))
        name = environment.get("SQLITE_PATH") or environment["TEST_DB_NAME"]
        stack.enter_context(_working_on(name))
        yield environment


@contextmanager
def _sqlite_copy(directory: Path) -> Iterator[Mapping[str, str]]:
    path = directory / "site.sqlite3"
    connection.ensure_connection()
    target = sqlite3.connect(path)
    connection.connection.backup(target)
    target.close()
    yield {"DATABASE": "sqlite", "SQLITE_PATH": str(path)}


@contextmanager
def _postgres_copy(directory: Path) -> Iterator[Mapping[str, str]]:
    source, name = connection.settings_dict["NAME"], f"indexnow_process_{os.getpid()}"
    connection.close()  # a template must be in nobody's use
    with connection._nodb_cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE "{source}"')
    yield {"DATABASE": "postgres", "TEST_DB_NAME": name}
    with connection._nodb_cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextmanager
def _mariadb_copy(directory: Path) -> Iterator[Mapping[str, str]]:
    """Copy the tables one by one: MariaDB has no templates."""
    source, name = connection.settings_dict["NAME"], f"indexnow_process_{os.getpid()}"
    tables = connection.introspection.table_names()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")
        cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        for table in tables:
            cursor.execute(f"CREATE TABLE `{name}`.`{table}` LIKE `{source}`.`{table}`")
            cursor.execute(f"INSERT INTO `{name}`.`{table}` SELECT * FROM `{source}`.`{table}`")
    yield {"DATABASE": "mariadb", "TEST_DB_NAME": name}
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")


@contextmanager
def _working_on(name: str) -> Iterator[None]:
    """Let this thread's default connection lead to another database."""
    usual = connections["default"]
    usual.close()
    settings = {**usual.settings_dict, "NAME": name}
    if usual.vendor == "sqlite":
        settings["OPTIONS"] = {**settings["OPTIONS"], "transaction_mode": "IMMEDIATE"}
    connections["default"] = type(usual)(settings, "default")
    ContentType.objects.clear_cache()
    Site.clear_site_root_paths_cache()
    try:
        yield
    finally:
        connections["default"].close()
        connections["default"] = usual


@pytest.fixture
def stage(
    engine: Engine, database: Mapping[str, str], tmp_path: Path, settings: Any
) -> Iterator[Stage]:
    stage = Stage(tmp_path, engine, database)
    settings.WAGTAIL_INDEXNOW = stage.indexnow
    stage.redis.start()
    try:
        yield stage
    finally:
        stage.stop()
