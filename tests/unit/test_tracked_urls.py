"""What a mark makes of a tracked URL, on whatever database the suite runs on."""

from collections.abc import Iterator
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from wagtail_indexnow.constants import Change, Reason, UrlState
from wagtail_indexnow.ledger import channels, tracked_urls
from wagtail_indexnow.ledger.tracked_urls import (
    Marked,
    Resubmitted,
    give_up,
    mark,
    pending_removals,
    reassign,
    removed_last,
    resubmit,
    url_hash,
    were_submitted,
    withdraw,
)
from wagtail_indexnow.models import Channel, Intent, PublicUrl, TrackedUrl, TrackedUrlQuerySet

pytestmark = pytest.mark.django_db

START = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
GAP = timedelta(seconds=600)
MINUTE = timedelta(minutes=1)
HOST = "www.example.com"
ADDED, UPDATED, REMOVED = Change.ADDED, Change.UPDATED, Change.REMOVED


@pytest.fixture(autouse=True)
def at() -> Iterator[Any]:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


def marked(path: str = "a/", change: str = ADDED, page_id: int | None = 1, **values: Any) -> Marked:
    host = values.pop("host", HOST)
    return Marked(url=f"https://{host}/{path}", host=host, change=change, page_id=page_id, **values)


def row(path: str = "a/", **values: Any) -> TrackedUrl:
    return TrackedUrl.objects.get(url__endswith=f"/{path}", **values)


def change(**values: Any) -> None:
    TrackedUrl.objects.update(**values)


def accepted(at: datetime = START, **values: Any) -> None:
    change(state=UrlState.ACCEPTED, not_before=None, sent_at=at, **values)


def test_a_new_url_waits_to_be_sent_at_once() -> None:
    intent = Intent.objects.create(key="k", kind="publish", page_id=1, created_at=START)

    mark([marked(intent_id=intent.pk)], now=START)

    url = row()
    assert (url.endpoint, url.host, url.url) == ("indexnow", HOST, f"https://{HOST}/a/")
    assert (url.change, url.state, url.reason) == (ADDED, UrlState.PENDING, "")
    assert (url.not_before, url.changed_at) == (START, START)
    assert (url.page_id, url.intent) == (1, intent.pk)
    assert url.version == 1
    channel = Channel.objects.get(host=HOST)
    assert (url.channel, url.verified_at, channel.ready_at) == (channel.pk, START, START)


def test_marking_makes_the_channels_too() -> None:
    mark([marked(), marked(host="b.example.com")], now=START)

    # On MySQL one row more has neither: transactions that insert new URLs take turns on it.
    hosts = Channel.objects.exclude(endpoint="").values_list("host", flat=True)
    assert sorted(hosts) == ["", "b.example.com", HOST]


