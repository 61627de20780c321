"""The verbs on intents: plan, write what a check came to, cancel.

Planning happens in the editor's transaction and must never disturb it: each call has its own
savepoint, writes before it reads (SQLite refuses to turn a reader into a writer), and catches
everything. What it loses, reconciliation and audits find again. `insert` is for workers and
commands: their own work fails with it.

Whatever changes when or why an intent runs raises `version` and clears the hand-over, so that an
actor that is still computing on the old row cannot end it.
"""

import logging
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, ParamSpec

from django.db import router, transaction
from django.db.models import Exists, F, Q
from django.utils import timezone
from wagtail.log_actions import get_active_log_context
from wagtail.models import Locale

from .. import clock
from ..conf import conf
from ..constants import IntentState, Kind, Reason
from ..exceptions import OutdatedError, describe
from ..models import Intent
from ..payloads import iso
from .backoff import retry_delay

logger = logging.getLogger(__name__)
P = ParamSpec("P")

#: Planning again: the row's outcome and hand-over are forgotten.
_AFRESH: dict[str, Any] = {
    "version": F("version") + 1,
    "handed_at": None,
    "handed_count": 0,
}


def log_and_swallow(function: Callable[P, None]) -> Callable[P, None]:
    """Keep every fault of a function away from its caller: log it and go on."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception:
            logger.exception("function=%s state=not_planned", function.__name__)

    return guarded


def log_and_swallow_in_savepoint(function: Callable[P, None]) -> Callable[P, None]:
    """Keep faults away from the caller, and its open transaction usable after a failed read."""

    @wraps(function)
    def inside_savepoint(*args: P.args, **kwargs: P.kwargs) -> None:
        is_open = transaction.get_connection(router.db_for_write(Intent)).in_atomic_block
        # Outside a transaction a savepoint would begin one, with a read: SQLite then refuses
        # to write in it once another connection has written.
        with savepoint() if is_open else nullcontext():
            function(*args, **kwargs)

    return log_and_swallow(inside_savepoint)


def savepoint() -> transaction.Atomic:
    """Return a transaction, or a savepoint within the caller's, on the ledger's database."""
    return transaction.atomic(using=router.db_for_write(Intent))


@dataclass(frozen=True, kw_only=True)
class PlannedWrite:
    """What becomes of an intent that was checked. `run_at` None: it has ended."""

    intent: Intent
    state: str
    reason: str = ""
    error: str = ""
    run_at: datetime | None = None
    attempts: int = 0
    waits: int = 0

    @property
    def values(self) -> tuple[tuple[str, Any], ...]:
        """What is written; intents that end alike are written by one statement."""
        return (
            ("state", str(self.state)),
            ("reason", str(self.reason)),
            ("error", self.error),
            ("run_at", self.run_at),
            ("attempts", self.attempts),
            ("waits", self.waits),
        )


def insert(
    kind: Kind,
    *,
    page: Any = None,
    page_id: int | None = None,
    subtree: bool = False,
    run_at: Any = None,
    **values: Any,
) -> Intent:
    """Write one row that makes a worker check a page, by default `SETTLE_SECONDS` from now.

    :param run_at: another time, or an expression for one.
    :raises DatabaseError: nothing was written.
    """
    intent = _new(kind, page=page, page_id=page_id, run_at=run_at)
    intent.subtree = subtree
    for name, value in values.items():
        setattr(intent, name, value)
    with savepoint():
        Intent.objects.bulk_create([intent], ignore_conflicts=True)
    _log(intent)
    return intent


@log_and_swallow
def plan(kind: Kind, **values: Any) -> None:
    """Write one row, whatever fails; see `insert`."""
    insert(kind, **values)


@log_and_swallow
def plan_publish(*, page: Any, revision_id: int | None) -> None:
    """Write the row of a page that was just published. The same publish has one row."""
    values: dict[str, Any] = {"revision_id": revision_id, "locale": _loaded_locale(page)}
    if page.last_published_at is not None:  # an alias may never have had one
        values["key"] = f"page:{page.pk}:publish:{iso(page.last_published_at)}"
    insert(Kind.PUBLISH, page=page, **values)


@log_and_swallow
def plan_go_live(
    *, page_id: int, revision_id: int, expected_at: datetime, live: Any = None, **values: Any
) -> None:
    """Write, or re-open, the row of one page and one go-live time.

    Scheduling the same again finds its row; going back to an earlier time re-opens that one.

    :param live: pages that are live; the row of one whose revision is live stays as it is.
    :param values: title, locale and translation key of the page.
    """
    intent = _new(Kind.GO_LIVE, page_id=page_id, run_at=expected_at, **values)
    intent.revision_id, intent.expected_at = revision_id, expected_at
    intent.key = go_live_key(page_id, expected_at)
    rows = Intent.objects.filter(key=intent.key)
    is_planned = Q(state=IntentState.PLANNED, revision_id=revision_id)
    if live is not None:
        is_planned |= Q(Exists(live.filter(pk=page_id, live_revision_id=revision_id)))
    with savepoint():
        reopened = rows.exclude(is_planned).update(
            **_AFRESH,
            revision_id=revision_id,
            run_at=expected_at,
            state=IntentState.PLANNED,
            reason="",
            error="",
            attempts=0,
            waits=0,
            finished_at=None,
            created_at=intent.created_at,
            page_title=intent.page_title,
            scheduled_by=intent.scheduled_by,
            correlation_id=intent.correlation_id,
        )
        if not reopened:
            Intent.objects.bulk_create([intent], ignore_conflicts=True)
    _log(intent)


def plan_manual(pages: Sequence[Any], *, subtree: bool = False) -> None:
    """Write one row for each page, at once, for the user who submits them.

    :raises DatabaseError: nothing was written. Unlike an editor's publish, this is what the
        user came for.
    """
    rows = [_new(Kind.MANUAL, page=page) for page in pages]
    for row in rows:
        row.subtree = subtree
    with savepoint():
        Intent.objects.bulk_create(rows)
    for row in rows:
        _log(row)


def plan_audits(pages: Mapping[int, Any], *, now: datetime) -> None:
    """Write one row for each page in which an audit found a difference: checked at once.

    :param pages: page id → the page, or `None` if it is gone.
    :raises DatabaseError: nothing was written.
    """
    rows = [
        _new(Kind.AUDIT, page=page, page_id=page_id, run_at=now) for page_id, page in pages.items()
    ]
    Intent.objects.bulk_create(rows, batch_size=500)


def write(writes: Sequence[PlannedWrite], *, now: datetime) -> None:
    """Write what became of intents, in the caller's transaction: one statement for all alike.

    :raises OutdatedError: one of them is no longer as it was read. Nothing may be committed.
    """
    alike: dict[Any, list[PlannedWrite]] = defaultdict(list)
    for item in writes:
        alike[item.values, item.intent.version, item.intent.state].append(item)
    for (values, version, state), items in alike.items():
        rows = Intent.objects.open().filter(pk__in=[item.intent.pk for item in items])
        written = rows.filter(version=version, state=state).update(
            **_AFRESH, **dict(values), finished_at=None if items[0].run_at else now
        )
        if written != len(items):
            raise OutdatedError
    for item in writes:
        _log(item.intent, state=item.state, reason=item.reason)


def retry_or_fail(intent: Intent, fault: Exception, *, now: datetime) -> PlannedWrite:
    """Check a page whose own code failed again after 60, 300, 900 s, then hourly, then give up."""
    message = describe(fault)
    first_try = max(intent.created_at, intent.expected_at or intent.created_at)
    is_over = now - first_try >= conf.give_up_after
    logger.warning("intent=%s error=%s", intent.key, message, exc_info=fault)
    return PlannedWrite(
        intent=intent,
        state=IntentState.FAILED if is_over else intent.state,
        reason=Reason.PAGE_ERROR,
        error=message,
        run_at=None if is_over else now + retry_delay(intent.attempts + 1),
        attempts=intent.attempts + 1,
        waits=intent.waits,
    )


def advance(intent: Intent, cursor: int, *, now: datetime, detail: Any = None) -> None:
    """Note how far a subtree or audit is, and renew the hand-over for the rest.

    :raises OutdatedError: the row is no longer as it was read. Nothing may be committed.
    """
    values = {"cursor": cursor, "handed_at": now, "run_at": now}
    if detail is not None:
        values["detail"] = detail
    rows = Intent.objects.open().filter(pk=intent.pk, version=intent.version, state=intent.state)
    if not rows.update(version=F("version") + 1, **values):
        raise OutdatedError


def give_way(intent: Intent) -> None:
    """Let a long check be handed over again, so that others get their turn."""
    Intent.objects.open().filter(pk=intent.pk, version=intent.version).update(**_AFRESH)


def cancel(ids: Collection[int]) -> int:
    """Cancel planned go-lives, for a user; return how many.

    They keep their time: when due, the page is checked silently.
    """
    go_lives = Intent.objects.planned().filter(pk__in=ids, kind=Kind.GO_LIVE)
    return go_lives.update(
        **_AFRESH,
        state=IntentState.CANCELLED,
        reason=Reason.CANCELLED,
        finished_at=clock.later(timedelta(0)),
    )


def go_live_key(page_id: int, expected_at: datetime) -> str:
    """Return the key of a page's go-live: the same page and time is the same intent."""
    return f"page:{page_id}:go_live:{iso(expected_at)}"


