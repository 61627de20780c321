"""German and French: complete, compiled, with all placeholders, and really shown."""

import ast
import gettext
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import translation
from wagtail.models import Page
from wagtail.users.models import UserProfile

import wagtail_indexnow
from tests.admin.conftest import ADMIN
from wagtail_indexnow.constants import Reason

PACKAGE = Path(wagtail_indexnow.__file__).parent
LANGUAGES = ["de", "fr"]
PLACEHOLDER = re.compile(r"%\(\w+\)\w|%%")


def catalogue(language: str, package: Path = PACKAGE) -> Path:
    return package / "locale" / language / "LC_MESSAGES" / "django.po"


def entries(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each message, plural ones joined by a NUL as in a .mo file, and its translations."""
    blocks = path.read_text().split("\n\n")
    for block in blocks[1:]:
        texts = dict(re.findall(r'^(msg[\w\[\]]+) (".*")$', block, re.MULTILINE))
        values = {key: ast.literal_eval(text) for key, text in texts.items()}
        ids = [values[key] for key in ("msgid", "msgid_plural") if key in values]
        yield "\0".join(ids), [values[key] for key in values if key.startswith("msgstr")]


@pytest.mark.parametrize("language", LANGUAGES)
class TestCatalogue:
    def test_is_complete(self, language: str) -> None:
        path = catalogue(language)

        assert [key for key, texts in entries(path) if not all(texts)] == []
        assert "fuzzy" not in path.read_text()

    def test_keeps_all_placeholders(self, language: str) -> None:
        for key, texts in entries(catalogue(language)):
            wanted = set(PLACEHOLDER.findall(key))
            assert all(set(PLACEHOLDER.findall(text)) == wanted for text in texts), key

    def test_is_compiled_as_it_is(self, language: str) -> None:
        with catalogue(language).with_suffix(".mo").open("rb") as file:
            compiled = gettext.GNUTranslations(file)

        for key, texts in entries(catalogue(language)):
            singular, _nul, plural = key.partition("\0")
            shown = (
                [compiled.ngettext(singular, plural, 1), compiled.ngettext(singular, plural, 2)]
                if plural
                else [compiled.gettext(singular)]
            )
            assert shown == texts

    def test_has_every_text_of_the_package(
        self, language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if shutil.which("xgettext") is None:
            pytest.skip("GNU gettext is not installed")
        copy = tmp_path / "wagtail_indexnow"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.chdir(copy)

        call_command("makemessages", locale=[language], no_wrap=True, no_obsolete=True, verbosity=0)

        found = {key for key, _texts in entries(catalogue(language, copy))}
        assert found == {key for key, _texts in entries(catalogue(language))}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("language", "told", "reason"),
    [
        ("de", "Akzeptiert", "URLs abgelehnt (422)"),
        ("fr", "Acceptée", "URL rejetées (422)"),
    ],
)
def test_report_speaks_the_readers_language(
    language: str, told: str, reason: str, superuser: Client, news: Page, tracked: Any
) -> None:
    profile = UserProfile.get_for_user(superuser.user)  # type: ignore[attr-defined]
    profile.preferred_language = language
    profile.save()
    tracked(news)
    tracked(news, "other", state="rejected", reason="unprocessable")

    page = superuser.get(f"{ADMIN}urls/").content.decode()

    assert told in page
    assert reason in page


@pytest.mark.parametrize("language", ["en", *LANGUAGES])
def test_every_reason_has_a_label_and_a_sentence_in_every_language(language: str) -> None:
    with translation.override(language):
        for reason in Reason:
            assert not str(reason.label).endswith(".")
            assert str(reason.meaning).endswith(".")
