"""A check of some pages: what is public now beside what the inventory knows.

The inventory and its versions are read first, then the pages: whatever another check writes after
that makes this one start over. Everything that a batch needs is read once; the rest is
arithmetic. Nothing here writes.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError, transaction

from ..conf import conf
from ..constants import Change, Reason
from ..exceptions import OutdatedError
from ..hosts import host_of, is_served
from ..ledger import intents, inventory, tracked_urls
from ..ledger.inventory import CheckedNow, KnownPage
from ..ledger.tracked_urls import Marked
from ..ledger.transactions import database
from ..models import Intent
from .changes import UrlChange, compare
from .facts import Batch
from .guards import PageFacts, Policy, is_being_copied, page_reason
from .model import page_model
from .public_urls import PageUrls, Routing

logger = logging.getLogger(__name__)
T = TypeVar("T")

ATTEMPTS = 3
CHUNK_SIZE = 500  # pages of a section or of the site in one transaction
GIVE_WAY_AFTER_S = 60.0


def repeat_if_outdated(check: Callable[[], T], *, otherwise: T) -> T:
    """Check again as long as another worker checked the same pages meanwhile, three times at most.

    :param otherwise: what to return then; the rows are left to the next hand-over.
    """
    for _attempt in range(ATTEMPTS):
        try:
            return check()
        except OutdatedError:
            logger.info("state=checking_again")
    return otherwise


def in_chunks(intent: Intent, do_chunk: Callable[[Intent], bool]) -> None:
    """Do a long check chunk by chunk, until done, taken by another worker, or for a minute.

    :param do_chunk: does one chunk after `intent.cursor`; returns whether there is more.
    """
    started = time.monotonic()
    while repeat_if_outdated(partial(_do_if_open, intent, do_chunk), otherwise=False):
        if time.monotonic() - started > GIVE_WAY_AFTER_S:
            intent.refresh_from_db(fields=["version"])
            intents.give_way(intent)
            return


def _do_if_open(intent: Intent, do_chunk: Callable[[Intent], bool]) -> bool:
    intent.refresh_from_db()
    return intent.run_at is not None and do_chunk(intent)


class Check:
    """The inventory, facts and URLs of some pages, inside `routing()`.

    Pages whose own code fails are in `faults`, and are compared with nothing. `events` says
    which intent each page is checked for.
    """

    def __init__(self, router: Routing, *, now: datetime) -> None:
        self.now = now
        self.known: dict[int, KnownPage] = {}
        self.faults: dict[int, Exception] = {}
        self.events: dict[int, int | None] = {}
        self.always: set[int] = set()
        self._router = router
        self._policy = Policy(aliases=conf.aliases)
        self._pages: dict[int, Any] = {}
        self._facts: dict[int, PageFacts | None] = {}
        self._urls: dict[int, PageUrls] = {}
        self._served: dict[str, bool] = {}

    def read(self, events: Mapping[int, int | None]) -> None:
        """Read pages that were not read yet.

        :param events: page id → the intent that it is checked for.
        """
        new = {pk: intent_id for pk, intent_id in events.items() if pk not in self.known}
        if not new:
            return
        self.known |= inventory.known(sorted(new))
        self.events |= new
        batch = Batch(new, now=self.now)
        self._pages |= batch.pages
        for page_id in new:
            try:
                with _own_savepoint():
                    self._facts[page_id] = batch.facts(page_id)
                    self._urls[page_id] = self._public_urls(page_id)
            except Exception as fault:
                _raise_if_database_is_away(fault)
                self.faults[page_id] = fault

    def page(self, page_id: int) -> Any:
        """Return the specific page, or `None` if it is gone."""
        return self._pages.get(page_id)

    def facts(self, page_id: int) -> PageFacts | None:
        return self._facts[page_id]

    def reason(self, page_id: int) -> str:
        """Return why a page has no public URL; empty if it has."""
        return self._urls[page_id].reason

    def urls(self, page_id: int) -> tuple[str, ...]:
        """Return the public URLs of a page that are served here."""
        return self._urls[page_id].urls

    def published_at(self, page_id: int) -> datetime | None:
        page = self._pages.get(page_id)
        return None if page is None else page.last_published_at

    def is_being_copied(self, page_id: int) -> bool:
        facts = self._facts.get(page_id)
        return facts is not None and facts.live and is_being_copied(facts, now=self.now)

    def changes(self, page_id: int) -> dict[str, UrlChange]:
        """Return what changed for a page: URL → change."""
        known = {
            url: row.published_at
            for url, row in self.known[page_id].urls.items()
            if self._is_served(row.host)
        }
        return compare(
            self.urls(page_id),
            known,
            published_at=self.published_at(page_id),
            always=page_id in self.always,
            excluded=self._excluded(page_id) if known else (),
        )

    def include_sharers(self, page_ids: Collection[int]) -> set[int]:
        """Read the pages that have a URL which one of these loses or gains, and theirs in turn.

        :returns: the pages that are to be written together, those whose code fails aside.
        """
        group = set(page_ids)
        pending = set(group)
        while pending:
            touched = {
                url: page_id
                for page_id in pending
                for url, change in self.changes(page_id).items()
                if change.is_gone or change.change == Change.ADDED
            }
            shared = inventory.sharers(touched, exclude=group)
            self.read({pk: self.events[touched[url]] for pk, url in shared.items()})
            pending = {pk for pk in shared if pk not in self.faults} - group
            group |= pending
        return group

    def translations(self, page_ids: Collection[int], keys: Mapping[int, Any]) -> set[int]:
        """Read the live translations that are announced along, by `TRANSLATIONS`.

        :param keys: translation keys of pages that are gone.
        :returns: their ids. A copy whose privacy is not settled is left to its own event.
        """
        causes = {}
        for page_id in page_ids if conf.translations != "never" else ():
            page = self._pages.get(page_id)
            key = keys.get(page_id) if page is None else page.translation_key
            if key is not None and self._concerns_translations(page_id):
                causes[key] = self.events[page_id]
        if not causes:
            return set()
        rows = page_model().objects.filter(translation_key__in=causes, live=True)
        found = dict(rows.exclude(pk__in=page_ids).values_list("pk", "translation_key"))
        self.read({pk: causes[key] for pk, key in found.items()})
        for page_id in self.faults.keys() & found.keys():
            # Its own events will announce it; the page that changed must not wait for it.
            logger.warning("page=%s state=translation_not_announced", page_id)
        along = {pk for pk in found if pk not in self.faults and not self.is_being_copied(pk)}
        self.always |= along
        return along

    def checked(self, page_ids: Collection[int]) -> list[CheckedNow]:
        """Return what the inventory is to say of the pages."""
        return [
            CheckedNow(
                page_id=page_id,
                urls=self.urls(page_id),
                kept=[
                    url
                    for url, row in self.known[page_id].urls.items()
                    if not self._is_served(row.host)
                ],
                published_at=self.published_at(page_id),
                reason=self.reason(page_id),
            )
            for page_id in page_ids
        ]

    def holders(self, page_ids: Collection[int]) -> dict[str, set[int]]:
        """Return which pages have each URL once the given ones are written."""
        held: dict[str, set[int]] = defaultdict(set)
        for page_id, known in self.known.items():
            urls = self.urls(page_id) if page_id in page_ids else known.urls
            for url in urls:
                held[url].add(page_id)
        return held

    def _public_urls(self, page_id: int) -> PageUrls:
        page, reason = self._pages.get(page_id), page_reason(self._facts[page_id], self._policy)
        if reason == Reason.EXCLUDED:
            return PageUrls(reason=reason, excluded=self._router.excluded_urls(page))
        return PageUrls(reason=reason) if reason else self._router.public_urls(page)

    def _excluded(self, page_id: int) -> tuple[str, ...]:
        return self._urls[page_id].excluded

    def _concerns_translations(self, page_id: int) -> bool:
        changes = self.changes(page_id).values()
        if conf.translations == "always":
            return bool(changes)
        return any(change.change != Change.UPDATED for change in changes)

    def _is_served(self, host: str) -> bool:
        if host not in self._served:
            self._served[host] = is_served(host)
        return self._served[host]


def _own_savepoint() -> AbstractContextManager[Any]:
    """Keep a transaction around the check usable, whatever a page's own code does to it."""
    connection = database()
    return (
        transaction.atomic(using=connection.alias) if connection.in_atomic_block else nullcontext()
    )


