"""What a host's key file says: whether it is the key, and which installation serves it. Pure.

The mark of an installation is an HMAC of the host under `SECRET_KEY`. A copy of the site under
another secret key has another one.
"""

from collections.abc import Iterator

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

from ..constants import KeyFile
from .client import ADDRESS_REFUSED, Response

INSTANCE_HEADER = "X-IndexNow-Instance"
_BOM = b"\xef\xbb\xbf"
_SALT = "wagtail_indexnow.instance"
_BOT_WALL_HEADERS = ("cf-mitigated", "x-sucuri-block", "x-datadome")
_BOT_WALL_WORDS = (b"captcha", b"challenge", b"just a moment", b"anubis", b"enable javascript")


def instance_token(host: str) -> str:
    """Return the mark of this installation for a host."""
    return token_under(settings.SECRET_KEY, host)


def token_under(secret_key: str | bytes, host: str) -> str:
    """Return the mark of whoever has a secret key, for a host."""
    digest = salted_hmac(_SALT, host, secret=secret_key, algorithm="sha256")
    return digest.hexdigest()[:32]


def matches_instance(token: str, host: str) -> bool:
    """Return whether a host's mark is this installation's, under any of its secret keys."""
    secret_keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    # Encoded: a header from elsewhere may hold anything, and non-ASCII text is not comparable.
    given = token.encode()
    return any(constant_time_compare(given, token_under(key, host).encode()) for key in secret_keys)


def judge_key_file(response: Response, *, host: str, key: str, is_configured: bool) -> KeyFile:
    """Return what a response says of a host's key file.

    :param is_configured: the operator named the key, so that a static file will do, which
        cannot carry a mark.
    """
    if response.status is None:
        return _judge_failure(response.error)
    token = response.headers.get(INSTANCE_HEADER.lower(), "")
    if token and not matches_instance(token, host):
        return KeyFile.OTHER_INSTALLATION
    result = _judge_status(response) or _judge_body(response, key)
    return KeyFile.UNSIGNED if result == KeyFile.OK and not (token or is_configured) else result


def is_html_type(response: Response) -> bool:
    """Return whether a file calls itself HTML."""
    return "html" in response.headers.get("content-type", "").lower()


def _judge_failure(error: str) -> KeyFile:
    if error.startswith(ADDRESS_REFUSED):
        return KeyFile.PRIVATE_HOST
    return KeyFile.TIMEOUT if error.startswith("timeout") else KeyFile.UNREACHABLE


def _judge_status(response: Response) -> KeyFile | None:
    status = response.status or 0
    if status == 200:
        return None
    if 300 <= status < 400:
        return KeyFile.REDIRECT
    if status in {404, 410}:
        return KeyFile.NOT_FOUND
    if _is_bot_wall(response):
        return KeyFile.BOT_WALL
    if status >= 500:
        return KeyFile.SERVER_FAULT
    return KeyFile.FORBIDDEN if status in {401, 403, 429} else KeyFile.OTHER_BODY


def _judge_body(response: Response, key: str) -> KeyFile:
    body, expected = response.body, key.encode()
    if body == expected:
        # One that ends before its announced length is an error to any client.
        return KeyFile.OK if response.is_complete else KeyFile.OTHER_BODY
    if body.startswith(_BOM) and body.removeprefix(_BOM).strip() == expected:
        return KeyFile.BOM
    if body.strip() == expected:
        return KeyFile.TRAILING_NEWLINE
    if any(_signs_of_html(response)):
        return KeyFile.BOT_WALL if _is_bot_wall(response) else KeyFile.HTML
    return KeyFile.OTHER_BODY


def _signs_of_html(response: Response) -> Iterator[bool]:
    yield is_html_type(response)
    yield response.body.lstrip(_BOM + b" \r\n\t").lower().startswith((b"<!doctype", b"<html"))


def _is_bot_wall(response: Response) -> bool:
    body = response.body.lower()
    return any(name in response.headers for name in _BOT_WALL_HEADERS) or any(
        word in body for word in _BOT_WALL_WORDS
    )
