"""Where a developer, an editor or an operator decides what is told, and a copy says nothing."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from wagtail import hooks
from wagtail.admin.panels import FieldPanel
from wagtail.models import Page, Site

from tests.factories import make_page, publish
from tests.testapp.models import HiddenFromSitemapPage, ListedUrlsPage, OptOutPage
from wagtail_indexnow.mixins import IndexNowPageMixin
from wagtail_indexnow.models import Channel, Intent, Submission, TrackedUrl
from wagtail_indexnow.relay.dispatch import tick
from wagtail_indexnow.relay.senders import InlineCourier
from wagtail_indexnow.submission import key_files, keys
from wagtail_indexnow.views import key_file

pytestmark = pytest.mark.django_db(transaction=True)
HOME = "https://www.example.com/en/"
NEWS = f"{HOME}news/"


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


def reasons() -> list[str]:
    """Return why intents ended or wait, oldest first."""
    return list(Intent.objects.order_by("pk").values_list("reason", flat=True))


class TestUrlsOfOnesOwn:
    @pytest.fixture
    def shop(self, site: Any, clock_at: Any) -> Any:
        return make_page(site.root_page, "shop", model=ListedUrlsPage)

    def test_page_type_lists_its_urls_itself(self, indexnow: Any, shop: Any) -> None:
        publish(shop, listed=["/one/", f"{HOME}two/?page=2#top", "/one/"])

        assert indexnow.settled() == [
            f"{HOME}two/?page=2",
            "https://www.example.com/one/",
        ]

    def test_url_that_leaves_the_list_is_told_as_gone(self, indexnow: Any, shop: Any) -> None:
        shop = publish(shop, listed=["/one/", "/two/"])
        indexnow.settled()
        indexnow.travel_to(timezone.now() + timedelta(hours=1))

        publish(shop, listed=["/two/", "/three/"])

        assert len(indexnow.settled()) == 3
        gone = TrackedUrl.objects.get(change="removed")
        assert gone.url == "https://www.example.com/one/"

    def test_empty_list_keeps_the_page_away(self, indexnow: Any, shop: Any) -> None:
        publish(shop, listed=[])

        assert indexnow.settled() == []
        assert reasons() == ["excluded"]

    def test_b15_b16_each_host_is_told_apart_with_its_own_key(
        self, indexnow: Any, shop: Any
    ) -> None:
        """B15, B16: host, key and key location come from the URL's own domain."""
        publish(shop, listed=["/here/", "https://shop.example.com/there/"])
        indexnow.settle()

        for record in indexnow.engine.submissions:
            assert record.parsed is not None
            key = keys.key_for(record.host)
            assert record.parsed["key"] == key
            assert record.parsed["keyLocation"] == f"https://{record.host}/{key}.txt"
        assert {record.host for record in indexnow.engine.submissions} == {
            "www.example.com",
            "shop.example.com",
        }

    def test_url_of_a_foreign_host_is_left_out(self, indexnow: Any, shop: Any) -> None:
        publish(shop, listed=["/here/", "https://www.elsewhere.org/there/"])

        assert indexnow.settled() == ["https://www.example.com/here/"]


class TestHook:
    def test_function_changes_the_list_in_place(self, indexnow: Any, news: Any) -> None:
        def add_print_version(page: Page, urls: list[str]) -> None:
            assert page.specific_class is type(page)
            urls.append(f"{urls[0]}print/")

        with hooks.register_temporarily("construct_indexnow_urls", add_print_version):
            publish(news)

            assert indexnow.settled() == [NEWS, f"{NEWS}print/"]

    def test_function_can_keep_a_page_away(self, indexnow: Any, news: Any) -> None:
        def clear(page: Page, urls: list[str]) -> None:
            urls.clear()

        with hooks.register_temporarily("construct_indexnow_urls", clear):
            publish(news)

            assert indexnow.settled() == []
        assert reasons() == ["excluded"]


