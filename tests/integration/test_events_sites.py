"""Hosts, ports and sites; and where a site's developer has a say."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from wagtail import hooks
from wagtail.models import Page, Site

from tests.factories import make_page, make_site, publish
from tests.testapp.models import CalendarPage, ListedUrlsPage, OwnUrlPage
from wagtail_indexnow.ledger import channels
from wagtail_indexnow.models import Channel, Intent, PublicUrl, Submission, TrackedUrl
from wagtail_indexnow.pages import audits

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = "https://www.example.com/en/"
NEWS = f"{ROOT}news/"
PRODUCTION = {"production": "https://indexnow.invalid/indexnow"}


@pytest.fixture
def news(site: Any, clock_at: Any) -> Any:
    return make_page(site.root_page, "news")


@pytest.fixture
def live(news: Any, indexnow: Any) -> Any:
    page = publish(news)
    assert indexnow.settled() == [NEWS]
    later(indexnow)
    return page


def later(indexnow: Any) -> None:
    indexnow.travel_to(timezone.now() + timedelta(hours=1))


def changes() -> dict[str, str]:
    return dict(TrackedUrl.objects.values_list("url", "change"))


def last_reason() -> str:
    return Intent.objects.latest("pk").reason


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first_made", "last_made"])
def test_w25_root_that_two_sites_share_has_one_certain_host(
    order: tuple[int, int], indexnow: Any, site: Any, clock_at: Any
) -> None:
    hosts = ["alpha.example.com", "beta.example.com"]
    root = site.root_page
    Site.objects.all().delete()
    for index in order:
        Site.objects.create(hostname=hosts[index], port=443, root_page=root)
    publish(make_page(root, "news"))

    assert indexnow.settled() == ["https://alpha.example.com/en/news/"]


def test_w25_shared_root_has_the_host_that_wagtail_names(indexnow: Any, news: Any) -> None:
    Site.objects.create(hostname="alpha.example.com", port=443, root_page=news.get_parent())
    page = publish(news)

    assert indexnow.settled() == [page.get_full_url()]


@pytest.mark.parametrize("silent", [False, True], ids=["saved", "queryset_update"])
def test_changed_site_tells_the_old_and_the_new_host(
    silent: bool, indexnow: Any, live: Any, site: Any
) -> None:
    live.get_full_url()  # fills Wagtail's cache, which a silent change leaves stale
    if silent:
        Site.objects.update(hostname="new.example.com")
    else:
        site.hostname = "new.example.com"
        site.save()
    publish(live)

    assert indexnow.settled() == ["https://new.example.com/en/news/", NEWS]
    assert changes()[NEWS] == "removed"


def test_renamed_ancestor_of_a_site_root_leaves_no_stale_host(
    indexnow: Any, news: Any, site: Any
) -> None:
    news.get_full_url()
    home = Page.objects.get(pk=site.root_page_id)
    home.slug = "start"
    home.save()
    publish(Page.objects.get(pk=news.pk))

    assert indexnow.settled() == [NEWS]


def test_w28_port_is_kept_on_purpose(indexnow: Any, clock_at: Any) -> None:
    site = make_site(port=8443)
    publish(make_page(site.root_page, "news"))

    assert indexnow.settled() == ["http://www.example.com:8443/en/news/"]
    assert Submission.objects.get().host == "www.example.com:8443"


def test_w28_port_means_that_no_engine_can_be_told(indexnow: Any, clock_at: Any) -> None:
    site = make_site(port=8443)
    indexnow.configure(ENDPOINTS=PRODUCTION)
    publish(make_page(site.root_page, "news"))

    assert indexnow.settled() == []
    assert last_reason() == "foreign_host"


def test_w27_scheme_for_tls_that_ends_elsewhere(indexnow: Any, clock_at: Any) -> None:
    site = make_site(port=80)
    publish(make_page(site.root_page, "plain"))
    assert indexnow.settled() == ["http://www.example.com/en/plain/"]
    indexnow.configure(SCHEME="https")
    publish(make_page(site.root_page, "news"))

    assert indexnow.settled() == [NEWS]


@pytest.mark.parametrize(
    ("hostname", "told"),
    [
        ("WWW.Example.COM", [NEWS]),
        ("münchen.example", ["https://xn--mnchen-3ya.example/en/news/"]),
        ("xn--mnchen-3ya.example", ["https://xn--mnchen-3ya.example/en/news/"]),
        ("www.example.com.", [NEWS]),
        ("", []),
        ("*", []),
        ("stranger.example.org", []),
    ],
)
def test_odd_hostnames(hostname: str, told: list[str], indexnow: Any, clock_at: Any) -> None:
    site = make_site()
    Site.objects.update(hostname=hostname)
    publish(make_page(site.root_page, "news"))

    assert indexnow.settled() == told
    if not told:
        assert last_reason() in ("no_url", "foreign_host")


@pytest.mark.parametrize("hostname", ["localhost", "127.0.0.1", "site.local", "intranet"])
def test_b06_private_host_is_told_only_to_an_engine_on_this_machine(
    hostname: str, indexnow: Any, clock_at: Any, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = [hostname]
    site = make_site(hostname)
    page = publish(make_page(site.root_page, "news"))
    assert indexnow.settled() == [f"https://{hostname}/en/news/"]
    indexnow.configure(ENDPOINTS=PRODUCTION)
    publish(page)

    assert indexnow.settled() == []
    assert last_reason() == "foreign_host"


@pytest.mark.parametrize("allowed", [["*"], ["staging.example.org"], []])
def test_b05_copy_of_production_on_staging_sends_nothing(
    allowed: list[str], indexnow: Any, editor: Any, live: Any, settings: Any
) -> None:
    """Same rows, `DEBUG` off, hosts of its own: and the copied rows stay as they are."""
    settings.ALLOWED_HOSTS = [*allowed, "testserver"]
    before = list(TrackedUrl.objects.values())
    known = list(PublicUrl.objects.values())
    editor.publish(live)
    assert indexnow.settled() == []
    assert last_reason() == "foreign_host"
    editor.unpublish(live)
    editor.delete(live)

    assert indexnow.settled(minutes=600) == []
    assert list(TrackedUrl.objects.values()) == before
    assert list(PublicUrl.objects.values()) == known
    assert not Intent.objects.planned().exists()


def test_b05_url_that_waited_in_the_copied_rows_is_not_sent(
    indexnow: Any, live: Any, settings: Any
) -> None:
    TrackedUrl.objects.update(not_before=timezone.now(), state="pending")
    channels.compare()
    settings.ALLOWED_HOSTS = ["*"]

    assert indexnow.settled(minutes=600) == []
    assert Channel.objects.get(host="www.example.com").pause_reason == "foreign_host"


def test_hosts_setting_speaks_for_a_headless_site(indexnow: Any, news: Any, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["api.example.com"]
    indexnow.configure(HOSTS=["WWW.example.com"])
    publish(news)

    assert indexnow.settled() == [NEWS]


def test_hosts_setting_excludes_what_it_does_not_name(indexnow: Any, news: Any) -> None:
    indexnow.configure(HOSTS=["other.example.com"])
    publish(news)

    assert indexnow.settled() == []
    assert last_reason() == "foreign_host"


@pytest.mark.parametrize("how", ["enabled", "debug"])
def test_switched_off_nothing_is_written_or_sent(
    how: str, indexnow: Any, editor: Any, news: Any, settings: Any
) -> None:
    if how == "enabled":
        indexnow.configure(ENABLED=False)
    else:
        indexnow.configure(ENABLED=None)
        settings.DEBUG = True
    page = publish(news)
    page.slug = "other"
    page.save()
    editor.restrict(page)
    editor.restrict(page, "none")
    editor.move(page, publish(make_page(news.get_parent(), "shelf")))
    editor.delete(page)

    assert indexnow.settled() == []
    assert not Intent.objects.exists()


def test_switched_off_after_the_event_says_so_and_leaves_urls(indexnow: Any, live: Any) -> None:
    from wagtail_indexnow.pages.announcing import announce_intents as announce
    from wagtail_indexnow.payloads import IntentRef

    publish(live)
    later(indexnow)
    indexnow.configure(ENABLED=False)
    intent = Intent.objects.planned().get()
    announce([IntentRef(key=intent.key, page_id=intent.page_id)])

    assert last_reason() == "disabled"
    assert changes() == {NEWS: "added"}


def test_dry_run_does_everything_but_the_post(indexnow: Any, news: Any) -> None:
    indexnow.configure(DRY_RUN=True)
    page = publish(news)
    assert indexnow.settled() == []
    row = TrackedUrl.objects.get()
    assert (row.state, row.reason) == ("skipped", "dry_run")
    assert [entry["url"] for entry in Submission.objects.get().urls] == [NEWS]
    indexnow.configure(DRY_RUN=False)
    assert indexnow.settled(minutes=120) == []
    publish(page)

    assert indexnow.settled() == [NEWS]


def test_page_outside_every_site_is_skipped(indexnow: Any, site: Any, clock_at: Any) -> None:
    publish(make_page(Page.get_first_root_node(), "lost"))

    assert indexnow.settled() == []
    assert last_reason() == "no_url"


def test_page_type_says_its_urls_itself(indexnow: Any, site: Any, clock_at: Any) -> None:
    listed = [f"{ROOT}a/", "/en/b/", f"{ROOT}a/", "https://other.invalid/c/", ""]
    page = publish(make_page(site.root_page, "listed", model=ListedUrlsPage, listed=listed))
    assert indexnow.settled() == [f"{ROOT}a/", f"{ROOT}b/"]
    later(indexnow)
    publish(page, listed=[f"{ROOT}b/", f"{ROOT}d/"])

    assert indexnow.settled() == [f"{ROOT}a/", f"{ROOT}b/", f"{ROOT}d/"]
    assert changes()[f"{ROOT}a/"] == "removed"


def test_page_type_with_its_own_address(indexnow: Any, site: Any, clock_at: Any) -> None:
    page = publish(make_page(site.root_page, "own", model=OwnUrlPage, address="here"))
    assert indexnow.settled() == ["https://www.example.com/own/here/"]
    page.delete()

    assert indexnow.settled() == ["https://www.example.com/own/here/"]


def test_renamed_page_type_with_its_own_address_tells_nothing_new(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    page = publish(make_page(site.root_page, "own", model=OwnUrlPage, address="here"))
    indexnow.settled()
    later(indexnow)
    page.slug = "other"
    page.save()

    assert indexnow.settled() == []


def test_routable_page_tells_the_sub_pages_of_its_sitemap(
    indexnow: Any, site: Any, clock_at: Any
) -> None:
    page = publish(make_page(site.root_page, "calendar", model=CalendarPage))
    assert indexnow.settled() == [f"{ROOT}calendar/", f"{ROOT}calendar/past/"]
    later(indexnow)
    page.slug = "events"
    page.save()

    assert indexnow.settled() == [
        f"{ROOT}calendar/",
        f"{ROOT}calendar/past/",
        f"{ROOT}events/",
        f"{ROOT}events/past/",
    ]


def test_hook_changes_the_list_in_place(indexnow: Any, news: Any) -> None:
    def add_amp(page: Any, urls: list[str]) -> None:
        assert page.specific_class is type(page)
        urls.append(f"{urls[0]}amp/")

    with hooks.register_temporarily("construct_indexnow_urls", add_amp):
        page = publish(news)
        assert indexnow.settled() == [NEWS, f"{NEWS}amp/"]
        later(indexnow)
        page.delete()
        assert indexnow.settled() == [NEWS, f"{NEWS}amp/"]


def test_w36_hook_that_empties_the_list_opts_a_page_out(indexnow: Any, live: Any) -> None:
    def hide(page: Any, urls: list[str]) -> None:
        urls.clear()

    with hooks.register_temporarily("construct_indexnow_urls", hide):
        publish(live)
        assert indexnow.settled() == [NEWS]
        assert changes() == {NEWS: "updated"}
        later(indexnow)
        publish(live)
        assert indexnow.settled() == []
        assert last_reason() == "excluded"


@pytest.mark.parametrize(("length", "is_told"), [(300, True), (2048, True), (2049, False)])
def test_b32_long_urls_are_told_whole_or_skipped(
    length: int, is_told: bool, indexnow: Any, site: Any, clock_at: Any
) -> None:
    url = ROOT + "x" * (length - len(ROOT))
    publish(make_page(site.root_page, "long", model=ListedUrlsPage, listed=[url]))

    assert indexnow.settled() == ([url] if is_told else [])
    if not is_told:
        assert last_reason() == "no_url"


def test_non_ascii_slug_is_percent_encoded_once(
    indexnow: Any, editor: Any, site: Any, clock_at: Any
) -> None:
    page = make_page(site.root_page, "größe")
    editor.publish(page)
    assert indexnow.settled() == [f"{ROOT}gr%C3%B6%C3%9Fe/"]
    later(indexnow)
    long_ago = timezone.now() - timedelta(days=400)
    child = make_page(page, "für", live=True, first_published_at=long_ago)
    audits.record([child.pk])
    page.refresh_from_db()
    publish(page, slug="maß")

    assert indexnow.settled() == [
        f"{ROOT}gr%C3%B6%C3%9Fe/",
        f"{ROOT}gr%C3%B6%C3%9Fe/f%C3%BCr/",
        f"{ROOT}ma%C3%9F/",
        f"{ROOT}ma%C3%9F/f%C3%BCr/",
    ]
