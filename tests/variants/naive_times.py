"""A site that keeps naive times, in a zone that is not UTC."""

from tests.settings import *  # noqa: F403

USE_TZ = False
TIME_ZONE = "Europe/Berlin"
