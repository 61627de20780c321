"""A page type's own switch: keep this page away from search engines."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _
from wagtail.admin.panels import FieldPanel, Panel


class IndexNowPageMixin(models.Model):
    """Adds a tick box that keeps a page out of IndexNow; for page models.

        class ArticlePage(IndexNowPageMixin, Page):
            promote_panels = [*Page.promote_panels, *IndexNowPageMixin.indexnow_panels]

    Ticking it and publishing tells engines that the page is gone from what they may show;
    clearing it and publishing announces the page again. A field or property of this name on any
    page type does the same, without the mixin.
    """

    indexnow_excluded = models.BooleanField(
        _("do not announce to search engines"),
        default=False,
        help_text=_("IndexNow search engines are not told of this page and its changes."),
    )

    indexnow_panels: ClassVar[list[Panel]] = [FieldPanel("indexnow_excluded")]

    class Meta:
        abstract = True
