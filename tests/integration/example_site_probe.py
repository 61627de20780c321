"""Looks at the example site from inside, in a process of its own: one process, one settings module.

Writes what it sees to standard output, as JSON.
"""

import io
import json
import sys
from typing import Any

import django
from django.core.management import call_command
from django.test import Client
from django.urls import Resolver404, resolve

PATHS = (
    "/",
    "/en/",
    "/fr/",
    "/de/",
    "/en/exhibitions/charts-of-the-coast/",
    "/fr/expositions/cartes-de-la-cote/",
    "/de/ausstellungen/karten-der-kueste/",
    "/en/exhibitions/a-night-at-the-museum/",
    "/en/releases/the-tug-is-back/",
    "/admin/login/",
    "/no-such-page.txt",
)


def run(*command: str) -> str:
    output = io.StringIO()
    call_command(*command, stdout=output, stderr=output)
    return output.getvalue().strip()


def statuses(host: str) -> dict[str, int]:
    client = Client(headers={"host": host})
    return {path: client.get(path).status_code for path in PATHS}


def view_of(path: str) -> str:
    try:
        return resolve(path).view_name
    except Resolver404:
        return ""


def look() -> dict[str, Any]:
    from wagtail.models import Page, Site

    from example_site.content.models import ArticlePage
    from wagtail_indexnow.submission import keys, served_keys

    seen: dict[str, Any] = {"check": run("check"), "missing": run("makemigrations", "--dry-run")}
    run("migrate", "--no-input", "--verbosity", "0")
    seen["loaded"] = [run("load_example_content") for _ in range(2)]
    seen["sites"] = sorted(Site.objects.values_list("hostname", "port", "is_default_site"))
    seen["pages"] = Page.objects.count()
    seen["drafts"] = list(ArticlePage.objects.filter(live=False).values_list("title", flat=True))
    seen["museum"] = statuses("localhost:8123")
    seen["news"] = statuses("127.0.0.1:8123")
    seen["elsewhere"] = Client(headers={"host": "example.com"}).get("/en/").status_code
    key = keys.key_for("localhost:8123")
    served_keys.refresh()  # as the beginning of a request does
    seen["key_view"] = view_of(f"/{key}.txt")
    seen["other_text_view"] = view_of("/llms-full.txt")
    return seen


if __name__ == "__main__":
    django.setup()
    sys.stdout.write(json.dumps(look()))
