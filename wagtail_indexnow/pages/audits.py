"""Audits: every page against the inventory, for changes that sent no signal.

An audit announces nothing itself. It records silently what it meets for the first time at new
hosts, and notes the pages that differ; its last step plans one ordinary event for each. Those read
everything again, so that what was put right meanwhile announces nothing. Where a host differs too
much at once, its pages get no events: a broken Site record tells no engine that the site is gone.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from wagtail.models import Site

from .. import clock, hosts
from ..constants import Change, IntentState, Kind, Reason
from ..ledger import intents, inventory, tracked_urls
from ..ledger.intents import PlannedWrite
from ..ledger.inventory import CheckedNow
from ..ledger.transactions import reading_primary, writing
from ..models import Intent, PublicUrl
from ..payloads import iso
from .changes import UrlChange
from .comparison import CHUNK_SIZE, Check, in_chunks
from .coverage import OpenEvents
from .model import page_model
from .public_urls import routing

logger = logging.getLogger(__name__)

MAX_EXAMPLES = 10
MIN_REMOVED, MIN_CHANGED, PART = 10, 100, 10  # too many: more than these, and than a tenth


def open_audit() -> Intent | None:
    """Return the audit of the site that has not ended yet."""
    return Intent.objects.open().filter(kind=Kind.AUDIT, page_id=None).first()


def last_audit() -> Intent | None:
    """Return the audit of the site that ended last."""
    ended = Intent.objects.filter(kind=Kind.AUDIT, page_id=None, run_at=None)
    return ended.order_by("-finished_at", "-pk").first()


def plan_audit(*, apply: bool = False) -> Intent | None:
    """Plan an audit of the site, at once; `None` if one is open already.

    :param apply: announce whatever differs, however much it is.
    """
    if open_audit() is not None:
        return None
    now = clock.now()
    key = f"site:audit:{iso(now)}"
    intents.insert(Kind.AUDIT, key=key, run_at=now, detail={"apply": True} if apply else {})
    return Intent.objects.get(key=key)


def page_count() -> int:
    """Return about how many pages an audit will check."""
    return int(page_model().objects.count())


def audit_site(intent: Intent, *, progress: Callable[[int], None] | None = None) -> None:
    """Do an audit that is due, 500 pages at a time in order of their ids, for up to a minute.

    :param progress: called with the number of pages that were checked so far.
    :raises DatabaseError: the database failed; the rest is done by the next hand-over.
    """
    with reading_primary():
        in_chunks(intent, partial(_audit_chunk, progress=progress))


def differences() -> Iterator["Figures"]:
    """Compare every page with the inventory and write nothing; yield the figures so far."""
    figures, after = Figures({}), 0
    with reading_primary():
        while True:
            ids = ids_after(after)
            figures.add(_compare(ids))
            yield figures
            if len(ids) < CHUNK_SIZE:
                return
            after = ids[-1]


def record(page_ids: Collection[int] | None = None) -> None:
    """Take the public URLs of all pages, or of some, as known, and announce nothing.

    For tests of sites, which begin with pages that engines know.
    """
    after = 0
    with reading_primary():
        while ids := ids_after(after) if page_ids is None else sorted(page_ids):
            with routing() as router:
                check = Check(router, now=clock.now())
                check.read(dict.fromkeys(ids))
            sound = [pk for pk in ids if pk not in check.faults]
            with writing():
                inventory.replace(check.checked(sound), check.known, now=check.now)
            if page_ids is not None:
                return
            after = ids[-1]


def ids_after(after: int) -> list[int]:
    """Return the next ids of pages and of inventory rows, at most 500."""
    pages = page_model().objects.filter(pk__gt=after).order_by("pk")
    known = PublicUrl.objects.filter(page_id__gt=after).order_by("page_id")
    ids = set(pages.values_list("pk", flat=True)[:CHUNK_SIZE])
    ids |= set(known.values_list("page_id", flat=True).distinct()[:CHUNK_SIZE])
    return sorted(ids)[:CHUNK_SIZE]


class Figures:
    """What an audit has found so far, as plain JSON: by host, and the pages that differ.

    {"checked": 500, "hosts": {"www.example.com": {"changed": 2, "removed": 1, "examples":
    [{"url": …, "change": …}]}}, "pages": {"15": ["www.example.com"]}, "sizes": {…}}
    """

    def __init__(self, detail: dict[str, Any]) -> None:
        self.detail = detail
        self.hosts: dict[str, Any] = detail.setdefault("hosts", {})
        self.pages: dict[str, list[str]] = detail.setdefault("pages", {})
        self.met: list[str] = detail.setdefault("met", [])
        self.sizes: dict[str, int] = detail.setdefault("sizes", {})

    def add(self, found: "_Chunk") -> None:
        """Count what one chunk found, and note its pages while their hosts are within limits."""
        if not self.detail.get("checked"):
            self.sizes.update(inventory.sizes())
        self.detail["checked"] = self.detail.get("checked", 0) + len(found.page_ids)
        self.met[:] = sorted({*self.met, *found.hosts})
        for page_id, changes in found.differing.items():
            for url, change in changes.items():
                self._count(hosts.host_of(url), url, change)
            named = {hosts.host_of(url) for url in changes}
            if not named & self.blocked():
                self.pages[str(page_id)] = sorted(named)

    def blocked(self) -> set[str]:
        """Return the hosts that differ too much at once."""
        return {
            host
            for host, figures in self.hosts.items()
            if figures["removed"] > self._limit(host, MIN_REMOVED)
            or figures["changed"] > self._limit(host, MIN_CHANGED)
        }

    def _limit(self, host: str, least: int) -> float:
        return max(least, self.sizes.get(host, 0) / PART)

    def _count(self, host: str, url: str, change: UrlChange) -> None:
        figures = self.hosts.setdefault(host, {"removed": 0, "changed": 0, "examples": []})
        figures["removed" if change.change == Change.REMOVED else "changed"] += 1
        if len(figures["examples"]) < MAX_EXAMPLES:
            figures["examples"].append({"url": url, "change": str(change.change)})


@dataclass(frozen=True, kw_only=True)
class _Chunk:
    """One chunk of an audit: which of its pages differ, and what is new and to be silent."""

    check: Check
    page_ids: list[int]
    differing: dict[int, dict[str, UrlChange]]
    recorded: dict[int, set[str]]  # pages that were never checked → their URLs at new hosts
    hosts: set[str]

    def without(self, page_ids: Collection[int]) -> "_Chunk":
        """Leave out pages that an event is about to check by itself."""
        return _Chunk(
            check=self.check,
            page_ids=self.page_ids,
            differing={pk: found for pk, found in self.differing.items() if pk not in page_ids},
            recorded={pk: urls for pk, urls in self.recorded.items() if pk not in page_ids},
            hosts=self.hosts,
        )


def _compare(page_ids: list[int]) -> _Chunk:
    with routing() as router:
        check = Check(router, now=clock.now())
        check.read(dict.fromkeys(page_ids))
    sound = [pk for pk in page_ids if pk not in check.faults and not check.is_being_copied(pk)]
    changes = {pk: check.changes(pk) for pk in sound}
    met = {hosts.host_of(url) for pk in sound for url in check.urls(pk)}
    new = inventory.new_hosts(met)
    unchecked = [pk for pk in sound if not check.known[pk].is_checked]
    added = {
        url
        for pk in unchecked
        for url, change in changes[pk].items()
        if change.change == Change.ADDED and hosts.host_of(url) in new
    }
    quiet = added - tracked_urls.removed_last(added) if added else set()
    return _Chunk(
        check=check,
        page_ids=page_ids,
        differing={
            pk: loud
            for pk in sound
            if (loud := _loud(changes[pk], quiet if pk in unchecked else ()))
        },
        recorded={
            pk: quiet & changes[pk].keys()
            for pk in unchecked
            if quiet & changes[pk].keys() or _is_live_without_urls(check, pk)
        },
        hosts=met,
    )


def _loud(changes: dict[str, UrlChange], quiet: Collection[str]) -> dict[str, UrlChange]:
    return {url: change for url, change in changes.items() if url not in quiet}


def _is_live_without_urls(check: Check, page_id: int) -> bool:
    page = check.page(page_id)
    return page is not None and page.live and not check.changes(page_id)


def _audit_chunk(intent: Intent, *, progress: Callable[[int], None] | None) -> bool:
    ids = ids_after(intent.cursor)
    is_last = len(ids) < CHUNK_SIZE
    found = _compare(ids)
    found = found.without(OpenEvents(now=found.check.now).covered(ids))
    figures = Figures(intent.detail)
    with writing():
        # Planned since it was read: that event checks the page itself.
        found = found.without(OpenEvents(now=clock.now()).covered(ids))
        _record(found)
        figures.add(found)
        if intent.detail.get("apply"):
            _plan_events(list(found.differing), now=found.check.now)
        if is_last:
            _end(intent, figures, found.check)
        else:
            intents.advance(intent, ids[-1], now=found.check.now, detail=figures.detail)
    if progress is not None:
        progress(figures.detail["checked"])
    return not is_last


def _record(found: _Chunk) -> None:
    check = found.check
    pages = [
        CheckedNow(
            page_id=page_id,
            urls=urls,
            published_at=check.published_at(page_id),
            reason=check.reason(page_id),
        )
        for page_id, urls in found.recorded.items()
    ]
    inventory.replace(pages, check.known, now=check.now)


def _end(intent: Intent, figures: Figures, check: Check) -> None:
    is_applied = bool(intent.detail.get("apply"))
    blocked = set() if is_applied else figures.blocked()
    if not is_applied:
        pages = [int(pk) for pk, named in figures.pages.items() if not blocked & set(named)]
        _plan_events(pages, now=check.now)
    inventory.set_audited({*figures.met, *_served_hosts_of_sites()}, now=check.now)
    detail = {name: figures.detail[name] for name in ("checked", "hosts")}
    Intent.objects.filter(pk=intent.pk).update(detail={**detail, "blocked": sorted(blocked)})
    state = IntentState.SKIPPED if blocked else IntentState.ANNOUNCED
    reason = Reason.MASS_CHANGE if blocked else ""
    intents.write([PlannedWrite(intent=intent, state=state, reason=reason)], now=check.now)
    log = logger.error if blocked else logger.info
    log("audit=%s hosts=%s blocked=%s", intent.key, figures.hosts, sorted(blocked))


def _plan_events(page_ids: Collection[int], *, now: datetime) -> None:
    rows = page_model().objects.filter(pk__in=page_ids).select_related("locale")
    found = {page.pk: page for page in rows.only("title", "translation_key", "locale")}
    intents.plan_audits({pk: found.get(pk) for pk in page_ids}, now=now)


def _served_hosts_of_sites() -> Iterator[str]:
    for site in Site.objects.all():
        url = hosts.normalise(site.root_url)
        if url is not None and hosts.is_served(hosts.host_of(url)):
            yield hosts.host_of(url)
