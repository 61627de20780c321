"""Which pages an open event is about to check by itself."""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from functools import cached_property

from ..constants import IntentState, Kind
from ..models import Intent
from .model import page_model

SOON = timedelta(minutes=1)


def subtree_paths(page_id: int, kind: str) -> Iterator[str]:
    """Yield the tree paths of the sections that a subtree event checks.

    A page's restriction holds for its aliases too, wherever they are, and below them.
    """
    ids = {page_id}
    while ids:
        yield from page_model().objects.filter(pk__in=ids).values_list("path", flat=True)
        if kind != Kind.VISIBILITY:
            return
        ids = set(page_model().objects.filter(alias_of__in=ids).values_list("pk", flat=True))


class OpenEvents:
    """The events that are due within a minute, and the sections that open subtrees cover."""

    def __init__(
        self, *, now: datetime, cancelled: bool = True, exclude: Collection[int] = ()
    ) -> None:
        """:param cancelled: whether cancelled events count, which are checked silently."""
        rows = Intent.objects.filter(run_at__lte=now + SOON, page_id__isnull=False)
        rows = rows.exclude(pk__in=exclude)
        self._rows = rows if cancelled else rows.filter(state=IntentState.PLANNED)

    def covered(self, page_ids: Collection[int]) -> set[int]:
        """Return which of the pages one of them will check."""
        singles = self._rows.filter(subtree=False, page_id__in=page_ids)
        checked = {intent.page_pk for intent in [*singles.only("page_id"), *self._subtrees]}
        covered = checked & set(page_ids)
        if self._paths:
            rows = page_model().objects.filter(pk__in=page_ids).values_list("pk", "path")
            covered |= {pk for pk, path in rows if path.startswith(self._paths)}
        return covered

    @cached_property
    def _subtrees(self) -> list[Intent]:
        return list(self._rows.filter(subtree=True).only("page_id", "kind"))

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        return tuple(
            path for intent in self._subtrees for path in subtree_paths(intent.page_pk, intent.kind)
        )
