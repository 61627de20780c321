"""A site with a user model of its own, whose primary key is no number."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = ["tests.variants.people", *_APPS]
AUTH_USER_MODEL = "people.Person"
