"""Three page types: home, sections, articles."""

from typing import Any

from django.db import models
from django.http import HttpRequest
from wagtail.admin.panels import FieldPanel
from wagtail.fields import RichTextField
from wagtail.models import Page

from wagtail_indexnow.panels import IndexNowPanel

TEXT_FEATURES = ["h2", "h3", "bold", "italic", "link", "ol", "ul"]


class MuseumPage(Page):  # Wagtail has no types
    """What all pages share: an introduction, a menu, and links to the other languages."""

    intro = models.TextField("introduction", blank=True)

    content_panels = [*Page.content_panels, FieldPanel("intro")]
    promote_panels = [*Page.promote_panels, IndexNowPanel()]

    class Meta:
        abstract = True

    def get_context(self, request: HttpRequest, *args: Any, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(request, *args, **kwargs)
        home = self.get_ancestors(inclusive=True).type(HomePage).first() or self
        translations = self.get_translations(inclusive=True).live().public()
        return context | {
            "home": home,
            "menu": home.get_children().live().public().in_menu(),
            "parts": self.get_children().live().public().specific(),
            "translations": translations.select_related("locale").order_by("locale_id"),
        }


class HomePage(MuseumPage):
    """Front page of a Site in one language."""

    parent_page_types = ["wagtailcore.Page"]
    subpage_types = ["content.SectionPage"]


class SectionPage(MuseumPage):
    """Lists the articles below it."""

    parent_page_types = ["content.HomePage"]
    subpage_types = ["content.ArticlePage"]


class ArticlePage(MuseumPage):
    """Something to read, and to schedule."""

    body = RichTextField(blank=True, features=TEXT_FEATURES)

    content_panels = [*MuseumPage.content_panels, FieldPanel("body")]
    parent_page_types = ["content.SectionPage"]
    subpage_types: list[str] = []
