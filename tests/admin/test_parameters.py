"""Roles and parameters: whoever asks, with whatever, gets rows of their own pages or a refusal.

R63, R64, R65. `INDEXNOW_FUZZ` sets how many requests each test of the two makes.
"""

import csv
import io
import os
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any
from urllib.parse import urlencode

import openpyxl
import pytest
from django.test import Client
from wagtail.models import Page, PageViewRestriction, Site

from tests.admin.conftest import ADMIN, HOST
from tests.factories import make_page
from wagtail_indexnow.ledger import channels
from wagtail_indexnow.models import Submission
from wagtail_indexnow.submission import keys
from wagtail_indexnow.views.listing import harmless

pytestmark = pytest.mark.django_db

REQUESTS = int(os.environ.get("INDEXNOW_FUZZ", "300"))
CODENAMES = (
    "view_trackedurl",
    "change_trackedurl",
    "view_intent",
    "change_intent",
    "manage_indexnow",
)
REPORTS = ["urls/", "submissions/", "events/"]
SEES_URLS, SEES_EVENTS = {"view_trackedurl"}, {"view_intent"}
#: View → the permission that is needed, and whether all pages have to be one's own.
NEEDS: dict[str, tuple[set[str], bool]] = {
    "urls/": (SEES_URLS, False),
    "urls/results/": (SEES_URLS, False),
    "urls/?export=csv": (SEES_URLS, False),
    "urls/?export=xlsx": (SEES_URLS, False),
    "submissions/": (SEES_URLS, True),
    "submissions/results/": (SEES_URLS, True),
    "submissions/?export=csv": (SEES_URLS, True),
    "submissions/{sent}/": (SEES_URLS, True),
    "events/": (SEES_EVENTS, False),
    "events/results/": (SEES_EVENTS, False),
    "events/?export=csv": (SEES_EVENTS, False),
    "events/?export=xlsx": (SEES_EVENTS, False),
    "settings/": ({"manage_indexnow"}, False),
    f"settings/keys/{HOST}/rotate/": ({"manage_indexnow"}, False),
    "/admin/bulk/wagtail_indexnow/trackedurl/resubmit/?id={row}": ({"change_trackedurl"}, False),
    "/admin/bulk/wagtail_indexnow/intent/cancel/?id={row}": ({"change_intent"}, False),
    "/admin/bulk/wagtail_indexnow/intent/submit_now/?id={row}": ({"change_intent"}, False),
}
ODD = [
    "", " ", "0", "-1", "1", "9" * 5_000, str(2**63), str(2**63 - 1), str(2**31), "-" + "9" * 30,
    "1e400", "NaN", "Infinity", "null", "None", "true", "[]", "{}", "\0", "a\0b", "\ud83d\ude00",
    "é", "٣", "१२", "²", "x" * 10_000, "pk", "id", "-pk", "page__title", "intent__page_title",
    "pk__in", "../../etc/passwd", "/admin/", "//evil.example", "javascript:alert(1)", "\r\nX: y",
    "'; DROP TABLE x; --", '" OR 1=1', "%", "_", "%s", "%(x)s", "{{ 7*7 }}", "<script>",
    "2026-13-45", "0000-00-00", "9999-12-31", "10000-01-01", "2026-12-01", "csv", "xlsx",
    "all", "*", ",", "\\", "announced", "pending", "go_live", HOST, "engine",
    "\u202e", "\ufffe", "a" * 191,
]  # fmt: skip
NAMES = [
    "id", "p", "q", "ordering", "order", "export", "next", "state", "reason", "kind", "host",
    "endpoint", "change", "changed_at_from", "changed_at_to", "page_type", "outcome",
    "started_at_from", "expected_at_from", "expected_at_to", "created_at_from", "reveal",
    "childOf", "days", "per_page", "_w_filter_fragment", "sort",
]  # fmt: skip


@pytest.fixture
def paths(indexnow: Any, news: Page, tracked: Any, go_live: Any, submission: Any) -> list[str]:
    """Have one row of everything, and return the address of each view."""
    tracked(news, state="rejected", reason="unprocessable")
    go_live(news)
    keys.key_for(HOST)
    sent = submission().pk
    return [
        *(f"{ADMIN}{report}{kind}" for report in REPORTS for kind in ("", "results/")),
        f"{ADMIN}submissions/{sent}/",
        f"{ADMIN}settings/",
        f"{ADMIN}settings/keys/{HOST}/rotate/",
        f"{ADMIN}pages/{news.pk}/",
        "/admin/bulk/wagtail_indexnow/trackedurl/resubmit/",
        "/admin/bulk/wagtail_indexnow/intent/cancel/",
        "/admin/bulk/wagtail_indexnow/intent/submit_now/",
        "/admin/bulk/wagtailcore/page/indexnow_submit/",
    ]


