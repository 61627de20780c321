"""What the database says of pages right now, read for a whole batch in a handful of queries."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db.models import Max
from wagtail.models import PageViewRestriction, Revision

from .. import clock
from ..constants import CONTENT_KINDS, COPY_WINDOW, IntentState
from ..models import Intent
from .guards import PageFacts
from .public_urls import page_model

PUBLIC_CHUNK = 5_000  # pages in one statement


@dataclass(frozen=True, kw_only=True)
class _Node:
    """The columns of a page or ancestor that its neighbours' facts depend on."""

    pk: int
    alias_of_id: int | None
    first_published_at: datetime | None
    last_published_at: datetime | None
    revision_created_at: datetime | None

    def is_fresh_copy(self, since: datetime) -> bool:
        """Say whether `Page.copy(keep_live=True)` made this row lately.

        Only a copy takes its publishing times from its revision; publishing takes the clock's.
        """
        return (
            self.revision_created_at is not None
            and self.revision_created_at > since
            and self.revision_created_at == self.first_published_at == self.last_published_at
        )


class Batch:
    """Specific pages by id, with the facts that guards ask for."""

    def __init__(self, page_ids: Collection[int]) -> None:
        self.pages: dict[int, Any] = {
            page.pk: page
            for page in page_model()
            .objects.filter(pk__in=page_ids)
            .select_related("locale")
            .specific()
        }

    def facts(self, page_id: int) -> PageFacts | None:
        """Return the facts of a page, or `None` if it is gone."""
        page = self.pages.get(page_id)
        if page is None:
            return None
        return PageFacts(
            live=page.live,
            expired=page.expired,
            live_revision_id=page.live_revision_id,
            first_published_at=page.first_published_at,
            last_published_at=page.last_published_at,
            approved=self._approved.get(page_id, {}),
            announced=self._announced.get(page_id, ()),
            is_private=self._is_private(page),
            is_alias=page.alias_of_id is not None,
            is_embargoed=page.alias_of_id in self._embargoed_sources,
            is_excluded=bool(getattr(page, "indexnow_excluded", False)),
            copied_until=self._copied_until(page),
        )

    def has_own_restriction_below(self, page: Any, top: Any) -> bool:
        """Say whether a restriction of its own, below the top, covers a page of the subtree."""
        nodes = (self._nodes.get(path) for path in lineage(page.path) if len(path) > len(top.path))
        return any(node.pk in self._restricted for node in nodes if node)

    @cached_property
    def _nodes(self) -> dict[str, _Node]:
        """Tree path → row, of the pages and all their ancestors."""
        paths = {path for page in self.pages.values() for path in lineage(page.path)}
        rows = (
            page_model()
            .objects.filter(path__in=paths)
            .values(
                "path",
                "pk",
                "alias_of_id",
                "first_published_at",
                "last_published_at",
                "live_revision__created_at",
            )
        )
        return {
            row.pop("path"): _Node(revision_created_at=row.pop("live_revision__created_at"), **row)
            for row in rows
        }

    @cached_property
    def _sources(self) -> dict[int, tuple[int | None, bool]]:
        """Source of an alias → (what that is an alias of, whether it is live)."""
        found: dict[int, tuple[int | None, bool]] = {}
        wanted = {node.alias_of_id for node in self._nodes.values()} - {None}
        while wanted:
            rows = (
                page_model().objects.filter(pk__in=wanted).values_list("pk", "alias_of_id", "live")
            )
            found |= {pk: (alias_of_id, live) for pk, alias_of_id, live in rows}
            wanted = {alias_of_id for alias_of_id, _live in found.values()} - set(found) - {None}
        return found

    @cached_property
    def _restricted(self) -> set[int]:
        candidates = {node.pk for node in self._nodes.values()} | set(self._sources)
        return set(
            PageViewRestriction.objects.filter(page_id__in=candidates)
            .exclude(restriction_type=PageViewRestriction.NONE)
            .values_list("page_id", flat=True)
        )

    def _is_private(self, page: Any) -> bool:
        """Follow `Page.get_view_restrictions()`: an alias has those of its source, not its own."""
        nodes = (self._nodes.get(path) for path in lineage(page.path))
        return any(self._origin(node) in self._restricted for node in nodes if node)

    def _origin(self, node: _Node) -> int:
        pk, source = node.pk, node.alias_of_id
        while source is not None:
            pk, source = source, self._sources.get(source, (None, False))[0]
        return pk

    @cached_property
    def _embargoed_sources(self) -> set[int]:
        aliased = {page.alias_of_id for page in self.pages.values() if page.alias_of_id}
        hidden = [pk for pk in aliased if pk in self._sources and not self._sources[pk][1]]
        return set(_approved(hidden)) if hidden else set()

    @cached_property
    def _approved(self) -> dict[int, dict[int, datetime]]:
        return _approved(self.pages)

    @cached_property
    def _announced(self) -> dict[int, set[datetime]]:
        published = {page.last_published_at for page in self.pages.values()} - {None}
        rows = Intent.objects.filter(
            page_id__in=self.pages,
            kind__in=CONTENT_KINDS,
            state=IntentState.ANNOUNCED,
            published_at__in=published,
        ).values_list("page_id", "published_at")
        found: dict[int, set[datetime]] = defaultdict(set)
        for page_id, published_at in rows:
            if published_at is not None:
                found[page_id].add(published_at)
        return found

    def _copied_until(self, page: Any) -> datetime | None:
        top = self._copied_top(page.path)
        return None if top is None else self._last_write_below(top)

    def _copied_top(self, path: str) -> str | None:
        """Return the path of the topmost of the copies that a page stands in, itself included."""
        since, top = clock.now() - COPY_WINDOW, None
        for ancestor in reversed(lineage(path)):
            node = self._nodes.get(ancestor)
            if node is None or not node.is_fresh_copy(since):
                break
            top = ancestor
        return top

    def _last_write_below(self, path: str) -> datetime | None:
        if path not in self._writes:
            below = page_model().objects.filter(path__startswith=path)
            self._writes[path] = below.aggregate(at=Max("latest_revision_created_at"))["at"]
        return self._writes[path]

    @cached_property
    def _writes(self) -> dict[str, datetime | None]:
        return {}


