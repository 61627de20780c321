"""The docs say what the code does: names, defaults, options, links and examples are compared."""

import ast
import json
import re
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import load_command_class
from django.core.management.base import BaseCommand
from django.test import override_settings
from django.utils.module_loading import import_string

import wagtail_indexnow
from wagtail_indexnow import conf, constants, log_actions, payloads, permissions
from wagtail_indexnow.models import Channel, HostKey, Intent, Submission, TrackedUrl
from wagtail_indexnow.routes import key_route_problem

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PACKAGE = Path(wagtail_indexnow.__file__).parent
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
TEXTS = [*PAGES, *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"))]
COMMANDS = sorted(path.stem for path in (PACKAGE / "management/commands").glob("indexnow_*.py"))
SETTING = "WAGTAIL_INDEXNOW"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each table row, without headings and rules."""
    lines = [line.strip() for line in text.splitlines()]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        is_table = line.startswith("|") and not set(line) <= set("|-: ")
        if is_table and not (following.startswith("|") and set(following) <= set("|-: ")):
            cells = line.strip("|").replace("\\|", "\0").split("|")
            yield [cell.strip().replace("\0", "|") for cell in cells]


def section(text: str, title: str) -> str:
    """Return what stands below a heading, up to the next of its rank."""
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no section {title!r}"
    return found[1]


def words(cell: str) -> list[str]:
    """Return what a cell sets in code."""
    return re.findall(r"`([^`]+)`", cell)


def documented(text: str) -> set[str]:
    """Return the words that table rows begin with."""
    return {word for cells in rows(text) for word in words(cells[0])}


def blocks(path: Path, language: str) -> list[str]:
    """Return the code blocks of a language, also those that are indented in a list."""
    text = path.read_text()
    pattern = rf"^( *)```{language}\n(.*?)^\1```$"
    found = re.finditer(pattern, text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{match[1]}", "", match[2], flags=re.MULTILINE) for match in found]


def examples(language: str) -> list[Any]:
    return [
        pytest.param(block, id=f"{name_of(path)}-{number}")
        for path in TEXTS
        if path.exists()
        for number, block in enumerate(blocks(path, language), start=1)
    ]


def reference(name: str) -> str:
    return (DOCS / "reference" / f"{name}.md").read_text()


def assigned(block: str, name: str) -> Any:
    """Return the literal that a block of Python assigns to a name; `None` if there is none."""
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Assign) and [ast.unparse(node.targets[0])] == [name]:
            try:
                return ast.literal_eval(node.value)
            except ValueError:
                return None
    return None


def test_every_setting_is_documented_with_its_default_and_meaning() -> None:
    found = {
        words(cells[0])[0]: cells
        for cells in rows(reference("settings"))
        if words(cells[0]) and len(cells) == 3
    }

    defaults = {key: ast.literal_eval(words(cells[1])[0]) for key, cells in found.items()}
    assert defaults == {key: setting.default for key, setting in conf.SETTINGS.items()}
    assert all(cells[2] for cells in found.values())


@pytest.mark.parametrize(
    "choices",
    [constants.Reason, constants.IntentState, constants.UrlState, constants.KeyFile],
    ids=lambda choices: choices.__name__,
)
def test_every_state_and_reason_is_documented(choices: Any) -> None:
    assert set(choices.values) <= documented(reference("states-and-reasons"))


def test_no_state_or_reason_is_made_up() -> None:
    known = {
        value
        for choices in (
            constants.Reason,
            constants.IntentState,
            constants.UrlState,
            constants.KeyFile,
        )
        for value in choices.values
    }

    assert documented(reference("states-and-reasons")) <= known


def test_every_reason_says_what_to_do() -> None:
    text = reference("states-and-reasons")
    titles = ("Reasons of an intent", "Reasons of a page", "Reasons of a URL, and of holds")

    for title in titles:
        for cells in rows(section(text, title)):
            assert len(cells) == 3, cells
            assert all(cells), cells


def test_reasons_of_a_page_stand_in_the_order_of_asking() -> None:
    from wagtail_indexnow.pages.guards import PAGE_GUARDS

    found = [words(cells[0])[0] for cells in rows(section_of_pages())]

    asked = [reason.value for reason, _forbids in PAGE_GUARDS]
    assert [reason for reason in found if reason in asked] == asked


def section_of_pages() -> str:
    return section(reference("states-and-reasons"), "Reasons of a page")


def test_every_kind_and_change_is_documented() -> None:
    kinds, text = reference("states-and-reasons"), reference("events")

    for kind in constants.Kind.values:
        assert f"`{kind}`" in kinds
        assert f"`{kind}`" in text
    for change in constants.Change.values:
        assert f"`{change}`" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_its_options(name: str) -> None:
    text = section(reference("commands"), name)

    for option in own_options(name):
        assert option in text, f"{name} {option}"


def own_options(name: str) -> set[str]:
    command = load_command_class("wagtail_indexnow", name)
    common: ArgumentParser = BaseCommand().create_parser("manage.py", "any")
    inherited = {option for action in common._actions for option in action.option_strings}
    actions = command.create_parser("manage.py", name)._actions
    options = {option for action in actions for option in action.option_strings}
    positional = {action.dest.upper() for action in actions if not action.option_strings}
    return (options - inherited) | positional


def test_no_command_is_made_up() -> None:
    assert re.findall(r"^## (\w+)$", reference("commands"), re.MULTILINE) == sorted(
        COMMANDS, key=re.findall(r"^## (\w+)$", reference("commands"), re.MULTILINE).index
    )


def test_commands_are_called_by_their_names_everywhere() -> None:
    for path in TEXTS:
        for name in re.findall(
            r"\bindexnow_(?:check|explain|submit|relay|rotate)\w*", text_of(path)
        ):
            assert name in {*COMMANDS, "indexnow_submissions"}, f"{name_of(path)}: {name}"


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_every_finding_of_the_check_is_documented() -> None:
    tree = ast.parse((PACKAGE / "health.py").read_text())
    names = {
        keyword.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"
        for keyword in node.keywords
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant)
    }

    assert names <= documented(section(reference("commands"), "indexnow_check"))


def test_every_system_check_is_documented_and_none_is_made_up() -> None:
    source = (PACKAGE / "checks.py").read_text()
    ids = {f"wagtail_indexnow.{number}" for number in re.findall(r'"([EW]\d{3})"', source)}

    assert documented(reference("checks")) == ids


def test_check_ids_are_right_everywhere() -> None:
    known = documented(reference("checks"))

    for path in TEXTS:
        for found in re.findall(r"wagtail_indexnow\.[EW]\d+", text_of(path)):
            assert found in known, f"{name_of(path)}: {found}"


@pytest.mark.parametrize(
    ("title", "model"),
    [
        ("Intent", Intent),
        ("TrackedUrl", TrackedUrl),
        ("Submission", Submission),
        ("Channel", Channel),
        ("HostKey", HostKey),
    ],
)
def test_every_column_of_the_ledger_is_documented(title: str, model: Any) -> None:
    text = section(reference("ledger"), title)
    if title in ("Channel", "HostKey"):
        text += " `endpoint` `host` `created_at`"  # said in words

    names = {field.name for field in model._meta.concrete_fields} - {"id"}
    assert names <= set(words(text))


def test_permissions_and_log_actions_are_documented() -> None:
    text = reference("admin")

    assert documented(text) == {f"wagtail_indexnow.{name}" for name in permissions.CODENAMES}
    for action in log_actions.ACTIONS:
        assert f"`{action}`" in text


def test_every_module_has_its_place_in_the_architecture() -> None:
    found = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    found |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"migrations"}
    text = (DOCS / "explanation/architecture.md").read_text()

    named = {word for cells in rows(section(text, "Layers")) for word in words(cells[1])}
    assert named == found


def test_public_names_exist() -> None:
    for name in documented(reference("python-api")):
        if name.startswith("wagtail_indexnow.") and name.count(".") > 1:
            import_string(name)
    assert set(payload_examples()) == {constants.ANNOUNCE_ACTOR, constants.SUBMIT_ACTOR}


def payload_examples() -> dict[str, Any]:
    announce, submit, _post = blocks(DOCS / "reference/payloads.md", "json")
    return {
        constants.ANNOUNCE_ACTOR: json.loads(announce),
        constants.SUBMIT_ACTOR: json.loads(submit),
    }


def test_messages_in_the_docs_are_ones_that_a_worker_understands() -> None:
    found = payload_examples()

    (ref,) = payloads.parse_announcement(found[constants.ANNOUNCE_ACTOR])
    assert (ref.page_id, ref.key.split(":")[2]) == (15, "go_live")
    channel = payloads.parse_submission(found[constants.SUBMIT_ACTOR])
    assert channel.host == "www.example.com"
    assert payloads.announcement([ref], {}).keys() == found[constants.ANNOUNCE_ACTOR].keys()


@pytest.mark.parametrize("block", examples("python"))
def test_python_in_the_docs_is_python_and_its_settings_are_right(block: str) -> None:
    assert "\t" not in block
    value = assigned(block, SETTING)

    with override_settings(**{SETTING: value or {}}):
        assert list(conf.problems()) == []


@pytest.mark.parametrize("block", examples("json"))
def test_json_in_the_docs_is_json(block: str) -> None:
    assert json.loads(block)


BROKERS = [example for example in examples("python") if "DRAMATIQ_BROKER" in example.values[0]]


@pytest.mark.parametrize("block", BROKERS)
def test_broker_in_the_docs_can_be_built(block: str) -> None:
    if "rabbitmq" in block:
        pytest.importorskip("pika")
    namespace: dict[str, Any] = {}
    exec(block, namespace)
    found = namespace["DRAMATIQ_BROKER"]

    middleware = [import_string(name)() for name in found["MIDDLEWARE"]]
    broker = import_string(found["BROKER"])(middleware=middleware, **found["OPTIONS"])

    assert "Prometheus" not in str(found)
    assert "socket_timeout=5" in found["OPTIONS"]["url"]
    if hasattr(broker, "client"):
        options = broker.client.connection_pool.connection_kwargs
        assert (options["socket_connect_timeout"], options["socket_timeout"]) == (2, 5)


def test_broker_is_there_to_be_pasted() -> None:
    assert {name_of_example(example) for example in BROKERS} >= {
        "docs/tutorial/install.md",
        "docs/how-to/redis.md",
        "docs/how-to/rabbitmq.md",
    }


def name_of_example(example: Any) -> str:
    return str(example.id).rsplit("-", 1)[0]


def test_urls_of_the_installation_serve_the_key_file() -> None:
    (block,) = [
        block for block in blocks(DOCS / "tutorial/install.md", "python") if "urlpatterns" in block
    ]
    namespace: dict[str, Any] = {}

    exec(block, namespace)

    assert key_route_problem(tuple(namespace["urlpatterns"])) is None  # type: ignore[arg-type]


def links() -> Iterator[Any]:
    for path in TEXTS:
        for target in re.findall(r"\]\(([^)\s]+)\)", text_of(path)):
            if not re.match(r"[a-z]+:", target):
                yield pytest.param(path, target, id=f"{name_of(path)}-{target}")


@pytest.mark.parametrize(("path", "target"), list(links()))
def test_link_leads_somewhere(path: Path, target: str) -> None:
    name, _hash, anchor = target.partition("#")
    found = (path.parent / name).resolve() if name else path

    assert found.exists()
    assert found.is_relative_to(ROOT)
    if anchor and found.suffix == ".md":
        assert anchor in anchors(found)


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub and MyST make of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", title.lower().replace("`", "")).replace(" ", "-")
        for title in titles
    }


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = {
        ((index.parent / entry).with_suffix(".md")).resolve()
        for index in PAGES
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(), re.DOTALL)
        for entry in tree.split("\n")
        if entry and not entry.startswith(":")
    }

    assert {path.resolve() for path in PAGES} - listed == {(DOCS / "index.md").resolve()}


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 80


def test_readme_names_tests_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    named = re.findall(
        r"\]\((tests/[^)]+\.py)#(test_\w+)\)|\[`?(test_\w+)`?\]\((tests/[^)]+)\)", text
    )

    assert len(named) >= 5
    for path, anchor, name, path_too in named:
        source = (ROOT / (path or path_too)).read_text()
        assert f"def {anchor or name}(" in source, (path or path_too, anchor or name)


def test_supported_versions_are_those_of_the_metadata() -> None:
    project = metadata_of_the_project()
    readme = (ROOT / "README.md").read_text()

    for classifier in project["classifiers"]:
        found = re.fullmatch(r"Framework :: Django :: ([\d.]+)", classifier) or re.fullmatch(
            r"Programming Language :: Python :: (3\.\d+)", classifier
        )
        assert found is None or found[1] in readme, classifier


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()

    for dependency in metadata_of_the_project()["dependencies"]:
        name = re.match(r"[\w-]+(\[\w+\])?", dependency)
        assert name is not None
        assert f"`{name[0]}`" in text, dependency


def metadata_of_the_project() -> dict[str, Any]:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert isinstance(found, dict)
    return found
