"""The smallest site that a test can stand on, built the way a fresh project is."""

from datetime import timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from wagtail.models import Locale, Page, Revision, Site

from wagtail_indexnow.pages.model import page_model


def article_model() -> Any:
    """Return the plainest page type of the test project: variants have their own."""
    return apps.get_model(settings.ARTICLE_MODEL)


def make_site(hostname: str = "www.example.com", **kwargs: Any) -> Site:
    """Make an English tree below a Site of its own, reusing whatever migrations left behind."""
    ContentType.objects.clear_cache()
    locale, _made = Locale.objects.get_or_create(language_code="en")
    base = page_model()
    root = base.get_first_root_node() or base.add_root(
        instance=base(title="Root", slug="root", locale=locale)
    )
    slug = hostname.split(".", maxsplit=1)[0]
    home = root.add_child(
        instance=article_model()(title="Home", slug=f"home-{slug}", locale=locale)
    )
    options = {"port": 443, "is_default_site": not Site.objects.exists(), **kwargs}
    return Site.objects.create(hostname=hostname, root_page=home, **options)


def make_page(parent: Page, slug: str, *, model: type[Page] | None = None, **fields: Any) -> Any:
    """Make a page as an import would: without any of Wagtail's publishing signals.

    It is a draft unless `live=True` says otherwise.
    """
    fields = {"title": slug.title(), "live": False, "locale": parent.locale, **fields}
    parent = page_model().objects.get(pk=parent.pk)
    return parent.add_child(instance=(model or article_model())(slug=slug, **fields))


def publish(page: Page, **changes: Any) -> Any:
    """Publish a page as the editor's button does, and return it fresh."""
    page = page.specific
    for name, value in changes.items():
        setattr(page, name, value)
    revision = page.save_revision()
    # A clock that stands still would make it look like a copy, which waits for its privacy.
    earlier = revision.created_at - timedelta(milliseconds=1)
    Revision.objects.filter(pk=revision.pk).update(created_at=earlier)
    revision.publish()
    return type(page).objects.get(pk=page.pk)