def test_r64_no_parameter_makes_a_fault(superuser: Client, paths: list[str], news: Page) -> None:
    """R64: what no database can hold as an id, a date or a text is ignored or not found."""
    chance = random.Random(20_261_201)
    for _number in range(REQUESTS):
        path = chance.choice(paths)
        query = [
            (chance.choice(NAMES), chance.choice(ODD) if chance.random() < 0.8 else noise(chance))
            for _parameter in range(chance.randint(1, 4))
        ]
        query += [("id", str(news.pk))] if chance.random() < 0.3 else []
        text = urlencode(query, errors="surrogatepass")
        ask = superuser.post if "/bulk/" in path and chance.random() < 0.4 else superuser.get
        response = ask(f"{path}?{text}")
        if response.streaming:
            b"".join(response)
        assert response.status_code < 500, f"{path}?{text}"[:500]


def noise(chance: random.Random) -> str:
    return "".join(chance.choices(string.printable + "äß\0\u200b", k=chance.randint(0, 30)))


@pytest.mark.parametrize("pk", ["9" * 5_000, str(2**63), str(2**64), "0", "987654321"])
@pytest.mark.parametrize("path", ["submissions/{}/", "pages/{}/", "settings/pauses/{}/resume/"])
def test_r64_a_row_that_cannot_be_is_not_found(superuser: Client, path: str, pk: str) -> None:
    """R64: whatever its digits."""
    ask = superuser.post if "pauses" in path else superuser.get

    # Where it is not found, the test project looks below the language as well.
    assert ask(f"{ADMIN}{path.format(pk)}", follow=True).status_code == 404


@pytest.mark.parametrize("target", ["pk", "json", "wagtailadmin_home", "//evil.example/", "/a\nb"])
def test_r64_the_way_on_is_a_path_or_nothing(
    superuser: Client, paths: list[str], news: Page, target: str
) -> None:
    """R64: `next=pk` was taken for the name of a route."""
    query = urlencode({"id": news.pk, "next": target})

    bulk = superuser.post(f"/admin/bulk/wagtailcore/page/indexnow_submit/?{query}")
    status = superuser.post(f"{ADMIN}pages/{news.pk}/", {"next": target})

    assert bulk.url == "/admin/"
    assert status.url == f"{ADMIN}pages/{news.pk}/"


@dataclass(frozen=True)
class Role:
    may: frozenset[str]
    pages: str
    edit: str

    def is_allowed(self, needed: set[str], all_pages: bool) -> bool:
        has_all_pages = self.pages == "all" and self.edit != "add_page"
        return bool(self.may & needed) and (has_all_pages or not all_pages)


def roles() -> list[Role]:
    """Return every set of our permissions, with all pages, one section or none to edit."""
    sets = [frozenset(some) for size in range(6) for some in combinations(CODENAMES, size)]
    edits = ("publish_page", "change_page", "add_page")
    pages = [*product(("all", "section"), edits), ("none", "publish_page")]
    return [Role(may, *page) for may, page in product(sets, pages)]


def test_roles_see_what_they_may_and_nothing_else(
    person: Callable[..., Client], paths: list[str], home: Page
) -> None:
    """Each view and export opens for those who may, and for nobody else."""
    section = make_page(home, "section", live=True)
    pages = {"all": Page.objects.get(depth=1), "section": section, "none": None}
    ids = {"sent": Submission.objects.get().pk, "row": 1}
    chosen = random.Random(20_261_201).sample(roles(), k=len(roles()))
    asked = 0
    for number, role in enumerate(chosen):
        client = person(f"person{number}", *role.may, pages=pages[role.pages], edit=role.edit)
        if role.pages == "none" and not role.may:
            continue
        for view, needs in NEEDS.items():
            address = view.format(**ids)
            response = client.get(address if address.startswith("/") else f"{ADMIN}{address}")
            asked += 1
            expected = 200 if role.is_allowed(*needs) else 302
            assert response.status_code == expected, (role, view)
        if asked >= REQUESTS:
            break


