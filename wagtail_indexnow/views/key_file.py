"""The key file: what an engine fetches to believe that a POST comes from the host itself."""

from collections.abc import Iterator

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.http.request import split_domain_port
from django.views.decorators.http import require_safe

from .. import hosts
from ..submission import served_keys
from ..submission.key_files import INSTANCE_HEADER, instance_token

MAX_AGE_S = 300  # a cache that kept an old file longer would outlive a rotation


@login_not_required
@require_safe
def key_file(request: HttpRequest, key: str) -> HttpResponse:
    """Respond with a key of this host exactly, and with 404 on any other host.

    Touches neither session nor user, so that no cookie is set, and no database, so that it is
    the same under WSGI and ASGI.
    """
    host = served_keys.owner(key, _names(request))
    if host is None:
        return HttpResponseNotFound(content_type="text/plain; charset=utf-8")
    return HttpResponse(
        key.encode(),
        content_type="text/plain; charset=utf-8",
        headers={
            "X-Robots-Tag": "noindex",
            "Cache-Control": f"public, max-age={MAX_AGE_S}",
            INSTANCE_HEADER: instance_token(host),
        },
    )


def _names(request: HttpRequest) -> Iterator[str]:
    """Yield the host of a request with its port, and without one that a proxy added."""
    given = request.get_host()
    for name in (given, split_domain_port(given)[0]):
        host = hosts.normalise_host(name, request.scheme or "https")
        if host is not None:
            yield host
