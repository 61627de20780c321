"""What may be shown of keys and responses: the start of a key, a response without harm in it."""

import re
import unicodedata

from ..constants import EXCERPT_LENGTH


def mask(key: str) -> str:
    """Return a key's beginning, enough to tell keys apart, for logs and lists."""
    return f"{key[:4]}…" if key else ""


def excerpt_of(body: bytes, key: str = "") -> str:
    """Return the start of a body as text: at most 2 KB, no control characters, key masked."""
    text = body.decode("utf-8", errors="replace")
    # First: between the digits of a key, what nobody sees would hide it from the mask.
    text = "".join(_harmless(character) for character in text).strip()
    if key:
        text = re.sub(re.escape(key), mask(key), text, flags=re.IGNORECASE)
    return text.encode()[:EXCERPT_LENGTH].decode(errors="ignore")


def _harmless(character: str) -> str:
    if character in "\r\n\t":
        return " "
    # Control, formatting, private and unassigned characters, such as NUL, a soft hyphen or a
    # right-to-left override.
    return "" if unicodedata.category(character).startswith("C") else character
