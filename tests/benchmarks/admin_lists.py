"""Open every admin list with 1,000,000 tracked URLs on PostgreSQL: printed, not asserted.

    PYTHONPATH=. python tests/benchmarks/admin_lists.py

Uses a test database of its own. Rows are made by the database itself, in about a minute.
"""

import os
import sys
import time
from pathlib import Path

import django

URLS = 1_000_000
PAGES = 60_000  # children of one page, numbered in four hexadecimal digits
DELIVERIES = 100_000
INTENTS = 300_000
REPEATS = 7
LIMIT_MS = 300

os.environ.setdefault("DATABASE", "postgres")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth import get_user_model  # noqa: E402
from django.contrib.auth.models import Group, Permission  # noqa: E402
from django.contrib.contenttypes.models import ContentType  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_test_environment, teardown_test_environment  # noqa: E402
from wagtail.models import GroupPagePermission, Page  # noqa: E402

from tests.factories import make_site  # noqa: E402

LISTS = {
    "urls": "urls/",
    "urls, last page": "urls/?p=200",
    "urls, oldest first": "urls/?ordering=changed_at",
    "urls, state": "urls/?state=rejected",
    "urls, rare state": "urls/?state=failed",
    "urls, site": "urls/?host=www.example.com",
    "urls, rare site": "urls/?host=rare.example.com",
    "urls, rare engine": "urls/?endpoint=rare",
    "urls, change": "urls/?change=removed",
    "urls, page type": "urls/?page_type={article}",
    "urls, rare page type": "urls/?page_type={calendar}",
    "urls, dates": "urls/?changed_at_from=2026-03-01&changed_at_to=2026-03-02",
    "urls, two filters": "urls/?state=rejected&change=removed&host=www.example.com",
    "urls, search part of URL": "urls/?q=page-77",
    "urls, search nothing": "urls/?q=notfoundanywhere",
    "urls, search title": "urls/?q=Title%20of%20page%205555",
    "deliveries": "deliveries/",
    "deliveries, outcome": "deliveries/?outcome=rejected",
    "schedule": "schedule/",
    "schedule, skipped": "schedule/?state=skipped",
    "schedule, overdue": "schedule/?state=overdue",
    "announcements": "announcements/",
    "announcements, search": "announcements/?q=page%2055555",
    "settings": "settings/",
}

ROWS = f"""
INSERT INTO wagtail_indexnow_delivery
    (endpoint, host, started_at, finished_at, status, error_code, excerpt, urls, url_count, outcome)
SELECT 'engine', 'www.example.com', now() - n * interval '60 seconds', now(), 200, '', '',
    '["https://www.example.com/en/page/"]', 1 + n % 20,
    CASE WHEN n % 40 = 0 THEN 'unprocessable' WHEN n % 15 = 0 THEN 'server_error'
    ELSE 'delivered' END
FROM generate_series(1, {DELIVERIES}) n;

INSERT INTO wagtail_indexnow_intent
    (key, kind, page_id, page_title, locale, expected_at, run_at, state, reason, error, attempts,
    waits, version, subtree, cursor, former_urls, scheduled_by, correlation_id, created_at,
    handed_count, finished_at)
SELECT 'page:' || n, CASE WHEN n % 3 = 0 THEN 'go_live' ELSE 'publish' END, 10 + n % {PAGES},
    'Title of page ' || n % {PAGES}, 'en', now() + (n - 200000) * interval '20 seconds',
    CASE WHEN n > 200000 THEN now() + (n - 200000) * interval '20 seconds' END,
    CASE WHEN n > 200000 THEN 'planned' WHEN n % 9 = 0 THEN 'skipped' ELSE 'announced' END,
    CASE WHEN n > 200000 THEN '' WHEN n % 18 = 0 THEN 'private' WHEN n % 9 = 0 THEN
    'schedule_changed' ELSE '' END, '', 0, 0, 0, false, '', '{{}}', 'user:1', '',
    now() - n * interval '20 seconds', 0,
    CASE WHEN n <= 200000 THEN now() - n * interval '20 seconds' END
FROM generate_series(1, {INTENTS}) n;

INSERT INTO wagtail_indexnow_trackedurl
    (endpoint, host, url, url_hash, page_id, intent_id, change, changed_at, version,
    claimed_version, state, reason, attempts, sent_at, last_status, delivery_id)
SELECT CASE WHEN n % 5000 = 0 THEN 'rare' ELSE 'engine' END,
    CASE WHEN n % 5001 = 0 THEN 'rare.example.com' ELSE 'www.example.com' END,
    'https://www.example.com/en/section-' || n % 500 || '/page-' || n || '-with-a-usual-slug/',
    md5(n::text) || md5((-n)::text), 10 + n % {PAGES}, 1 + n % {INTENTS},
    CASE WHEN n % 200 = 0 THEN 'removed' WHEN n % 4 = 0 THEN 'added' ELSE 'updated' END,
    now() - n * interval '30 seconds', 1, 1,
    CASE WHEN n % 30000 = 0 THEN 'failed' WHEN n % 100 = 0 THEN 'rejected' ELSE 'delivered' END,
    '', 1, now(), 200, 1 + n % {DELIVERIES}
FROM generate_series(1, {URLS}) n;

INSERT INTO wagtail_indexnow_channel (endpoint, host, strikes, hold_reason)
VALUES ('engine', '', 0, ''), ('engine', 'www.example.com', 0, ''), ('rare', '', 0, ''),
    ('rare', 'rare.example.com', 0, '');
"""


