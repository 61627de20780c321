"""The one clock of everything that becomes due: the database's, shared by all processes.

Processes whose own clocks differ must still agree on when a page is checked and when a host may
be called again. Tests that travel in time replace `now` and `later`.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django.conf import settings
from django.db import connections, router
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, Func, Value
from django.utils import timezone

_QUERIES = {
    "postgresql": "SELECT clock_timestamp() AT TIME ZONE 'UTC'",
    "mysql": "SELECT UTC_TIMESTAMP(6)",
}


class _ClockTimestamp(Func):
    """The time at which the database evaluates it, as Django stores times: in UTC."""

    output_field = DateTimeField()
    template = "clock_timestamp()"

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **context)


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


def later(delay: timedelta) -> Any:
    """Return the database's time plus a delay, to be written by an INSERT or UPDATE.

    An expression, so that it costs an editor no query of its own.
    """
    vendor = connections[router.db_for_write(_model())].vendor
    if vendor not in _QUERIES or not settings.USE_TZ:
        return now() + delay
    moment = _ClockTimestamp() + Value(delay, output_field=DurationField())
    return ExpressionWrapper(moment, output_field=DateTimeField())


def _model() -> type:
    # Only the database alias is wanted: importing models from this layer would turn it around.
    from django.apps import apps

    return apps.get_model("wagtail_indexnow", "Channel")
