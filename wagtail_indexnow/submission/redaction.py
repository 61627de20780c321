"""What may be shown of keys and answers: the start of a key, an answer without harm in it."""

import unicodedata

from ..constants import EXCERPT_LENGTH


def mask(key: str) -> str:
    """Return a key's beginning, enough to tell keys apart, for logs and lists."""
    return f"{key[:4]}…" if key else ""


def excerpt_of(body: bytes, key: str = "") -> str:
    """Return the start of a body as text: at most 2 KB, no control characters, key masked."""
    text = body.decode("utf-8", errors="replace")
    if key:
        text = text.replace(key, mask(key))
    text = "".join(_harmless(character) for character in text).strip()
    return text.encode()[:EXCERPT_LENGTH].decode(errors="ignore")


def _harmless(character: str) -> str:
    if character in "\r\n\t":
        return " "
    # Cc and Cf: control and formatting, such as NUL or a right-to-left override.
    return "" if unicodedata.category(character) in {"Cc", "Cf"} else character
