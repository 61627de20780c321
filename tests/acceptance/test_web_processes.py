"""No relay and no thread of ours in what serves pages."""

import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.processes import eventually, free_port, throughout
from wagtail_indexnow.models import Heartbeat

pytestmark = pytest.mark.process

SERVE_ONE_REQUEST = """
import threading
from wsgiref.util import setup_testing_defaults
from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
environ = {"HTTP_HOST": "www.example.com", "PATH_INFO": "/en/"}
setup_testing_defaults(environ)
statuses = []
for _part in application(environ, lambda status, headers: statuses.append(status)):
    pass
print("status", statuses[0], "threads", [thread.name for thread in threading.enumerate()])
"""


def test_wsgi_process_has_no_thread_of_ours(stage: Any) -> None:
    stage.drafts()

    process = stage.start("wsgi", "-c", SERVE_ONE_REQUEST)

    assert process.wait() == 0
    assert "threads ['MainThread']" in process.output()


def test_runserver_never_relays(stage: Any) -> None:
    stage.drafts()
    stage.indexnow["RELAY_INTERVAL"] = 0.05
    port = free_port()
    server = stage.command("runserver", "--noreload", f"127.0.0.1:{port}")

    def answers() -> bool:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/en/", headers={"Host": "www.example.com"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    eventually(answers, timeout_s=40)
    throughout(2, answers, every_s=0.2)

    assert server.is_running
    assert not Heartbeat.objects.exists()