def _raise_if_database_is_away(fault: Exception) -> None:
    """Tell a fault of the ledger's database, which says nothing about the page, from the page's."""
    if not isinstance(fault, DatabaseError | InterfaceError):
        return
    try:
        with database().cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError):
        raise fault from None


def commit(check: Check, page_ids: Collection[int], *, silent: Collection[int] = ()) -> None:
    """Write what a check saw of some pages, and mark what changed, in the caller's transaction.

    :param silent: pages of which the inventory follows but nothing is announced.
    :raises OutdatedError: another check of one of the pages was written first.
    """
    holders = check.holders(page_ids)
    marks: list[Marked] = []
    withdrawn: list[str] = []
    taken_over: dict[str, int] = {}
    for page_id in sorted(page_ids):
        for url, change in check.changes(page_id).items():
            others = holders.get(url, set()) - {page_id}
            if change.is_gone and others:
                taken_over[url] = min(others)
            if page_id not in silent:
                marks += _marks(check, page_id, url, change, others)
            elif change.is_gone and not others:
                withdrawn.append(url)
    inventory.replace(check.checked(page_ids), check.known, now=check.now)
    tracked_urls.reassign(taken_over)
    tracked_urls.mark(marks, now=check.now)
    tracked_urls.withdraw(set(withdrawn) - {mark.url for mark in marks}, now=check.now)


def _marks(
    check: Check, page_id: int, url: str, change: UrlChange, others: Collection[int]
) -> Iterator[Marked]:
    """Yield what is announced of one URL of a page.

    It is removed only if no page has it afterwards, and added only if no other had it before.
    """
    kind = change.change
    if kind == Change.REMOVED and others:
        return
    if kind == Change.ADDED and any(
        url in known.urls for pk, known in check.known.items() if pk != page_id
    ):
        kind = Change.UPDATED
    yield Marked(
        url=url,
        host=host_of(url),
        change=kind,
        page_id=min(others) if change.leaves and others else page_id,
        intent_id=check.events[page_id],
        leaves=change.leaves and not others,
    )
