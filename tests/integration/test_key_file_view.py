"""The key file as a web server gives it out."""

from collections.abc import Callable
from http.cookies import SimpleCookie
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client
from django.urls import include, path, reverse
from django.utils import timezone
from wagtail import urls as wagtail_urls

from wagtail_indexnow import urls
from wagtail_indexnow.models import HostKey
from wagtail_indexnow.submission import keys

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
    assert keys.matches_instance(get(f"/{KEY}.txt")[keys.INSTANCE_HEADER])


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
    assert keys.INSTANCE_HEADER not in response


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
    def fail(key: str) -> bool:
        raise DatabaseError("no such table")

    settings.ROOT_URLCONF = UrlsWithOwnText
    monkeypatch.setattr(urls.keys, "is_known", fail)

    assert get("/llms-full.txt").status_code == 200


def test_other_addresses_cost_no_query(django_assert_num_queries: Any) -> None:
    converter = urls.KeyConverter()

    with django_assert_num_queries(1), pytest.raises(ValueError, match="not a key"):
        converter.to_python("unknown-key")
    with django_assert_num_queries(0):
        reverse("wagtail_indexnow:key_file", args=[KEY])
