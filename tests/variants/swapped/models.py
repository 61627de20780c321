"""A page type below a base page model of the site's own."""

from wagtail.test.basepage.models import BasePage


class Article(BasePage):
    template = "testapp/page.html"
