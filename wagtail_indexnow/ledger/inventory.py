"""The inventory: under which URLs each page was public when it was last checked.

The site's memory: nothing about the past has to be inferred. Written only where an intent ends or
moves its cursor, by converge and by audits, in that transaction. `CheckedPage.version` is the
fence between two checks of one page: read first, raised by whoever commits first.
"""

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError
from django.db.models import Count, Model

from ..exceptions import OutdatedError
from ..hosts import host_of
from ..models import CheckedPage, HostKey, PublicUrl
from .tracked_urls import chunks, url_hash
from .transactions import database

CHUNK = 1_000  # rows in one statement: far below every database's limit of parameters


@dataclass(frozen=True, kw_only=True)
class KnownPage:
    """The inventory of one page as a check read it: URL → the row."""

    version: int = 0
    urls: Mapping[str, PublicUrl]

    @property
    def is_checked(self) -> bool:
        return self.version > 0


@dataclass(frozen=True, kw_only=True)
class CheckedNow:
    """What a check makes of one page: its public URLs, and why there is none.

    `kept`: URLs of hosts that are not served here, whose rows stay as they are.
    """

    page_id: int
    urls: Collection[str]
    kept: Collection[str] = ()
    published_at: datetime | None
    reason: str = ""


def known(page_ids: Collection[int]) -> dict[int, KnownPage]:
    """Return the inventory of each page. To be read before the pages are: see `replace`."""
    versions = dict(
        CheckedPage.objects.filter(page_id__in=page_ids).values_list("page_id", "version")
    )
    rows: dict[int, dict[str, PublicUrl]] = defaultdict(dict)
    for row in PublicUrl.objects.filter(page_id__in=page_ids):
        rows[row.page_id][row.url] = row
    return {pk: KnownPage(version=versions.get(pk, 0), urls=rows.get(pk, {})) for pk in page_ids}


def sharers(urls: Collection[str], *, exclude: Collection[int]) -> dict[int, str]:
    """Return the other pages that have one of the URLs: page → one of those it has."""
    found: dict[int, str] = {}
    for chunk in chunks(sorted(urls), CHUNK):
        rows = PublicUrl.objects.filter(url_hash__in=[url_hash(url) for url in chunk])
        for page_id, url in rows.values_list("page_id", "url"):
            if page_id not in exclude:
                found[page_id] = url
    return found


def replace(pages: Iterable[CheckedNow], before: Mapping[int, KnownPage], *, now: datetime) -> None:
    """Write what a check saw, in the caller's transaction.

    Every page's version is raised, even if nothing differed, in order of the page ids.

    :raises OutdatedError: another check of one of the pages was written since `before` was read.
        Nothing may be committed.
    """
    checked = sorted(pages, key=lambda page: page.page_id)
    _raise_versions(checked, before, now)
    gone: list[int] = []
    new: list[PublicUrl] = []
    moved: list[PublicUrl] = []
    for page in checked:
        rows = before[page.page_id].urls
        stay = {*page.urls, *page.kept}
        gone += [row.pk for url, row in rows.items() if url not in stay]
        for url in page.urls:
            row = rows.get(url)
            if row is None:
                new.append(_row(page, url))
            elif row.published_at != page.published_at:
                row.published_at = page.published_at
                moved.append(row)
    for pks in chunks(gone, CHUNK):
        PublicUrl.objects.filter(pk__in=pks).delete()
    PublicUrl.objects.bulk_create(new, batch_size=CHUNK)
    _save(PublicUrl, moved, ["published_at"])


def sizes() -> dict[str, int]:
    """Return how many URLs the inventory has of each host."""
    rows = PublicUrl.objects.values_list("host").annotate(count=Count("pk")).order_by()
    return dict(rows)


def new_hosts(hosts: Collection[str]) -> set[str]:
    """Return the hosts that no audit has met yet: their URLs are recorded silently."""
    audited = HostKey.objects.filter(host__in=hosts, audited_at__isnull=False)
    return set(hosts) - set(audited.values_list("host", flat=True))


def set_audited(hosts: Collection[str], *, now: datetime) -> None:
    """Note that an audit has met these hosts: from now on what is new there is announced."""
    rows = [HostKey(host=host, key=secrets.token_hex(16), created_at=now) for host in hosts]
    HostKey.objects.bulk_create(rows, ignore_conflicts=True)
    HostKey.objects.filter(host__in=hosts, audited_at=None).update(audited_at=now)


def _raise_versions(
    pages: Sequence[CheckedNow], before: Mapping[int, KnownPage], now: datetime
) -> None:
    ids = [page.page_id for page in pages]
    found = {
        row.page_id: row
        for row in CheckedPage.objects.filter(page_id__in=ids)
        .order_by("page_id")
        .select_for_update()
    }
    if any(before[pk].version != (found[pk].version if pk in found else 0) for pk in ids):
        raise OutdatedError
    rows = [found.get(page.page_id) or CheckedPage(page_id=page.page_id) for page in pages]
    for row, page in zip(rows, pages, strict=True):
        row.version += 1
        row.published_at, row.reason, row.checked_at = page.published_at, page.reason, now
    try:
        new = [row for row in rows if row.pk is None]
        CheckedPage.objects.bulk_create(new, batch_size=CHUNK)
    except IntegrityError as error:
        raise OutdatedError from error
    old = [row for row in rows if row.page_id in found]
    _save(CheckedPage, old, ["version", "published_at", "reason", "checked_at"])


def _row(page: CheckedNow, url: str) -> PublicUrl:
    return PublicUrl(
        page_id=page.page_id,
        url=url,
        url_hash=url_hash(url),
        host=host_of(url),
        published_at=page.published_at,
    )


def _save(model: type[Model], rows: Sequence[Any], fields: list[str]) -> None:
    """Write locked rows back in one upsert by primary key, which never inserts."""
    supports_target = database().features.supports_update_conflicts_with_target
    model._default_manager.bulk_create(
        rows,
        batch_size=CHUNK,
        update_conflicts=True,
        unique_fields=["id"] if supports_target else None,
        update_fields=fields,
    )
