"""System checks: one test for each id, each with a hint that says what to do."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dramatiq
import pytest
from django.apps import apps
from django.conf.urls.i18n import i18n_patterns
from django.core.checks import CheckMessage, run_checks
from django.db import DatabaseError
from django.http import HttpResponse
from django.urls import clear_url_caches, include, path, re_path
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import AgeLimit, TimeLimit
from wagtail.models import Site

from tests.factories import make_site
from wagtail_indexnow.constants import APP_LABEL
from wagtail_indexnow.views.key_file import key_file

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def configure(settings: Any) -> Any:
    def set_keys(**keys: Any) -> None:
        settings.WAGTAIL_INDEXNOW = {**settings.WAGTAIL_INDEXNOW, **keys}

    return set_keys


@pytest.fixture
def route(settings: Any) -> Iterator[Any]:
    """Replace the URLconf by the given patterns."""

    def use(*patterns: Any) -> None:
        urlconf = ModuleType("urlconf_of_a_test")
        urlconf.urlpatterns = list(patterns)  # type: ignore[attr-defined]
        settings.ROOT_URLCONF = urlconf
        clear_url_caches()

    yield use
    clear_url_caches()


@pytest.fixture
def broker() -> Iterator[dramatiq.Broker]:
    """Another broker than the one that our actors were bound to."""
    former = dramatiq.get_broker()
    other = StubBroker(middleware=[])
    dramatiq.set_broker(other)
    yield other
    dramatiq.set_broker(former)


def look(databases: Any = None) -> list[CheckMessage]:
    messages = run_checks(tags=[APP_LABEL], databases=databases or [])
    assert all(message.hint for message in messages)
    return messages


def ids(databases: Any = None) -> list[str]:
    return [str(message.id).removeprefix("wagtail_indexnow.") for message in look(databases)]


def page(request: Any, **kwargs: Any) -> HttpResponse:
    return HttpResponse("a page")  # pragma: no cover - never called


OURS = path("", include("wagtail_indexnow.urls"))


def test_right_settings_pass() -> None:
    assert ids() == []


@pytest.mark.parametrize(
    ("value", "named"), [({"ENDPONTS": {}}, "ENDPONTS"), (["ENABLED"], "WAGTAIL_INDEXNOW")]
)
def test_e001_unknown_key(settings: Any, value: Any, named: str) -> None:
    settings.WAGTAIL_INDEXNOW = value

    [message] = look()
    assert message.id == "wagtail_indexnow.E001"
    assert named in message.msg


def test_e002_wrong_value(configure: Any) -> None:
    configure(TIMEOUT="ten")

    [message] = look()
    assert message.id == "wagtail_indexnow.E002"
    assert "TIMEOUT" in message.msg
    assert "greater than zero" in (message.hint or "")


def test_e003_misshapen_key_is_not_shown(configure: Any) -> None:
    configure(KEYS={"www.example.com": "a secret with spaces"})

    [message] = look()
    assert message.id == "wagtail_indexnow.E003"
    assert "secret" not in f"{message.msg}{message.hint}"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://api.indexnow.org/indexnow", ["E004"]),
        ("https://api.indexnow.org/indexnow", []),
        ("http://127.0.0.1:8080/indexnow", []),
        ("http://localhost/indexnow", []),
    ],
)
def test_e004_endpoint_without_encryption(configure: Any, url: str, found: list[str]) -> None:
    configure(ENDPOINTS={"engine": url})

    assert ids() == found


def test_e005_other_package_of_the_same_import_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "wagtail_indexnow-0.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: wagtail-indexnow\nVersion: 0.2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert ids() == ["E005"]


def test_e006_actors_of_another_broker(broker: dramatiq.Broker) -> None:
    assert ids() == ["E006"]


class LedgerElsewhere:
    """A router that takes our tables away from the pages."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "ledger" if model._meta.app_label == APP_LABEL else None


def test_e007_tables_away_from_the_pages(settings: Any) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.LedgerElsewhere"]

    assert ids() == ["E007"]


