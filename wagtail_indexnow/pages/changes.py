"""From what the inventory knows of a page to what is public now: pure set arithmetic.

Unpublish, delete, move, slug change, hiding, exclusion, a changed Site and a lost event are all
this one rule, and a URL that was never public is never submitted.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from ..constants import Change


@dataclass(frozen=True)
class UrlChange:
    """What happened to one URL of a page.

    `leaves`: the page is public but excludes itself; the URL is submitted as updated, a last time.
    """

    change: Change
    leaves: bool = False

    @property
    def is_gone(self) -> bool:
        """Return whether the URL leaves the inventory."""
        return self.leaves or self.change == Change.REMOVED


def compare(
    current: Collection[str],
    known: Mapping[str, datetime | None],
    *,
    published_at: datetime | None,
    always: bool = False,
    excluded: Collection[str] = (),
) -> dict[str, UrlChange]:
    """Return the change of each URL that has one.

    :param current: the page's public URLs now, none if it is not public.
    :param known: its URLs in the inventory → the `published_at` that each was announced under.
    :param published_at: the page's `last_published_at`; compared for equality only.
    :param always: an update even where the inventory has seen this `published_at`: submitted
        manually, or a translation announced along.
    :param excluded: the addresses of a public page that excludes itself.
    """
    now = dict.fromkeys(current)
    changes = {
        url: UrlChange(Change.UPDATED, leaves=True)
        if url in excluded
        else UrlChange(Change.REMOVED)
        for url in known
        if url not in now
    }
    for url in now:
        if url not in known:
            changes[url] = UrlChange(Change.ADDED)
        elif always or known[url] != published_at:
            changes[url] = UrlChange(Change.UPDATED)
    return changes
