"""What a page says of itself in its markup. Pure. Needs the extra `[verify]`.

lxml reads it event by event: no tree is built, and no regular expressions run over it, which
hostile pages would turn against us.
"""

from typing import TypeVar

from lxml import etree

from .page_responses import Markup, PageResponse, parse_date

VERSION_META = "indexnow-published-at"
_CHUNK_BYTES = 16_384
_MAX_VALUES = 100  # of each kind that a page may name
_NAMED_ENGINES = frozenset({"yandex", "yeti", "slurp", "googlebot-news"})
#: Elements whose content is not the page's own.
_INERT = frozenset({"template", "textarea", "noscript", "iframe", "svg", "math", "title", "style"})
_CHALLENGE_ID = "anubis_challenge"
#: Encodings that browsers know and Python too, by what they have in common. Others, such as
#: `zlib` or `idna`, are codecs in Python that no page is written in.
_ENCODINGS = (
    "utf-8", "utf-16", "utf-16le", "utf-16be", "us-ascii", "koi8-r", "koi8-u", "gbk", "gb2312",
    "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr", "iso-2022-jp", "macintosh",
    *(f"iso-8859-{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
    *(f"windows-125{part}" for part in range(9)),
)  # fmt: skip
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_Value = TypeVar("_Value")


def read_markup(response: PageResponse) -> Markup:
    """Return what the page of a response says of itself, whatever it is."""
    declared = _declared_charset(response)
    markup = _parse_as(response.body, declared or "utf-8")
    named = markup.charset.strip().lower()
    if not declared and named in _ENCODINGS and not named.startswith("utf-"):
        return _parse_as(response.body, named)
    return markup


class _Events:
    """Takes a parser's events and keeps what is asked for, and no element."""

    def __init__(self) -> None:
        self.markup = Markup()
        self._inert_depth = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _INERT:
            self._inert_depth += 1
        elif tag == "body":
            self.markup.is_complete = True
        if self._inert_depth:
            return
        if tag == "meta":
            self._take_meta(attributes)
        elif tag == "link" and not self.markup.is_complete:
            self._take_link(attributes)
        elif tag == "base" and not self.markup.is_complete:
            self.markup.base = self.markup.base or attributes.get("href", "")
        if attributes.get("id") == _CHALLENGE_ID:
            self.markup.is_challenge = True

    def end(self, tag: str) -> None:
        if tag in _INERT:
            self._inert_depth -= 1
        elif tag == "head":
            self.markup.is_complete = True

    def close(self) -> Markup:
        return self.markup

    def _take_meta(self, attributes: dict[str, str]) -> None:
        name = attributes.get("name", "").strip().lower()
        content = attributes.get("content", "")
        if name == "robots" or name.endswith("bot") or name in _NAMED_ENGINES:
            _keep(self.markup.robots, (name, content))
        elif name == VERSION_META:
            self.markup.version = self.markup.version or parse_date(content)
        elif attributes.get("http-equiv", "").strip().lower() == "refresh":
            _keep(self.markup.refreshes, content)
        elif "charset" in attributes:
            self.markup.charset = self.markup.charset or attributes["charset"]

    def _take_link(self, attributes: dict[str, str]) -> None:
        if "canonical" in attributes.get("rel", "").lower().split():
            _keep(self.markup.canonicals, attributes.get("href", ""))


def _parse_as(body: bytes, encoding: str) -> Markup:
    text = body.decode(encoding, errors="replace").replace("\0", "\ufffd")
    recoded = text.encode("utf-8", errors="replace")
    events = _Events()
    parser = etree.HTMLParser(target=events, encoding="utf-8")
    try:
        for start in range(0, len(recoded), _CHUNK_BYTES):
            parser.feed(recoded[start : start + _CHUNK_BYTES])
        is_complete = events.markup.is_complete
        parser.close()  # which ends whatever is open, as if the page did
        events.markup.is_complete = is_complete
    except etree.LxmlError:  # nothing that is HTML, or nested without end: what was seen counts
        pass
    return events.markup


def _declared_charset(response: PageResponse) -> str:
    """Return the encoding by byte order mark or header; empty if neither names one."""
    for mark, encoding in _BOMS.items():
        if response.body.startswith(mark):
            return encoding
    for value in response.values("content-type"):
        for parameter in value.split(";")[1:]:
            name, _equals, charset = parameter.partition("=")
            charset = charset.strip(" \t\"'").lower()
            if name.strip().lower() == "charset" and charset in _ENCODINGS:
                return charset
    return ""


def _keep(values: list[_Value], value: _Value) -> None:
    if len(values) < _MAX_VALUES:
        values.append(value)
