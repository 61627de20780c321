"""Visits of crawlers after a submission: seen by the middleware, or read from access logs."""

import asyncio
import gzip
import io
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, connections, transaction
from django.http import HttpResponse
from django.test import AsyncRequestFactory, Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.factories import make_page
from wagtail_indexnow.ledger import channels
from wagtail_indexnow.ledger.tracked_urls import url_hash
from wagtail_indexnow.middleware import VisitMiddleware
from wagtail_indexnow.models import Submission, TrackedUrl, Visit
from wagtail_indexnow.relay import maintenance
from wagtail_indexnow.visits import figures, recording

pytestmark = pytest.mark.django_db(transaction=True)

HOST = "www.example.com"
PATH = "/en/news/"
URL = f"https://{HOST}{PATH}"
BINGBOT = "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"
YANDEX = "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)"
BROWSER = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/131.0 Safari/537.36"


@pytest.fixture(autouse=True)
def _at_noon(clock_at: Any) -> None:
    """Let time stand still."""


def submitted(url: str = URL, *, change: str = "updated", ago: timedelta | None = None) -> int:
    """Let a URL have been submitted and accepted, and return the submission's key."""
    started_at = timezone.now() - (ago or timedelta())
    submission = Submission.objects.create(
        endpoint="engine",
        host=HOST,
        started_at=started_at,
        finished_at=started_at,
        status=200,
        state="accepted",
        urls=[url],
    )
    channels.ensure([("engine", ""), ("engine", HOST)])
    TrackedUrl.objects.update_or_create(
        endpoint="engine",
        url_hash=url_hash(url),
        defaults={
            "host": HOST,
            "url": url,
            "change": change,
            "state": "accepted",
            "changed_at": started_at,
            "sent_at": started_at,
            "submission": submission.pk,
        },
    )
    return submission.pk


def visits() -> list[tuple[int, str, int]]:
    rows = Visit.objects.order_by("submission", "crawler", "url_hash")
    return [(row.submission, row.crawler, row.status) for row in rows]


def visit(agent: str = BINGBOT, path: str = PATH, status: int = 200, **extra: Any) -> HttpResponse:
    """Ask for a page as a visitor does, on a site that answers with this status."""
    middleware = VisitMiddleware(lambda request: HttpResponse(status=status))
    method = extra.pop("method", "get")
    headers = {"user-agent": agent, "host": HOST}
    request = getattr(RequestFactory(), method)(path, secure=True, headers=headers, **extra)
    response = middleware(request)
    assert isinstance(response, HttpResponse)
    return response


