"""A site with a base page model of its own, as Wagtail 8 allows."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as _APPS

# Wagtail's own test app: the migrations of a base page model are long, and not ours to test.
INSTALLED_APPS = [
    "tests.variants.swapped",
    "wagtail.test.basepage",
    *(app for app in _APPS if app != "tests.testapp"),
]
WAGTAIL_PAGE_MODEL = "basepage.BasePage"
ARTICLE_MODEL = "swapped.Article"
