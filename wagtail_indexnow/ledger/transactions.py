"""The transactions of workers: on our tables' database, and ready to write from the start."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..models import Channel


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
