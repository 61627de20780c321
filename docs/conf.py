"""Sphinx configuration. Build with `tox -e docs`; every warning is an error there."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from wagtail_indexnow import __version__  # noqa: E402 - found beside this directory

project = "wagtail_indexnow"
author = "The wagtail_indexnow contributors"
copyright = f"2026, {author}"  # noqa: A001 - the name that Sphinx asks for
release = version = __version__

extensions = ["myst_parser", "sphinx_wagtail_theme"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_static_path = ["_static"]
html_css_files = ["docs.css"]
html_theme = "sphinx_wagtail_theme"
html_title = project
html_last_updated_fmt = ""
html_theme_options = {
    "project_name": project,
    "logo_alt": "Wagtail",
    "github_url": "",
    "footer_links": "",
    "header_links": "",
}
