"""The setting: defaults, one type for each key, and what counts as wrong."""

from datetime import timedelta
from typing import Any

import pytest

from wagtail_indexnow.conf import SETTING, SETTINGS, conf, problems


def test_defaults_are_valid(settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {key: item.default for key, item in SETTINGS.items()}

    assert len(SETTINGS) == 26
    assert list(problems()) == []


def test_site_without_the_setting_has_defaults(settings: Any) -> None:
    del settings.WAGTAIL_INDEXNOW

    assert list(problems()) == []
    assert conf.endpoints == {"indexnow": "https://api.indexnow.org/indexnow"}
    assert conf.dry_run is False
    assert conf.hosts is None
    assert conf.keys == conf.connect_to == {}
    assert conf.verify_key_file is True
    assert conf.verify_pages is False
    assert conf.verify_after == timedelta(seconds=30)
    assert conf.verify_grace == timedelta(hours=1)
    assert conf.audit_interval == timedelta(days=1)
    assert conf.alert_emails == []
    assert conf.scheme is None
    assert conf.translations == "url_changes"
    assert conf.aliases is False
    assert conf.settle == timedelta(seconds=5)
    assert conf.host_interval == timedelta(minutes=1)
    assert conf.rate_limit == 12
    assert conf.resubmit_after == timedelta(minutes=10)
    assert conf.timeout_s == 10
    assert conf.give_up_after == timedelta(days=7)
    assert conf.go_live_grace == timedelta(hours=2)
    assert conf.schedule_horizon == timedelta(minutes=15)
    assert conf.relay_interval_s == 2
    assert conf.queue == "default"
    assert conf.retention == timedelta(days=90)


@pytest.mark.parametrize(
    ("debug", "value", "enabled"),
    [
        (False, None, True),
        (True, None, False),
        (True, True, True),
        (False, False, False),
    ],
)
def test_on_unless_debugging(settings: Any, debug: bool, value: Any, enabled: bool) -> None:
    settings.DEBUG = debug
    settings.WAGTAIL_INDEXNOW = {"ENABLED": value}

    assert conf.enabled is enabled


def test_setting_is_read_on_every_access(settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {"TIMEOUT": 3}
    assert conf.timeout_s == 3
    settings.WAGTAIL_INDEXNOW = {"TIMEOUT": 4}
    assert conf.timeout_s == 4


def test_hosts_of_keys_are_compared_in_lower_case(settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {
        "KEYS": {"WWW.Example.com": "abcdefgh"},
        "CONNECT_TO": {"WWW.Example.com": "http://127.0.0.1"},
        "HOSTS": ("www.example.com",),
    }

    assert conf.keys == {"www.example.com": "abcdefgh"}
    assert conf.connect_to == {"www.example.com": "http://127.0.0.1"}
    assert conf.hosts == ["www.example.com"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENABLED", 1),
        ("DRY_RUN", "no"),
        ("ENDPOINTS", {}),
        ("ENDPOINTS", {"": "https://example.com/"}),
        ("ENDPOINTS", {"engine": "example.com"}),
        ("ENDPOINTS", {"engine": "https://"}),
        ("ENDPOINTS", {"engine": "https://example.com:port/"}),
        ("ENDPOINTS", {"engine": None}),
        ("ENDPOINTS", "https://example.com/"),
        ("HOSTS", "www.example.com"),
        ("HOSTS", [1]),
        ("HOSTS", 5),
        ("KEYS", {"www.example.com": "short"}),
        ("KEYS", {"www.example.com": "under_score"}),
        ("KEYS", {"www.example.com": "x" * 129}),
        ("KEYS", ["abcdefgh"]),
        ("CONNECT_TO", {"www.example.com": "127.0.0.1:8000"}),
        ("CONNECT_TO", {"www.example.com": None}),
        ("VERIFY_PAGES", 1),
        ("VERIFY_AFTER", -1),
        ("VERIFY_GRACE", "1h"),
        ("AUDIT_INTERVAL", None),
        ("ALERT_EMAILS", "editor@example.com"),
        ("ALERT_EMAILS", ["editor@example.com", "editor"]),
        ("ALERT_EMAILS", [None]),
        ("SCHEME", "ftp"),
        ("TRANSLATIONS", "sometimes"),
        ("ALIASES", None),
        ("SETTLE_SECONDS", -1),
        ("SETTLE_SECONDS", True),
        ("RATE_LIMIT", 0),
        ("TIMEOUT", "10"),
        ("RELAY_INTERVAL", None),
        ("QUEUE", ""),
        ("RETENTION_DAYS", 0),
        ("NO_SUCH_KEY", 1),
    ],
)
def test_wrong_value_is_named(settings: Any, name: str, value: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {name: value}

    assert [found for found, _expected in problems()] == [name]


def test_interval_of_zero_is_valid(settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = {"AUDIT_INTERVAL": 0, "ALERT_EMAILS": ("editor@example.com",)}

    assert list(problems()) == []
    assert conf.audit_interval == timedelta(0)
    assert conf.alert_emails == ["editor@example.com"]


def test_setting_must_be_a_dictionary(settings: Any) -> None:
    settings.WAGTAIL_INDEXNOW = ["ENABLED"]

    assert list(problems()) == [(SETTING, "a dictionary")]
