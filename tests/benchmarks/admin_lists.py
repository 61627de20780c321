"""Every list of the admin, with 1,000,000 tracked URLs, for who sees all and who sees a section.

The slowest of each goes into the table, all of them to standard error.
"""

import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client
from django.utils import timezone
from wagtail.models import GroupPagePermission, Page

from tests.acceptance.stage import Stage
from tests.benchmarks.many_rows import URLS, make_pages, make_rows
from tests.benchmarks.measuring import Row, cpu_s, forget, site, tidy, took_ms_each
from tests.factories import make_site

REPEATS = 5

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
    "urls, page type": "urls/?page_type={articlepage}",
    "urls, rare page type": "urls/?page_type={calendarpage}",
    "urls, dates": "urls/?changed_at_from={day}&changed_at_to={day}",
    "urls, two filters": "urls/?state=rejected&change=removed&host=www.example.com",
    "urls, search part of URL": "urls/?q=page-77",
    "urls, search nothing": "urls/?q=notfoundanywhere",
    "urls, search title": "urls/?q=Title%20of%20page%205555",
    "submissions": "submissions/",
    "submissions, state": "submissions/?state=rejected",
    "events": "events/",
    "events, scheduled": "events/?kind=go_live&state=planned&ordering=expected_at",
    "events, skipped": "events/?state=skipped",
    "events, overdue": "events/?state=overdue",
    "events, search": "events/?q=page%2055555",
    "settings": "settings/",
}


def admin_lists(stage: Stage) -> Iterator[Row]:
    """Open them as a browser does: a whole answer of the site, again and again."""
    forget()
    home = make_site("lists.example.com").root_page
    types = dict(ContentType.objects.filter(app_label="testapp").values_list("model", "pk"))
    make_pages(home, types)
    make_rows()
    tidy()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            # One backend, whose work can be measured; parallel workers would only make it quicker.
            cursor.execute("SET max_parallel_workers_per_gather = 0")
    day = timezone.localdate() - timedelta(days=100)
    paths = {name: path.format(**types, day=day) for name, path in LISTS.items()}
    with site(stage):
        for person, client in _people(home).items():
            slowest = max(_opened(client, person, paths))
            remark = f"“{slowest.name}”; CPU {slowest.cpu_ms:.0f} ms; wanted: below 300"
            yield f"{URLS:,} URLs: slowest list, {person}", f"{slowest.took_ms:.0f} ms", remark


@dataclass(frozen=True, order=True)
class _Opened:
    took_ms: float
    cpu_ms: float
    name: str


def _opened(client: Client, person: str, paths: dict[str, str]) -> Iterator[_Opened]:
    for name, path in paths.items():

        def get(path: str = path) -> int:
            return client.get(f"/admin/indexnow/{path}").status_code

        if get() != 200:
            continue  # not for this person
        before = sum(cpu_s())
        took_ms = statistics.median(took_ms_each(get, times=REPEATS))
        cpu_ms = (sum(cpu_s()) - before) * 1_000 / REPEATS
        print(f"{person}: {name}: {took_ms:.0f} ms, CPU {cpu_ms:.0f} ms", file=sys.stderr)
        yield _Opened(took_ms, cpu_ms, name)


def _people(section: Page) -> dict[str, Client]:
    """Log two people in: name → who asks."""
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
