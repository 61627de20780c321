"""A very small browser: cookies, links, forms. Enough to use the admin as a person does."""

import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from urllib.parse import urldefrag, urlencode, urljoin

from example_site.demo.errors import DemoError

TIMEOUT_S = 30.0
VOID_INPUTS = frozenset({"submit", "button", "reset", "image", "file"})

Attributes = dict[str, str | None]


@dataclass
class Form:
    """A form with the values that it would send if it were submitted now."""

    id: str
    action: str
    values: dict[str, list[str]] = field(default_factory=dict)


@dataclass(kw_only=True)
class Document:
    """An answer: where it came from in the end, and what a browser finds in it."""

    url: str
    status: int
    headers: Mapping[str, str]
    text: str
    links: dict[str, str] = field(default_factory=dict)
    alternates: list[str] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)

    def form(self, name: str) -> Form:
        """Return the form with this id or action.

        :raises DemoError: if there is none.
        """
        for form in self.forms:
            if name in (form.id, form.action):
                return form
        raise DemoError(f"{self.url} has no form {name!r}; it answered {self.status}.")


class Browser:
    """Keeps its cookies and follows redirects."""

    def __init__(self) -> None:
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPCookieProcessor(CookieJar()),
        )

    def get(self, url: str) -> Document:
        """Return the page at a URL, whatever its status."""
        return self._open(urllib.request.Request(url))

    def submit(self, page: Document, form: Form, values: Mapping[str, str]) -> Document:
        """Send a form with some values changed, and return the page that it leads to."""
        fields = form.values | {name: [value] for name, value in values.items()}
        body = urlencode(fields, doseq=True).encode()
        return self._open(urllib.request.Request(urljoin(page.url, form.action), data=body))

    def _open(self, request: urllib.request.Request) -> Document:
        try:
            response = self._opener.open(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            text = response.read().decode("utf-8", "replace")
            headers = {name.lower(): value for name, value in response.headers.items()}
            page = Document(url=response.url, status=response.status, headers=headers, text=text)
        if headers.get("content-type", "").startswith("text/html"):
            read(page)
        return page


def read(page: Document) -> None:
    """Find the links and forms in a document's text."""
    _Reader(page).feed(page.text)


class _Reader(HTMLParser):
    """Fills a document with the links and forms of its text."""

    def __init__(self, page: Document) -> None:
        super().__init__()
        self._page = page
        self._form: Form | None = None
        self._link = ""
        self._name = ""
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        match tag:
            case "a":
                self._link, self._text = attributes.get("href") or "", ""
            case "link" if attributes.get("hreflang"):
                self._page.alternates.append(attributes.get("href") or "")
            case "form":
                form_id, action = attributes.get("id") or "", attributes.get("action") or ""
                self._form = Form(form_id, action)
                self._page.forms.append(self._form)
            case "input":
                self._input(attributes)
            case "textarea" | "select":
                self._name, self._text = attributes.get("name") or "", ""
            case "option" if "selected" in attributes:
                self._add(self._name, attributes.get("value") or "")

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "a" if self._link:
                url, _ = urldefrag(urljoin(self._page.url, self._link))
                self._page.links.setdefault(url, self._text.strip())
            case "textarea":
                # HTML drops the first line break of a text area.
                self._add(self._name, self._text.removeprefix("\n"))
            case "form":
                self._form = None

    def _input(self, attributes: Attributes) -> None:
        kind = (attributes.get("type") or "text").lower()
        if kind in VOID_INPUTS or "disabled" in attributes:
            return
        if kind in ("checkbox", "radio") and "checked" not in attributes:
            return
        default = "on" if kind in ("checkbox", "radio") else ""
        self._add(attributes.get("name") or "", attributes.get("value") or default)

    def _add(self, name: str, value: str) -> None:
        if self._form is not None and name:
            self._form.values.setdefault(name, []).append(value)