def make_pages() -> tuple[Page, dict[str, int]]:
    home = make_site().root_page
    types = {type_.model: type_ for type_ in ContentType.objects.filter(app_label="testapp")}
    columns = [field.column for field in Page._meta.local_fields if field.column != "id"]
    changed = {
        "path": f"'{home.path}' || lpad(upper(to_hex(n)), 4, '0')",
        "depth": str(home.depth + 1),
        "numchild": "0",
        "title": "'Title of page ' || n",
        "draft_title": "'Title of page ' || n",
        "slug": "'page-' || n",
        "url_path": f"'{home.url_path}page-' || n || '/'",
        "translation_key": "gen_random_uuid()",
        "content_type_id": f"CASE WHEN n % 2000 = 0 THEN {types['calendarpage'].pk} "
        f"ELSE {types['articlepage'].pk} END",
    }
    chosen = ", ".join(changed.get(name, f'"{name}"') for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO wagtailcore_page (id, {names}) SELECT 10 + n, {chosen} "
            f"FROM wagtailcore_page, generate_series(0, {PAGES - 1}) n WHERE id = {home.pk}"
        )
    return home, {"article": types["articlepage"].pk, "calendar": types["calendarpage"].pk}


def make_rows() -> None:
    with connection.cursor() as cursor:
        cursor.execute(ROWS)
        cursor.execute("VACUUM ANALYZE")
        # One backend, whose work can be told; parallel workers would only make it quicker.
        cursor.execute("SET max_parallel_workers_per_gather = 0")


def make_people(section: Page) -> dict[str, Client]:
    users = get_user_model().objects
    everybody = users.create_superuser("admin", "admin@example.com", "admin")
    group = Group.objects.create(name="Some pages")
    group.permissions.set(
        Permission.objects.filter(codename__in=["access_admin", "view_trackedurl", "view_intent"])
    )
    permission = Permission.objects.get(codename="publish_page")
    GroupPagePermission.objects.create(group=group, page=section, permission=permission)
    moderator = users.create_user("moderator", "moderator@example.com", "moderator")
    moderator.groups.add(group)
    people = {"superuser": Client(), "moderator of a section": Client()}
    for client, user in zip(people.values(), (everybody, moderator), strict=True):
        client.force_login(user)
    return people


def measure(client: Client, path: str) -> tuple[float, float] | None:
    """Return the median time of a whole response and the mean work of one core for it, in ms."""
    if client.get(path).status_code != 200:
        return None
    times, work_before = [], work_s()
    for _round in range(REPEATS):
        started = time.perf_counter()
        client.get(path)
        times.append((time.perf_counter() - started) * 1000)
    return sorted(times)[REPEATS // 2], (work_s() - work_before) * 1000 / REPEATS


def work_s() -> float:
    """Return the CPU seconds of this process and of its database backend.

    Whatever else the machine is doing. Only where the server runs here, on Linux.
    """
    stat = Path(f"/proc/{connection.connection.info.backend_pid}/stat")
    fields = stat.read_text().rpartition(")")[2].split() if stat.exists() else []
    ticks = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return time.process_time() + ticks


def main() -> None:
    settings.WAGTAIL_INDEXNOW = {"ENABLED": True, "ENDPOINTS": {"engine": "http://127.0.0.1:1/"}}
    home, types = make_pages()
    make_rows()
    for name, client in make_people(home).items():
        sys.stdout.write(f"{name}\n")
        for label, path in LISTS.items():
            found = measure(client, f"/admin/indexnow/{path.format(**types)}")
            if found is None:
                continue
            took, work = found
            mark = "  TOO SLOW" if took > LIMIT_MS else ""
            sys.stdout.write(f"  {label:28} {took:6.0f} ms, one core {work:4.0f} ms{mark}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    setup_test_environment()
    previous = connection.creation.create_test_db(autoclobber=True, verbosity=0)
    try:
        main()
    finally:
        if not os.environ.get("KEEP"):
            connection.creation.destroy_test_db(previous, verbosity=0)
        teardown_test_environment()
