"""Where workers read and write: the database that our tables are written to, and no replica."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from django.db import connections, models, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..models import Channel

Row = TypeVar("Row", bound=models.Model)


def database() -> BaseDatabaseWrapper:
    """Return the connection to the database that our tables are written to."""
    return connections[router.db_for_write(Channel)]


@contextmanager
def writing() -> Iterator[None]:
    """Run a block in one transaction that may read first and write later.

    SQLite lets nobody turn a reader into a writer once another connection has written: it would
    refuse at once, without waiting. So there the lock for writing is taken first.
    """
    connection = database()
    is_outermost = not connection.in_atomic_block
    with transaction.atomic(using=connection.alias):
        if is_outermost and connection.vendor == "sqlite":
            Channel.objects.filter(pk=0).update(handed_at=None)
        yield


def roll_back() -> None:
    """Undo the current transaction when it ends, without an exception."""
    transaction.set_rollback(True, using=database().alias)


def insert_missing(rows: Sequence[Row], unique_field: str) -> None:
    """Insert rows of one table, except those that somebody else has inserted meanwhile.

    Give them in one order everywhere: two inserts of the same rows then wait for each other, but
    never in a ring.

    :param unique_field: a field of the unique key, which stays as it is.
    """
    if not rows:
        return
    objects = type(rows[0])._default_manager
    if database().vendor == "mysql":
        # An upsert that changes nothing: to ignore a conflict InnoDB takes a shared lock, and two
        # that hold one cannot both go on to lock the row.
        objects.bulk_create(rows, update_conflicts=True, update_fields=[unique_field])
    else:
        objects.bulk_create(rows, ignore_conflicts=True)


_is_pinned: ContextVar[bool] = ContextVar("is_pinned", default=False)


class _PrimaryReads:
    """A database router that lets reads follow writes, inside `reading_primary()` alone."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return router.db_for_write(model, **hints) if _is_pinned.get() else None


@contextmanager
def reading_primary() -> Iterator[None]:
    """Read where writes go, whatever the site's routers say: a replica may lag.

    Everything inside follows, Wagtail's code and a page's own too.
    """
    if not any(isinstance(installed, _PrimaryReads) for installed in router.routers):
        router.routers.insert(0, _PrimaryReads())
    token = _is_pinned.set(True)
    try:
        yield
    finally:
        _is_pinned.reset(token)
