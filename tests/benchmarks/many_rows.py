"""Pages and a ledger of some years, made by the database itself: on PostgreSQL and on SQLite."""

from django.db import connection
from wagtail.models import Page

URLS = 1_000_000
PAGES = 60_000  # children of one page, numbered in four hexadecimal digits
SUBMITIES = 100_000
INTENTS, ENDED = 300_000, 200_000
FIRST_PAGE = 2_000_000  # no other page has this id, or one above

#: What the databases call differently: `{}` seconds ago, a page's number and its key.
DIALECTS = {
    "postgresql": {
        "ago": "now() - ({}) * interval '1 second'",
        "number": "lpad(upper(to_hex(n)), 4, '0')",
        "key": "gen_random_uuid()",
    },
    "sqlite": {
        "ago": "strftime('%Y-%m-%d %H:%M:%f', 'now', (-({})) || ' seconds')",
        "number": "printf('%04X', n)",
        "key": "lower(hex(randomblob(16)))",
    },
}


def make_pages(home: Page, types: dict[str, int]) -> None:
    """Copy a page, with whatever columns this Wagtail has, into its children.

    :param types: model name → content type.
    """
    dialect = DIALECTS[connection.vendor]
    own = {
        "id": f"{FIRST_PAGE} + n",
        "path": f"'{home.path}' || {dialect['number']}",
        "depth": str(home.depth + 1),
        "title": "'Title of page ' || n",
        "draft_title": "'Title of page ' || n",
        "slug": "'page-' || n",
        "url_path": f"'{home.url_path}page-' || n || '/'",
        "translation_key": dialect["key"],
        "content_type_id": f"CASE WHEN n % 2000 = 0 THEN {types['calendarpage']}"
        f" ELSE {types['articlepage']} END",
    }
    columns = {field.column: f'"{field.column}"' for field in Page._meta.local_fields}
    _insert(Page._meta.db_table, columns | own, PAGES, f"WHERE id = {home.pk}")


def make_rows() -> None:
    """Fill an empty ledger, also with a few rows that only a filter finds."""
    _insert("wagtail_indexnow_submission", _submission(), SUBMITIES)
    _insert("wagtail_indexnow_intent", _intent(), INTENTS)
    _insert("wagtail_indexnow_trackedurl", _tracked_url(), URLS)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wagtail_indexnow_channel"
            " (endpoint, host, strikes, pause_reason, not_before) VALUES"
            " ('engine', '', 0, '', CURRENT_TIMESTAMP),"
            " ('engine', 'www.example.com', 0, '', CURRENT_TIMESTAMP),"
            " ('rare', '', 0, '', CURRENT_TIMESTAMP),"
            " ('rare', 'rare.example.com', 0, '', CURRENT_TIMESTAMP)"
        )


def _submission() -> dict[str, str]:
    return {
        "id": "n",
        "endpoint": "'engine'",
        "host": "'www.example.com'",
        "started_at": _ago("n * 60"),
        "finished_at": _ago("n * 60"),
        "status": "200",
        "error_code": "''",
        "excerpt": "''",
        "key": "'0123…'",
        "urls": """'[{"id": 1, "version": 1, "url": "https://www.example.com/en/page/","""
        """ "change": "updated", "page": null}]'""",
        "url_count": "1 + n % 20",
        "state": "CASE WHEN n % 40 = 0 THEN 'rejected' WHEN n % 15 = 0"
        " THEN 'pending' ELSE 'accepted' END",
        "reason": "CASE WHEN n % 40 = 0 THEN 'unprocessable' WHEN n % 15 = 0"
        " THEN 'server_error' ELSE '' END",
    }


def _intent() -> dict[str, str]:
    is_planned = f"n > {ENDED}"
    at = _ago(f"({ENDED} - n) * 20")
    return {
        "id": "n",
        "key": "'page:' || n",
        "kind": "CASE WHEN n % 3 = 0 THEN 'go_live' ELSE 'publish' END",
        "page_id": _page_id(),
        "page_title": f"'Title of page ' || n % {PAGES}",
        "locale": "'en'",
        "expected_at": at,
        "run_at": f"CASE WHEN {is_planned} THEN {at} END",
        "state": f"CASE WHEN {is_planned} THEN 'planned' WHEN n % 9 = 0 THEN 'skipped'"
        " ELSE 'announced' END",
        "reason": f"CASE WHEN {is_planned} THEN '' WHEN n % 18 = 0 THEN 'private' WHEN n % 9 = 0"
        " THEN 'schedule_changed' ELSE '' END",
        "error": "''",
        "attempts": "0",
        "waits": "0",
        "version": "0",
        "subtree": "false",
        "cursor": "0",
        "detail": "'{}'",
        "scheduled_by": "'user:1'",
        "correlation_id": "''",
        "created_at": _ago("n * 20"),
        "handed_count": "0",
        "finished_at": f"CASE WHEN n <= {ENDED} THEN {_ago('n * 20')} END",
    }


def _tracked_url() -> dict[str, str]:
    return {
        "id": "n",
        "endpoint": "CASE WHEN n % 5000 = 0 THEN 'rare' ELSE 'engine' END",
        "host": "CASE WHEN n % 5001 = 0 THEN 'rare.example.com' ELSE 'www.example.com' END",
        "url": "'https://www.example.com/en/section-' || n % 500 || '/page-' || n ||"
        " '-with-a-usual-slug/'",
        "url_hash": "md5(CAST(n AS text)) || md5(CAST(-n AS text))",
        "page_id": _page_id(),
        "intent": f"1 + n % {INTENTS}",
        "change": "CASE WHEN n % 200 = 0 THEN 'removed' WHEN n % 4 = 0 THEN 'added'"
        " ELSE 'updated' END",
        "changed_at": _ago("n * 30"),
        "version": "1",
        "channel": "2",
        "fetched_as": "''",
        "fetched_etag": "''",
        "accepted_as": "''",
        "accepted_etag": "''",
        "state": "CASE WHEN n % 30000 = 0 THEN 'failed' WHEN n % 100 = 0 THEN 'rejected'"
        " ELSE 'accepted' END",
        "reason": "''",
        "attempts": "1",
        "sent_at": _ago("0"),
        "last_status": "200",
        "submission": f"1 + n % {SUBMITIES}",
    }


def _page_id() -> str:
    return f"{FIRST_PAGE} + n % {PAGES}"


def _ago(seconds: str) -> str:
    return DIALECTS[connection.vendor]["ago"].format(seconds)


def _insert(table: str, columns: dict[str, str], count: int, where: str = "") -> None:
    """Insert as many rows as wanted, each column as an expression of `n`, which counts from 1.

    :param where: picks the row of the same table that the expressions may name.
    """
    names = ", ".join(f'"{name}"' for name in columns)
    source = f"numbers, {table} {where}" if where else "numbers"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({names}) WITH RECURSIVE numbers (n) AS"
            f" (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"
            f" SELECT {', '.join(columns.values())} FROM {source}"
        )
