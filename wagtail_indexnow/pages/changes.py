"""From what engines know of a page to what is public now: pure set arithmetic.

Unpublish, delete, move, slug change, hiding, opting out, a changed Site and a lost event are all
this one rule, and a URL that never was public is never sent.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from ..constants import Change


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content behind the URLs of one look at a page.

    `is_new`: the kind of intent brings new content; `always`: mark it even where a row has seen
    this `published_at` before (by hand, and translations announced along).
    """

    published_at: datetime | None = None
    is_new: bool = False
    always: bool = False


def converge(
    *,
    current: Collection[str],
    known: Mapping[str, datetime | None],
    former: Collection[str],
    unchanged: Collection[str] = (),
    content: Content,
) -> dict[str, Change]:
    """Return the change to announce for each URL that needs one.

    :param current: the page's public URLs now, none if it is not public.
    :param known: its tracked URLs that are not removed → the `published_at` that each has seen.
    :param former: URLs that are known to have been public, tracked or not.
    :param unchanged: URLs that were public before and have not been touched by the change.
    """
    now = dict.fromkeys(current)
    changes = {url: Change.REMOVED for url in [*known, *former] if url not in now}
    for url in now:
        if url in known:
            if _is_news(known[url], content):
                changes[url] = Change.UPDATED
        elif content.is_new or content.always or not (url in former or url in unchanged):
            changes[url] = Change.ADDED
    return changes


def _is_news(seen: datetime | None, content: Content) -> bool:
    return content.always or (content.is_new and seen != content.published_at)