def test_w001_without_django_dramatiq(monkeypatch: pytest.MonkeyPatch, configure: Any) -> None:
    configure(RELAY_INTERVAL=2)
    # Really taking an app out would set up Wagtail a second time, which it does not stand.
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "django_dramatiq")

    assert ids() == ["W001"]
    configure(RELAY_INTERVAL=0)
    assert ids() == []


def test_e008_pages_are_to_be_checked_without_the_libraries(
    monkeypatch: pytest.MonkeyPatch, configure: Any
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "lxml" else find(name)
    )
    assert ids() == []
    configure(VERIFY_PAGES=True)

    [message] = look()
    assert message.id == "wagtail_indexnow.E008"
    assert "lxml" in message.msg
    assert "protego" not in message.msg


def test_e008_verification_that_this_version_cannot_do_yet(configure: Any) -> None:
    configure(VERIFY_PAGES=True)

    [message] = look()
    assert message.id == "wagtail_indexnow.E008"
    assert "not available yet" in message.msg


@pytest.mark.parametrize(
    ("position", "found"), [(0, []), (1, ["W013"]), (None, [])], ids=["first", "second", "absent"]
)
def test_w013_visit_middleware_behind_others(
    settings: Any, position: int | None, found: list[str]
) -> None:
    if position is not None:
        settings.MIDDLEWARE = list(settings.MIDDLEWARE)
        settings.MIDDLEWARE.insert(position, "wagtail_indexnow.middleware.VisitMiddleware")

    assert ids() == found


@pytest.mark.parametrize(
    ("allowed", "hosts", "found"),
    [
        (["*"], None, ["W002"]),
        ([], None, ["W002"]),
        (["*"], ["www.example.com"], []),
        (["*", "www.example.com"], None, []),
    ],
)
def test_w002_no_host_is_named(
    settings: Any, configure: Any, allowed: list[str], hosts: Any, found: list[str]
) -> None:
    settings.ALLOWED_HOSTS = allowed
    configure(HOSTS=hosts)

    assert ids() == found


def test_w003_key_file_without_a_route(route: Any) -> None:
    route(path("", page))

    assert ids() == ["W003"]


@pytest.mark.parametrize(
    "shadow",
    [
        path("<path:rest>", page),
        re_path(r"^.*\.txt$", page),
        path("", include([path("<slug>", page)])),
    ],
    ids=["catch-all", "text files", "included"],
)
def test_w004_route_that_takes_the_key_file(route: Any, shadow: Any) -> None:
    route(path("robots.txt", page), shadow, OURS)

    [message] = look()
    assert message.id == "wagtail_indexnow.W004"


def test_w004_catch_all_behind_the_key_file_does_no_harm(route: Any) -> None:
    route(path("robots.txt", page), OURS, path("<path:rest>", page))

    assert ids() == []


@pytest.mark.parametrize(
    ("patterns", "where"),
    [
        (i18n_patterns(OURS), "en/"),
        ([path("indexnow/", include("wagtail_indexnow.urls"))], "indexnow/"),
        ([path("<indexnow_key:key>.txt/", key_file)], "txt/"),
    ],
    ids=["language", "prefix", "slash"],
)
def test_w005_route_that_no_engine_asks_for(route: Any, patterns: Any, where: str) -> None:
    route(*patterns)

    [message] = look()
    assert message.id == "wagtail_indexnow.W005"
    assert where in message.msg


@pytest.mark.django_db
@pytest.mark.parametrize("hostname", ["www.elsewhere.org", "localhost", "*", ""])
def test_w006_site_that_is_not_served_here(hostname: str) -> None:
    Site.objects.all().delete()
    site = make_site()
    Site.objects.create(hostname=hostname, port=443, root_page=site.root_page)

    [message] = look(["default"])
    assert message.id == "wagtail_indexnow.W006"
    assert repr(hostname) in message.msg


