"""A site whose every request is one transaction."""

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES as _DATABASES

DATABASES = {"default": {**_DATABASES["default"], "ATOMIC_REQUESTS": True}}
