"""Where the site's URLconf puts the key file, and what stands in its way. Asks no database."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from django.urls import Resolver404, URLPattern, URLResolver, get_resolver

from .views.key_file import key_file

#: What engines ask for: a file at the root of the host, so that it covers every URL there.
ROUTE = "<indexnow_key:key>.txt"
PROBE = f"{'0' * 32}.txt"


@dataclass(frozen=True)
class RouteProblem:
    """`where` is the route that is in the way, or the one that engines do not ask for."""

    kind: Literal["missing", "shadowed", "elsewhere"]
    where: str = ""


def key_route_problem(urlconf: str | None = None) -> RouteProblem | None:
    """Return why engines will not reach the key file, as far as the URLconf can tell."""
    elsewhere = shadow = ""
    for pattern in get_resolver(urlconf).url_patterns:
        routes = list(_key_routes(pattern))
        if ROUTE in routes:
            return RouteProblem("shadowed", shadow) if shadow else None
        elsewhere = elsewhere or next(iter(routes), "")
        if not routes and not shadow and _takes(pattern, PROBE):
            shadow = str(pattern.pattern) or "include(…)"
    return RouteProblem("elsewhere", elsewhere) if elsewhere else RouteProblem("missing")


def _key_routes(pattern: URLPattern | URLResolver, before: str = "") -> Iterator[str]:
    """Yield the full route of each mounting of the key file's view below a pattern."""
    route = before + str(pattern.pattern)
    if isinstance(pattern, URLPattern):
        if pattern.callback is key_file:
            yield route
        return
    for inner in pattern.url_patterns:
        yield from _key_routes(inner, route)


def _takes(pattern: Any, path: str) -> bool:
    try:
        return pattern.resolve(path) is not None
    except Resolver404:
        return False
