"""Which crawlers belong to engines that take part in IndexNow, and what counts as a visit. Pure.

A name in a User-Agent proves nothing: it is what a visitor calls itself. Google does not take part.
"""

import re

CRAWLERS = ("Bingbot", "YandexBot", "SeznamBot", "Yeti", "Amazonbot", "YepBot")
#: What each writes into its User-Agent, in lower case: a name, a slash and a version.
TOKENS = {f"{name.lower()}/": name for name in CRAWLERS}
# Not below a slash: `+http://yep.com/yepbot/` is a link, which others may copy.
_NAMED = re.compile(
    rf"(?<![\w/.-])({'|'.join(map(re.escape, TOKENS))})(?=\d)", re.IGNORECASE | re.ASCII
)


def named_in(user_agent: str) -> str | None:
    """Return the crawler that a User-Agent names, or `None`."""
    found = _NAMED.search(user_agent)
    return TOKENS[found[1].lower()] if found else None


def is_visit(status: int, *, is_removed: bool) -> bool:
    """Return whether a crawler that got this status has seen what was submitted.

    :param is_removed: the URL was submitted as removed, so that its absence is the news.
    """
    if is_removed:
        return 300 <= status < 400 or status in {404, 410}
    return 200 <= status < 300 or status == 304


def is_refusal(status: int) -> bool:
    """Return whether a crawler was kept out, by a firewall for example. Never a visit as well."""
    return status in {403, 429} or status >= 500


def counts(status: int, *, is_removed: bool) -> bool:
    """Return whether a status is worth a row: a visit, or the refusal of one.

    A page that is hidden may well answer 403.
    """
    is_hidden = is_removed and status == 403
    return is_visit(status, is_removed=is_removed) or (is_refusal(status) and not is_hidden)
