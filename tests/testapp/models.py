"""Page types that each show one way in which a site's URLs can differ."""

from typing import Any

from django.db import models
from wagtail.admin.panels import FieldPanel
from wagtail.contrib.routable_page.models import RoutablePageMixin, path
from wagtail.models import Page, Site

from wagtail_indexnow.mixins import IndexNowPageMixin


class ArticlePage(Page):
    body = models.TextField(blank=True)

    content_panels = [*Page.content_panels, FieldPanel("body")]
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


class FolderPage(Page):
    """Shows its first live child, under the child's own URL."""

    template = "testapp/page.html"

    def get_indexnow_urls(self) -> list[str | None]:
        child = self.get_children().live().order_by("path").first()
        return [child.specific.full_url] if child else [self.full_url]


class SectionEntryPage(Page):
    """Lives at a dated address below its parent's."""

    template = "testapp/page.html"

    def get_url_parts(self, request: Any = None) -> Any:
        parts = self.get_parent().specific.get_url_parts(request)
        return parts and (parts[0], parts[1], f"{parts[2]}2026/12/01/{self.slug}/")


class HeadlessPage(Page):
    """Overrides its URL and leaves it as it is, as headless sites do on a base class."""

    template = "testapp/page.html"

    def get_url_parts(self, request: Any = None) -> Any:
        return super().get_url_parts(request)


class RequestHostPage(Page):
    """Builds its URL from the site of the request."""

    template = "testapp/page.html"

    def get_url_parts(self, request: Any = None) -> Any:
        site = Site.find_for_request(request)
        parts = super().get_url_parts(request)
        return parts and (parts[0], f"https://{site.hostname}", parts[2])


class PrintedPage(Page):
    """Lists a print version below its own URL."""

    template = "testapp/page.html"

    def get_sitemap_urls(self, request: Any = None) -> list[dict[str, Any]]:
        return [{"location": self.full_url}, {"location": self.full_url + "print/"}]


class MembersPage(Page):
    """Restricts each new page to members."""

    template = "testapp/page.html"

    def get_default_privacy_setting(self, request: Any) -> dict[str, Any]:
        return {"type": "login"}