class TestSections:
    """R63: an editor of one section learns nothing of the drafts and hosts of others."""

    @pytest.fixture
    def own(self, home: Page) -> Page:
        return make_page(home, "own", title="Own page", live=True)

    @pytest.fixture
    def secret(self, home: Page) -> Page:
        return make_page(home, "secret", title="Merger with Own rival", live=False)

    @pytest.fixture
    def editor(self, person: Callable[..., Client], own: Page) -> Client:
        return person("editor", "view_trackedurl", "view_intent", pages=own)

    @pytest.mark.parametrize("words", ["own", "merger", "rival"])
    def test_r63_a_search_finds_the_same_whatever_others_are_called(
        self, editor: Client, own: Page, secret: Page, tracked: Any, words: str
    ) -> None:
        """R63: a title of somebody else's draft took the place of a search through URLs."""
        tracked(own, path=f"own-{words}")
        tracked(secret, path="elsewhere")
        with_draft = found(editor, f"urls/results/?q={words}")
        Page.objects.filter(pk=secret.pk).update(title="Nothing of the kind")

        assert found(editor, f"urls/results/?q={words}") == with_draft
        assert "own-" in with_draft

    def test_r63_filters_list_no_host_of_others(
        self, editor: Client, superuser: Client, own: Page, tracked: Any
    ) -> None:
        """R63: a host can be a secret too, before its site is public."""
        other = make_page(Page.objects.get(depth=1), "brand", live=True)
        Site.objects.create(hostname="brand.example.com", port=443, root_page=other)
        channels.ensure([("engine", "brand.example.com"), ("engine", HOST)])
        tracked(own)

        assert "brand.example.com" not in found(editor, "urls/")
        assert HOST in found(editor, "urls/")
        assert "brand.example.com" in found(superuser, "urls/")

    def test_r63_the_status_page_names_no_page_that_is_not_shown(
        self, person: Callable[..., Client], superuser: Client, home: Page
    ) -> None:
        """R63: a restriction may be on a page above one's own section."""
        above = make_page(home, "above", title="Secret programme", live=True)
        between = make_page(above, "between", live=True)  # which the explorer shows
        own = make_page(between, "below", live=True)
        PageViewRestriction.objects.create(page=above, restriction_type="login")
        editor = person("editor of below", pages=own)

        assert "Secret programme" not in found(editor, f"pages/{own.pk}/")
        assert "The page is private" in found(superuser, f"pages/{own.pk}/")


def found(client: Client, path: str) -> str:
    response = client.get(f"{ADMIN}{path}")
    assert response.status_code == 200
    return response.content.decode()


class TestExports:
    @pytest.fixture
    def exported(self, superuser: Client, news: Page, tracked: Any, go_live: Any) -> Iterator[Any]:
        title = "=cmd|'/c calc'!A1\x0b\x1f"
        Page.objects.filter(pk=news.pk).update(title=title, draft_title=title)
        tracked(news)
        go_live(news, page_title=title, state="failed", error="ValueError: \x01\x08@SUM(A1)")

        def rows(report: str, kind: str) -> list[list[Any]]:
            response = superuser.get(f"{ADMIN}{report}?export={kind}")
            content = b"".join(response)
            if kind == "csv":
                return list(csv.reader(io.StringIO(content.decode())))
            sheet = openpyxl.load_workbook(io.BytesIO(content)).active
            return [[cell.value for cell in row] for row in sheet.iter_rows()]

        return rows

    @pytest.mark.parametrize("kind", ["csv", "xlsx"])
    @pytest.mark.parametrize("report", ["urls/", "events/"])
    def test_r65_nothing_in_it_is_a_formula(self, exported: Any, report: str, kind: str) -> None:
        """R65: an export opens, and runs nothing."""
        cells = [str(cell) for row in exported(report, kind) for cell in row if cell is not None]

        assert any("cmd|" in cell for cell in cells)
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("\t=1+1", "'\t=1+1"),
        (" @SUM(A1)", "' @SUM(A1)"),
        ("\r\n+1", "'\n+1"),
        ("-2", "'-2"),
        ("\uff1d1", "'\uff1d1"),
        ("\x00\x1b[31mred", "[31mred"),
        ("half \ud800", "half "),
        ("plain = text", "plain = text"),
        ("", ""),
    ],
)
def test_r65_texts_are_made_harmless(text: str, shown: str) -> None:
    """R65: for spreadsheets that read a leading sign as a formula."""
    assert harmless(text) == shown
