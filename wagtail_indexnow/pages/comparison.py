"""One look at a batch of pages: what is public now beside what engines know.

Everything that a batch needs is read once, by `Batch` and `known`; the rest is arithmetic.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError

from ..conf import conf
from ..constants import SILENT_REASONS, Change, Reason
from ..exceptions import OutdatedError
from ..hosts import host_of, is_served
from ..ledger import tracked_urls
from ..ledger.tracked_urls import Marked
from .changes import Content, converge
from .facts import Batch
from .guards import GO, PageFacts, Policy, decide_page
from .public_urls import PageUrls, Routing, page_model

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: Faults of the database say nothing about a page: they end the batch, which comes back whole.
DATABASE_FAULTS = (DatabaseError, InterfaceError)


LOOKS = 3


def look_again_if_outdated(look: Callable[[], T], *, otherwise: T) -> T:
    """Look anew as long as somebody else told of the same pages meanwhile, three times at most.

    :param otherwise: what to return then; the rows are left to the next hand-over.
    """
    for _look in range(LOOKS):
        try:
            return look()
        except OutdatedError:
            logger.info("state=looking_again")
    return otherwise


@dataclass(frozen=True)
class Converged:
    """What is to be told about one page, and why it is not public, if it is not."""

    marks: Sequence[Marked] = ()
    reason: str = ""

    @property
    def changes_urls(self) -> bool:
        """Say whether URLs appeared or vanished, and with them their translations' alternates."""
        return any(mark.change != Change.UPDATED for mark in self.marks)

    @property
    def removes_urls(self) -> bool:
        return any(mark.change == Change.REMOVED for mark in self.marks)


class Look:
    """The facts and URLs of some pages, at one moment, inside `routing()`."""

    def __init__(self, page_ids: Collection[int], router: Routing) -> None:
        # Before the pages: what is marked after this is newer than what we are going to see.
        self._versions = tracked_urls.versions(page_ids)
        self.batch = Batch(page_ids)
        self.policy = Policy(enabled=conf.enabled, aliases=conf.aliases)
        self.router = router
        self._page_ids = page_ids
        self._urls: dict[int, PageUrls] = {}

    def facts(self, page_id: int) -> PageFacts | None:
        return self.batch.facts(page_id)

    def urls(self, page_id: int) -> PageUrls:
        """Return a page's URLs, whatever the guards say. The page's own faults pass through."""
        if page_id not in self._urls:
            self._urls[page_id] = self.router.public_urls(self.batch.pages[page_id])
        return self._urls[page_id]

    def public_urls(self, page_id: int) -> PageUrls:
        """Return the URLs that engines may hear of now, or the guard that forbids it."""
        facts = self.facts(page_id)
        if facts is None:
            return PageUrls((), Reason.PAGE_DELETED)
        verdict = decide_page(facts, self.policy)
        return self.urls(page_id) if verdict == GO else PageUrls((), verdict.reason)

    def converge(
        self,
        page_id: int,
        *,
        intent_id: int,
        content: Content,
        former: Collection[str] = (),
        unchanged: Collection[str] = (),
    ) -> Converged:
        """Compare what is public with what engines know. The page's own faults pass through."""
        current = self.public_urls(page_id)
        if current.reason in SILENT_REASONS or not self.policy.enabled:
            return Converged(reason=current.reason)
        changes = converge(
            current=current.urls,
            known=self._known.get(page_id, {}),
            former=former,
            unchanged=unchanged,
            content=content,
        )
        marks = self._marks(changes, page_id, intent_id)
        return Converged(marks, current.reason)

    def content(self, page_id: int, *, is_new: bool, always: bool = False) -> Content:
        """Describe the page's content as it is now."""
        page = self.batch.pages.get(page_id)
        published_at = None if page is None else page.last_published_at
        return Content(published_at=published_at, is_new=is_new, always=always)

    @cached_property
    def _known(self) -> Mapping[int, Mapping[str, Any]]:
        """Page → what engines know of it, as far as it may be spoken of from here."""
        known = tracked_urls.known(self._page_ids)
        hosts = {row.host for rows in known.values() for row in rows}
        served = {host for host in hosts if is_served(host)}
        return {
            page_id: {row.url: row.published_at for row in rows if row.host in served}
            for page_id, rows in known.items()
        }

    def _marks(
        self, changes: Mapping[str, Change], page_id: int, intent_id: int
    ) -> Sequence[Marked]:
        page = self.batch.pages.get(page_id)
        return [
            Marked(
                url=url,
                host=host_of(url),
                change=change,
                page_id=page_id,
                intent_id=intent_id,
                published_at=None if page is None else page.last_published_at,
                seen=self._versions.get((page_id, url), {}),
            )
            for url, change in changes.items()
        ]


def translation_marks(
    causes: Mapping[Any, int], router: Routing, *, besides: Collection[int]
) -> Iterator[Marked]:
    """Yield marks for the live public translations of pages whose URLs changed.

    Their alternates changed too. Each is converged as its own page, under its own guards.

    :param causes: translation key → the intent that changed one of its pages.
    :param besides: pages that are looked at anyway.
    """
    if not causes:
        return
    translations = page_model().objects.filter(translation_key__in=causes, live=True)
    look = Look(set(translations.exclude(pk__in=besides).values_list("pk", flat=True)), router)
    for page_id, page in look.batch.pages.items():
        intent_id = causes[page.translation_key]
        try:
            content = look.content(page_id, is_new=True, always=True)
            yield from look.converge(page_id, intent_id=intent_id, content=content).marks
        except DATABASE_FAULTS:
            raise
        except Exception:
            # Its own intents will tell; the page that changed must not wait for it.
            logger.exception("page=%s state=translation_not_announced", page_id)
