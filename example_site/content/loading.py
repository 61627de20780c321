"""Put the pages of `pages.toml` into an empty database."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from wagtail.models import Locale, Page, Site

from example_site.content.models import ArticlePage, HomePage, SectionPage

Texts = Mapping[str, Any]

LANGUAGES = ("en", "fr", "de")
FIELDS = ("slug", "title", "intro", "body")


def read_sites() -> list[Texts]:
    """Return what `pages.toml` says, a mapping for each Site."""
    text = Path(__file__).with_name("pages.toml").read_text(encoding="utf-8")
    sites: list[Texts] = tomllib.loads(text)["sites"]
    return sites


def load_pages(sites: Iterable[Texts]) -> int:
    """Make locales and pages, published unless they are drafts; return how many pages."""
    root = Page.get_first_root_node()
    count = 0
    for code in LANGUAGES:
        locale, _ = Locale.objects.get_or_create(language_code=code)
        for site in sites:
            if code in site:
                count += _load_site(root, site, locale)
    return count


def _load_site(root: Page, site: Texts, locale: Locale) -> int:
    count = 1
    home = _add(HomePage, root, site, locale)
    for section_texts in site["sections"]:
        section = _add(SectionPage, home, section_texts, locale, show_in_menus=True)
        for article_texts in section_texts["articles"]:
            _add(ArticlePage, section, article_texts, locale)
        count += 1 + len(section_texts["articles"])
    return count


def _add(model: Any, parent: Page, texts: Texts, locale: Locale, **values: Any) -> Page:
    """Add one page as an editor would: a draft first, then its revision is published."""
    code = locale.language_code
    values |= {name: texts[code][name] for name in FIELDS if name in texts[code]}
    page = model(locale=locale, translation_key=key_of(texts), live=False, **values)
    page = parent.add_child(instance=page)
    revision = page.save_revision()
    if code not in texts.get("drafts", ()):
        revision.publish()
    page.refresh_from_db()
    return page


def key_of(texts: Texts) -> UUID:
    """Return the key that a page and its translations share: that is what links them."""
    return uuid5(NAMESPACE_URL, f"example:{texts['name']}")


def set_sites(sites: Iterable[Texts], port: int) -> None:
    """Give each Site its host and the port that the web server has this time."""
    for site in sites:
        home = HomePage.objects.filter(
            translation_key=key_of(site), locale__language_code=LANGUAGES[0]
        ).first()
        if home is None:
            continue  # a visitor deleted it
        record = Site.objects.filter(root_page=home).first() or Site(root_page=home)
        record.hostname, record.port = site["host"], port
        record.site_name = site["title"]
        record.is_default_site = site["host"] == "localhost"
        record.save()


def remove_welcome_page() -> None:
    """Delete the page and the Site that Wagtail's own migrations make.

    The Site first: a page without one has no URL, so there is nothing to tell of its end.
    """
    welcome = Page.objects.filter(depth=2, slug="home", content_type__model="page")
    Site.objects.filter(root_page__in=welcome).delete()
    welcome.delete()
