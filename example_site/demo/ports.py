"""Ports that nobody uses."""

import errno
import socket

LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


def choose_port(wanted: int) -> int:
    """Return the port if it is free on this machine, else another one that is."""
    while not is_free(wanted):
        wanted = _any_port()
    return wanted


def is_free(port: int) -> bool:
    """Say whether nobody listens on a port. 0 is no port.

    Both families count: a browser that opens `localhost` may try IPv6 first, and would then
    find somebody else's server.
    """
    return port != 0 and all(_can_bind(family, address, port) for family, address in LOOPBACK)


def _can_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # Connections of a server that has ended do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError as error:
        # A machine without IPv6 has nobody listening there either.
        return error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True


def _any_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
