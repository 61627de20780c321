"""Turn Wagtail's events into rows of the ledger: capture what will be gone, and plan.

Model-level signals only: view hooks miss bulk actions, workflow, cron, REST and translations.
No handler sends anything, and none of their faults reaches whoever publishes.
"""

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from django.db.models import Model, QuerySet
from django.db.models.signals import post_delete, post_save
from django.utils import timezone
from wagtail.models import PageViewRestriction, Revision
from wagtail.signals import (
    page_published,
    page_slug_changed,
    page_unpublished,
    post_page_move,
    pre_page_move,
)

from .conf import conf
from .constants import APP_LABEL, Kind
from .ledger import intents
from .ledger.intents import never_fails, shielded
from .models import TrackedUrl
from .pages import former_urls
from .pages.public_urls import page_model

#: Page → what it was called, between the two signals of a move.
_moving: ContextVar[dict[int, list[former_urls.Snapshot]] | None] = ContextVar(
    "moving", default=None
)


@never_fails
def on_page_published(sender: type, instance: Any, revision: Any = None, **kwargs: Any) -> None:
    """Announce what went live; what Wagtail took offline by scheduling is a removal."""
    if not conf.enabled:
        return
    if not instance.live:
        _plan_removal_if_tracked(instance)
    elif instance.alias_of_id is None or conf.aliases:
        intents.plan_publish(page=instance, revision_id=revision.pk if revision else None)


@never_fails
def on_revision_saved(sender: type, instance: Any, raw: bool = False, **kwargs: Any) -> None:
    """Plan a go-live: the only event that every way of scheduling a page has in common."""
    # Nearly every revision ends here, and costs no savepoint.
    if not raw and instance.approved_go_live_at is not None and conf.enabled:
        _plan_go_live(instance, instance.approved_go_live_at)


@shielded
def _plan_go_live(revision: Any, expected_at: datetime) -> None:
    if expected_at <= timezone.now():
        return
    if not issubclass(revision.base_content_type.model_class() or Model, page_model()):
        return
    page = page_model().objects.filter(pk=revision.object_id).first()
    if page is None or page.live_revision_id == revision.pk:
        return
    intents.plan_go_live(page=page, revision_id=revision.pk, expected_at=expected_at)
    if page.live and page.last_published_at is not None and page.live_revision_id is None:
        # Wagtail takes such a page offline when it is scheduled, and says nothing.
        _plan_removal(page.specific)


@shielded
def on_page_unpublished(sender: type, instance: Any, **kwargs: Any) -> None:
    """Capture the URLs of a page that went offline, or is about to be deleted."""
    if conf.enabled:
        _plan_removal(instance)


@shielded
def on_slug_changed(sender: type, instance: Any, instance_before: Any, **kwargs: Any) -> None:
    """Announce the former and presubmitted URLs of a renamed page and of all below it."""
    if not conf.enabled or not _may_be_public(instance_before):
        return
    was_live = instance_before.live
    before = former_urls.capture(instance_before, was_live=was_live, subtree=True)
    after = former_urls.capture(instance, was_live=was_live, subtree=True)
    # A Site's root, and what lies outside every Site, had no URL that its slug could change.
    had_url = before[0]["own"] or before[0]["base"]
    if had_url and before[0] != after[0]:
        _plan_subtree(Kind.MOVE, instance, before)


@shielded
def before_page_move(
    sender: type, instance: Any, url_path_before: str, url_path_after: str, **kwargs: Any
) -> None:
    """Remember what a page is called before it moves; reordering changes nothing."""
    _moves().pop(instance.pk, None)
    if not conf.enabled or url_path_before == url_path_after or not _may_be_public(instance):
        return
    page = instance.specific
    _moves()[page.pk] = former_urls.capture(page, was_live=page.live, subtree=True)


@shielded
def after_page_move(
    sender: type, instance: Any, url_path_before: str, url_path_after: str, **kwargs: Any
) -> None:
    """Announce the former and presubmitted URLs of a moved page and of all below it."""
    snapshots = _moves().pop(instance.pk, [])
    if conf.enabled and url_path_before != url_path_after and _may_be_public(instance):
        _plan_subtree(Kind.MOVE, instance, snapshots)


@shielded
def on_restriction_saved(
    sender: type, instance: Any, created: bool, raw: bool = False, **kwargs: Any
) -> None:
    """Look again at a section that was hidden, or whose restriction changed."""
    if raw or not conf.enabled:
        return
    for page in _with_aliases(instance.page.specific):
        snapshots: list[former_urls.Snapshot] = []
        if created:
            snapshots = former_urls.capture(
                page, was_live=page.live, subtree=True, besides=instance.pk
            )
        _plan_subtree(Kind.VISIBILITY, page, snapshots)


@shielded
def on_restriction_deleted(sender: type, instance: Any, origin: Any = None, **kwargs: Any) -> None:
    """Look again at a section that was shown, unless it is being deleted with its page."""
    model = origin.model if isinstance(origin, QuerySet) else type(origin)
    if conf.enabled and (origin is None or issubclass(model, PageViewRestriction)):
        for page in _with_aliases(instance.page):
            _plan_subtree(Kind.VISIBILITY, page, [])


@never_fails
def on_alias_created(
    sender: type, instance: Any, created: bool, raw: bool = False, **kwargs: Any
) -> None:
    """Announce a live alias, for which Wagtail sends no signal of its own."""
    if raw or not created or not isinstance(instance, page_model()):
        return
    if conf.enabled and conf.aliases and instance.alias_of_id is not None and instance.live:
        intents.plan_publish(page=instance, revision_id=None)


def connect() -> None:
    """Connect every handler. Without a sender: Wagtail sends the specific class."""
    receivers: Iterable[tuple[Any, Callable[..., None], Any]] = [
        (page_published, on_page_published, None),
        (page_unpublished, on_page_unpublished, None),
        (page_slug_changed, on_slug_changed, None),
        (pre_page_move, before_page_move, None),
        (post_page_move, after_page_move, None),
        (post_save, on_revision_saved, Revision),
        (post_save, on_restriction_saved, PageViewRestriction),
        (post_delete, on_restriction_deleted, PageViewRestriction),
        (post_save, on_alias_created, None),
    ]
    for signal, receiver, sender in receivers:
        uid = f"{APP_LABEL}.{receiver.__name__}"
        signal.connect(receiver, sender=sender, dispatch_uid=uid)


@shielded
def _plan_removal_if_tracked(page: Any) -> None:
    if TrackedUrl.objects.public().filter(page_id=page.pk).exists():
        intents.plan(Kind.REMOVE, page=page)


def _plan_removal(page: Any) -> None:
    snapshots = former_urls.capture(page, was_live=True)
    intents.plan(Kind.REMOVE, page=page, former_urls=snapshots[0])


def _plan_subtree(kind: Kind, page: Any, snapshots: list[former_urls.Snapshot]) -> None:
    for snapshot in snapshots or [former_urls.nothing()]:
        intents.plan(kind, page=page, subtree=True, former_urls=snapshot)


def _with_aliases(page: Any) -> Iterator[Any]:
    """Yield a page and its aliases, which share its restrictions wherever they are."""
    yield page
    for alias in page.aliases.specific():
        yield from _with_aliases(alias)


def _may_be_public(page: Any) -> bool:
    # A draft's descendants can be live and are served; and what was public once has a name that
    # open intents above would take for its former one, were it to change unnoticed.
    return bool(page.live or page.numchild or page.first_published_at)


def _moves() -> dict[int, list[former_urls.Snapshot]]:
    moving = _moving.get()
    if moving is None:
        moving = {}
        _moving.set(moving)
    return moving
