"""What will be gone, as text: the URLs of a page before it moves, hides or is deleted.

A snapshot is `{"own": [url, …], "base": url or None}`. `own` is known to have been public;
`base` is where the page's path led, so that the worker can derive what its descendants were
called. The work is the same however large the subtree is.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

from django.db.models import OuterRef, Subquery
from wagtail.models import PageViewRestriction, get_page_models

from .. import clock
from ..conf import conf
from ..constants import MAX_CAPTURED_URLS
from ..ledger.intents import savepoint
from ..models import Intent
from .facts import Batch, lineage
from .guards import GO, Policy, decide_page, is_being_copied
from .public_urls import Routing, descendant_url, has_own_urls, page_model, routing

logger = logging.getLogger(__name__)


class Snapshot(TypedDict):
    own: list[str]
    base: str | None


def nothing() -> Snapshot:
    """Return a snapshot of a page that nobody could know."""
    return Snapshot(own=[], base=None)


@dataclass(frozen=True, kw_only=True)
class _Subject:
    page: Any
    was_live: bool
    subtree: bool
    restricted_paths: tuple[str, ...]  # tree paths of the pages whose restrictions cover it

    @property
    def could_be_told(self) -> bool:
        """Say whether engines may have heard of the page, its restrictions aside."""
        is_excluded_alias = self.page.alias_of_id is not None and not conf.aliases
        is_excluded = bool(getattr(self.page, "indexnow_excluded", False))
        return self.was_live and not is_excluded_alias and not is_excluded


def capture(
    page: Any, *, was_live: bool, subtree: bool = False, besides: int | None = None
) -> list[Snapshot]:
    """Return what a page was called until now: one snapshot for each former base.

    The first is for its presubmitted address. Further ones are for earlier addresses that are not
    announced yet, since an ancestor moved or hid a moment ago.

    :param page: the specific page, as it was before the change.
    :param besides: a restriction that was just created, so that it does not count yet.
    """
    if besides is not None and _is_being_copied(page):
        return [nothing()]
    restrictions = page.get_view_restrictions().exclude(restriction_type=PageViewRestriction.NONE)
    paths = restrictions.exclude(pk=besides).values_list("page__path", flat=True)
    subject = _Subject(page=page, was_live=was_live, subtree=subtree, restricted_paths=tuple(paths))
    with routing() as router:
        presubmitted = _presubmitted(subject, router)
    earlier = list(_earlier(subject))
    own = [url for snapshot in (presubmitted, *earlier) for url in snapshot["own"]]
    bases = (snapshot["base"] for snapshot in earlier if snapshot["base"])
    return [
        Snapshot(own=list(dict.fromkeys(own)), base=presubmitted["base"]),
        *(Snapshot(own=[], base=base) for base in dict.fromkeys(bases) if subtree),
    ]


def _is_being_copied(page: Any) -> bool:
    """Say whether Wagtail is restricting a copy, which nobody was told of while it was open."""
    facts = Batch([page.pk]).facts(page.pk)
    return facts is not None and is_being_copied(facts, now=clock.now())


def _presubmitted(subject: _Subject, router: Routing) -> Snapshot:
    if subject.restricted_paths:
        return nothing()
    own = _own_urls(subject.page, router) if subject.could_be_told else []
    if not subject.subtree:
        return Snapshot(own=own, base=None)
    own += _underivable(subject.page, router)
    return Snapshot(own=own[:MAX_CAPTURED_URLS], base=router.base_url(subject.page))


def _own_urls(page: Any, router: Routing) -> list[str]:
    try:
        with savepoint():
            return list(router.public_urls(page).urls)
    except Exception:
        # The site's own code failed: its tracked URLs will have to do.
        logger.exception("page=%s state=urls_not_captured", page.pk)
        return []


def _underivable(top: Any, router: Routing) -> list[str]:
    """Return the URLs of public descendants whose types make their own."""
    types = [model for model in get_page_models() if has_own_urls(model)]
    if not types:
        return []
    below = page_model().objects.type(*types).descendant_of(top).live()
    ids = list(below.values_list("pk", flat=True)[:MAX_CAPTURED_URLS])
    batch, policy = Batch(ids), Policy(enabled=True, aliases=conf.aliases)
    urls: list[str] = []
    for page_id, page in batch.pages.items():
        facts = batch.facts(page_id)
        if facts and decide_page(facts, policy) == GO:
            urls += _own_urls(page, router)
    return urls


def _earlier(subject: _Subject) -> Iterator[Snapshot]:
    """Yield what the page was called under each open subtree intent above it."""
    page = subject.page
    for opened in _open_above(page):
        base = opened.former_urls.get("base")
        is_hidden_below = any(
            not opened.top_path.startswith(path) for path in subject.restricted_paths
        )
        if not base or is_hidden_below or not page.url_path.startswith(opened.top_url_path):
            continue
        url = descendant_url(base, page.url_path[len(opened.top_url_path) :])
        was_public = (
            subject.could_be_told
            and page.first_published_at is not None
            and page.first_published_at < opened.created_at
        )
        yield Snapshot(own=[url] if was_public else [], base=url)


def _open_above(page: Any) -> list[Any]:
    """Return open subtree intents above a page, but for those that it was renamed under since.

    Whatever changed further down later on captured what came before, and made it its own.
    """
    top = page_model().objects.filter(pk=OuterRef("page_id"))
    on_the_way = page_model().objects.filter(path__in=lineage(page.path))
    changed: Any = (
        Intent.objects.planned()
        .filter(subtree=True, page_id__in=on_the_way.values("pk"))
        .annotate(
            top_path=Subquery(top.values("path")[:1]),
            top_url_path=Subquery(top.values("url_path")[:1]),
        )
        .order_by("pk")
    )
    deepest_first, depth = [], 0
    for intent in reversed(changed):
        if len(intent.top_path) >= depth and intent.page_id != page.pk:
            deepest_first.append(intent)
        depth = max(depth, len(intent.top_path))
    return deepest_first