class TestOptOut:
    @pytest.fixture
    def page(self, site: Any, clock_at: Any) -> Any:
        return make_page(site.root_page, "quiet", model=OptOutPage)

    def test_excluded_page_is_never_told(self, indexnow: Any, page: Any) -> None:
        publish(page, indexnow_excluded=True)

        assert indexnow.settled() == []
        assert reasons() == ["excluded"]

    def test_opting_out_and_in_again_is_told_once_each_way(self, indexnow: Any, page: Any) -> None:
        url = f"{HOME}quiet/"
        page = publish(page)
        assert indexnow.settled() == [url]

        indexnow.travel_to(timezone.now() + timedelta(hours=1))
        page = publish(page, indexnow_excluded=True)
        assert indexnow.settled() == [url]
        assert TrackedUrl.objects.get().change == "removed"

        indexnow.travel_to(timezone.now() + timedelta(hours=1))
        page = publish(page, title="Still quiet")
        assert indexnow.settled() == []

        publish(page, indexnow_excluded=False)
        assert indexnow.settled() == [url]

    def test_mixin_brings_a_panel(self) -> None:
        [panel] = IndexNowPageMixin.indexnow_panels

        assert isinstance(panel, FieldPanel)
        assert panel.field_name == "indexnow_excluded"
        assert panel in OptOutPage.promote_panels

    def test_b10_w36_page_hidden_from_the_sitemap(
        self, indexnow: Any, site: Any, clock_at: Any
    ) -> None:
        page = make_page(site.root_page, "hidden", model=HiddenFromSitemapPage)
        page = publish(page)
        assert indexnow.settled() == []
        assert reasons() == ["excluded"]

        indexnow.travel_to(timezone.now() + timedelta(hours=1))
        publish(page, noindex=False)

        assert indexnow.settled() == [f"{HOME}hidden/"]


class TestAliases:
    @pytest.fixture
    def alias(self, indexnow: Any, news: Any) -> Any:
        page = publish(news)
        indexnow.settled()
        return page.create_alias(update_slug="copy")

    def test_alias_is_not_told_unless_the_site_wants_it(self, indexnow: Any, alias: Any) -> None:
        assert indexnow.settled() == []

    def test_w11_alias_is_told_if_the_site_wants_it(self, indexnow: Any, news: Any) -> None:
        indexnow.configure(ALIASES=True)
        page = publish(news)
        indexnow.settled()

        page.create_alias(update_slug="copy")

        assert indexnow.settled() == [f"{HOME}copy/"]

    def test_w12_alias_that_was_never_published(self, indexnow: Any, news: Any) -> None:
        indexnow.configure(ALIASES=True)
        alias = publish(news).create_alias(update_slug="copy")
        Page.objects.filter(pk=alias.pk).update(first_published_at=None, last_published_at=None)

        assert f"{HOME}copy/" in indexnow.settled()

    def test_w10_alias_of_an_embargoed_page(self, indexnow: Any, news: Any) -> None:
        indexnow.configure(ALIASES=True)
        news.create_alias(update_slug="copy")
        news.go_live_at = timezone.now() + timedelta(days=1)
        news.save_revision().publish()

        assert indexnow.settled() == []
        assert "embargoed" in reasons()


class TestSwitches:
    def test_switched_off_app_writes_no_row(self, indexnow: Any, news: Any) -> None:
        indexnow.configure(ENABLED=False)
        page = publish(news)
        page.unpublish()
        page.delete()

        assert not Intent.objects.exists()
        assert indexnow.settled() == []

    def test_debug_switches_off_unless_told_otherwise(
        self, indexnow: Any, news: Any, settings: Any
    ) -> None:
        settings.DEBUG = True
        indexnow.configure(ENABLED=None)
        page = publish(news)
        assert not Intent.objects.exists()

        indexnow.configure(ENABLED=True)
        publish(page)
        assert indexnow.settled() == [NEWS]

    def test_switched_off_after_planning_sends_nothing(self, indexnow: Any, news: Any) -> None:
        publish(news)
        indexnow.travel_to(timezone.now() + timedelta(minutes=1))
        indexnow.configure(ENABLED=False)
        assert not tick(InlineCourier())
        assert Intent.objects.get().state == "planned"

        indexnow.configure(ENABLED=True)
        assert indexnow.settled() == [NEWS]

    def test_dry_run_does_everything_but_send(self, indexnow: Any, news: Any) -> None:
        indexnow.configure(DRY_RUN=True)
        page = publish(news)

        assert indexnow.settled() == []
        row = TrackedUrl.objects.get()
        assert (row.state, row.reason) == ("skipped", "dry_run")
        assert Submission.objects.get().urls == [NEWS]

        # Switching it off floods nobody.
        indexnow.configure(DRY_RUN=False)
        assert indexnow.settled() == []
        publish(page)
        assert indexnow.settled() == [NEWS]


