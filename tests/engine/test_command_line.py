"""The engine as a process, and its self-test (M24)."""

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from example_site.engine import Engine, selftest
from example_site.engine import __main__ as command

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_prints_its_address_and_ends_on_a_signal(number: signal.Signals) -> None:
    arguments = [sys.executable, "-m", "example_site.engine", "--port", "0", "--profile", "bing"]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        netloc = line.partition("http://")[2].partition("/")[0]
        connection = http.client.HTTPConnection(netloc, timeout=5)
        connection.request("GET", "/_engine/requests")
        answer = connection.getresponse().read()
        connection.close()
        process.send_signal(number)
        process.communicate(timeout=10)

    assert "(bing)" in line
    assert answer == b"[]"
    assert process.returncode == 0


def test_serving_ends_when_a_signal_came(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handlers: list[Callable[..., None]] = []
    monkeypatch.setattr(signal, "signal", lambda _number, handler: handlers.append(handler))
    ticks: list[None] = []

    def tick(_engine: object) -> None:
        ticks.append(None)
        handlers[0]()

    monkeypatch.setattr(command, "TICK_S", 0.001)
    monkeypatch.setattr(Engine, "run_due_checks", tick)

    assert command.main(["--port", "0"]) == 0
    assert ticks == [None]
    assert "/indexnow" in capsys.readouterr().out


def test_a_taken_port_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        assert command.main(["--port", str(port)]) == 1

    assert "Cannot listen" in capsys.readouterr().err


def test_options_become_overrides_of_the_profile() -> None:
    engine = command.engine_from(
        [
            "--profile=yandex",
            "--map=a.example=http://127.0.0.1:1",
            "--follow",
            "--exact",
            "--rate-limit=7",
            "--key-check-delay=5",
            "--retry-after=date",
            "--refuse-too-soon",
        ]
    )

    profile = engine.profile
    assert (profile.name, profile.rate_limit, profile.retry_after) == ("yandex", 7, "date")
    assert profile.follow_redirects
    assert profile.refuse_too_soon
    assert not profile.newline_tolerant
    assert profile.key_check_delay_s == 5.0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--map", "www.example.com"],
        ["--map", "www.bing.com=http://127.0.0.1:1"],
        ["--address", "0.0.0.0"],
        ["--profile", "google"],
    ],
)
def test_wrong_options_end_with_a_message(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.engine_from(arguments)

    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_m24_the_self_test_passes_as_a_plain_script() -> None:
    # Without the environment of the tests: it must not need Django.
    environment = {"PATH": os.environ.get("PATH", "")}
    done = subprocess.run(
        [sys.executable, "-m", "example_site.engine.selftest"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("0 failed\n")


@pytest.mark.parametrize("title", list(selftest.CASES))
def test_m24_each_case_of_the_self_test_passes(title: str) -> None:
    assert selftest.CASES[title]()


def test_m24_a_failing_case_fails_the_self_test(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks() -> bool:
        raise KeyError("no header")

    monkeypatch.setattr(selftest, "CASES", {"a": lambda: False, "b": breaks, "c": lambda: True})

    assert selftest.main() == 1
    assert "3 cases, 2 failed" in capsys.readouterr().out
