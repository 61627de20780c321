"""Page types that each show one way in which a site's URLs can differ."""

from typing import Any

from django.db import models
from wagtail.admin.panels import FieldPanel
from wagtail.contrib.routable_page.models import RoutablePageMixin, path
from wagtail.models import Page

from wagtail_indexnow.api_fields import indexnow_version
from wagtail_indexnow.mixins import IndexNowPageMixin


class ArticlePage(Page):
    body = models.TextField(blank=True)

    content_panels = [*Page.content_panels, FieldPanel("body")]
    api_fields = [indexnow_version]
    template = "testapp/page.html"


class OwnUrlPage(Page):
    """Lives at an address of its own making."""

    address = models.CharField(max_length=100, default="own")
    template = "testapp/page.html"

    def get_url_parts(self, request: Any = None) -> Any:
        parts = super().get_url_parts(request)
        return parts and (parts[0], parts[1], f"/own/{self.address}/")


class ListedUrlsPage(Page):
    """Says itself which URLs it has."""

    listed = models.JSONField(default=list, blank=True)
    template = "testapp/page.html"

    def get_indexnow_urls(self) -> list[str]:
        return list(self.listed)


class HiddenFromSitemapPage(Page):
    """Keeps itself out of the sitemap, and so away from engines, while `noindex` is set."""

    noindex = models.BooleanField(default=True)
    template = "testapp/page.html"

    def get_sitemap_urls(self, request: Any = None) -> list[dict[str, Any]]:
        return [] if self.noindex else super().get_sitemap_urls(request)


class CalendarPage(RoutablePageMixin, Page):
    template = "testapp/page.html"

    def get_sitemap_urls(self, request: Any = None) -> list[dict[str, Any]]:
        urls = super().get_sitemap_urls(request)
        past = {"location": f"{self.get_full_url(request)}past/"}
        return [*urls, past]

    @path("past/")
    def past_events(self, request: Any) -> Any:
        return self.render(request)


class BrokenPage(Page):
    """Its own code fails while it is asked for its URLs, as site code may."""

    broken = models.BooleanField(default=True)
    template = "testapp/page.html"

    def get_sitemap_urls(self, request: Any = None) -> list[dict[str, Any]]:
        if self.broken:
            raise RuntimeError("this page is broken")
        return super().get_sitemap_urls(request)


class OptOutPage(IndexNowPageMixin, Page):
    """Lets an editor keep it away from engines."""

    promote_panels = [*Page.promote_panels, *IndexNowPageMixin.indexnow_panels]
    template = "testapp/page.html"
