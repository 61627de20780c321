"""Audits: what sent no signal is found by comparing every page with the inventory."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from wagtail.models import Page, PageViewRestriction, Site

from tests.factories import make_page, make_site, publish
from tests.testapp.models import BrokenPage
from wagtail_indexnow.diagnostics.health import findings
from wagtail_indexnow.models import CheckedPage, Heartbeat, HostKey, Intent, PublicUrl, TrackedUrl
from wagtail_indexnow.pages import audits, comparison
from wagtail_indexnow.relay import reconciliation
from wagtail_indexnow.relay.dispatch import run_maintenance

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = "https://www.example.com/en/"


@pytest.fixture(autouse=True)
def _one_moment(site: Any, clock_at: Any) -> None:
    """The clock stands still until it is moved."""


def audit(indexnow: Any) -> Any:
    """Run an audit and all that it plans; return its row."""
    indexnow.travel_to(timezone.now() + timedelta(minutes=1))
    audits.plan_audit()
    indexnow.settle()
    return audits.last_audit()


def changes() -> dict[str, str]:
    rows = TrackedUrl.objects.values_list("url", "change")
    return {url.removeprefix(ROOT): change for url, change in rows}


def known() -> set[str]:
    urls = PublicUrl.objects.values_list("url", flat=True)
    return {url.removeprefix(ROOT) for url in urls}


def live(parent: Any, slug: str, **fields: Any) -> Any:
    return make_page(parent, slug, live=True, **fields)


def test_first_audit_records_what_is_public_and_sends_nothing(indexnow: Any, site: Any) -> None:
    section = live(site.root_page, "section")
    live(section, "page")
    hidden = live(site.root_page, "hidden")
    PageViewRestriction.objects.create(page=hidden, restriction_type="login")
    draft = make_page(site.root_page, "draft")
    Intent.objects.all().delete()

    row = audit(indexnow)

    assert (row.state, row.reason, row.detail["hosts"]) == ("announced", "", {})
    assert known() == {"", "section/", "section/page/"}
    assert changes() == {}
    assert CheckedPage.objects.get(page_id=hidden.pk).reason == "private"
    assert not CheckedPage.objects.filter(page_id=draft.pk).exists()
    assert HostKey.objects.get(host="www.example.com").audited_at is not None


def test_later_audits_announce_what_no_signal_did(indexnow: Any, site: Any) -> None:
    gone, updated = live(site.root_page, "gone"), live(site.root_page, "updated")
    live(site.root_page, "same")
    audit(indexnow)
    Page.objects.filter(pk=gone.pk).update(live=False)
    Page.objects.filter(pk=updated.pk).update(last_published_at=timezone.now())
    live(site.root_page, "imported")

    row = audit(indexnow)

    assert changes() == {"gone/": "removed", "updated/": "updated", "imported/": "added"}
    assert (row.detail["hosts"]["www.example.com"]["removed"]) == 1
    assert {intent.kind for intent in Intent.objects.exclude(page_id=None)} == {"audit"}
    assert audit(indexnow).detail["hosts"] == {}


def test_imported_page_of_a_new_host_is_recorded_and_sent_of_a_known_one(
    indexnow: Any, site: Any
) -> None:
    audit(indexnow)
    second = make_site("second.example.com")
    live(second.root_page, "page")
    live(site.root_page, "page")

    audit(indexnow)
    assert changes() == {"page/": "added"}

    live(second.root_page, "later")
    audit(indexnow)
    assert "https://second.example.com/en/later/" in changes()


def test_url_at_a_new_host_that_engines_heard_is_gone_is_not_taken_as_known(
    indexnow: Any, site: Any
) -> None:
    page = publish(make_page(site.root_page, "page"))
    indexnow.settled()
    page.unpublish()
    indexnow.settled()
    PublicUrl.objects.all().delete()
    CheckedPage.objects.all().delete()
    HostKey.objects.update(audited_at=None)
    Page.objects.filter(pk=page.pk).update(live=True)

    audit(indexnow)

    assert indexnow.settled(minutes=60) == [] or changes()["page/"] == "added"
    assert changes()["page/"] == "added"


def test_page_that_an_open_event_will_check_is_left_to_it(indexnow: Any, site: Any) -> None:
    page = live(site.root_page, "page")
    section = live(site.root_page, "section")
    below = live(section, "below")
    audit(indexnow)
    indexnow.configure(ENABLED=False)
    Page.objects.filter(pk__in=[page.pk, below.pk]).update(live=False)
    indexnow.configure(ENABLED=True)
    PageViewRestriction.objects.create(page=section, restriction_type="login")
    publish(Page.objects.get(pk=page.pk).specific)

    indexnow.travel_to(timezone.now() + timedelta(seconds=1))
    audits.audit_site(audits.plan_audit())

    assert audits.last_audit().detail["hosts"] == {}


def test_page_whose_code_fails_is_passed_over(
    indexnow: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(site.root_page, "broken", model=BrokenPage)
    live(site.root_page, "page")

    row = audit(indexnow)

    assert (row.state, known()) == ("announced", {"", "page/"})


def test_audit_goes_through_the_site_in_chunks(
    indexnow: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "CHUNK_SIZE", 2)
    monkeypatch.setattr(audits, "CHUNK_SIZE", 2)
    for number in range(5):
        live(site.root_page, f"p{number}")

    row = audit(indexnow)

    assert row.detail["checked"] == Page.objects.count()
    assert len(known()) == 6


def test_long_audit_gives_way_and_is_handed_over_again(
    indexnow: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audits, "CHUNK_SIZE", 2)
    monkeypatch.setattr(comparison, "GIVE_WAY_AFTER_S", -1.0)
    for number in range(3):
        live(site.root_page, f"p{number}")
    intent = audits.plan_audit()

    audits.audit_site(intent)

    intent.refresh_from_db()
    assert (intent.state, intent.handed_at) == ("planned", None)
    assert intent.cursor > 0
    indexnow.settle()
    assert audits.last_audit().pk == intent.pk


class TestMassChange:
    @pytest.fixture
    def broken(self, indexnow: Any, site: Any) -> Any:
        """A site of 20 pages whose Site record was broken at night."""
        for number in range(20):
            live(site.root_page, f"p{number}")
        other = make_site("other.example.com")
        live(other.root_page, "page")
        audit(indexnow)
        Site.objects.filter(pk=site.pk).update(hostname="oops.example.com")
        Page.objects.filter(slug="page").update(live=False)
        return audit(indexnow)

    def test_host_that_changed_too_much_gets_no_events(self, broken: Any) -> None:
        assert (broken.state, broken.reason) == ("skipped", "mass_change")
        assert broken.detail["blocked"] == ["www.example.com"]
        assert broken.detail["hosts"]["www.example.com"]["removed"] == 21
        assert len(broken.detail["hosts"]["www.example.com"]["examples"]) == 10
        # Others go on.
        assert changes() == {"https://other.example.com/en/page/": "removed"}

    def test_check_stays_red_until_the_difference_is_gone(
        self, indexnow: Any, broken: Any, site: Any
    ) -> None:
        red = [found for found in findings(live=False) if found.name == "mass_change"]
        assert [(found.subject, found.ok) for found in red] == [("www.example.com", False)]

        Site.objects.filter(pk=site.pk).update(hostname="www.example.com")
        audit(indexnow)

        assert not [found for found in findings(live=False) if found.name == "mass_change"]
        assert not TrackedUrl.objects.filter(host="www.example.com").exists()

    def test_command_reports_and_applies(self, indexnow: Any, broken: Any) -> None:
        indexnow.travel_to(timezone.now() + timedelta(minutes=1))
        output = StringIO()
        with pytest.raises(CommandError, match="--apply"):
            call_command("indexnow_audit", json=True, stdout=output)
        assert json.loads(output.getvalue())["blocked"] == ["www.example.com"]
        assert not TrackedUrl.objects.filter(host="www.example.com").exists()

        indexnow.travel_to(timezone.now() + timedelta(minutes=1))
        call_command("indexnow_audit", apply=True, stdout=StringIO())
        indexnow.settle(minutes=60)

        assert TrackedUrl.objects.filter(host="www.example.com", change="removed").count() == 21


class TestCommand:
    def test_dry_run_shows_differences_and_writes_nothing(self, indexnow: Any, site: Any) -> None:
        page = live(site.root_page, "page")
        audit(indexnow)
        Page.objects.filter(pk=page.pk).update(live=False)
        output = StringIO()

        call_command("indexnow_audit", dry_run=True, stdout=output)

        assert "www.example.com: 0 added or updated, 1 removed" in output.getvalue()
        assert f"removed  {ROOT}page/" in output.getvalue()
        assert not Intent.objects.filter(kind="audit", page_id=page.pk).exists()

    def test_runs_the_first_audit_of_a_new_site(self, indexnow: Any, site: Any) -> None:
        output = StringIO()
        call_command("indexnow_audit", stdout=output)

        assert "pages checked" in output.getvalue()
        assert known() == {""}

    def test_refuses_where_indexnow_is_switched_off(self, indexnow: Any) -> None:
        indexnow.configure(ENABLED=False)
        with pytest.raises(CommandError, match="ENABLED"):
            call_command("indexnow_audit")

    def test_refuses_to_apply_beside_an_open_audit(self, indexnow: Any) -> None:
        audits.plan_audit()
        with pytest.raises(CommandError, match="in progress"):
            call_command("indexnow_audit", apply=True)


class TestPlanning:
    def planned(self) -> int:
        return Intent.objects.filter(kind="audit", page_id=None).count()

    def test_first_audit_is_planned_at_once_and_the_next_a_day_later(
        self, indexnow: Any, clock_at: Any
    ) -> None:
        run_maintenance()
        run_maintenance()
        assert self.planned() == 1
        indexnow.settle()
        clock_at.shift(86_000)
        run_maintenance()
        assert self.planned() == 1
        clock_at.shift(400)
        run_maintenance()
        assert self.planned() == 2

    def test_no_second_audit_while_one_is_open(self, indexnow: Any, clock_at: Any) -> None:
        run_maintenance()
        clock_at.shift(90_000)
        run_maintenance()
        assert self.planned() == 1

    def test_interval_of_zero_means_only_the_first(self, indexnow: Any, clock_at: Any) -> None:
        indexnow.configure(AUDIT_INTERVAL=0)
        run_maintenance()
        indexnow.settle()
        clock_at.shift(86_400 * 30)
        run_maintenance()
        assert self.planned() == 1

    @pytest.mark.parametrize(("count", "comes_forward"), [(10, False), (11, True)])
    def test_more_than_ten_differences_bring_an_audit_forward(
        self, indexnow: Any, site: Any, count: int, comes_forward: bool
    ) -> None:
        pages = [live(site.root_page, f"p{number}") for number in range(count)]
        audit(indexnow)
        Heartbeat.objects.create(name="audit", seen_at=timezone.now())
        Page.objects.filter(pk__in=[page.pk for page in pages]).update(
            last_published_at=timezone.now()
        )

        reconciliation.reconcile()

        assert Intent.objects.exclude(page_id=None).count() == (0 if comes_forward else 10)
        assert Heartbeat.objects.filter(name="audit").exists() is not comes_forward
