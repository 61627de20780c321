"""Turn Wagtail's events into rows of the ledger: one row, one statement, nothing else.

Model-level signals only: view hooks miss bulk actions, workflow, cron, REST and translations. What
a page was called, and whether it was public, stands in the inventory, so handlers build no URL and
run none of a page's own code. None sends anything, and none of their faults reaches an editor.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import Model, QuerySet
from django.db.models.signals import post_delete, post_save
from django.utils import timezone
from wagtail.models import PageViewRestriction, Revision
from wagtail.signals import page_published, page_slug_changed, page_unpublished, post_page_move

from .conf import conf
from .constants import APP_LABEL, Kind
from .ledger import intents
from .ledger.intents import log_and_swallow, log_and_swallow_in_savepoint
from .models import PublicUrl
from .pages.model import page_model


@log_and_swallow
def on_page_published(sender: type, instance: Any, revision: Any = None, **kwargs: Any) -> None:
    """Plan what went live; what Wagtail took offline by scheduling is a removal."""
    if not conf.enabled:
        return
    if not instance.live:
        _plan_removal_if_known(instance)
    elif instance.alias_of_id is None or conf.aliases:
        intents.plan_publish(page=instance, revision_id=revision.pk if revision else None)


@log_and_swallow
def on_revision_saved(sender: type, instance: Any, raw: bool = False, **kwargs: Any) -> None:
    """Plan a go-live: the only event that every way of scheduling a page has in common."""
    expected_at = instance.approved_go_live_at
    if raw or expected_at is None or not conf.enabled or expected_at <= timezone.now():
        return
    if issubclass(instance.base_content_type.model_class() or Model, page_model()):
        intents.plan_go_live(
            page_id=int(instance.object_id),
            revision_id=instance.pk,
            expected_at=expected_at,
            page_title=str(instance.content.get("title", ""))[:255],
            translation_key=instance.content.get("translation_key"),
            live=page_model().objects.filter(live=True),
        )


@log_and_swallow
def on_page_unpublished(sender: type, instance: Any, **kwargs: Any) -> None:
    """Plan the removal of a page that went offline, or is about to be deleted."""
    if conf.enabled:
        intents.plan(Kind.REMOVE, page=instance)


@log_and_swallow
def on_slug_changed(sender: type, instance: Any, **kwargs: Any) -> None:
    """Plan a check of a renamed page and of all below it, unless none of them can be public."""
    if conf.enabled and (instance.live or instance.numchild):
        intents.plan(Kind.MOVE, page=instance, subtree=True)


@log_and_swallow
def on_page_moved(
    sender: type, instance: Any, url_path_before: str, url_path_after: str, **kwargs: Any
) -> None:
    """Plan a check of a moved page and of all below it; reordering changes nothing."""
    if conf.enabled and url_path_before != url_path_after:
        intents.plan(Kind.MOVE, page=instance, subtree=True)


@log_and_swallow
def on_restriction_saved(sender: type, instance: Any, raw: bool = False, **kwargs: Any) -> None:
    """Plan a check of a section that was hidden, or whose restriction changed."""
    if conf.enabled and not raw:
        _plan_visibility(instance)


@log_and_swallow
def on_restriction_deleted(sender: type, instance: Any, origin: Any = None, **kwargs: Any) -> None:
    """Plan a check of a section that was shown, unless it is being deleted with its page."""
    model = origin.model if isinstance(origin, QuerySet) else type(origin)
    if conf.enabled and (origin is None or issubclass(model, PageViewRestriction)):
        _plan_visibility(instance)


@log_and_swallow
def on_alias_created(
    sender: type, instance: Any, created: bool, raw: bool = False, **kwargs: Any
) -> None:
    """Plan a live alias, for which Wagtail sends no signal of its own."""
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
        (post_page_move, on_page_moved, None),
        (post_save, on_revision_saved, Revision),
        (post_save, on_restriction_saved, PageViewRestriction),
        (post_delete, on_restriction_deleted, PageViewRestriction),
        (post_save, on_alias_created, None),
    ]
    for signal, receiver, sender in receivers:
        uid = f"{APP_LABEL}.{receiver.__name__}"
        signal.connect(receiver, sender=sender, dispatch_uid=uid)


@log_and_swallow_in_savepoint
def _plan_removal_if_known(page: Any) -> None:
    if PublicUrl.objects.filter(page_id=page.pk).exists():
        intents.plan(Kind.REMOVE, page=page)


def _plan_visibility(restriction: Any) -> None:
    # The page only where it is at hand: reading it would be one more query.
    page = restriction._state.fields_cache.get("page")
    intents.plan(Kind.VISIBILITY, page=page, page_id=restriction.page_id, subtree=True)
