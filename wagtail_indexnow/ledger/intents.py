"""The verbs on the ledger: plan, release, wait, end, cancel.

Planning happens in the editor's transaction and must never disturb it: each call has its own
savepoint, writes before it reads (SQLite refuses to turn a reader into a writer), and catches
everything. What it loses, the relay's reconciliation finds again. `write` is for workers, and for
persons who ask: their own work fails with it.

Whatever changes when or why an intent runs raises `version` and clears the hand-over, so that an
actor that is still computing on the old row cannot end it.
"""

import logging
import sys
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, ParamSpec

from django.db import router, transaction
from django.db.models import Case, F, Q, Value, When
from django.utils import timezone
from wagtail.log_actions import get_active_log_context
from wagtail.models import Locale

from .. import clock
from ..conf import conf
from ..constants import IntentState, Kind, Reason
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


def never_fails(function: Callable[P, None]) -> Callable[P, None]:
    """Keep every fault of a function away from its caller: log it and go on."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception:
            logger.exception("function=%s state=not_planned", function.__name__)

    return guarded


def shielded(function: Callable[P, None]) -> Callable[P, None]:
    """Keep faults away from the caller, and its open transaction usable after a failed read."""

    @wraps(function)
    def inside_savepoint(*args: P.args, **kwargs: P.kwargs) -> None:
        is_open = transaction.get_connection(router.db_for_write(Intent)).in_atomic_block
        # Outside a transaction a savepoint would begin one, with a read: SQLite then refuses
        # to write in it once another connection has written.
        with savepoint() if is_open else nullcontext():
            function(*args, **kwargs)

    return never_fails(inside_savepoint)


def savepoint() -> transaction.Atomic:
    """Return a transaction, or a savepoint within the caller's, on the ledger's database."""
    return transaction.atomic(using=router.db_for_write(Intent))


def write(
    kind: Kind,
    *,
    page: Any = None,
    page_id: int | None = None,
    subtree: bool = False,
    former_urls: Mapping[str, Any] | None = None,
    run_at: datetime | None = None,
    attempts: int = 0,
) -> None:
    """Write one row that makes a worker look at a page, by default `SETTLE_SECONDS` from now.

    :param former_urls: `{"own": [url, …], "base": url or None}`, what will be gone by then.
    :raises DatabaseError: nothing was written.
    """
    intent = _new(kind, page=page, page_id=page_id, run_at=run_at)
    intent.subtree, intent.attempts = subtree, attempts
    intent.former_urls = dict(former_urls or {})
    with savepoint():
        _insert(intent)
    _log(intent)


plan = never_fails(write)


@never_fails
def plan_go_live(*, page: Any, revision_id: int, expected_at: datetime) -> None:
    """Write, or re-open, the row of one page and one go-live time.

    Scheduling the same again finds its row; going back to an earlier time re-opens that one.
    """
    intent = _new(Kind.GO_LIVE, page=page, run_at=expected_at)
    intent.revision_id, intent.expected_at = revision_id, expected_at
    intent.key = go_live_key(page.pk, expected_at)
    is_released = Q(state=IntentState.PLANNED, run_at__lt=expected_at)
    is_planned = Q(state=IntentState.PLANNED, run_at=expected_at, revision_id=revision_id)
    with savepoint():
        reopened = (
            Intent.objects.filter(key=intent.key)
            .exclude(is_released)
            .exclude(is_planned)
            .update(
                **_AFRESH,
                revision_id=revision_id,
                run_at=expected_at,
                state=IntentState.PLANNED,
                reason="",
                error="",
                attempts=0,
                waits=0,
                published_at=None,
                finished_at=None,
                page_title=intent.page_title,
                scheduled_by=intent.scheduled_by,
                correlation_id=intent.correlation_id,
            )
        )
        if not reopened:
            _insert(intent)
    _log(intent)


@never_fails
def plan_publish(*, page: Any, revision_id: int | None) -> None:
    """Announce a page that was just published: release its go-live, or write a `publish`.

    A go-live that somebody cancelled ends here; one that a quick worker announced already needs
    nothing more.
    """
    published_at: datetime | None = page.last_published_at
    # A publish may cost no query for the name of a language.
    intent = _new(Kind.PUBLISH, page=page, locale=_loaded_locale(page))
    intent.revision_id = revision_id
    if published_at is not None:  # an alias may never have had one
        intent.key = f"page:{page.pk}:publish:{iso(published_at)}"
    with savepoint():
        if not (published_at and revision_id and _settle_go_live(intent, published_at)):
            _insert(intent)
    _log(intent)


def _settle_go_live(intent: Intent, published_at: datetime) -> bool:
    go_lives = Intent.objects.filter(
        page_id=intent.page_id,
        kind=Kind.GO_LIVE,
        revision_id=intent.revision_id,
        expected_at__lte=published_at,
    )
    # Most revisions have none, and to say so costs an editor less than what follows. A write and
    # not a read: SQLite refuses to turn a reader into a writer.
    if not go_lives.update(kind=Kind.GO_LIVE):
        return False
    planned = Q(state=IntentState.PLANNED)
    cancelled = Q(state=IntentState.CANCELLED)
    announced = Q(state=IntentState.ANNOUNCED, published_at=published_at)

    def set_if(condition: Q, value: Any, field: str) -> Case:
        output: Any = Intent._meta.get_field(field)
        return Case(When(condition, then=value), default=F(field), output_field=output)

    # MariaDB and MySQL assign from left to right: `state`, which the others ask for, comes last.
    return bool(
        go_lives.filter(planned | cancelled | announced).update(
            run_at=set_if(planned, Value(intent.run_at), "run_at"),
            reason=Case(
                When(planned, then=Value("")),
                When(cancelled, then=Value(Reason.CANCELLED.value)),
                default=F("reason"),
                output_field=Intent._meta.get_field("reason"),
            ),
            version=set_if(planned, F("version") + 1, "version"),
            handed_at=set_if(planned, Value(None), "handed_at"),
            handed_count=set_if(planned, Value(0), "handed_count"),
            state=set_if(cancelled, Value(IntentState.SKIPPED.value), "state"),
        )
    )


def plan_manual(pages: Sequence[Any], *, subtree: bool = False) -> None:
    """Write one row for each page, at once, for a person who submits them.

    :raises DatabaseError: nothing was written. Unlike an editor's publish, this is what the
        person came for.
    """
    rows = [_new(Kind.MANUAL, page=page) for page in pages]
    for row in rows:
        row.subtree = subtree
    with savepoint():
        Intent.objects.bulk_create(rows)
    for row in rows:
        _log(row)


def end(
    intent: Intent,
    state: IntentState,
    *,
    reason: str = "",
    error: str = "",
    published_at: datetime | None = None,
) -> bool:
    """End an intent as it was read; `False` if somebody else was there meanwhile."""
    ended = _as_read(intent).update(
        state=state,
        reason=reason,
        error=error,
        published_at=published_at,
        run_at=None,
        finished_at=clock.now(),
    )
    if ended:
        _log(intent, state=state, reason=reason)
    return bool(ended)


def wait(intent: Intent, until: datetime, *, reason: str) -> bool:
    """Move an intent to a later time; waiting is not failing."""
    waits = _as_read(intent).update(**_AFRESH, run_at=until, reason=reason, waits=F("waits") + 1)
    if waits:
        _log(intent, state="pending", reason=reason)
    return bool(waits)


def retry_or_fail(intent: Intent, error: Exception) -> bool:
    """Try a page whose own code failed again after 60, 300, 900 s, then hourly, then give up."""
    now, attempts = clock.now(), intent.attempts + 1
    message = f"{type(error).__name__}: {error}"[:2000]
    first_try = max(intent.created_at, intent.expected_at or intent.created_at)
    if now - first_try >= conf.give_up_after:
        return end(intent, IntentState.FAILED, reason=Reason.PAGE_ERROR, error=message)
    logger.warning("intent=%s state=retrying error=%s", intent.key, message, exc_info=error)
    return bool(
        _as_read(intent).update(
            **_AFRESH,
            run_at=now + retry_delay(attempts),
            reason=Reason.PAGE_ERROR,
            error=message,
            attempts=attempts,
        )
    )


def advance(intent: Intent, cursor: str) -> bool:
    """Note how far a subtree is done, and renew the hand-over for the rest."""
    advanced = _as_read(intent).update(
        cursor=cursor, version=F("version") + 1, handed_at=clock.now(), run_at=clock.now()
    )
    intent.cursor, intent.version = cursor, intent.version + 1
    return bool(advanced)


def cancel(ids: Collection[int]) -> int:
    """Cancel planned intents, for a person; return how many."""
    return (
        Intent.objects.planned()
        .filter(pk__in=ids)
        .update(
            **_AFRESH,
            state=IntentState.CANCELLED,
            reason=Reason.CANCELLED,
            run_at=None,
            finished_at=clock.now(),
        )
    )


def go_live_key(page_id: int, expected_at: datetime) -> str:
    """Return the key of a page's go-live: the same page and time is the same intent."""
    return f"page:{page_id}:go_live:{iso(expected_at)}"


def _as_read(intent: Intent) -> Any:
    return Intent.objects.planned().filter(pk=intent.pk, version=intent.version)


def _new(
    kind: Kind,
    *,
    page: Any = None,
    page_id: int | None = None,
    run_at: datetime | None = None,
    locale: str | None = None,
) -> Intent:
    context = get_active_log_context()
    now = timezone.now()
    pk: Any = page_id if page is None else page.pk
    return Intent(
        key=f"page:{pk}:{kind.value}:{uuid.uuid4()}",
        kind=kind.value,
        page_id=pk,
        page_title=getattr(page, "title", "")[:255],
        locale=_language_code(getattr(page, "locale_id", None)) if locale is None else locale,
        translation_key=getattr(page, "translation_key", None),
        run_at=run_at or now + conf.settle,
        scheduled_by=_source(context.user),
        correlation_id=str(context.uuid or ""),
        created_at=now,
    )


def _insert(intent: Intent) -> None:
    Intent.objects.bulk_create([intent], ignore_conflicts=True)


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
