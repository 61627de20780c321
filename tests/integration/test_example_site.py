"""The example site stands by itself: checks, content, languages, Sites, and the key's route."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from example_site.time_zone import local_time_zone

ROOT = Path(__file__).resolve().parents[2]
GOOD = (
    "/en/",
    "/fr/",
    "/de/",
    "/en/exhibitions/charts-of-the-coast/",
    "/fr/expositions/cartes-de-la-cote/",
    "/de/ausstellungen/karten-der-kueste/",
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a process with the example site's own settings sees."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "example_site.settings",
        "EXAMPLE_VAR": str(tmp_path_factory.mktemp("var")),
        "EXAMPLE_PORT": "8123",
    }
    probe = subprocess.run(
        [sys.executable, "-m", "tests.integration.example_site_probe"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert probe.returncode == 0, probe.stderr
    result: dict[str, Any] = json.loads(probe.stdout)
    return result


def test_system_check_finds_nothing(seen: dict[str, Any]) -> None:
    assert seen["check"] == "System check identified no issues (0 silenced)."


def test_no_migration_is_missing(seen: dict[str, Any]) -> None:
    assert seen["missing"] == "No changes detected"


def test_content_loads_once(seen: dict[str, Any]) -> None:
    assert seen["loaded"] == ["28 pages loaded.", "The pages are already there."]
    assert seen["pages"] == 28 + 1  # the root of the tree
    assert seen["drafts"] == ["A night at the museum"]


def test_two_sites_share_a_port_on_loopback(seen: dict[str, Any]) -> None:
    assert seen["sites"] == [["127.0.0.1", 8123, False], ["localhost", 8123, True]]


@pytest.mark.parametrize("path", GOOD)
def test_page_answers_in_its_language(seen: dict[str, Any], path: str) -> None:
    assert seen["museum"][path] == 200


def test_draft_is_not_public(seen: dict[str, Any]) -> None:
    assert seen["museum"]["/en/exhibitions/a-night-at-the-museum/"] == 404


def test_each_site_has_its_own_pages(seen: dict[str, Any]) -> None:
    release, article = "/en/releases/the-tug-is-back/", "/en/exhibitions/charts-of-the-coast/"

    assert (seen["news"]["/en/"], seen["news"][release], seen["museum"][release]) == (200, 200, 404)
    assert seen["news"][article] == 404


def test_root_leads_to_a_language(seen: dict[str, Any]) -> None:
    assert seen["museum"]["/"] == 302


def test_admin_answers_on_both_hosts(seen: dict[str, Any]) -> None:
    assert (seen["museum"]["/admin/login/"], seen["news"]["/admin/login/"]) == (200, 200)


def test_foreign_host_is_refused(seen: dict[str, Any]) -> None:
    assert seen["elsewhere"] == 400


def test_key_file_has_its_route_and_takes_no_other(seen: dict[str, Any]) -> None:
    assert seen["key_view"] == "wagtail_indexnow:key_file"
    assert seen["other_text_view"] == ""
    assert seen["museum"]["/no-such-page.txt"] == 404


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("/usr/share/zoneinfo/No/Where", "UTC"),
        ("/etc/elsewhere", "UTC"),
    ],
)
def test_time_zone_is_the_one_of_the_machine(tmp_path: Path, target: str, expected: str) -> None:
    link = tmp_path / "localtime"
    link.symlink_to(target)

    assert local_time_zone(link) == expected