def still_public(page_ids: Collection[int]) -> set[int]:
    """Return which of the pages are live and unrestricted now, by values alone.

    What `Batch.facts` says of one page, for 10,000 at once: no page of a site is made for it.
    """
    if not page_ids:
        return set()
    hidden = _restricting_paths()
    found: set[int] = set()
    ids = sorted(page_ids)
    for start in range(0, len(ids), PUBLIC_CHUNK):
        rows = page_model().objects.live().filter(pk__in=ids[start : start + PUBLIC_CHUNK])
        found.update(
            pk
            for pk, path in rows.order_by().values_list("pk", "path")
            if hidden.isdisjoint(lineage(path))
        )
    return found


def _restricting_paths() -> set[str]:
    """Return the tree paths of the pages whose restriction covers themselves and what is below.

    An alias has the restrictions of its source, however far that is, and not its own.
    """
    restrictions = PageViewRestriction.objects.exclude(restriction_type=PageViewRestriction.NONE)
    pages = page_model().objects.order_by()
    rows = pages.filter(alias_of=None, pk__in=restrictions.values("page_id"))
    found: dict[int, str] = {}
    while more := dict(rows.values_list("pk", "path")):
        found |= more
        rows = pages.filter(alias_of__in=list(more)).exclude(pk__in=list(found))
    return set(found.values())


def _approved(page_ids: Iterable[int]) -> dict[int, dict[int, datetime]]:
    """Page → {approved revision: its go-live time}."""
    rows = Revision.objects.filter(
        base_content_type=ContentType.objects.get_for_model(page_model()),
        object_id__in=[str(page_id) for page_id in page_ids],
        approved_go_live_at__isnull=False,
    ).values_list("object_id", "pk", "approved_go_live_at")
    found: dict[int, dict[int, datetime]] = defaultdict(dict)
    for object_id, pk, approved_go_live_at in rows:
        found[int(object_id)][pk] = approved_go_live_at
    return found


def lineage(path: str) -> list[str]:
    """Return the tree paths from the root down to a page, itself included."""
    step = page_model().steplen
    return [path[:end] for end in range(step, len(path) + 1, step)]