class TestHosts:
    def test_hosts_replace_allowed_hosts(self, indexnow: Any, news: Any, settings: Any) -> None:
        settings.ALLOWED_HOSTS = ["backend.internal"]
        indexnow.configure(HOSTS=["WWW.example.com"])
        publish(news)

        assert indexnow.settled() == [NEWS]

    def test_host_that_hosts_leaves_out(self, indexnow: Any, news: Any) -> None:
        indexnow.configure(HOSTS=["shop.example.com"])
        publish(news)

        assert indexnow.settled() == []
        assert reasons() == ["foreign_host"]

    def test_b06_site_on_localhost(self, indexnow: Any, news: Any, settings: Any) -> None:
        """Of the real endpoint: on loopback, as in a demo, it would count."""
        Site.objects.filter(hostname="www.example.com").update(hostname="localhost", port=80)
        settings.ALLOWED_HOSTS = ["localhost"]
        indexnow.configure(ENDPOINTS={"engine": "https://api.indexnow.org/indexnow"})
        publish(news)

        assert indexnow.settled() == []
        assert reasons() == ["foreign_host"]


class TestStagingCopy:
    """B05: the same rows on another server, whose editors publish there; DEBUG is off."""

    @pytest.fixture
    def production(self, indexnow: Any, news: Any, live_server: Any) -> Any:
        """Prove the key of production, tell a page, and leave the rows to be copied."""
        indexnow.configure(VERIFY_KEY_FILE=True, CONNECT_TO={"www.example.com": live_server.url})
        page = publish(news)
        assert indexnow.settled() == [NEWS]
        indexnow.travel_to(timezone.now() + timedelta(hours=1))
        return page

    @pytest.mark.parametrize(
        "allowed", [["*"], ["staging.example.net"]], ids=["any host", "its own"]
    )
    def test_b05_copy_with_its_own_hosts_says_foreign_host(
        self, indexnow: Any, production: Any, settings: Any, allowed: list[str]
    ) -> None:
        settings.ALLOWED_HOSTS = allowed
        production = publish(production)
        publish(make_page(production, "child"))

        assert indexnow.settled() == []
        assert reasons()[-2:] == ["foreign_host", "foreign_host"]
        production.unpublish()
        assert indexnow.settled() == []
        assert indexnow.engine.requests == []

    def test_b05_copy_with_hosts_and_waiting_urls_of_production(
        self, indexnow: Any, production: Any, settings: Any
    ) -> None:
        """Copied between announcing and sending: what waits is held."""
        TrackedUrl.objects.update(state="pending", not_before=timezone.now())
        settings.ALLOWED_HOSTS = ["staging.example.net"]

        assert indexnow.settled() == []
        assert Channel.objects.get(host="www.example.com").pause_reason == "foreign_host"

    def test_b05_copy_with_production_hosts_says_other_installation(
        self, indexnow: Any, production: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Production answers for its key file with a signature that the copy cannot make."""
        token = key_files.instance_token("www.example.com")
        monkeypatch.setattr(key_file, "instance_token", lambda host: token)
        settings.SECRET_KEY = "the copy's own"
        publish(production)

        assert indexnow.settled() == []
        assert indexnow.engine.requests == []
        channel = Channel.objects.get(host="www.example.com")
        assert channel.pause_reason == "other_installation"
        assert TrackedUrl.objects.get().state == "pending"
        indexnow.settle(minutes=24 * 60)
        assert indexnow.engine.requests == []

    def test_same_site_after_its_secret_key_was_rotated_goes_on(
        self, indexnow: Any, production: Any, settings: Any
    ) -> None:
        settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
        settings.SECRET_KEY = "the next one"
        publish(production)

        assert indexnow.settled() == [NEWS]
