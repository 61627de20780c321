"""Which URLs a robots.txt forbids. Pure: text in, answers out. Needs the extra `[verify]`.

Protego matches wildcards as RFC 9309 says, in time by length; Python's own parser knows none.
"""

from protego import Protego

#: Crawlers of the engines that take part in IndexNow, as robots.txt calls them.
AGENTS = ("bingbot", "YandexBot", "SeznamBot", "Yeti", "Amazonbot", "YepBot")
MAX_ROBOTS_BYTES = 512_000  # RFC 9309 asks for at least 500 KiB


class Robots:
    """The rules of one host."""

    def __init__(self, text: str = "") -> None:
        self._rules = Protego.parse(text)

    def forbids(self, url: str) -> bool:
        """Return whether no engine that takes part may fetch a URL."""
        return not any(self._rules.can_fetch(url, agent) for agent in AGENTS)


def read_robots(status: int | None, body: bytes) -> Robots | None:
    """Return the rules of a response; `None`: unknown, so that nothing may be fetched yet.

    A file that is not there forbids nothing; one that cannot be had forbids all (RFC 9309 §2.3.1).
    """
    if status is None or status >= 500 or status == 429:
        return None
    if status != 200:
        return Robots()
    return Robots(body[:MAX_ROBOTS_BYTES].decode("utf-8-sig", errors="replace"))
