"""Whatever editors do, in whatever order: every change of a public URL reaches the engine.

A model keeps what is public and with which content. After each settle it is compared with what
the engine was told since, and with the ledger.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from wagtail.models import Page, Site

from example_site.engine import Engine
from tests.conftest import IndexNow
from tests.factories import make_page, make_site
from tests.testapp.models import ArticlePage
from wagtail_indexnow.models import Intent, TrackedUrl
from wagtail_indexnow.relay.dispatch import run_maintenance

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
START = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
SLUGS = ("alpha", "beta", "gamma")
pages = st.integers(min_value=0, max_value=3)


@dataclass
class Told:
    """What the model expects of the engine since the last settle."""

    public: dict[str, Any] = field(default_factory=dict)  # URL → (page, when it was published)
    ever_public: set[str] = field(default_factory=set)


class Editing(RuleBasedStateMachine):
    """Four pages in a tree below the home page, and an engine that listens."""

    indexnow: IndexNow
    engine: Engine

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        traveller = self.stack.enter_context(time_machine.travel(START, tick=False))
        self.indexnow.traveller = traveller
        self.ids: list[int] = []
        self.schedules: dict[int, datetime] = {}
        self.known = Told()

    @initialize(live=st.sets(pages), hidden=st.sets(pages, max_size=1))
    def build(self, live: set[int], hidden: set[int]) -> None:
        """Two pages below the home page, and one below each; some live, one perhaps private."""
        site = make_site()
        self.home_id = site.root_page_id
        parent = site.root_page
        for number in range(4):
            page = make_page(parent if number % 2 else site.root_page, f"page-{number}")
            parent = page
            self.ids.append(page.pk)
        for number in hidden:
            self.hide_or_show(number)
        for number in live:
            self.publish(number)
        self.settle()

    def teardown(self) -> None:
        try:
            if self.ids:
                self.settle()
        finally:
            self.stack.close()
            _empty_the_tables()

    # What editors do. A page that is gone is left alone.

    @rule(number=pages)
    def publish(self, number: int) -> None:
        with self.page(number) as page:
            page.go_live_at = None
            page.save_revision().publish()
            self.schedules.pop(page.pk, None)

    @rule(number=pages, minutes=st.sampled_from([5, 30, 90]))
    def schedule(self, number: int, minutes: int) -> None:
        """Schedule, or reschedule to another time."""
        with self.page(number) as page:
            page.go_live_at = timezone.now() + timedelta(minutes=minutes)
            page.save_revision().publish()

    @rule(number=pages)
    def cancel(self, number: int) -> None:
        with self.page(number) as page:
            for revision in page.revisions.filter(approved_go_live_at__isnull=False):
                revision.approved_go_live_at = None
                revision.save(update_fields=["approved_go_live_at"])

    @rule(number=pages)
    def unpublish(self, number: int) -> None:
        with self.page(number) as page:
            page.unpublish()

    @rule(number=pages, into=st.none() | pages)
    def move(self, number: int, into: int | None) -> None:
        """Move a page below another, or below the home page."""
        with self.page(number) as page:
            target = Page.objects.filter(
                pk=self.home_id if into is None else self.ids[into]
            ).first()
            if target is None or target.path.startswith(page.path):
                return
            if not self.is_taken(target, page.slug):
                page.move(target, pos="last-child")

    @rule(number=pages, slug=st.sampled_from(SLUGS), is_published=st.booleans())
    def rename(self, number: int, slug: str, is_published: bool) -> None:
        with self.page(number, as_draft=False) as page:
            if self.is_taken(page.get_parent(), slug):
                return
            page.slug = slug
            if is_published:
                page.go_live_at = None
                page.save_revision().publish()
            else:
                page.save()

    @rule(number=pages)
    def hide_or_show(self, number: int) -> None:
        with self.page(number) as page:
            if not page.view_restrictions.all().delete()[0]:
                page.view_restrictions.create(restriction_type="login")

    @rule(number=pages)
    def delete(self, number: int) -> None:
        with self.page(number) as page:
            page.delete()

    # What time does.

    @rule(minutes=st.sampled_from([0.2, 3, 20, 100]))
    def pass_time(self, minutes: float) -> None:
        self.indexnow.travel_to(timezone.now() + timedelta(minutes=minutes))

    @rule()
    def run_cron(self) -> None:
        call_command("publish_scheduled")
        self.note()

    @rule()
    def run_worker(self) -> None:
        self.indexnow.work()

    @rule()
    def reconcile(self) -> None:
        run_maintenance()

    @rule()
    def settle(self) -> None:
        """Let everything that is due be done, and compare."""
        self.indexnow.settle(minutes=30)
        told = set(self.indexnow.told())
        public, before = self.public(), self.known.public
        changed = {url for url in {*public, *before} if public.get(url) != before.get(url)}
        withdrawn = set(
            TrackedUrl.objects.filter(change="removed", reason="withdrawn").values_list(
                "url", flat=True
            )
        )
        missing = changed - told - (withdrawn - public.keys())
        assert not missing, f"never told: {missing}"
        secret = told - self.known.ever_public
        assert not secret, f"told although never public: {secret}"
        wrong = {
            row.url: row.change
            for row in TrackedUrl.objects.filter(url__in=told)
            if (row.change == "removed") == (row.url in public)
        }
        assert not wrong, f"told as what it is not: {wrong}"
        self.known.public = public

    @invariant()
    def every_intent_has_an_end_or_a_due_time(self) -> None:
        for row in Intent.objects.all():
            assert (row.state == "planned") == (row.run_at is not None), row
            assert (row.finished_at is None) == (row.state == "planned"), row

    @precondition(lambda self: self.ids)
    @invariant()
    def note(self) -> None:
        """Remember what was public at any moment."""
        self.known.ever_public |= self.public().keys()

    # The model.

    def public(self) -> dict[str, Any]:
        """Return each public URL with its page and version, by Wagtail's own rules."""
        Site.clear_site_root_paths_cache()
        return {
            page.get_full_url(): (page.pk, page.last_published_at)
            for page in ArticlePage.objects.filter(pk__in=self.ids, live=True)
            if not page.get_view_restrictions().exists()
        }

    @contextmanager
    def page(self, number: int, *, as_draft: bool = True) -> Iterator[Any]:
        """Give the page if it is there, as the editor's form has it; and note what follows."""
        page = ArticlePage.objects.filter(pk=self.ids[number]).first()
        if page is None:
            page = make_page(Page.objects.get(pk=self.home_id), f"again-{self.fresh_number()}")
            self.ids[number] = page.pk
        # Time goes on between two clicks: Wagtail's own marks tell them apart by it.
        self.indexnow.travel_to(timezone.now() + timedelta(milliseconds=7))
        yield page
        self.indexnow.travel_to(timezone.now() + timedelta(milliseconds=7))
        self.note()

    def fresh_number(self) -> int:
        return (Page.objects.order_by("-pk").values_list("pk", flat=True).first() or 0) + 1

    def is_taken(self, parent: Any, slug: str) -> bool:
        siblings = Page.objects.get(pk=parent.pk).get_children()
        return bool(siblings.filter(slug=slug).exists())


def _empty_the_tables() -> None:
    call_command("flush", verbosity=0, interactive=False, database=connection.alias)


def test_every_change_of_a_public_url_reaches_the_engine(
    indexnow: IndexNow, engine: Engine, transactional_db: None
) -> None:
    indexnow.configure(RESUBMIT_AFTER=0)
    machine = type("Machine", (Editing,), {"indexnow": indexnow, "engine": engine})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