def line(
    path: str = PATH, *, agent: str = BINGBOT, status: int = 200, at: datetime | None = None
) -> str:
    moment = (at or timezone.now()).astimezone(UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'203.0.113.9 - - [{moment}] "GET {path} HTTP/1.1" {status} 512 "-" "{agent}"\n'


@pytest.fixture
def read(tmp_path: Path, capsys: Any) -> Any:
    """Run `indexnow_visits` on a log, and return what it said."""

    def run(*lines: str, name: str = "access.log", **options: Any) -> str:
        path = tmp_path / name
        text = "".join(lines).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        call_command("indexnow_visits", str(path), **options)
        return str(capsys.readouterr().out)

    return run


class TestMiddleware:
    def test_first_visit_of_each_crawler_is_noted(self) -> None:
        submission = submitted()

        for agent in (BINGBOT, YANDEX, BINGBOT, BROWSER):
            visit(agent)

        assert visits() == [(submission, "Bingbot", 200), (submission, "YandexBot", 200)]
        assert Visit.objects.first().visited_at == timezone.now()  # type: ignore[union-attr]

    def test_visit_counts_again_after_the_next_submission(self, indexnow: Any) -> None:
        first = submitted()
        visit()
        indexnow.travel_to(timezone.now() + timedelta(hours=1))
        second = submitted()
        visit()

        assert visits() == [(first, "Bingbot", 200), (second, "Bingbot", 200)]

    @pytest.mark.parametrize(
        ("change", "status", "counts"),
        [
            ("updated", 200, True),
            ("added", 304, True),
            ("updated", 404, False),
            ("updated", 301, False),
            ("removed", 404, True),
            ("removed", 410, True),
            ("removed", 301, True),
            ("removed", 200, False),
            ("updated", 403, True),
            ("removed", 403, False),
        ],
    )
    def test_visit_depends_on_what_was_submitted(
        self, change: str, status: int, counts: bool
    ) -> None:
        submitted(change=change)

        visit(status=status)

        assert Visit.objects.exists() is counts

    def test_page_by_page_what_was_never_submitted_is_not_noted(self) -> None:
        submitted()

        visit(path="/en/other/")
        visit(path=f"{PATH}?page=2")
        visit(method="post")
        visit(method="head")

        assert visits() == []

    def test_refusal_gives_way_to_a_visit_and_not_the_other_way(self, indexnow: Any) -> None:
        submission = submitted()

        visit(status=503)
        assert visits() == [(submission, "Bingbot", 503)]
        indexnow.travel_to(timezone.now() + timedelta(minutes=5))
        visit(status=200)
        visit(status=503)

        assert visits() == [(submission, "Bingbot", 200)]
        assert Visit.objects.get().visited_at == timezone.now()

    def test_url_is_found_behind_a_proxy_that_speaks_plain_http(self) -> None:
        submission = submitted()
        middleware = VisitMiddleware(lambda request: HttpResponse())

        middleware(RequestFactory().get(PATH, headers={"user-agent": BINGBOT, "host": HOST}))

        assert visits() == [(submission, "Bingbot", 200)]

    def test_page_of_a_real_site_is_noted(self, site: Any, settings: Any) -> None:
        settings.MIDDLEWARE = [figures.MIDDLEWARE, *settings.MIDDLEWARE]
        make_page(site.root_page, "news", live=True)
        submission = submitted()

        response = Client(headers={"user-agent": BINGBOT, "host": HOST}).get(PATH, secure=True)

        assert response.status_code == 200
        assert visits() == [(submission, "Bingbot", 200)]

    def test_costs_others_no_query_and_crawlers_one_select_and_one_insert(self) -> None:
        submitted()

        with CaptureQueriesContext(connection) as browser:
            visit(BROWSER)
        with CaptureQueriesContext(connection) as first:
            visit()
        with CaptureQueriesContext(connection) as second:
            visit()

        assert len(browser) == 0
        assert _verbs(first) == ["SELECT", "INSERT"]
        assert _verbs(second) == ["SELECT"]

    def test_select_uses_an_index(self) -> None:
        submitted()
        with CaptureQueriesContext(connection) as captured:
            visit()
        rows = TrackedUrl.objects.filter(url_hash__in=[url_hash(URL)], submission__isnull=False)

        assert "url_hash" in captured[0]["sql"]
        if connection.vendor == "sqlite":
            assert "USING INDEX" in rows.explain()

    def test_takes_others_next_to_no_time(self) -> None:
        """20 µs for a visitor that is no crawler, most of which is a clock's own."""
        request = RequestFactory().get(PATH, headers={"user-agent": BROWSER})
        response = HttpResponse()
        bare, ours = (lambda request: response), VisitMiddleware(lambda request: response)

        def took_us(handler: Any) -> float:
            times = []
            for _ in range(2_000):
                started = time.perf_counter()
                handler(request)
                times.append(time.perf_counter() - started)
            return statistics.median(times) * 1e6

        # The promise holds on a quiet machine; a query would take a thousand.
        assert took_us(ours) - took_us(bare) < 200

    def test_works_under_asgi(self) -> None:
        submission = submitted(f"https://testserver{PATH}")

        async def answer(request: Any) -> HttpResponse:
            return HttpResponse()

        async def ask(agent: str) -> Any:
            headers = {"user-agent": agent}
            request = AsyncRequestFactory().get(PATH, secure=True, headers=headers)
            response = await VisitMiddleware(answer)(request)  # type: ignore[misc]
            await sync_to_async(connections.close_all)()  # of the thread, as the handler does
            return response

        for agent in (BROWSER, BINGBOT):
            assert asyncio.run(ask(agent)).status_code == 200
        assert visits() == [(submission, "Bingbot", 200)]

    @pytest.mark.parametrize("host", ["www.elsewhere.org", "not a host", "a" * 300])
    def test_unknown_host_is_answered_as_without_it(
        self, host: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        submitted()
        middleware = VisitMiddleware(lambda request: HttpResponse())

        headers = {"user-agent": BINGBOT, "host": host}
        assert middleware(RequestFactory().get(PATH, headers=headers)).status_code == 200  # type: ignore[union-attr]
        assert visits() == []
        assert not [found for found in caplog.records if found.name.startswith("wagtail_indexnow")]

    def test_fault_of_the_database_is_none_of_the_visitor(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        submitted()

        def fail(*args: Any, **kwargs: Any) -> None:
            raise DatabaseError("database is locked")

        monkeypatch.setattr(recording, "_save", fail)

        assert visit().status_code == 200

    def test_open_transaction_of_a_site_survives_a_fault(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        submitted()
        monkeypatch.setattr(recording.clock, "later", lambda delay: "no time")

        with transaction.atomic():
            assert visit().status_code == 200
            assert not Visit.objects.exists()

    def test_notes_nothing_where_the_app_is_off(self, indexnow: Any) -> None:
        submitted()
        indexnow.configure(ENABLED=False)

        visit()

        assert visits() == []


def _verbs(captured: CaptureQueriesContext) -> list[str]:
    verbs = [query["sql"].split()[0] for query in captured]
    return [verb for verb in verbs if verb not in ("BEGIN", "COMMIT", "START")]


class TestLogs:
    def test_visit_in_a_log_is_recorded(self, read: Any) -> None:
        submission = submitted(ago=timedelta(hours=1))

        said = read(line(), line(agent=BROWSER), line("/en/other/"))

        assert visits() == [(submission, "Bingbot", 200)]
        assert "2 lines that name a crawler, 0 of them unreadable. Recorded 1 visits." in said

    def test_reading_a_log_twice_changes_nothing(self, read: Any) -> None:
        submitted(ago=timedelta(hours=1))
        log = [line(), line(agent=YANDEX), line(status=503), "bingbot/2.0\n"]
        read(*log)
        before = list(Visit.objects.order_by("pk").values())

        said = read(*log)

        assert list(Visit.objects.order_by("pk").values()) == before
        assert "1 of them unreadable. Recorded 0 visits." in said

    def test_earliest_visit_counts_in_whichever_order_logs_are_read(self, read: Any) -> None:
        start = timezone.now()
        submitted(ago=timedelta(hours=3))
        hours = [start - timedelta(hours=hour) for hour in (1, 2, 0)]

        for at in hours:
            read(line(at=at))

        assert Visit.objects.get().visited_at == hours[1]

    def test_visit_before_the_submission_belongs_to_none(self, read: Any) -> None:
        submitted(ago=timedelta(hours=1))

        read(line(at=timezone.now() - timedelta(hours=2)))

        assert visits() == []

    def test_visit_in_the_second_of_the_submission_counts(self, read: Any, indexnow: Any) -> None:
        indexnow.travel_to(timezone.now() + timedelta(milliseconds=700))
        submission = submitted()

        read(line())

        assert visits() == [(submission, "Bingbot", 200)]
        assert Visit.objects.get().visited_at == timezone.now()

    def test_visit_wins_over_a_refusal(self, read: Any) -> None:
        submission = submitted(ago=timedelta(hours=1))

        read(line(status=503, at=timezone.now() - timedelta(minutes=9)), line(), line(status=429))

        assert visits() == [(submission, "Bingbot", 200)]

    def test_middleware_and_log_agree(self, read: Any) -> None:
        submission = submitted()
        visit()

        read(line(at=timezone.now() + timedelta(minutes=1)))

        assert visits() == [(submission, "Bingbot", 200)]

    def test_submission_that_was_pruned_has_no_visits(self, read: Any) -> None:
        submitted(ago=timedelta(hours=1))
        Submission.objects.all().delete()

        read(line())

        assert visits() == []

    def test_log_may_be_packed(self, read: Any) -> None:
        submission = submitted(ago=timedelta(hours=1))

        read(line(), name="access.log.gz")

        assert visits() == [(submission, "Bingbot", 200)]

    def test_log_may_come_from_a_pipe(self, monkeypatch: pytest.MonkeyPatch) -> None:
        submission = submitted(ago=timedelta(hours=1))
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(line().encode())))  # type: ignore[arg-type]
        monkeypatch.setattr(sys, "stdin", stdin)

        call_command("indexnow_visits", "-", stdout=io.StringIO())

        assert visits() == [(submission, "Bingbot", 200)]

    def test_damaged_file_is_named_and_what_came_before_counts(
        self, tmp_path: Path, read: Any
    ) -> None:
        submitted(ago=timedelta(hours=1))
        lines = "".join(line(f"/{number}/") for number in range(2_000)).encode()
        path = tmp_path / "damaged.gz"
        path.write_bytes(gzip.compress(line().encode() + lines)[:-200])

        with pytest.raises(CommandError, match=r"damaged\.gz"):
            call_command("indexnow_visits", str(path))
        with pytest.raises(CommandError, match="missing"):
            call_command("indexnow_visits", "missing.log")

    def test_host_is_asked_for_where_there_are_several(self, read: Any) -> None:
        submission = submitted(ago=timedelta(hours=1))
        channels.ensure([("engine", "www.example.org")])

        read(line())
        assert visits() == []
        read(line(), host="WWW.example.com")

        assert visits() == [(submission, "Bingbot", 200)]
        with pytest.raises(CommandError, match="not a host name"):
            read(line(), host="a b")

    def test_dry_run_records_nothing(self, read: Any) -> None:
        submitted(ago=timedelta(hours=1))

        assert "Would record 1 visits." in read(line(), dry_run=True)
        assert visits() == []
        assert not figures.is_complete(timezone.now())

    def test_times_without_zone_are_stored_as_the_site_has_them(
        self, read: Any, settings: Any
    ) -> None:
        settings.USE_TZ = False
        at = datetime(2026, 12, 1, 12, tzinfo=UTC)

        assert recording._as_stored(at) == datetime(2026, 12, 1, 12)

    def test_many_urls_take_few_queries(self, read: Any) -> None:
        for number in range(20):
            submitted(f"https://{HOST}/{number}/", ago=timedelta(hours=1))

        with CaptureQueriesContext(connection) as captured:
            read(*(line(f"/{number}/") for number in range(20)))

        assert Visit.objects.count() == 20
        assert len(captured) < 15


def test_visits_are_pruned_a_batch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Visits go with the rest of the history."""
    monkeypatch.setattr(recording, "PRUNE_BATCH", 2)
    monkeypatch.setattr(recording, "PRUNE_BATCHES", 2)
    now = timezone.now()
    for number, days in enumerate([91, 92, 93, 94, 95, 89]):
        Visit.objects.create(
            submission=number,
            url_hash="a",
            crawler="Bingbot",
            visited_at=now - timedelta(days=days),
            status=200,
        )

    assert maintenance.prune()
    assert Visit.objects.count() == 2
    assert not maintenance.prune()

    assert Visit.objects.get().submission == 5
