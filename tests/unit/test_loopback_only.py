"""The suite's own guard: whatever a test does, nothing leaves this machine."""

import socket

import httpx
import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("2001:db8::1", 443, 0, 0)])
def test_connection_to_another_machine_is_an_error(address: tuple[str, int]) -> None:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET

    with socket.socket(family) as client, pytest.raises(AssertionError, match="tried to reach"):
        client.connect(address)


@pytest.mark.parametrize("host", ["api.indexnow.org", b"www.bing.com"])
def test_looking_up_another_machine_is_an_error(host: str | bytes) -> None:
    with pytest.raises(AssertionError, match="tried to resolve"):
        socket.getaddrinfo(host, 443)


def test_http_client_is_guarded_too() -> None:
    with pytest.raises(AssertionError, match="tried to"):
        httpx.get("https://api.indexnow.org/indexnow?url=https://www.example.com/")
