"""What a strict content security policy, other scripts and other languages need of our markup."""

import re
from pathlib import Path

import pytest

import wagtail_indexnow

PACKAGE = Path(wagtail_indexnow.__file__).parent
TEMPLATES = sorted((PACKAGE / "templates").rglob("*.html"))
STYLES = sorted((PACKAGE / "static").rglob("*.css"))
SIDES = re.compile(
    r"(?<![\w-])(margin|padding|border)-(left|right)|text-align: (left|right)"
    r"|(?<![\w-])(left|right):"
)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
class TestTemplate:
    def test_has_no_script_or_style_of_its_own(self, template: Path) -> None:
        text = template.read_text()

        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text)
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))

    def test_forms_that_change_something_carry_a_token(self, template: Path) -> None:
        text = template.read_text()

        forms = re.findall(r'method="post"', text, re.IGNORECASE)
        assert len(forms) == text.count("{% csrf_token %}")

    def test_text_is_translatable(self, template: Path) -> None:
        text = re.sub(
            r"{% blocktranslate.*?{% endblocktranslate %}|{%.*?%}|{{.*?}}|{#.*?#}|<[^>]*>",
            " ",
            template.read_text(),
            flags=re.DOTALL,
        )

        assert not re.findall(r"[A-Za-z]{2,}", text.replace("POST", ""))


@pytest.mark.parametrize("style", STYLES, ids=lambda path: path.stem)
class TestStyle:
    def test_fits_both_directions_of_writing(self, style: Path) -> None:
        assert not SIDES.findall(style.read_text())

    def test_takes_its_colours_from_wagtail(self, style: Path) -> None:
        assert not re.findall(r"#[0-9a-fA-F]{3,8}\b|rgb\(|hsl\(", style.read_text())

    def test_loads_nothing_from_elsewhere(self, style: Path) -> None:
        assert "url(" not in style.read_text()
        assert "@import" not in style.read_text()
