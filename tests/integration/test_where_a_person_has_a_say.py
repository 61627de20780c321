"""Where a developer, an editor or an operator decides what is told, and a copy says nothing."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from wagtail.admin.panels import FieldPanel

from tests.factories import make_page, publish
from tests.testapp.models import ListedUrlsPage, OptOutPage
from wagtail_indexnow.mixins import IndexNowPageMixin
from wagtail_indexnow.models import Channel, Intent, TrackedUrl
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
        assert TrackedUrl.objects.get().change == "updated"

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


class TestSwitches:
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