@pytest.mark.django_db
@pytest.mark.parametrize(
    "setting",
    [
        {"SECURE_SSL_REDIRECT": True},
        {"SECURE_HSTS_SECONDS": 3600},
        {"SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https")},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_w007_port_80_behind_tls(settings: Any, configure: Any, setting: dict[str, Any]) -> None:
    """W27: the Site says port 80, and the site answers by https."""
    Site.objects.all().delete()
    make_site(port=80)
    assert ids(["default"]) == []

    for name, value in setting.items():
        setattr(settings, name, value)

    assert ids(["default"]) == ["W007"]
    configure(SCHEME="https")
    assert ids(["default"]) == []


@pytest.mark.parametrize(("max_age", "found"), [(60_000, ["W008"]), (3_600_000, []), (None, [])])
def test_w008_messages_that_die_before_they_are_due(
    monkeypatch: pytest.MonkeyPatch, max_age: int | None, found: list[str]
) -> None:
    monkeypatch.setattr(dramatiq.get_broker(), "middleware", [AgeLimit(max_age=max_age)])

    assert ids() == found


@pytest.mark.parametrize(
    "setting",
    [
        {"DRAMATIQ_AUTODISCOVER_MODULES": ("jobs",)},
        {"DRAMATIQ_IGNORED_MODULES": ["wagtail_indexnow.tasks"]},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_w009_workers_that_do_not_load_our_actors(settings: Any, setting: dict[str, Any]) -> None:
    for name, value in setting.items():
        setattr(settings, name, value)

    assert ids() == ["W009"]


@pytest.mark.parametrize(
    ("time_limit", "timeout", "found"),
    [(119_000, 10, ["W010"]), (120_000, 10, []), (120_000, 60, ["W010"]), (600_000, 10, [])],
)
def test_w010_r32_work_that_is_ended_in_the_middle(
    monkeypatch: pytest.MonkeyPatch,
    configure: Any,
    time_limit: int,
    timeout: int,
    found: list[str],
) -> None:
    """R32: a time limit shorter than a slow POST, and the two key files before and after it."""
    configure(TIMEOUT=timeout)
    monkeypatch.setattr(dramatiq.get_broker(), "middleware", [TimeLimit(time_limit=time_limit)])

    assert ids() == found


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"ALL_PROXY": "socks5://127.0.0.1:1080"}, ["W011"]),
        ({"HTTPS_PROXY": "gopher://127.0.0.1:70"}, ["W011"]),
        ({"HTTPS_PROXY": "http://127.0.0.1:3128"}, []),
        ({"https_proxy": "127.0.0.1:3128"}, []),
        ({"ALL_PROXY": "socks5://127.0.0.1:1080", "NO_PROXY": ".indexnow.org"}, []),
        ({"HTTPS_PROXY": "http://127.0.0.1:3128", "NO_PROXY": "fd00::/64,[::1],*.a"}, []),
        ({}, []),
    ],
    ids=str,
)
def test_w011_r33_proxy_settings_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], found: list[str]
) -> None:
    """R33: a finding with a remedy, and no word of the proxy's password."""
    monkeypatch.setitem(sys.modules, "socksio", None)  # as if it were not installed
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert ids() == found


@pytest.mark.parametrize("mode", [None, "DEFERRED"])
def test_w012_sqlite_whose_readers_cannot_turn_into_writers(
    settings: Any, configure: Any, monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    options = {"transaction_mode": mode}
    sqlite = {"ENGINE": "django.db.backends.sqlite3", "OPTIONS": options}
    monkeypatch.setitem(settings.DATABASES, "default", sqlite)
    assert ids() == ["W012"]

    configure(ENABLED=False)
    assert ids() == []

    configure(ENABLED=True)
    options["transaction_mode"] = "immediate"
    assert ids() == []


@pytest.mark.django_db
def test_checks_of_sites_wait_until_the_table_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise DatabaseError("no such table")

    monkeypatch.setattr(Site.objects, "using", fail)

    assert ids(["default"]) == []


@pytest.mark.django_db
def test_switched_off_app_does_not_complain_of_sites(configure: Any, settings: Any) -> None:
    make_site("www.elsewhere.org", port=80)
    configure(ENABLED=False)
    settings.ALLOWED_HOSTS = ["*"]

    assert ids(["default"]) == []


def test_wrong_settings_hide_what_depends_on_them(configure: Any, settings: Any) -> None:
    configure(ENDPOINTS="https://api.indexnow.org", HOSTS="www.example.com", RELAY_INTERVAL=None)
    settings.ALLOWED_HOSTS = ["*"]

    assert ids(["default"]) == ["E002", "E002", "E002"]
