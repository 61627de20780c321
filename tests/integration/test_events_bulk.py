"""Large sections and many pages: constant work in the request, few queries and few POSTs."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from wagtail.models import Locale, Page

from tests.factories import make_page, make_site, publish
from tests.testapp.models import ArticlePage
from wagtail_indexnow.models import Intent, Submission, TrackedUrl
from wagtail_indexnow.pages import audits
from wagtail_indexnow.pages.announcing import announce_intents as announce
from wagtail_indexnow.payloads import IntentRef

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = "https://www.example.com/en/"
LONG_AGO = timedelta(days=400)


@pytest.fixture
def shelf(site: Any, clock_at: Any, settings: Any) -> Any:
    # Wagtail's own redirects cost queries for each descendant, and break SQLite at a thousand.
    settings.WAGTAILREDIRECTS_AUTO_CREATE = False
    return make_page(site.root_page, "shelf", live=True, first_published_at=timezone.now())


def plant(parent: Any, count: int, *, live: bool = True) -> None:
    """Insert live children straight into the tables, as an import long ago did."""
    parent = Page.objects.get(pk=parent.pk)
    published_at = timezone.now() - LONG_AGO
    locale, content_type = parent.locale, ContentType.objects.get_for_model(ArticlePage)
    pages = [
        Page(
            path=Page._get_path(parent.path, parent.depth + 1, number),
            depth=parent.depth + 1,
            numchild=0,
            title=f"Page {number}",
            draft_title=f"Page {number}",
            slug=f"page-{number}",
            url_path=f"{parent.url_path}page-{number}/",
            locale=locale,
            content_type=content_type,
            live=live,
            first_published_at=published_at,
            last_published_at=published_at,
        )
        for number in range(1, count + 1)
    ]
    Page.objects.bulk_create(pages, batch_size=500)
    children = Page.objects.filter(path__startswith=parent.path, depth=parent.depth + 1)
    table, pointer = ArticlePage._meta.db_table, ArticlePage._meta.pk.column
    with connection.cursor() as cursor:
        rows = [(pk, "") for pk in children.values_list("pk", flat=True)]
        quoted = [connection.ops.quote_name(name) for name in (table, pointer, "body")]
        statement = "INSERT INTO {} ({}, {}) VALUES (%s, %s)".format(*quoted)
        cursor.executemany(statement, rows)
    Page.objects.filter(pk=parent.pk).update(numchild=count)


def make_section(site: Any, count: int, slug: str = "section") -> Any:
    section = make_page(
        site.root_page,
        slug,
        live=True,
        first_published_at=timezone.now() - LONG_AGO,
        last_published_at=timezone.now() - LONG_AGO,
    )
    plant(section, count)
    audits.record()
    return Page.objects.get(pk=section.pk).specific


@contextmanager
def our_queries() -> Iterator[list[str]]:
    """Collect the statements of the block."""
    found: list[str] = []
    with CaptureQueriesContext(connection) as captured:
        yield found
    found += [query["sql"] for query in captured.captured_queries]


def move(section: Any, target: Any) -> None:
    section.move(Page.objects.get(pk=target.pk), pos="last-child")


def rename(section: Any, target: Any) -> None:
    section.slug = f"chapter-{section.pk}"
    section.save()


def restrict(section: Any, target: Any) -> None:
    section.view_restrictions.create(restriction_type="login")


@pytest.mark.parametrize("change", [move, rename, restrict])
def test_request_costs_the_same_for_10_and_for_1000_descendants(
    change: Any, indexnow: Any, site: Any, shelf: Any
) -> None:
    sections = [make_section(site, count, f"section-{count}") for count in (3, 10, 1_000)]
    costs = []
    for section in sections:
        section = Page.objects.get(pk=section.pk).specific
        with our_queries() as queries:
            change(section, shelf)
        costs.append(len(queries))

    assert costs[1] == costs[2]


def test_announcing_costs_the_same_for_each_chunk_of_a_section(
    indexnow: Any, site: Any, shelf: Any
) -> None:
    """Pages of a chunk are read together: queries do not grow with their number."""
    costs = {}
    for count in (2, 20, 400):  # the first fills caches
        section = make_section(site, count, f"section-{count}")
        move(section, shelf)
        indexnow.travel_to(timezone.now() + timedelta(seconds=6))
        (intent,) = Intent.objects.planned()
        with our_queries() as queries:
            announce([IntentRef(key=intent.key, page_id=intent.page_id)])
        # SQLite takes few parameters, so that Django writes in pieces.
        costs[count] = len([query for query in queries if "trackedurl" not in query])
        assert TrackedUrl.objects.filter(url__contains=f"section-{count}/").count() == 2 * count + 2

    assert costs[400] == costs[20]


def test_announcing_a_list_costs_the_same_for_2_and_for_50_pages(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    costs = {}
    for count in (2, 50):
        pages = [make_page(site.root_page, f"page-{count}-{number}") for number in range(count)]
        for page in pages:
            publish(page)
        indexnow.travel_to(timezone.now() + timedelta(seconds=6))
        refs = [
            IntentRef(key=intent.key, page_id=intent.page_id) for intent in Intent.objects.planned()
        ]
        assert len(refs) == count
        with our_queries() as queries:
            announce(refs)
        costs[count] = Counter(query.split()[0] for query in queries)
        assert not Intent.objects.planned().exists()

    # Whatever ends alike is ended by one UPDATE; everything is read and written together.
    assert costs[50]["SELECT"] <= costs[2]["SELECT"] + 2
    assert costs[50]["UPDATE"] <= costs[2]["UPDATE"]


@pytest.mark.timeout(300)
def test_w15_10000_live_descendants_are_told_in_few_posts_and_none_twice(
    indexnow: Any, engine: Any, site: Any, shelf: Any
) -> None:
    section = make_section(site, 10_000)
    move(section, shelf)
    assert Intent.objects.count() == 1

    told = indexnow.settled(minutes=30)

    assert len(told) == len(set(told)) == 20_002
    assert f"{ROOT}section/page-9999/" in told
    assert f"{ROOT}shelf/section/page-9999/" in told
    posts = Counter(Submission.objects.values_list("host", flat=True))
    assert all(count <= 4 for count in posts.values())


def test_worker_that_died_within_a_section_goes_on_where_it_was(
    indexnow: Any, site: Any, shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wagtail_indexnow.pages import subtrees

    monkeypatch.setattr(subtrees, "CHUNK_SIZE", 10)
    section = make_section(site, 35)
    move(section, shelf)
    indexnow.travel_to(timezone.now() + timedelta(seconds=6))
    intent = Intent.objects.get()
    cursors: list[int] = []
    do_chunk = subtrees._announce_chunk

    def dying(intent: Any) -> bool:
        cursors.append(intent.cursor)
        if len(cursors) == 3:
            raise KeyboardInterrupt
        return do_chunk(intent)

    with monkeypatch.context() as patched:
        patched.setattr(subtrees, "_announce_chunk", dying)
        with pytest.raises(KeyboardInterrupt):
            announce([IntentRef(key=intent.key, page_id=intent.page_id)])
    intent.refresh_from_db()
    assert intent.state == "planned"
    assert intent.cursor
    assert TrackedUrl.objects.count() == 2 * 20

    told = indexnow.settled(minutes=60)
    assert len(told) == len(set(told)) == 72


def test_w13_deleted_section_of_a_hundred_pages_is_one_post_a_host(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    section = make_section(site, 100)
    section.delete()

    assert len(indexnow.settled()) == 101
    assert Submission.objects.count() == 1


def test_section_with_a_site_of_its_own_below_is_told_by_host(
    indexnow: Any, site: Any, shelf: Any
) -> None:
    make_site("second.example.com")
    section = make_section(site, 5)
    other = Page.objects.get(slug="home-second")
    move(section, other)

    told = indexnow.settled()
    assert len(told) == 12
    assert sorted(Submission.objects.values_list("host", flat=True)) == [
        "second.example.com",
        "www.example.com",
    ]


def test_bulk_publish_in_the_admin_writes_one_row_a_page_and_one_post(
    indexnow: Any, editor: Any, site: Any, clock_at: Any
) -> None:
    pages = [make_page(site.root_page, f"page-{number}") for number in range(20)]
    for page in pages:
        page.save_revision()
    editor.bulk("publish", pages)

    assert Intent.objects.count() == 20
    assert len(indexnow.settled()) == 20
    assert Submission.objects.count() == 1


def test_rolled_back_bulk_of_changes_leaves_nothing(indexnow: Any, site: Any, shelf: Any) -> None:
    section = make_section(site, 5)
    with transaction.atomic():
        move(section, shelf)
        restrict(Page.objects.get(pk=section.pk), shelf)
        publish(make_page(site.root_page, "news"))
        transaction.set_rollback(True)

    assert not Intent.objects.exists()
    assert indexnow.settled() == []


def test_every_locale_and_site_of_a_list_is_read_once(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    french = Locale.objects.create(language_code="fr")
    home = site.root_page.copy_for_translation(french)
    for parent in (site.root_page, home):
        for number in range(5):
            publish(make_page(parent, f"page-{number}"))
    indexnow.travel_to(timezone.now() + timedelta(seconds=6))
    refs = [IntentRef(key=row.key, page_id=row.page_id) for row in Intent.objects.planned()]
    with our_queries() as queries:
        announce(refs)

    sites = [query for query in queries if "FROM" in query and "wagtailcore_site" in query]
    assert len(sites) <= 2
