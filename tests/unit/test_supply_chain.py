"""What the package is built from, and what must never be in its repository."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE" + rb" KEY-----")


def project() -> dict[str, dict[str, object]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a copy without its history")
def test_no_private_key_is_in_the_repository() -> None:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name.decode() for name in names.stdout.split(b"\0") if name]

    files = [path for path in paths if path.is_file()]
    assert len(files) > 100
    assert [path for path in files if PRIVATE_KEY.search(path.read_bytes())] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    used = re.findall(r"uses: (\S+)", path.read_text())

    assert used
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []


def test_what_builds_the_package_is_one_release() -> None:
    requires = project()["build-system"]["requires"]

    assert isinstance(requires, list)
    assert [name for name in requires if "==" not in name] == []


def test_host_names_are_encoded_by_a_release_that_bounds_its_work() -> None:
    """`idna` before 3.7 takes quadratic time for some names."""
    assert "idna>=3.7" in project()["project"]["dependencies"]


def test_a_weakness_can_be_reported_and_the_project_be_found() -> None:
    assert (ROOT / "SECURITY.md").is_file()
    assert project()["project"]["urls"]
