"""The one clock of slots, holds and leases: the database's, shared by all workers.

Two workers whose own clocks differ must still agree on when a host may be called again. Tests
that travel in time replace `now`.
"""

from datetime import UTC, datetime
from typing import cast

from django.conf import settings
from django.db import connections, router
from django.utils import timezone

_QUERIES = {
    "postgresql": "SELECT clock_timestamp() AT TIME ZONE 'UTC'",
    "mysql": "SELECT UTC_TIMESTAMP(6)",
}


def now() -> datetime:
    """Return the database server's current time, aware if `USE_TZ`, as Django stores it.

    SQLite has no server: its clock is this machine's.
    """
    connection = connections[router.db_for_write(_model())]
    query = _QUERIES.get(connection.vendor)
    if query is None:
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(query)
        value = cast(datetime, cursor.fetchone()[0]).replace(tzinfo=UTC)
    # The site's zone, as Django stores it: the active one may be that of an editor.
    return value if settings.USE_TZ else timezone.make_naive(value, timezone.get_default_timezone())


def epoch() -> datetime:
    """Return a time before every other, for what never had to wait."""
    start = datetime(1970, 1, 1, tzinfo=UTC)
    return start if settings.USE_TZ else timezone.make_naive(start, UTC)


def _model() -> type:
    # Only the database alias is wanted: importing models from this layer would turn it around.
    from django.apps import apps

    return apps.get_model("wagtail_indexnow", "Channel")
