"""Where workers read and write: the database that our tables are written to, and no replica."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

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
