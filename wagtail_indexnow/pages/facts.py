"""What the database says of pages right now, read for a whole batch in a handful of queries."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db.models import F, Max
from wagtail.models import PageViewRestriction, Revision

from ..constants import COPY_WINDOW
from .guards import PageFacts
from .model import lineage, page_model


@dataclass(frozen=True, kw_only=True)
class _Node:
    """The columns of a page or ancestor that its neighbours' facts depend on."""

    pk: int
    alias_of_id: int | None
    first_published_at: datetime | None
    last_published_at: datetime | None
    revision_created_at: datetime | None

    def is_fresh_copy(self, since: datetime) -> bool:
        """Return whether `Page.copy(keep_live=True)` made this row lately.

        Only a copy takes its publishing times from its revision; publishing takes the clock's.
        """
        return (
            self.revision_created_at is not None
            and self.revision_created_at > since
            and self.revision_created_at == self.first_published_at == self.last_published_at
        )


class _Ancestry:
    """The rows of pages and of all their ancestors, by tree path."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = paths

    def is_private(self, path: str) -> bool:
        """Follow `Page.get_view_restrictions()`: an alias has those of its source, not its own."""
        nodes = (self.nodes.get(ancestor) for ancestor in lineage(path))
        return any(self._origin(node) in self._restricted for node in nodes if node)

    @cached_property
    def nodes(self) -> dict[str, _Node]:
        """Tree path → row."""
        paths = {ancestor for path in self._paths for ancestor in lineage(path)}
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
    def sources(self) -> dict[int, tuple[int | None, bool]]:
        """Source of an alias → (what that is an alias of, whether it is live)."""
        found: dict[int, tuple[int | None, bool]] = {}
        wanted = {node.alias_of_id for node in self.nodes.values()} - {None}
        while wanted:
            rows = (
                page_model().objects.filter(pk__in=wanted).values_list("pk", "alias_of_id", "live")
            )
            found |= {pk: (alias_of_id, live) for pk, alias_of_id, live in rows}
            wanted = {alias_of_id for alias_of_id, _live in found.values()} - set(found) - {None}
        return found

    @cached_property
    def _restricted(self) -> set[int]:
        candidates = {node.pk for node in self.nodes.values()} | set(self.sources)
        return set(
            PageViewRestriction.objects.filter(page_id__in=candidates)
            .exclude(restriction_type=PageViewRestriction.NONE)
            .values_list("page_id", flat=True)
        )

    def _origin(self, node: _Node) -> int:
        pk, source = node.pk, node.alias_of_id
        while source is not None:
            pk, source = source, self.sources.get(source, (None, False))[0]
        return pk


class Batch:
    """Specific pages by id, with the facts that guards ask for, at one moment."""

    def __init__(self, page_ids: Collection[int], *, now: datetime) -> None:
        self._now = now
        self.pages: dict[int, Any] = {
            page.pk: page
            for page in page_model()
            .objects.filter(pk__in=page_ids)
            .select_related("locale")
            .specific()
        }

    def facts(self, page_id: int) -> PageFacts | None:
        """Return the facts of a page, or `None` if it is gone.

        :raises Exception: whatever the page's own `indexnow_excluded` raises.
        """
        page = self.pages.get(page_id)
        if page is None:
            return None
        return PageFacts(
            live=page.live,
            expired=page.expired,
            live_revision_id=page.live_revision_id,
            last_published_at=page.last_published_at,
            approved=self._approved.get(page_id, {}),
            is_private=self._ancestry.is_private(page.path),
            is_alias=page.alias_of_id is not None,
            is_embargoed=self._is_embargoed(page),
            is_excluded=bool(getattr(page, "indexnow_excluded", False)),
            copied_at=self._copied_at(page),
        )

    @cached_property
    def _ancestry(self) -> _Ancestry:
        return _Ancestry({page.path for page in self.pages.values()})

    def _is_embargoed(self, page: Any) -> bool:
        # Wagtail turns an alias live when its source is merely scheduled (wagtail issue 11344).
        _origin, is_live = self._ancestry.sources.get(page.alias_of_id, (None, True))
        return not is_live

    @cached_property
    def _approved(self) -> dict[int, dict[int, datetime]]:
        return _approved(self.pages)

    def _copied_at(self, page: Any) -> datetime | None:
        top = self._copied_top(page.path)
        return None if top is None else self._last_copy_below(top)

    def _copied_top(self, path: str) -> str | None:
        """Return the path of the topmost of the copies that a page stands in, itself included."""
        since, top = self._now - COPY_WINDOW, None
        for ancestor in reversed(lineage(path)):
            node = self._ancestry.nodes.get(ancestor)
            if node is None or not node.is_fresh_copy(since):
                break
            top = ancestor
        return top

    def _last_copy_below(self, path: str) -> datetime | None:
        if path not in self._copies:
            copies = page_model().objects.filter(
                path__startswith=path,
                first_published_at=F("live_revision__created_at"),
                last_published_at=F("live_revision__created_at"),
            )
            # Drafts that are saved below create no copy.
            self._copies[path] = copies.aggregate(at=Max("first_published_at"))["at"]
        return self._copies[path]

    @cached_property
    def _copies(self) -> dict[str, datetime | None]:
        return {}


def still_public(page_ids: Collection[int]) -> set[int]:
    """Return which of the pages are live and unrestricted now. Reads no page's own columns."""
    rows = page_model().objects.filter(pk__in=page_ids, live=True).values_list("pk", "path")
    found = dict(rows)
    ancestry = _Ancestry(set(found.values()))
    return {pk for pk, path in found.items() if not ancestry.is_private(path)}


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
