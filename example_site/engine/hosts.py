"""Host names: their normal form, and which addresses the engine may ever talk to (M5, M8, M23)."""

import ipaddress
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

# Real engines. A map that names one, or a host below one, is a mistake waiting to be a leak.
REAL_ENGINE_DOMAINS = (
    "indexnow.org",
    "bing.com",
    "yandex.com",
    "seznam.cz",
    "naver.com",
    "yep.com",
    "amazonbot.amazon",
)


@dataclass(frozen=True)
class Authority:
    """A host in normal form and its port; ``None`` where none is written."""

    host: str
    port: int | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


@lru_cache(maxsize=1024)
def parse_authority(text: str) -> Authority:
    """Return the parts of ``host`` or ``host:port``: lower case, punycode, no final dot.

    :raises ValueError: on an empty host, user information, a path, a scheme or a bad port.
    """
    if not text or any(mark in text for mark in "@/\\?#") or any(c.isspace() for c in text):
        raise ValueError("not a host name")
    parts = urlsplit("//" + text)
    port = parts.port
    host = (parts.hostname or "").removesuffix(".")
    if not host or (text.endswith(":") and port is None):
        raise ValueError("not a host name")
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    return Authority(host.lower(), port)


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address literal means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_real_engine(host: str) -> bool:
    """Tell whether a host belongs to a public IndexNow engine."""
    return any(host == domain or host.endswith("." + domain) for domain in REAL_ENGINE_DOMAINS)


def require_loopback_address(address: str) -> str:
    """Return the address to bind to.

    :raises ValueError: if it is not ``localhost`` or a loopback address literal.
    """
    # Names below .localhost are left out: a resolver may send them elsewhere.
    if address != "localhost" and (address.endswith(".localhost") or not is_loopback(address)):
        raise ValueError(f"The engine binds to loopback addresses only, not to {address!r}.")
    return address


class HostMap:
    """Public host → base URL on loopback, as curl's connect-to; safe to change while serving."""

    def __init__(self, bases: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._bases: dict[str, str] = {}
        for host, base_url in bases.items():
            self.add(host, base_url)

    def add(self, host: str, base_url: str) -> None:
        """Send requests for ``host`` to ``base_url`` (``http://127.0.0.1:8000``).

        :raises ValueError: if the host is a real engine's, or the target is not a plain
            loopback base URL.
        """
        name = parse_authority(host).host
        if is_real_engine(name):
            raise ValueError(f"The map names a real engine: {host!r}.")
        target = urlsplit(base_url)
        plain = not (target.path.strip("/") or target.query or target.fragment)
        if target.scheme not in ("http", "https") or not plain:
            raise ValueError(f"A map target is http(s)://address:port, not {base_url!r}.")
        require_loopback_address(parse_authority(target.netloc).host)
        with self._lock:
            self._bases[name] = f"{target.scheme}://{target.netloc}"

    def base_for(self, host: str) -> str | None:
        """Return the base URL for a host in normal form; ``None`` outside the map."""
        with self._lock:
            return self._bases.get(host)

    def hosts(self) -> frozenset[str]:
        """Return the mapped hosts in normal form."""
        with self._lock:
            return frozenset(self._bases)
