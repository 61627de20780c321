"""Pages that a person submits by hand, as rows of the ledger; guards and pace are the usual.

A section or a Site is one row however large it is; everything else is one row for each page, in
batches, of which a failed one does not stop the next.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db import DatabaseError
from django.db.models import Exists, Min, OuterRef, Q
from wagtail.models import Site

from .. import clock
from ..conf import conf
from ..constants import Kind, UrlState
from ..ledger import intents
from ..ledger.tracked_urls import chunks
from ..models import Intent, Submission, TrackedUrl
from ..pages.model import page_model
from ..pages.public_urls import routing

logger = logging.getLogger(__name__)

BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What to submit: pages one by one, or each `top` with everything below it."""

    pages: Any = None  # a queryset of pages
    tops: Sequence[Any] = ()

    def covered(self) -> Any:
        """Return the live pages of the selection, as far as their type may be announced."""
        if self.tops:
            below = [Q(path__startswith=top.path) for top in self.tops]
            return _announceable(page_model().objects.live().filter(reduce(or_, below)))
        return self.pages if self.pages is not None else page_model().objects.none()

    def batches(self) -> Iterator[tuple[Sequence[Any], int]]:
        """Yield pages to plan at once, and how many pages that covers."""
        if self.tops:
            for top in self.tops:
                yield [top], Selection(tops=[top]).covered().count()
            return
        for ids in chunks(list(self.covered().values_list("pk", flat=True)), BATCH):
            yield list(page_model().objects.filter(pk__in=ids)), len(ids)


@dataclass(frozen=True)
class Submitted:
    planned: int = 0  # pages
    failed: int = 0


def one_page(page: Any, *, subtree: bool = False) -> Selection:
    """Select a page, live or not: a removal can be submitted too; or the section below it."""
    if subtree:
        return Selection(tops=[page])
    return Selection(pages=page_model().objects.filter(pk=page.pk))


def sites(found: Sequence[Site]) -> Selection:
    """Select everything below the root pages of some Sites, in each of their languages."""
    ids = {site.pk for site in found}
    with routing():
        paths = {root.root_path for root in Site.get_site_root_paths() if root.site_id in ids}
    roots = page_model().objects.filter(url_path__in=paths).order_by("path")
    return Selection(tops=list(roots))


def of_type(model: Any) -> Selection:
    """Select the live pages of a type."""
    return Selection(pages=_announceable(page_model().objects.live().type(model)))


def missed(*, since: datetime | None) -> Selection:
    """Select live pages whose presubmitted version no engine was told of, or is about to be.

    :param since: only those published since; `None`: however long ago.
    """
    told = (
        TrackedUrl.objects.public()
        .filter(page_id=OuterRef("pk"), endpoint__in=conf.endpoints)
        .filter(state__in=(UrlState.PENDING, UrlState.ACCEPTED))
    )
    told_of_presubmitted = told.filter(changed_at__gte=OuterRef("last_published_at"))
    under_way = Intent.objects.planned().filter(page_id=OuterRef("pk"))
    under_way = under_way.exclude(kind=Kind.GO_LIVE, run_at__gt=clock.now())
    # An imported page may never have been published, and has one version only.
    untold = ~Exists(told_of_presubmitted) & (Q(last_published_at__isnull=False) | ~Exists(told))
    pages = _announceable(page_model().objects.live()).filter(untold, ~Exists(under_way))
    if since is not None:
        pages = pages.filter(last_published_at__gte=since)
    return Selection(pages=pages)


def history_start() -> datetime | None:
    """Return when announcing began, as far as history reaches; `None` if nothing was ever sent."""
    if not TrackedUrl.objects.filter(sent_at__isnull=False).exists():
        return None
    moments = (
        Intent.objects.aggregate(at=Min("created_at"))["at"],
        Submission.objects.aggregate(at=Min("started_at"))["at"],
        TrackedUrl.objects.aggregate(at=Min("sent_at"))["at"],
    )
    return min((at for at in moments if at is not None), default=None)


def submit(selection: Selection, *, progress: Callable[[int], None]) -> Submitted:
    """Plan a selection batch by batch; one that fails is counted, and the next goes on.

    :param progress: called with the number of pages that are done with.
    """
    planned = failed = 0
    for pages, count in selection.batches():
        try:
            intents.plan_manual(pages, subtree=bool(selection.tops))
            planned += count
        except DatabaseError:
            logger.exception("pages=%s state=not_planned", [page.pk for page in pages])
            failed += count
        progress(planned + failed)
    return Submitted(planned, failed)


def _announceable(pages: Any) -> Any:
    pages = pages.filter(depth__gt=1)  # the tree's own root is no page of any site
    return pages if conf.aliases else pages.filter(alias_of=None)
