"""The key file as a web server gives it out."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import Any

import pytest
import time_machine
from django.db import DatabaseError
from django.test import AsyncClient, Client, RequestFactory
from django.urls import Resolver404, include, path, resolve, reverse
from django.utils import timezone
from wagtail import urls as wagtail_urls

from wagtail_indexnow.models import HostKey
from wagtail_indexnow.submission import keys, served_keys
from wagtail_indexnow.submission.key_files import INSTANCE_HEADER, matches_instance

pytestmark = pytest.mark.django_db

HOST, OTHER = "www.example.com", "blog.example.com"
KEY, PREVIOUS, FOREIGN = "abcdef0123456789" * 2, "0123456789abcdef" * 2, "b" * 32


@pytest.fixture(autouse=True)
def host_keys() -> None:
    now = timezone.now()
    HostKey.objects.create(host=HOST, key=KEY, previous_key=PREVIOUS, created_at=now)
    HostKey.objects.create(host=OTHER, key=FOREIGN, created_at=now)


def get(path_: str, host: str = HOST, method: str = "get", **headers: str) -> Any:
    call: Callable[..., Any] = getattr(Client(), method)
    return call(path_, headers={"host": host, **headers})


def test_c26_the_key_file_is_exactly_the_key() -> None:
    response = get(f"/{KEY}.txt")

    assert response.status_code == 200
    assert response.content == KEY.encode()
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["X-Robots-Tag"] == "noindex"
    assert response.cookies == SimpleCookie()
    assert "Location" not in response


def test_b25_caches_may_keep_it_for_a_short_time_only() -> None:
    assert get(f"/{KEY}.txt")["Cache-Control"] == "public, max-age=300"


def test_c26_head_works_too() -> None:
    response = get(f"/{KEY}.txt", method="head")

    assert (response.status_code, response.content) == (200, b"")
    assert response["Content-Type"] == "text/plain; charset=utf-8"


def test_the_file_says_which_installation_serves_it() -> None:
    assert matches_instance(get(f"/{KEY}.txt")[INSTANCE_HEADER], HOST)


def test_c34_the_previous_key_is_served_too() -> None:
    assert get(f"/{PREVIOUS}.txt").content == PREVIOUS.encode()


def test_b19_the_file_is_at_the_root() -> None:
    assert reverse("wagtail_indexnow:key_file", args=[KEY]) == f"/{KEY}.txt"


def test_b23_what_is_served_and_what_is_posted_have_one_source() -> None:
    assert get(f"/{keys.key_for(HOST)}.txt").status_code == 200
    assert get(f"/{keys.rotate(HOST)}.txt").status_code == 200


@pytest.mark.parametrize(
    "name", [KEY.upper(), FOREIGN, "c" * 32, "robots", KEY + "/", KEY[:-1], "a" * 129, "ab_cd_ef"]
)
def test_c27_every_other_name_is_a_plain_404(name: str) -> None:
    response = get(f"/{name}.txt")

    assert response.status_code == 404
    assert response.cookies == SimpleCookie()


def test_c27_another_hosts_key_is_not_served() -> None:
    response = get(f"/{KEY}.txt", OTHER)

    assert (response.status_code, response.content) == (404, b"")
    assert INSTANCE_HEADER not in response


@pytest.mark.parametrize("host", ["WWW.Example.COM", f"{HOST}:80", f"{HOST}."])
def test_c14_a_host_may_be_written_in_any_way(host: str) -> None:
    assert get(f"/{KEY}.txt", host).status_code == 200


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_only_get_and_head_are_allowed(method: str) -> None:
    assert get(f"/{KEY}.txt", method=method).status_code == 405


@pytest.mark.parametrize("language", ["fr", "de", "xx"])
@pytest.mark.parametrize("append_slash", [True, False])
def test_c28_languages_and_slashes_change_nothing(
    settings: Any, language: str, append_slash: bool
) -> None:
    settings.APPEND_SLASH = append_slash

    response = get(f"/{KEY}.txt", **{"accept-language": language})

    assert (response.status_code, response.content) == (200, KEY.encode())


def test_c28_a_site_behind_a_login_still_shows_it(settings: Any) -> None:
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]

    assert get(f"/{KEY}.txt").status_code == 200


def test_c28_a_redirect_to_https_is_the_sites_own_decision(settings: Any) -> None:
    # The check tells an operator (`redirect`): engines ask over the scheme that we send.
    settings.SECURE_SSL_REDIRECT = True
    settings.MIDDLEWARE = ["django.middleware.security.SecurityMiddleware", *settings.MIDDLEWARE]

    assert get(f"/{KEY}.txt").status_code == 301


def llms(request: Any) -> Any:
    from django.http import HttpResponse

    return HttpResponse("the site's own text")


class UrlsWithOwnText:
    urlpatterns = [
        path("", include("wagtail_indexnow.urls")),
        path("llms-full.txt", llms),
        path("", include(wagtail_urls)),
    ]


def test_a_sites_own_text_file_behind_the_route_is_not_shadowed(settings: Any) -> None:
    settings.ROOT_URLCONF = UrlsWithOwnText

    assert get("/llms-full.txt").content == b"the site's own text"
    assert get(f"/{KEY}.txt").status_code == 200


def test_before_migrate_a_sites_own_text_files_stay_reachable(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Any:
        raise DatabaseError("no such table")

    settings.ROOT_URLCONF = UrlsWithOwnText
    monkeypatch.setattr(served_keys, "_read", fail)

    assert get("/llms-full.txt").status_code == 200


def test_r66_unknown_names_cost_one_query_in_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    """R66: whoever asks for a thousand key files does not keep the database busy."""
    now = [1_000.0]
    monkeypatch.setattr(served_keys.time, "monotonic", lambda: now[0])

    for _round in range(2):
        with django_assert_num_queries(1):
            for number in range(1_000):
                assert served_keys.is_known(f"aaaa{number:04}") is False
                served_keys.on_request_started(None, environ={"PATH_INFO": f"/aaaa{number:04}.txt"})
                now[0] += 0.0099
        now[0] += 10


def test_r66_a_key_costs_one_query_at_most_and_other_addresses_none(
    django_assert_num_queries: Any,
) -> None:
    """R66: the file of a key is served from what was read for its own request, or lately."""
    with django_assert_num_queries(1):
        assert get(f"/{KEY}.txt").status_code == 200
    with django_assert_num_queries(0):
        assert get(f"/{KEY}.txt").status_code == 200
        served_keys.on_request_started(None, environ={"PATH_INFO": "/robots.txt/"})
        reverse("wagtail_indexnow:key_file", args=[KEY])


def test_r30_resolver_and_view_ask_no_database(django_assert_num_queries: Any) -> None:
    """R30: under ASGI the resolver runs in the event loop, where Django forbids it."""
    served_keys.refresh()

    with django_assert_num_queries(0):
        match = resolve(f"/{KEY}.txt")
        request = RequestFactory().get(f"/{KEY}.txt", headers={"host": HOST})
        assert match.func(request, **match.kwargs).status_code == 200
        with pytest.raises(Resolver404):
            resolve("/unknown-name.txt", UrlsWithOwnText)


@pytest.mark.django_db(transaction=True)
def test_r30_an_asgi_handler_serves_the_file(settings: Any) -> None:
    """R30: in the event loop, with nothing read before."""
    settings.ROOT_URLCONF = UrlsWithOwnText

    async def both() -> tuple[Any, Any]:
        ask = AsyncClient().get
        return await ask(f"/{KEY}.txt"), await ask("/llms-full.txt")

    HostKey.objects.filter(host=HOST).update(host="testserver")
    key_file, own = asyncio.run(both())

    assert (key_file.status_code, key_file.content) == (200, KEY.encode())
    assert own.content == b"the site's own text"


def test_a_new_key_is_known_in_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(served_keys.time, "monotonic", lambda: now[0])
    assert get("/new-key-of-a-worker.txt").status_code == 404
    HostKey.objects.filter(host=HOST).update(key="new-key-of-a-worker")

    now[0] += 10

    assert get("/new-key-of-a-worker.txt").status_code == 200


@pytest.mark.parametrize("host", [f"{HOST}:443", f"{HOST}:8080"])
def test_r36_a_port_that_a_proxy_adds_changes_nothing(host: str) -> None:
    """R36: the key file is served where pages are, and bears the mark of the host."""
    response = get(f"/{KEY}.txt", host)

    assert (response.status_code, response.content) == (200, KEY.encode())
    assert matches_instance(response[INSTANCE_HEADER], HOST)


def test_r67_a_former_key_ends_on_the_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """R67: `previous_until` is kept by what was read before."""
    end = timezone.now() + timedelta(days=7)
    HostKey.objects.filter(host=HOST).update(previous_until=end)
    with time_machine.travel(end - timedelta(seconds=1), tick=False):
        assert get(f"/{PREVIOUS}.txt").status_code == 200
    with time_machine.travel(end, tick=False):
        assert get(f"/{PREVIOUS}.txt").status_code == 404
