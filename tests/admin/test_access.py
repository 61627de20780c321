"""Every view, export and action: nobody, an editor without rights, and a superuser."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone
from wagtail.models import Page

from tests.admin.conftest import ADMIN, HOST
from tests.factories import make_page
from wagtail_indexnow.ledger import channels
from wagtail_indexnow.models import Channel, HostKey, Intent, TrackedUrl
from wagtail_indexnow.submission import keys

pytestmark = pytest.mark.django_db

REPORTS = ["urls/", "submissions/", "events/"]
VIEWS = [
    *REPORTS,
    *[f"{report}results/" for report in REPORTS],
    *[f"{report}?export=csv" for report in REPORTS],
    *[f"{report}?export=xlsx" for report in REPORTS],
    "submissions/{submission}/",
    "settings/",
    f"settings/keys/{HOST}/rotate/",
    "pages/{page}/",
]
BULK = [
    "/admin/bulk/wagtail_indexnow/trackedurl/resubmit/?id={url}",
    "/admin/bulk/wagtail_indexnow/intent/cancel/?id={intent}",
    "/admin/bulk/wagtail_indexnow/intent/submit_now/?id={intent}",
    "/admin/bulk/wagtailcore/page/indexnow_submit/?id={page}",
]
POST_ONLY = [
    f"settings/keys/{HOST}/verify/",
    "settings/pauses/{pause}/resume/",
    "settings/sites/{site}/submit/",
]
ACTIONS = [*POST_ONLY, f"settings/keys/{HOST}/rotate/", "pages/{page}/", *BULK]


@pytest.fixture
def ids(indexnow: Any, news: Page, tracked: Any, go_live: Any, submission: Any) -> dict[str, Any]:
    """One row of everything, with something to do for every action."""
    # Nobody listens there: verifying finds that the host cannot be reached.
    indexnow.configure(CONNECT_TO={HOST: "http://127.0.0.1:9"})
    url = tracked(news, state="rejected", reason="unprocessable")
    keys.key_for(HOST)
    HostKey.objects.update(created_at=timezone.now() - timedelta(hours=1))
    paused = Channel.objects.get(endpoint="engine", host=HOST)
    Channel.objects.filter(pk=paused.pk).update(pause_reason="key_refused")
    return {
        "url": url.pk,
        "intent": go_live(news).pk,
        "submission": submission().pk,
        "page": news.pk,
        "pause": paused.pk,
        "site": news.get_site().pk,
    }


@pytest.fixture
def editor(person: Callable[..., Client], news: Page) -> Client:
    """Somebody who may edit a page elsewhere, and has no right of ours."""
    elsewhere = make_page(Page.objects.get(pk=news.get_parent().pk), "elsewhere", live=True)
    return person("editor", pages=elsewhere, edit="change_page")


def at(path: str, ids: dict[str, Any]) -> str:
    path = path.format(**ids)
    return path if path.startswith("/") else f"{ADMIN}{path}"


def changes() -> tuple[Any, ...]:
    """Return all that an action could change."""
    return (
        list(TrackedUrl.objects.values_list("state", "version")),
        sorted(Intent.objects.values_list("key", "state")),
        list(HostKey.objects.values_list("key", "checked_at")),
        list(Channel.objects.values_list("pause_reason", "not_before")),
    )


@pytest.mark.parametrize("path", [*VIEWS, *BULK])
def test_view_sends_nobody_to_the_login(path: str, ids: dict[str, Any]) -> None:
    response = Client().get(at(path, ids))

    assert response.status_code == 302
    assert response.url.startswith("/admin/login/")


@pytest.mark.parametrize("path", [*VIEWS, *BULK[:3]])
def test_view_refuses_an_editor_without_rights(
    path: str, ids: dict[str, Any], editor: Client
) -> None:
    response = editor.get(at(path, ids))

    assert (response.status_code, response.url) == (302, "/admin/")


@pytest.mark.parametrize("path", [*VIEWS, *BULK])
def test_view_opens_for_a_superuser(path: str, ids: dict[str, Any], superuser: Client) -> None:
    response = superuser.get(at(path, ids))

    assert response.status_code == 200


@pytest.mark.parametrize("path", ACTIONS)
def test_action_does_nothing_for_nobody(path: str, ids: dict[str, Any]) -> None:
    before = changes()

    response = Client().post(at(path, ids))

    assert response.url.startswith("/admin/login/")
    assert changes() == before


@pytest.mark.parametrize("path", ACTIONS)
def test_action_does_nothing_for_an_editor_without_rights(
    path: str, ids: dict[str, Any], editor: Client
) -> None:
    before = changes()

    response = editor.post(at(path, ids))

    assert response.url in ("/admin/", at(path, ids).partition("?")[0])
    assert changes() == before


@pytest.mark.parametrize("path", ACTIONS)
def test_action_works_for_a_superuser(path: str, ids: dict[str, Any], superuser: Client) -> None:
    before = changes()

    response = superuser.post(at(path, ids))

    assert response.status_code == 302
    assert changes() != before


@pytest.mark.parametrize("path", ACTIONS)
def test_action_needs_a_csrf_token(path: str, ids: dict[str, Any], superuser: Client) -> None:
    before = changes()
    client = Client(enforce_csrf_checks=True)
    client.force_login(superuser.user)  # type: ignore[attr-defined]

    response = client.post(at(path, ids))

    assert response.status_code == 403
    assert changes() == before


@pytest.mark.parametrize("path", POST_ONLY)
def test_action_is_no_link(path: str, ids: dict[str, Any], superuser: Client) -> None:
    before = changes()

    response = superuser.get(at(path, ids))

    assert response.status_code == 405
    assert changes() == before


@pytest.mark.parametrize("path", [f"settings/keys/{HOST}/rotate/", "pages/{page}/", *BULK])
def test_opening_a_page_changes_nothing(path: str, ids: dict[str, Any], superuser: Client) -> None:
    before = changes()

    superuser.get(at(path, ids))

    assert changes() == before


class TestOnePermission:
    """Each permission opens its own part, and no other."""

    MAY = {
        "view_trackedurl": ["urls/", "submissions/"],
        "view_intent": ["events/"],
        "manage_indexnow": ["settings/"],
    }

    @pytest.mark.parametrize("permission", MAY)
    def test_opens_its_views_alone(
        self, permission: str, home: Page, person: Callable[..., Client]
    ) -> None:
        client = person("somebody", permission, pages=Page.get_first_root_node())

        opened = [
            path
            for path in ("urls/", "submissions/", "events/", "settings/")
            if client.get(f"{ADMIN}{path}").status_code == 200
        ]

        assert opened == self.MAY[permission]

    @pytest.mark.parametrize("path", BULK[:3])
    def test_viewing_is_not_acting(
        self, path: str, ids: dict[str, Any], person: Callable[..., Client]
    ) -> None:
        root = Page.get_first_root_node()
        client = person("viewer", "view_trackedurl", "view_intent", pages=root)
        before = changes()

        response = client.post(at(path, ids))

        assert response.url == "/admin/"
        assert changes() == before

    def test_menu_shows_what_may_be_opened(self, home: Page, person: Callable[..., Client]) -> None:
        client = person("viewer", "view_trackedurl", pages=home)

        menu = client.get("/admin/").content.decode()

        assert f"{ADMIN}urls/" in menu
        assert f"{ADMIN}submissions/" not in menu
        assert f"{ADMIN}events/" not in menu
        assert f"{ADMIN}settings/" not in menu

    def test_group_editor_offers_all_permissions(self, superuser: Client, home: Page) -> None:
        page = superuser.get("/admin/groups/new/").content.decode()

        offered = Permission.objects.filter(
            content_type__app_label="wagtail_indexnow",
            codename__in=["view_trackedurl", "change_intent", "manage_indexnow"],
        )
        assert offered.count() == 3
        assert all(f'value="{permission.pk}"' in page for permission in offered)


class TestSomePages:
    """Somebody who may edit one section sees and changes rows of that section."""

    @pytest.fixture
    def section(self, home: Page) -> Page:
        return make_page(home, "section", live=True)

    @pytest.fixture
    def client(self, section: Page, person: Callable[..., Client]) -> Client:
        may = ("view_trackedurl", "change_trackedurl", "view_intent", "change_intent")
        return person("moderator", *may, pages=section)

    def test_sees_rows_of_the_section_alone(
        self, section: Page, client: Client, news: Page, tracked: Any, go_live: Any
    ) -> None:
        inside = make_page(section, "inside", live=True)
        tracked(inside), tracked(news), tracked(None)
        go_live(inside), go_live(news)

        urls = client.get(f"{ADMIN}urls/").content.decode()
        events = client.get(f"{ADMIN}events/").content.decode()
        export = client.get(f"{ADMIN}urls/?export=csv").getvalue().decode()

        for shown in (urls, events, export):
            assert "Inside" in shown
            assert "News" not in shown
        assert "/gone/" not in urls

    def test_changes_rows_of_the_section_alone(
        self, section: Page, client: Client, news: Page, tracked: Any
    ) -> None:
        ours, theirs = tracked(section), tracked(news)

        client.post(
            f"/admin/bulk/wagtail_indexnow/trackedurl/resubmit/?id={ours.pk}&id={theirs.pk}"
        )

        ours.refresh_from_db(), theirs.refresh_from_db()
        assert (ours.state, theirs.state) == ("pending", "accepted")

    def test_sees_no_submissions_since_they_carry_other_pages(
        self, client: Client, submission: Any
    ) -> None:
        submission()

        assert client.get(f"{ADMIN}submissions/").url == "/admin/"
        report = client.get(f"{ADMIN}urls/").content.decode()
        assert "Submissions" not in report

    def test_sees_the_status_of_own_pages_alone(
        self, section: Page, client: Client, news: Page
    ) -> None:
        assert client.get(f"{ADMIN}pages/{section.pk}/").status_code == 200
        assert client.get(f"{ADMIN}pages/{news.pk}/").url == "/admin/"


def test_editor_who_may_not_publish_sees_the_status_but_no_button(
    news: Page, person: Callable[..., Client]
) -> None:
    client = person("writer", pages=news, edit="change_page")

    page = client.get(f"{ADMIN}pages/{news.pk}/").content.decode()

    assert "Submit to IndexNow" not in page
    assert client.post(f"{ADMIN}pages/{news.pk}/").url == "/admin/"
    assert not Intent.objects.exists()


def test_someone_without_the_admin_is_kept_out(home: Page) -> None:
    client = Client()
    client.force_login(get_user_model().objects.create_user("visitor"))

    assert client.get(f"{ADMIN}urls/").url.startswith("/admin/login/")


def test_paused_channel_of_another_endpoint_is_found_by_its_own_key(
    ids: dict[str, Any], superuser: Client
) -> None:
    channels.ensure([("other", ""), ("other", HOST)])

    superuser.post(f"{ADMIN}settings/pauses/{ids['pause']}/resume/")

    assert Channel.objects.get(pk=ids["pause"]).pause_reason == ""
