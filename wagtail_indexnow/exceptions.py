"""Error types. What an engine answers is no error but a verdict: see `responses`."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured


class IndexNowError(Exception):
    """Something went wrong while telling search engines about a URL."""

    def __init__(self, message: str = "", *args: Any) -> None:
        super().__init__(message or (self.__doc__ or "").strip(), *args)


class ConfigurationError(IndexNowError, ImproperlyConfigured):
    """The WAGTAIL_INDEXNOW setting is wrong; run `manage.py check` for the details."""


class PayloadError(IndexNowError):
    """A message in the queue is not one of ours, or of a version that we do not know."""


class OutdatedError(IndexNowError):
    """Somebody else told of a page's URLs after this worker looked at them: look again."""


def describe(fault: BaseException) -> str:
    """Return the class and message of a fault of a site's own code, as every database takes it.

    PostgreSQL refuses NUL, and no encoding has halves of surrogate pairs: the row of a page that
    raised with one could never be written.
    """
    text = f"{type(fault).__name__}: {fault}"[:2000]
    return "".join(letter if letter.isprintable() else " " for letter in text)
