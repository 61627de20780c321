"""The key file: what an engine fetches to believe that a POST comes from the host itself."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.views.decorators.http import require_safe

from .. import hosts
from ..submission import keys

MAX_AGE_S = 300  # a cache that kept an old file longer would outlive a rotation


@login_not_required
@require_safe
def key_file(request: HttpRequest, key: str) -> HttpResponse:
    """Answer exactly a key of this host, and nothing on any other host.

    Touches neither session nor user, so that no cookie is set.
    """
    host = hosts.normalise_host(request.get_host(), request.scheme or "https")
    if host is None or key not in keys.valid_keys(host):
        return HttpResponseNotFound(content_type="text/plain; charset=utf-8")
    return HttpResponse(
        key.encode(),
        content_type="text/plain; charset=utf-8",
        headers={
            "X-Robots-Tag": "noindex",
            "Cache-Control": f"public, max-age={MAX_AGE_S}",
            keys.INSTANCE_HEADER: keys.instance_token(),
        },
    )
