"""The demo's own parts: what it starts ends with it, and its small browser reads forms."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from example_site.demo.__main__ import locked
from example_site.demo.browser import Document, Form, read
from example_site.demo.errors import DemoError
from example_site.demo.lifeline import signal_group
from example_site.demo.ports import choose_port, is_free
from example_site.demo.processes import SIGNALS, Processes, uninterrupted

SLEEP = "import time; time.sleep(60)"
# Says that it is there, then leaves a process behind that does not hear SIGTERM.
WITH_GRANDCHILD = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
signal.signal(signal.SIGTERM, signal.SIG_DFL)
print("started", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def wait_until_gone(group: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not signal_group(group, 0):
            return True
        time.sleep(0.02)
    return False


def test_leaving_ends_children_and_what_they_left_behind(tmp_path: Path) -> None:
    with Processes(tmp_path, {}) as processes:
        child = processes.start("parent", "-c", WITH_GRANDCHILD, is_shown=False)
        while "started" not in child.tail():
            time.sleep(0.02)

    assert child.process.returncode == -signal.SIGTERM
    assert wait_until_gone(child.process.pid)


def test_child_that_ends_by_itself_is_noticed(tmp_path: Path) -> None:
    with Processes(tmp_path, {}) as processes:
        processes.start("steady", "-c", SLEEP)
        processes.start("brief", "-c", "print('the reason'); raise SystemExit(3)").process.wait()

        with pytest.raises(DemoError, match="brief ended by itself with exit status 3"):
            processes.watch()

    assert "the reason" in processes.tails()


def test_failed_command_says_why(tmp_path: Path) -> None:
    with Processes(tmp_path, {}) as processes:
        with pytest.raises(DemoError, match=r"prepare failed with exit status 1:\n.*no disk"):
            processes.run("prepare", "-c", "raise SystemExit('no disk')")

        processes.watch()


def test_children_get_the_environment_of_the_demo(tmp_path: Path) -> None:
    with Processes(tmp_path, {"EXAMPLE_PORT": "8123"}) as processes:
        processes.run("print", "-c", "import os; print(os.environ['EXAMPLE_PORT'])")

    assert (tmp_path / "print.log").read_text() == "8123\n"


def test_lifeline_ends_what_a_killed_demo_leaves() -> None:
    orphan = subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True)
    ended = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    ended.wait()

    lifeline = subprocess.Popen(
        [sys.executable, "-m", "example_site.demo.lifeline"], stdin=subprocess.PIPE, text=True
    )
    assert lifeline.stdin is not None
    lifeline.stdin.write(f"{ended.pid}\n{orphan.pid}\n-{ended.pid}\n")
    lifeline.stdin.close()

    assert orphan.wait(10) == -signal.SIGTERM
    assert lifeline.wait(10) == 0


def test_signal_waits_while_a_child_is_started() -> None:
    came: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: came.append(number))

    with uninterrupted():
        os.kill(os.getpid(), signal.SIGTERM)
        assert came == []

    assert came == [signal.SIGTERM]


def test_directory_is_for_one_demo(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(DemoError, match="Another demo"), locked(tmp_path):
        pass


def test_taken_port_is_passed_over() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        taken = server.getsockname()[1]

        assert not is_free(taken)
        assert choose_port(taken) != taken


def test_browser_reads_what_a_form_would_send() -> None:
    page = Document(
        url="http://localhost/edit/",
        status=200,
        headers={},
        text="""
        <link rel="alternate" hreflang="fr" href="http://localhost/fr/">
        <a href="../other/#part">Other <b>page</b></a>
        <form id="edit" action="/edit/">
          <input type="hidden" name="token" value="a&amp;b">
          <input name="title" value="Night"><input name="empty">
          <input type="checkbox" name="on" checked><input type="checkbox" name="off">
          <input type="radio" name="pick" value="1">
          <input type="radio" name="pick" value="2" checked>
          <input name="never" disabled value="x"><input type="submit" name="go" value="Go">
          <textarea name="text">\nTwo &lt;lines&gt;\n</textarea>
          <select name="choice"><option value="a">A<option value="b" selected>B</select>
        </form>
        <input name="outside" value="x">
        """,
    )

    read(page)

    assert page.alternates == ["http://localhost/fr/"]
    assert page.links == {"http://localhost/other/": "Other page"}
    assert page.form("edit") == Form(
        "edit",
        "/edit/",
        {
            "token": ["a&b"],
            "title": ["Night"],
            "empty": [""],
            "on": ["on"],
            "pick": ["2"],
            "text": ["Two <lines>\n"],
            "choice": ["b"],
        },
    )
    with pytest.raises(DemoError, match="has no form 'login'"):
        page.form("login")
