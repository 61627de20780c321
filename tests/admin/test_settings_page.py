"""Settings → IndexNow: the checklist, keys and pauses."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from wagtail.models import ModelLogEntry, Page, Site

from example_site.engine import Answer
from tests.admin.conftest import ADMIN, HOST
from tests.admin.test_urls_report import queries, shown
from tests.factories import make_page, publish
from wagtail_indexnow.diagnostics import health
from wagtail_indexnow.diagnostics.findings import needing_action
from wagtail_indexnow.ledger import channels
from wagtail_indexnow.models import Channel, HostKey, Intent
from wagtail_indexnow.submission import keys

pytestmark = pytest.mark.django_db
SETTINGS = f"{ADMIN}settings/"


def text_of(response: Any) -> str:
    return str(response.content.decode().replace("&#x27;", "'").replace("&quot;", '"'))


class TestChecklist:
    def test_says_the_same_as_the_check(self, superuser: Client, home: Page) -> None:
        page = text_of(superuser.get(SETTINGS))

        found = health.check_all(live=False)
        assert found
        for finding in found:
            assert finding.message in page
            assert finding.remedy in page

    def test_says_that_it_is_switched_off(
        self, superuser: Client, home: Page, indexnow: Any
    ) -> None:
        indexnow.configure(ENABLED=False)

        assert "IndexNow is switched off on this server" in shown(superuser, report=SETTINGS)

    @pytest.mark.django_db(transaction=True)
    def test_home_page_is_sent_on_request(
        self, superuser: Client, indexnow: Any, home: Page, clock_at: Any
    ) -> None:
        Page.objects.filter(pk=home.pk).update(live=True)
        site = Site.objects.get()

        response = superuser.post(f"{SETTINGS}sites/{site.pk}/submit/")

        assert response.url == f"{ADMIN}urls/"
        assert indexnow.settled() == ["https://www.example.com/en/"]

    def test_opening_it_asks_nobody_over_the_network(self, superuser: Client, home: Page) -> None:
        # A socket to anywhere but this machine is an error in these tests.
        assert superuser.get(SETTINGS).status_code == 200


def make_known_key() -> None:
    """Have a key that every web process has long known of."""
    keys.key_for(HOST)
    HostKey.objects.update(created_at=timezone.now() - timedelta(hours=1))


class TestKeys:
    def test_are_masked(self, superuser: Client, home: Page) -> None:
        key = keys.key_for(HOST)

        page = shown(superuser, report=SETTINGS)

        assert keys.mask(key) in page
        assert key not in page

    def test_are_revealed_one_at_a_time(self, superuser: Client, home: Page) -> None:
        key, other = keys.key_for(HOST), keys.key_for("shop.example.com")

        page = shown(superuser, f"?reveal={HOST}", SETTINGS)

        assert key in page
        assert other not in page

    def test_site_without_a_key_is_listed(self, superuser: Client, home: Page) -> None:
        assert "Created when first needed" in shown(superuser, report=SETTINGS)

    def test_verifying_says_what_an_engine_would_find(
        self, superuser: Client, home: Page, indexnow: Any, live_server: Any
    ) -> None:
        indexnow.configure(CONNECT_TO={HOST: live_server.url})
        make_known_key()

        response = superuser.post(f"{SETTINGS}keys/{HOST}/verify/", follow=True)

        assert f"{HOST}: Key file verified." in text_of(response)
        assert HostKey.objects.get(host=HOST).check_result == "ok"

    def test_verifying_says_what_is_wrong(
        self, superuser: Client, home: Page, indexnow: Any
    ) -> None:
        indexnow.configure(CONNECT_TO={HOST: "http://127.0.0.1:9"})
        make_known_key()

        response = superuser.post(f"{SETTINGS}keys/{HOST}/verify/", follow=True)

        text = text_of(response)
        assert f"{HOST}: The host could not be reached." in text
        assert "Check the host name" in text

    def test_r62_verifying_a_site_that_is_not_served_connects_nowhere(
        self, superuser: Client, home: Page, indexnow: Any
    ) -> None:
        """R62: an editor may name a Site after any host of the network inside."""
        Site.objects.filter(hostname=HOST).update(hostname="intranet.example.org")

        response = superuser.post(f"{SETTINGS}keys/intranet.example.org/verify/", follow=True)

        assert "Host not served here" in text_of(response)

    def test_rotating_asks_first(self, superuser: Client, home: Page) -> None:
        key = keys.key_for(HOST)

        page = shown(superuser, report=f"{SETTINGS}keys/{HOST}/rotate/")

        assert f"Give {HOST} a new key?" in page
        assert keys.key_for(HOST) == key

    def test_rotating_gives_a_new_key_and_is_logged(self, superuser: Client, home: Page) -> None:
        key = keys.key_for(HOST)

        response = superuser.post(f"{SETTINGS}keys/{HOST}/rotate/", follow=True)

        assert keys.key_for(HOST) != key
        assert HostKey.objects.get(host=HOST).previous_key == key
        assert f"{HOST} has a new key." in text_of(response)
        assert ModelLogEntry.objects.get().action == "wagtail_indexnow.rotate_key"

    def test_key_of_the_settings_is_not_rotated(
        self, superuser: Client, home: Page, indexnow: Any
    ) -> None:
        indexnow.configure(KEYS={HOST: "configured-key"})

        page = shown(superuser, report=SETTINGS)
        response = superuser.post(f"{SETTINGS}keys/{HOST}/rotate/", follow=True)

        assert f"{SETTINGS}keys/{HOST}/rotate/" not in page
        assert keys.key_for(HOST) == "configured-key"
        assert "is set in WAGTAIL_INDEXNOW" in text_of(response)

    @pytest.mark.parametrize("action", ["verify", "rotate"])
    def test_nobody_makes_up_a_host(self, action: str, superuser: Client, home: Page) -> None:
        response = superuser.post(f"{SETTINGS}keys/evil.example.org/{action}/")

        assert response.status_code == 404
        assert not HostKey.objects.filter(host="evil.example.org").exists()

    def test_confirmation_for_an_unknown_host_is_not_there(
        self, superuser: Client, home: Page
    ) -> None:
        assert superuser.get(f"{SETTINGS}keys/evil.example.org/rotate/").status_code == 404


class TestPauses:
    @pytest.fixture
    def paused(self, home: Page, clock_at: Any) -> Channel:
        channels.ensure([("engine", ""), ("engine", HOST)])
        until = timezone.now() + timedelta(hours=6)
        channels.pause_host("engine", HOST, reason="key_refused", until=until)
        return Channel.objects.get(host=HOST)

    def test_show_reason_and_end(self, superuser: Client, paused: Channel) -> None:
        page = shown(superuser, report=SETTINGS)

        assert "Key rejected" in page
        assert "Dec. 1, 2026 15:00" in page

    def test_of_a_whole_engine_says_so(self, superuser: Client, paused: Channel) -> None:
        channels.pause_host("engine", "", reason="rate_limited", until=timezone.now())

        assert "All sites" in shown(superuser, report=SETTINGS)

    def test_resuming_ends_it_and_is_logged(self, superuser: Client, paused: Channel) -> None:
        superuser.post(f"{SETTINGS}pauses/{paused.pk}/resume/")

        paused.refresh_from_db()
        # Never before the host's next turn after the POST that raised the pause.
        next_turn = timezone.now() + timedelta(seconds=60)
        assert (paused.pause_reason, paused.not_before) == ("", next_turn)
        assert ModelLogEntry.objects.get().action == "wagtail_indexnow.resume"
        assert "Nothing is paused." in shown(superuser, report=SETTINGS)

    def test_what_is_not_there_is_not_resumed(self, superuser: Client, home: Page) -> None:
        response = superuser.post(f"{SETTINGS}pauses/987654/resume/", follow=True)

        assert response.status_code == 404


def test_queries_do_not_grow_with_history(superuser: Client, home: Page, submission: Any) -> None:
    submission()
    few = queries(superuser, SETTINGS)
    for number in range(10):
        submission()
        Intent.objects.create(
            key=str(number), kind="publish", page_id=home.pk, created_at=timezone.now()
        )

    assert queries(superuser, SETTINGS) == few


class TestDashboard:
    HEADING = "IndexNow needs attention"

    def test_is_quiet_while_all_is_well(self, superuser: Client, home: Page, indexnow: Any) -> None:
        indexnow.work()

        assert self.HEADING not in shown(superuser, report="/admin/")

    @pytest.fixture
    def paused(self, home: Page, indexnow: Any, clock_at: Any) -> None:
        indexnow.work()
        channels.ensure([("engine", ""), ("engine", HOST)])
        until = timezone.now() + timedelta(hours=6)
        channels.pause_host("engine", HOST, reason="key_refused", until=until)

    def test_says_what_to_do(self, superuser: Client, paused: None) -> None:
        page = shown(superuser, report="/admin/")

        assert self.HEADING in page
        assert "Key rejected" in page
        assert SETTINGS in page

    def test_reader_of_the_reports_sees_it_without_a_link_to_the_settings(
        self, paused: None, person: Any
    ) -> None:
        client = person("moderator", "view_trackedurl", pages=Page.get_first_root_node())

        page = shown(client, report="/admin/")

        assert self.HEADING in page
        assert SETTINGS not in page

    def test_editor_without_rights_does_not_see_it(
        self, paused: None, home: Page, person: Any
    ) -> None:
        client = person("editor", pages=home, edit="change_page")

        assert self.HEADING not in shown(client, report="/admin/")

    @pytest.mark.parametrize(("status", "is_shown"), [(503, True), (429, False)])
    @pytest.mark.django_db(transaction=True)
    def test_shows_what_the_check_calls_action_needed(
        self, status: int, is_shown: bool, superuser: Client, home: Page, indexnow: Any,
        clock_at: Any,
    ) -> None:  # fmt: skip
        indexnow.engine.answer(Answer(status=status))
        publish(make_page(home, "story"))
        indexnow.work()

        assert bool(needing_action(health.check_all(live=False))) is is_shown
        assert (self.HEADING in shown(superuser, report="/admin/")) is is_shown

    def test_is_quiet_while_switched_off(
        self, superuser: Client, paused: None, indexnow: Any
    ) -> None:
        indexnow.configure(ENABLED=False)

        assert self.HEADING not in shown(superuser, report="/admin/")

    def test_shows_a_relay_that_stopped(
        self, superuser: Client, home: Page, indexnow: Any, clock_at: Any
    ) -> None:
        indexnow.work()
        assert self.HEADING not in shown(superuser, report="/admin/")

        clock_at.shift(timedelta(minutes=11))

        assert "The relay last ran on Dec. 1, 2026 09:00." in shown(superuser, report="/admin/")

    def test_shows_an_overdue_go_live(
        self, superuser: Client, home: Page, indexnow: Any, go_live: Any
    ) -> None:
        go_live(home, expected_at=timezone.now() - timedelta(hours=3), reason="not_published_yet")

        assert "1 page is overdue" in shown(superuser, report="/admin/")

    def test_opens_even_if_nothing_can_be_found_out(
        self, superuser: Client, paused: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(**kwargs: Any) -> None:
            raise RuntimeError("no")

        monkeypatch.setattr(health, "check_all", fail)

        assert superuser.get("/admin/").status_code == 200
