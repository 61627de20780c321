"""R30: ASGI and WSGI servers in front of one worker: the key file, every other URL, the POSTs."""

import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.utils import timezone
from wagtail.models import Page

from tests.acceptance.stage import Stage
from tests.factories import publish
from tests.processes import Process, eventually, free_port
from wagtail_indexnow.models import HostKey

pytestmark = pytest.mark.process

HOST = "www.example.com"
KEY = "0123456789abcdef" * 2
UNKNOWN = [f"/unknown-name-{number}.txt" for number in range(50)]
SERVERS = {
    "asgi": ("uvicorn", "--factory", "django.core.asgi:get_asgi_application", "--port", "{port}"),
    "wsgi": ("gunicorn", "django.core.wsgi:get_wsgi_application()", "--bind", "127.0.0.1:{port}"),
}

Get = Callable[[str], tuple[int, bytes]]


def serve(stage: Stage, arguments: Sequence[str]) -> tuple[Process, Get, str]:
    port = free_port()
    process = stage.start("web", "-m", *(part.format(port=port) for part in arguments))
    base = f"http://127.0.0.1:{port}"

    def get(path: str) -> tuple[int, bytes]:
        request = urllib.request.Request(f"{base}{path}", headers={"Host": HOST})
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return int(response.status), response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def responds() -> bool:
        try:
            return bool(get("/en/")[0])
        except OSError:
            return False

    eventually(responds, timeout_s=60)
    return process, get, base


@pytest.mark.parametrize("kind", SERVERS)
def test_r30_server_in_front_of_a_worker(stage: Stage, kind: str) -> None:
    """R30: was a 500 for every `.txt` under ASGI, since a URL converter asked the database."""
    pytest.importorskip(SERVERS[kind][0])
    [page] = stage.drafts()
    made = timezone.now() - timedelta(minutes=1)
    HostKey.objects.create(host=HOST, key=KEY, created_at=made)
    web, get, base = serve(stage, SERVERS[kind])
    stage.indexnow.update(VERIFY_KEY_FILE=True, CONNECT_TO={HOST: base})
    stage.worker()

    publish(Page.objects.get(pk=page.pk).specific)
    eventually(lambda: stage.engine.urls(HOST), timeout_s=40)
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda path: get(path)[0], UNKNOWN))
        files = list(pool.map(get, [f"/{KEY}.txt"] * 50))

    assert stage.engine.urls(HOST) == [f"https://{HOST}/en/page-0/"]
    assert HostKey.objects.get().check_result == "ok"
    assert files == [(200, KEY.encode())] * 50
    assert set(statuses) == {404}
    assert [get(path)[0] for path in ("/robots.txt", "/en/page-0/", "/admin/login/")] == [
        404,
        200,
        200,
    ]
    assert "SynchronousOnlyOperation" not in web.output()
    assert " 500 " not in web.output()