def test_marking_nothing_does_nothing(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        mark([], now=START)


def test_every_endpoint_has_its_own_row(settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {"ENDPOINTS": {"one": "http://one/", "two": "http://two/"}}

    mark([marked()], now=START)

    assert sorted(TrackedUrl.objects.values_list("endpoint", flat=True)) == ["one", "two"]


def test_a_change_of_an_untold_addition_is_still_an_addition() -> None:
    mark([marked()], now=START)
    mark([marked(change=UPDATED, page_id=2)], now=START + MINUTE)

    url = row()
    assert (url.change, url.version, url.page_id) == (ADDED, 2, 2)
    assert url.changed_at == START + MINUTE


@pytest.mark.parametrize("again", [ADDED, UPDATED])
def test_a_change_of_a_told_url_is_an_update(again: str) -> None:
    mark([marked()], now=START)
    accepted()
    mark([marked(change=again)], now=START + GAP)

    assert (row().change, row().state) == (UPDATED, UrlState.PENDING)


def test_c56_b08_a_change_within_the_gap_goes_out_at_its_end() -> None:
    mark([marked()], now=START)
    accepted()

    for minutes in (1, 2, 3, 5):
        mark([marked(change=UPDATED)], now=START + minutes * MINUTE)

    assert row().not_before == START + GAP
    assert TrackedUrl.objects.count() == 1


def test_a_change_after_the_gap_goes_at_once() -> None:
    mark([marked()], now=START)
    accepted()
    mark([marked(change=UPDATED)], now=START + 2 * GAP)

    assert row().not_before == START + 2 * GAP


def test_c57_a_removal_within_the_gap_goes_out_at_its_end() -> None:
    mark([marked()], now=START)
    accepted()
    mark([marked(change=REMOVED)], now=START + MINUTE)

    assert (row().change, row().not_before) == (REMOVED, START + GAP)


def test_b31_a_change_after_a_failed_attempt_is_not_swallowed_by_it() -> None:
    mark([marked()], now=START)
    change(not_before=START + 5 * MINUTE, reason=Reason.NO_RESPONSE, attempts=2, submission=7)
    again_at = START + timedelta(seconds=10)

    mark([marked(change=UPDATED)], now=again_at)

    assert (row().change, row().not_before) == (UPDATED, again_at)
    assert (row().attempts, row().reason) == (0, "")


def test_an_addition_that_was_never_told_and_is_gone_is_withdrawn() -> None:
    mark([marked()], now=START)
    mark([marked(change=REMOVED)], now=START + MINUTE)

    url = row()
    assert (url.state, url.reason) == (UrlState.SKIPPED, Reason.WITHDRAWN)
    assert (url.change, url.not_before, url.version) == (REMOVED, None, 2)


@pytest.mark.parametrize("was", [{"submission": 7}, {"sent_at": START}], ids=["posted", "accepted"])
def test_an_addition_that_was_in_a_post_is_removed_since_an_engine_may_know(
    was: dict[str, Any],
) -> None:
    mark([marked()], now=START)
    change(**was)
    mark([marked(change=REMOVED)], now=START + GAP)

    assert (row().state, row().change, row().not_before) == (UrlState.PENDING, REMOVED, START + GAP)


def test_a_page_that_excludes_itself_is_updated_a_last_time() -> None:
    mark([marked()], now=START)
    accepted()
    mark([marked(change=UPDATED, leaves=True)], now=START + GAP)

    assert (row().state, row().change) == (UrlState.PENDING, UPDATED)


def test_a_page_that_excludes_itself_before_it_was_submitted_is_withdrawn() -> None:
    mark([marked()], now=START)
    mark([marked(change=UPDATED, leaves=True)], now=START + MINUTE)

    assert (row().state, row().reason, row().not_before) == (
        UrlState.SKIPPED,
        Reason.WITHDRAWN,
        None,
    )


def test_b02_b03_a_url_that_was_public_before_is_removed_even_if_untracked() -> None:
    mark([marked(change=REMOVED)], now=START)

    assert (row().change, row().state, row().not_before) == (REMOVED, UrlState.PENDING, START)


@pytest.mark.parametrize("state", [UrlState.PENDING, UrlState.ACCEPTED])
def test_b02_a_removal_is_told_once(state: str) -> None:
    mark([marked(change=REMOVED)], now=START)
    not_before = START if state == UrlState.PENDING else None
    change(state=state, not_before=not_before)

    mark([marked(change=REMOVED)], now=START + 2 * GAP)

    assert (row().version, row().not_before, row().state) == (1, not_before, state)


def test_a_withdrawn_url_is_not_removed_again() -> None:
    mark([marked()], now=START)
    for _ in range(2):
        mark([marked(change=REMOVED)], now=START)

    assert (row().version, row().state) == (2, UrlState.SKIPPED)


def test_a_removal_that_ended_untold_is_told_when_it_comes_again() -> None:
    mark([marked(change=REMOVED)], now=START)
    change(state=UrlState.FAILED, reason=Reason.GAVE_UP, not_before=None)

    mark([marked(change=REMOVED)], now=START + MINUTE)

    assert (row().state, row().not_before) == (UrlState.PENDING, START + MINUTE)


@pytest.mark.parametrize(
    ("state", "change_now"), [(UrlState.ACCEPTED, ADDED), (UrlState.PENDING, UPDATED)]
)
def test_a_url_that_comes_back_is_added_if_its_removal_was_told(
    state: str, change_now: str
) -> None:
    mark([marked(change=REMOVED)], now=START)
    change(state=state)

    mark([marked(change=UPDATED)], now=START + 2 * GAP)

    assert (row().change, row().state) == (change_now, UrlState.PENDING)


def test_a_removal_without_a_page_takes_the_page_from_nobody() -> None:
    mark([marked(page_id=2)], now=START)
    mark([marked(change=REMOVED, page_id=None)], now=START + MINUTE)

    assert (row().change, row().page_id) == (REMOVED, 2)


def test_a_change_without_a_page_leaves_the_url_to_its_page() -> None:
    mark([marked(page_id=2)], now=START)
    mark([marked(change=UPDATED, page_id=None)], now=START + MINUTE)

    assert (row().page_id, row().version) == (2, 2)


def test_a_removal_that_is_no_news_writes_nothing() -> None:
    mark([marked(change=REMOVED)], now=START)

    with CaptureQueriesContext(connection) as queries:
        mark([marked(change=REMOVED)], now=START)

    assert not [query for query in queries if query["sql"].startswith("INSERT")]


def test_an_endpoint_that_is_gone_hears_of_no_change(settings: Any) -> None:
    mark([marked()], now=START)
    settings.WAGTAIL_INDEXNOW = {"ENDPOINTS": {"other": "http://other/"}}

    mark([marked(change=UPDATED)], now=START + MINUTE)

    assert row(endpoint="indexnow").version == row(endpoint="other").version == 1


@pytest.mark.parametrize("first", [ADDED, REMOVED])
def test_within_one_call_a_page_that_took_a_url_over_wins(first: str) -> None:
    changes = [marked(change=REMOVED, page_id=1), marked(change=ADDED, page_id=2)]
    if first == ADDED:
        changes.reverse()

    mark(changes, now=START)

    assert (row().change, row().page_id) == (ADDED, 2)


def test_within_one_call_the_last_of_two_removals_counts() -> None:
    mark([marked(change=REMOVED, page_id=1), marked(change=REMOVED, page_id=2)], now=START)

    assert row().page_id == 2


@pytest.mark.parametrize("first", ["leaves", "stays"])
def test_within_one_call_a_page_that_keeps_a_url_wins_over_one_that_leaves_it(first: str) -> None:
    changes = [marked(change=UPDATED, leaves=True), marked(change=UPDATED, page_id=2)]
    if first == "stays":
        changes.reverse()

    mark(changes, now=START)

    assert (row().state, row().page_id) == (UrlState.PENDING, 2)


def test_c19_duplicates_in_one_call_are_one_url() -> None:
    mark([marked()] * 3, now=START)

    assert row().version == 1


def test_c18_the_slash_makes_another_url() -> None:
    mark([marked("a"), marked("a/")], now=START)

    assert TrackedUrl.objects.count() == 2


def test_b32_a_long_url_is_kept_whole() -> None:
    long = "x" * (2_048 - len(f"https://{HOST}/"))

    mark([marked(long)], now=START)

    assert TrackedUrl.objects.get().url == f"https://{HOST}/{long}"


def test_a_change_during_a_post_keeps_what_is_known_of_it_and_raises_the_version() -> None:
    mark([marked()], now=START)
    change(submission=7, last_status=503, last_status_at=START)

    mark([marked(change=UPDATED)], now=START)

    url = row()
    assert (url.submission, url.last_status, url.version) == (7, 503, 2)


def test_recompute_also_when_an_earlier_mark_is_replaced() -> None:
    """A withdrawal must not leave a channel ready for nothing, nor a mark one that is not."""
    mark([marked()], now=START)
    mark([marked(change=REMOVED)], now=START)
    assert Channel.objects.get(host=HOST).ready_at is None

    mark([marked("b/")], now=START + MINUTE)
    assert Channel.objects.get(host=HOST).ready_at == START + MINUTE


def test_with_verify_pages_a_mark_waits_at_the_hosts_front_end(settings: Any) -> None:
    mark([marked()], now=START)
    settings.WAGTAIL_INDEXNOW = {"VERIFY_PAGES": True}

    mark([marked(change=UPDATED)], now=START + MINUTE)

    front_end = Channel.objects.get(endpoint="", host=HOST)
    assert (row().channel, row().verified_at) == (front_end.pk, None)
    assert front_end.ready_at == START + MINUTE
    assert Channel.objects.get(endpoint="indexnow", host=HOST).ready_at is None


def test_thousands_of_urls_are_marked_in_few_queries(
    django_assert_max_num_queries: Any,
) -> None:
    changes = [marked(f"{number}/") for number in range(2_500)]

    # SQLite takes some fifty rows in one statement, servers take a thousand.
    with django_assert_max_num_queries(180):
        mark(changes, now=START)
    mark(changes, now=START)

    assert TrackedUrl.objects.filter(version=2).count() == 2_500


def test_a_url_that_has_a_row_gets_no_other() -> None:
    mark([marked()], now=START)

    with CaptureQueriesContext(connection) as queries:
        mark([marked()], now=START)

    inserts = [query["sql"] for query in queries if query["sql"].startswith("INSERT")]
    assert len(inserts) == 1  # the upsert that writes the row back


def test_a_url_that_another_worker_inserts_in_between_is_marked_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    insert = TrackedUrlQuerySet.bulk_create

    def late(self: Any, rows: Any, **options: Any) -> Any:
        monkeypatch.undo()
        insert(self, [copy(row) for row in rows])
        return insert(self, rows, **options)

    monkeypatch.setattr(TrackedUrlQuerySet, "bulk_create", late)

    mark([marked()], now=START)

    assert (row().version, row().state) == (1, UrlState.PENDING)


def test_c55_what_was_tried_for_too_long_fails() -> None:
    mark([marked("a/"), marked("b/")], now=START)
    mark([marked("b/")], now=START + MINUTE)
    later = START + timedelta(days=7)

    assert give_up(later) == 1

    assert (row("a/").state, row("a/").reason) == (UrlState.FAILED, Reason.GAVE_UP)
    assert row("a/").not_before is None
    assert row("b/").state == UrlState.PENDING


def test_what_ended_or_is_in_flight_is_not_given_up() -> None:
    mark([marked("a/"), marked(host="b.example.com")], now=START)
    later = START + timedelta(days=8)
    TrackedUrl.objects.filter(host=HOST).update(not_before=None)
    Channel.objects.filter(host="b.example.com").update(lease_until=later + MINUTE)

    assert give_up(later) == 0


def test_a_claim_between_search_and_lock_keeps_a_url_from_being_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark([marked()], now=START)
    lock = channels.lock

    def claimed_first(pks: Any) -> Any:
        Channel.objects.filter(host=HOST).update(lease_until=START)
        return lock(pks)

    monkeypatch.setattr(channels, "lock", claimed_first)

    assert give_up(START + timedelta(days=8)) == 0
    assert row().state == UrlState.PENDING


def test_only_channels_with_something_ready_are_searched_for_what_to_give_up() -> None:
    mark([marked()], now=START)
    Channel.objects.update(ready_at=None)

    assert give_up(START + timedelta(days=8)) == 0


def test_giving_up_leaves_nothing_ready() -> None:
    mark([marked()], now=START)

    give_up(START + timedelta(days=8))

    assert Channel.objects.get(host=HOST).ready_at is None


def test_ending_goes_on_until_all_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracked_urls, "END_CHUNK", 2)
    mark([marked(f"{number}/") for number in range(5)], now=START)

    assert give_up(START + timedelta(days=8)) == 5


def test_locks_are_taken_by_primary_key_urls_before_channels() -> None:
    """MariaDB showed 18 to 146 deadlocks a run without; here the order of statements is checked."""
    mark([marked(f"{name}/", host=f"{name}.example.com") for name in "zyxwv"], now=START)

    with CaptureQueriesContext(connection) as queries:
        mark([marked(f"{name}/", host=f"{name}.example.com") for name in "xvzwy"], now=START)

    selects = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    urls = next(n for n, sql in enumerate(selects) if is_lock(sql, "trackedurl"))
    locked = next(n for n, sql in enumerate(selects) if is_lock(sql, "channel"))
    assert urls < locked
    first_due = next(n for n, sql in enumerate(selects) if "U0" in sql and n > locked)
    assert first_due > locked  # recompute: a second statement, after the lock


def is_lock(sql: str, table: str) -> bool:
    name = f"wagtail_indexnow_{table}"
    column = connection.ops.quote_name("id")
    ordered = f"ORDER BY {connection.ops.quote_name(name)}.{column} ASC"
    can_lock = connection.features.has_select_for_update
    return ordered in sql and (not can_lock or "FOR UPDATE" in sql)


@pytest.mark.parametrize(
    ("sent_at", "due_at"),
    [(None, START), (START - MINUTE, START - MINUTE + GAP), (START - 2 * GAP, START)],
    ids=["never sent", "sent just now", "sent long ago"],
)
def test_a_url_sent_again_goes_afresh_ahead_of_its_retry_but_not_of_the_gap(
    sent_at: datetime | None, due_at: datetime
) -> None:
    mark([marked(change=REMOVED)], now=START - MINUTE)
    retry_at = START + timedelta(hours=1)
    change(sent_at=sent_at, not_before=retry_at, reason=Reason.NO_RESPONSE, attempts=2)

    assert resubmit([row().pk], now=START).count == 1

    url = row()
    assert (url.change, url.state, url.reason) == (REMOVED, UrlState.PENDING, "")
    assert (url.changed_at, url.version, url.attempts) == (START, 2, 0)
    assert url.not_before == due_at


def test_a_url_that_ended_is_sent_again() -> None:
    mark([marked("a/", REMOVED), marked("b/", REMOVED)], now=START)
    change(state=UrlState.FAILED, reason=Reason.GAVE_UP, not_before=None)

    assert resubmit([row("a/").pk], now=START) == Resubmitted(count=1, pages=set())

    assert (row("a/").state, row("b/").state) == (UrlState.PENDING, UrlState.FAILED)
    assert Channel.objects.get(host=HOST).ready_at == START


def test_a_url_that_a_page_has_is_left_to_the_check_of_its_page() -> None:
    """What is true of it by now may be another change."""
    mark([marked("a/", page_id=3), marked("b/", page_id=4)], now=START)
    accepted()
    held = {"url": row("a/").url, "url_hash": row("a/").url_hash, "host": HOST}
    PublicUrl.objects.create(page_id=3, **held)

    assert resubmit([row("a/").pk], now=START) == Resubmitted(count=1, pages={3})

    assert row("a/").state == UrlState.ACCEPTED


def test_what_no_engine_may_hear_of_is_not_sent_again(settings: Any) -> None:
    mark([marked("withdrawn/"), marked("gone/")], now=START)
    mark([marked("withdrawn/", change=REMOVED)], now=START)
    TrackedUrl.objects.filter(url__endswith="/gone/").update(endpoint="gone")

    again = resubmit([url.pk for url in TrackedUrl.objects.all()], now=START)

    assert again == Resubmitted(count=0, pages=set())

    assert set(TrackedUrl.objects.values_list("version", flat=True)) == {1, 2}


# What converge asks and says


def test_what_is_pending_for_a_url_that_leaves_silently_is_withdrawn() -> None:
    mark([marked("a/"), marked("b/"), marked("c/", REMOVED)], now=START)
    urls = [row(path).url for path in ("a/", "c/")]

    withdraw(urls, now=START + MINUTE)

    gone = row("a/")
    assert (gone.state, gone.reason, gone.not_before) == (UrlState.SKIPPED, Reason.WITHDRAWN, None)
    assert (gone.change, gone.version) == (REMOVED, 2)
    assert (row("b/").state, row("c/").state) == (UrlState.PENDING, UrlState.PENDING)


def test_withdrawing_leaves_nothing_ready_and_what_ended_as_it_is() -> None:
    mark([marked()], now=START)
    withdraw([row().url], now=START)
    assert Channel.objects.get(host=HOST).ready_at is None

    accepted(change=ADDED)
    withdraw([row().url], now=START)
    assert (row().state, row().change) == (UrlState.ACCEPTED, ADDED)


def test_urls_that_were_in_a_post_at_any_endpoint_were_submitted(settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {"ENDPOINTS": {"one": "http://one/", "two": "http://two/"}}
    mark([marked("a/"), marked("b/"), marked("c/")], now=START)
    TrackedUrl.objects.filter(endpoint="two", url__endswith="/a/").update(submission=7)
    TrackedUrl.objects.filter(endpoint="one", url__endswith="/b/").update(sent_at=START)
    urls = {path: row(path, endpoint="one").url for path in ("a/", "b/", "c/")}

    assert were_submitted(urls.values()) == {urls["a/"], urls["b/"]}


def test_removals_are_pending_or_the_last_that_engines_know() -> None:
    mark([marked("a/", REMOVED), marked("b/", REMOVED), marked("c/")], now=START)
    TrackedUrl.objects.filter(url__endswith="/b/").update(state=UrlState.ACCEPTED, not_before=None)
    urls = {path: row(path).url for path in ("a/", "b/", "c/")}

    assert pending_removals(urls.values()) == {urls["a/"]}
    assert removed_last(urls.values()) == {urls["a/"], urls["b/"]}


def test_a_row_can_be_given_to_another_page_that_has_the_url() -> None:
    mark([marked("a/", page_id=1), marked("b/", page_id=1)], now=START)

    reassign({row("a/").url: 2})

    assert (row("a/").page_id, row("b/").page_id) == (2, 1)
    assert row("a/").version == 1


def test_a_hash_is_of_the_whole_url() -> None:
    assert url_hash("https://a/") != url_hash("https://a")
    assert len(url_hash("https://a/")) == 64
