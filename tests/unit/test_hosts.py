"""URLs in normal form, and which hosts this installation answers for."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wagtail_indexnow.hosts import (
    host_of,
    is_loopback_url,
    is_named,
    is_private,
    is_served,
    normalise,
    normalise_host,
)

PRODUCTION = {"ENDPOINTS": {"engine": "https://api.indexnow.org/indexnow"}}
LOOPBACK = {"ENDPOINTS": {"engine": "http://127.0.0.1:9/indexnow"}}


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://WWW.Example.com/A/", "https://www.example.com/A/"),
        ("HTTPS://www.example.com/", "https://www.example.com/"),
        ("https://www.example.com", "https://www.example.com/"),
        ("https://www.example.com./", "https://www.example.com/"),
        ("https://www.example.com:443/", "https://www.example.com/"),
        ("http://www.example.com:80/", "http://www.example.com/"),
        ("http://www.example.com:443/", "http://www.example.com:443/"),
        ("https://www.example.com:8443/", "https://www.example.com:8443/"),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
        ("https://MÜNCHEN.example/", "https://xn--mnchen-3ya.example/"),
        ("https://xn--mnchen-3ya.example/", "https://xn--mnchen-3ya.example/"),
        ("https://www.example.com/größe/", "https://www.example.com/gr%C3%B6%C3%9Fe/"),
        ("https://www.example.com/gr%C3%B6%C3%9Fe/", "https://www.example.com/gr%C3%B6%C3%9Fe/"),
        ("https://www.example.com/100%/", "https://www.example.com/100%25/"),
        ("https://www.example.com/a b/", "https://www.example.com/a%20b/"),
        ("https://www.example.com/?q=ü&p=1", "https://www.example.com/?q=%C3%BC&p=1"),
        ("https://www.example.com/a/#top", "https://www.example.com/a/"),
        ("https://www.example.com/a", "https://www.example.com/a"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/"),
        ("http://[::1]:8000/", "http://[::1]:8000/"),
        (" https://www.example.com/ ", "https://www.example.com/"),
    ],
)
def test_normal_form(url: str, normal: str) -> None:
    assert normalise(url) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/relative/",
        "//www.example.com/",
        "ftp://www.example.com/",
        "mailto:a@example.com",
        "javascript:alert(1)",
        "https:///path/",
        "https://*/",
        "https://a b/",
        "https://user@www.example.com/",
        "https://www.example.com:port/",
        "https://www.example.com:99999/",
        "https://www.example.com/a\nb/",
        "https://[not-an-address]/",
        "https://-.example.com/",
        "https://www..example.com/",
        "https://www.example.com/" + "x" * 2048,
    ],
)
def test_unusable_urls_are_refused(url: str) -> None:
    assert normalise(url) is None


@given(st.text(max_size=60), st.text(max_size=20))
def test_normal_form_is_stable_and_ascii(path: str, query: str) -> None:
    normal = normalise(f"https://www.example.com/{path}?{query}")

    if normal is not None:
        assert normal.isascii()
        assert normalise(normal) == normal
        assert urlsplit(normal).netloc == "www.example.com"


@given(st.text(max_size=80))
def test_nothing_makes_it_fail(url: str) -> None:
    normal = normalise(url)

    assert normal is None or normal.startswith(("http://", "https://"))


def test_host_keeps_a_port_that_is_not_the_default() -> None:
    assert host_of("https://www.example.com/a/") == "www.example.com"
    assert host_of("https://www.example.com:8443/a/") == "www.example.com:8443"


@pytest.mark.parametrize(
    ("host", "normal"),
    [
        ("WWW.example.com", "www.example.com"),
        ("www.example.com:443", "www.example.com"),
        ("www.example.com:8443", "www.example.com:8443"),
        ("*", None),
        ("", None),
        ("☃.example", None),  # no letter: nobody can own it
    ],
)
def test_host_names_as_people_write_them(host: str, normal: str | None) -> None:
    assert normalise_host(host) == normal


@pytest.mark.parametrize(
    ("url", "is_loopback"),
    [
        ("http://localhost:8000/", True),
        ("http://demo.localhost/", True),
        ("http://127.0.0.1/", True),
        ("http://[::1]/", True),
        ("http://10.0.0.1/", False),
        ("https://www.example.com/", False),
        ("https://localhost.example.com/", False),
    ],
)
def test_loopback(url: str, is_loopback: bool) -> None:
    assert is_loopback_url(url) is is_loopback


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8000",
        "127.0.0.1",
        "10.0.0.5",
        "8.8.8.8",
        "[::1]",
        "site.local",
        "site.test",
        "site.invalid",
        "intranet",
        "a.localhost",
    ],
)
def test_private_hosts(host: str, settings: Any) -> None:
    settings.ALLOWED_HOSTS = [host.split(":")[0] if "[" not in host else host]
    settings.WAGTAIL_INDEXNOW = PRODUCTION

    assert is_private(host)
    assert not is_served(host)
    settings.WAGTAIL_INDEXNOW = LOOPBACK
    assert is_served(host)


@pytest.mark.parametrize("host", ["www.example.com", "xn--mnchen-3ya.example", "local.example.com"])
def test_public_hosts(host: str) -> None:
    assert not is_private(host)


@pytest.mark.parametrize(
    ("allowed", "host", "is_there"),
    [
        (["www.example.com"], "www.example.com", True),
        (["WWW.Example.com"], "www.example.com", True),
        ([".example.com"], "www.example.com", True),
        ([".example.com"], "example.com", True),
        (["www.example.com"], "www.example.org", False),
        (["*"], "www.example.com", False),
        (["*", "www.example.com"], "www.example.com", True),
        ([], "www.example.com", False),
        (["münchen.example"], "xn--mnchen-3ya.example", True),
        ([".münchen.example"], "www.xn--mnchen-3ya.example", True),
        (["www.example.com"], "www.example.com:8443", True),
    ],
)
def test_allowed_hosts_name_a_host(
    allowed: list[str], host: str, is_there: bool, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = allowed

    assert is_named(host) is is_there


@pytest.mark.parametrize(
    ("hosts", "is_there"),
    [
        (["www.example.com"], True),
        (["WWW.EXAMPLE.COM:443"], True),
        (["other.example.com"], False),
        ([], False),
        ([".example.com"], False),
    ],
)
def test_hosts_setting_names_a_host(hosts: list[str], is_there: bool, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["www.example.com"]
    settings.WAGTAIL_INDEXNOW = {"HOSTS": hosts}

    assert is_named("www.example.com") is is_there


def test_port_counts_only_for_engines_on_this_machine(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["www.example.com"]
    settings.WAGTAIL_INDEXNOW = PRODUCTION

    assert is_served("www.example.com")
    assert not is_served("www.example.com:8443")
    settings.WAGTAIL_INDEXNOW = LOOPBACK
    assert is_served("www.example.com:8443")


def test_one_engine_elsewhere_makes_private_hosts_unserved(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    settings.WAGTAIL_INDEXNOW = {
        "ENDPOINTS": {**LOOPBACK["ENDPOINTS"], "real": "https://a.example/"}
    }

    assert not is_served("localhost")
