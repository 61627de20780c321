"""A moved, hidden or shown section: the same look as at one page, in chunks of its pages.

Each chunk is one transaction that writes its URLs and how far it came, so that a worker that
dies loses one chunk's work and repeats none.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from wagtail.models import get_page_models

from .. import clock
from ..conf import conf
from ..constants import CHUNK_SIZE, Change, IntentState, Kind, Reason
from ..exceptions import OutdatedError
from ..hosts import host_of, is_served
from ..ledger import intents, tracked_urls
from ..ledger.backoff import retry_delay
from ..ledger.tracked_urls import Marked
from ..models import Intent
from .comparison import DATABASE_FAULTS, Converged, Look, look_again_if_outdated, translation_marks
from .guards import GO, decide_page
from .public_urls import Routing, descendant_url, has_own_urls, page_model, routing

logger = logging.getLogger(__name__)


def announce_subtree(intent: Intent) -> None:
    """Announce a page and all below it, chunk by chunk, until done or until somebody else is.

    :raises DatabaseError: the database failed; the rest is done by the next hand-over.
    """
    while look_again_if_outdated(lambda: _announce_chunk(intent), otherwise=False):
        pass


def _announce_chunk(intent: Intent) -> bool:
    """Do one chunk; `True` if there is more to do and the intent is still ours.

    :raises OutdatedError: see `tracked_urls.mark`; the chunk is as if nothing had been done.
    """
    cursor, version = intent.cursor, intent.version
    try:
        return _write_chunk(intent)
    except OutdatedError:
        intent.cursor, intent.version = cursor, version
        raise


def _write_chunk(intent: Intent) -> bool:
    with routing() as router:
        chunk = _Chunk(intent, router)
        marks = chunk.marks()
    with intents.savepoint():
        if chunk.is_last:
            is_ours = _end(intent, chunk.top_reason if not marks else "")
        else:
            is_ours = intents.advance(intent, chunk.cursor)
        if is_ours:
            tracked_urls.mark(marks, now=clock.now())
            for fault in chunk.faults:
                _plan_alone(intent, fault)
    return is_ours and not chunk.is_last


def _end(intent: Intent, reason: str) -> bool:
    if reason and not intent.cursor:
        return intents.end(intent, IntentState.SKIPPED, reason=reason)
    return intents.end(intent, IntentState.ANNOUNCED)


@dataclass(frozen=True)
class _Fault:
    """A page whose own code failed, and what it was called before the change."""

    page: Any
    former: Collection[str]
    error: Exception


def _plan_alone(intent: Intent, fault: _Fault) -> None:
    logger.warning(
        "intent=%s page=%s error=%r", intent.key, fault.page.pk, fault.error, exc_info=fault.error
    )
    intents.write(
        Kind(intent.kind),
        page=fault.page,
        former_urls={"own": list(fault.former), "base": None},
        run_at=clock.now() + retry_delay(1),
        attempts=1,
    )


class _Chunk:
    """Up to 500 pages of the subtree, those after the cursor by primary key."""

    def __init__(self, intent: Intent, router: Routing) -> None:
        self.intent, self.router = intent, router
        self.own: list[str] = intent.former_urls.get("own") or []
        self.top = page_model().objects.filter(pk=intent.page_id).first()
        self.top_reason = "" if self.top else str(Reason.PAGE_DELETED)
        self.faults: list[_Fault] = []
        page_ids = self._page_ids()
        self.is_last = len(page_ids) < CHUNK_SIZE
        self.cursor = str(page_ids[-1]) if page_ids else intent.cursor
        self.look = Look(page_ids or [intent.page_id], router)
        self.former = _FormerUrls(intent, self.top, self.look) if self.top else None

    def marks(self) -> list[Marked]:
        """Return what changed for the pages of this chunk, and for their translations."""
        if self.top is None:
            return list(self._converge_deleted().marks)
        marks: list[Marked] = []
        causes: dict[Any, int] = {}
        pages = self.look.batch.pages
        for page in sorted(pages.values(), key=lambda page: str(page.path)):
            converged = self._converge(page)
            marks += converged.marks
            if conf.translations == "always" or converged.changes_urls:
                causes[page.translation_key] = self.intent.pk
        if conf.translations != "never":
            marks += translation_marks(causes, self.router, besides=pages)
        return marks + self._leftovers() if self.is_last else marks

    def _page_ids(self) -> list[int]:
        # By key, since that stays: a tree path changes whenever somebody reorders or moves pages.
        if self.top is None:
            return []
        below = page_model().objects.filter(path__startswith=self.top.path)
        after = below.filter(pk__gt=int(self.intent.cursor or 0)).order_by("pk")
        return list(after.values_list("pk", flat=True)[:CHUNK_SIZE])

    def _converge(self, page: Any) -> Converged:
        before = _Before()
        try:
            before = self.former.of(page) if self.former else before
            converged = self.look.converge(
                page.pk,
                intent_id=self.intent.pk,
                content=self._content(page.pk),
                former=before.derived,
                unchanged={*before.unchanged, *self.own},
            )
        except DATABASE_FAULTS:
            raise
        except Exception as error:  # the page's own code
            self.faults.append(_Fault(page, before.derived, error))
            return Converged()
        if page.pk == self.intent.page_id:
            self.top_reason = converged.reason
        return converged

    def _converge_deleted(self) -> Converged:
        page_id = self.intent.page_id
        return self.look.converge(
            page_id, intent_id=self.intent.pk, content=self._content(page_id), former=self.own
        )

    def _content(self, page_id: int) -> Any:
        is_manual = self.intent.kind == Kind.MANUAL
        return self.look.content(page_id, is_new=is_manual, always=is_manual)

    def _leftovers(self) -> list[Marked]:
        """Return removals of captured URLs that no page of the subtree has any more.

        Known only at the end: a type with URLs of its own may well have kept them.
        """
        if not self.own or not conf.enabled:
            return []
        kept = self._urls_of_own_making()
        return [
            Marked(
                url=url,
                host=host_of(url),
                change=Change.REMOVED,
                page_id=self.intent.page_id,
                intent_id=self.intent.pk,
            )
            for url in dict.fromkeys(self.own)
            if url not in kept and is_served(host_of(url))
        ]

    def _urls_of_own_making(self) -> set[str]:
        """Return the public URLs of the top, and of all below it that make their own."""
        ids = [self.intent.page_id]
        types = [model for model in get_page_models() if has_own_urls(model)]
        if types:
            below = page_model().objects.type(*types).descendant_of(self.top).live()
            ids += below.values_list("pk", flat=True)
        look = Look(ids, self.router)
        kept: set[str] = set()
        for page_id in look.batch.pages:
            try:
                kept.update(look.public_urls(page_id).urls)
            except DATABASE_FAULTS:
                raise
            except Exception:
                # Whatever it was called, it may still be.
                logger.exception("page=%s state=former_urls_kept", page_id)
                return set(self.own)
        return kept


@dataclass(frozen=True)
class _Before:
    """What a page of the subtree was called before the change."""

    derived: frozenset[str] = frozenset()  # below the top's former URL
    unchanged: frozenset[str] = frozenset()  # not below the top's URL, so not touched


class _FormerUrls:
    """What the pages of a chunk were called, derived from the top's former URL."""

    def __init__(self, intent: Intent, top: Any, look: Look) -> None:
        self.intent, self.top, self.look = intent, top, look
        self.base: str | None = intent.former_urls.get("base")
        self.top_url = look.router.base_url(top) if self.base else None
        self.later_tops = self._later_tops() if self.base else []

    def of(self, page: Any) -> _Before:
        """Return the former URLs of one page. The page's own faults pass through."""
        if self.base is None or has_own_urls(type(page)) or not self._was_public(page):
            return _Before()  # nothing to derive: what its type makes itself came as text
        if self.top_url is None:  # moved out of every site
            return self._by_path(page)
        below = f"{self.top_url.rstrip('/')}/"
        urls = self.look.urls(page.pk).urls
        mapped = {
            url: self._rebased(url) for url in urls if url == self.top_url or url.startswith(below)
        }
        return _Before(
            frozenset(url for url in mapped.values() if is_served(host_of(url))),
            frozenset(url for url in urls if url not in mapped),
        )

    def _by_path(self, page: Any) -> _Before:
        urls = self.look.urls(page.pk).urls
        if urls or self.base is None:  # below a Site root of its own: nothing has changed
            return _Before(unchanged=frozenset(urls))
        url = descendant_url(self.base, page.url_path[len(self.top.url_path) :])
        return _Before(derived=frozenset({url} if is_served(host_of(url)) else ()))

    def _rebased(self, url: str) -> str:
        assert self.base is not None  # noqa: S101
        assert self.top_url is not None  # noqa: S101
        if url == self.top_url:
            return self.base
        rest = url[len(self.top_url.rstrip("/")) :]
        return f"{self.base.rstrip('/')}{rest}"

    def _was_public(self, page: Any) -> bool:
        """Say whether engines may have heard of a page at the top's former URL."""
        facts = self.look.facts(page.pk)
        if facts is None or page.pk == self.top.pk:
            # The top's own URL was captured, if it was public.
            return False
        # The section's own privacy is what may have changed: only restrictions below it count.
        was_shown = decide_page(replace(facts, is_private=False), self.look.policy) == GO
        return (
            was_shown
            and facts.first_published_at is not None
            and facts.first_published_at < self.intent.created_at
            and not self.look.batch.has_own_restriction_below(page, self.top)
            and not any(page.path.startswith(path) for path in self.later_tops)
        )

    def _later_tops(self) -> list[str]:
        """Return tree paths of sections below that changed after this intent was made.

        Their own intents captured what their pages were called under this one.
        """
        later = Intent.objects.filter(subtree=True, pk__gt=self.intent.pk)
        later = later.exclude(kind=Kind.MANUAL)  # which captures nothing
        below = page_model().objects.descendant_of(self.top)
        below = below.filter(pk__in=later.values("page_id"))
        return list(below.values_list("path", flat=True))