def _new(
    kind: Kind,
    *,
    page: Any = None,
    page_id: int | None = None,
    run_at: Any = None,
    **values: Any,
) -> Intent:
    context = get_active_log_context()
    pk: Any = page_id if page is None else page.pk
    if page is not None:
        values.setdefault("page_title", page.title[:255])
        values.setdefault("locale", _language_code(page.locale_id))
        values.setdefault("translation_key", page.translation_key)
    return Intent(
        key=f"page:{pk}:{kind.value}:{uuid.uuid4()}",
        kind=kind.value,
        page_id=pk,
        run_at=run_at or clock.later(conf.settle),
        scheduled_by=_source(context.user),
        correlation_id=str(context.uuid or ""),
        # Compared with Wagtail's own times, which are those of the web server's clock.
        created_at=timezone.now(),
        **values,
    )


def _loaded_locale(page: Any) -> str:
    is_loaded = page._meta.get_field("locale").is_cached(page)
    return str(page.locale.language_code) if is_loaded else ""


@lru_cache(maxsize=256)
def _language_code(locale_id: int | None) -> str:
    # Locales hardly ever change.
    codes = Locale.objects.filter(pk=locale_id).values_list("language_code", flat=True)
    return next(iter(codes), "") if locale_id else ""


def _source(user: Any) -> str:
    if user is not None and user.pk is not None:
        return f"user:{user.pk}"
    is_command = Path(sys.argv[0]).name in ("manage.py", "django-admin", "__main__.py")
    return sys.argv[1] if is_command and len(sys.argv) > 1 else ""


def _log(intent: Intent, *, state: str = "planned", reason: str = "") -> None:
    logger.info("intent=%s page=%s state=%s reason=%s", intent.key, intent.page_id, state, reason)
