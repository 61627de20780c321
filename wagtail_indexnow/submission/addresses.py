"""Which network addresses the site's own hosts may be fetched from: public ones.

An editor may name a Site after anything. Without this, a name could lead a worker to a service
behind the firewall, such as a cloud's metadata. Judged is what the name resolves to here, and the
connection then goes to exactly that address.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
PORTS = frozenset({80, 443})
#: How many addresses of a name are tried.
MAX_ADDRESSES = 4
# RFC 6052: addresses of IPv4 hosts as an IPv6-only network sees them.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class RefusedAddressError(Exception):
    """A host that is not fetched from, with the reason in a sentence for an operator."""


def is_public(address: str) -> bool:
    """Return whether an address, seen through IPv4-mapped, 6to4 and NAT64 forms, is public."""
    unwrapped = _unwrap(_parse(address))
    # `is_global` says yes to multicast, and to blocks of IPv6 that are not assigned.
    return (
        unwrapped.is_global
        and not unwrapped.is_multicast
        and not unwrapped.is_reserved
        and not getattr(unwrapped, "is_site_local", False)
    )


def is_loopback(address: str) -> bool:
    """Return whether an address is this machine itself, in whatever form."""
    return _unwrap(_parse(address)).is_loopback


def check_port(host: str, port: int, *, allow_loopback: bool) -> None:
    """Refuse ports on which no site is served publicly.

    :raises RefusedAddressError: unless a demonstration on loopback is under way.
    """
    if port not in PORTS and not allow_loopback:
        raise RefusedAddressError(f"{host} names port {port}: only 80 and 443 are fetched from")


async def resolve(host: str, port: int, *, allow_loopback: bool) -> list[str]:
    """Return the addresses of a host that may be connected to, in the resolver's order.

    :param allow_loopback: accept this machine too, as for an endpoint on loopback.
    :raises RefusedAddressError: if there is none.
    :raises OSError: if the name does not resolve.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(item[4][0]) for item in found))
    return permitted(host, addresses, allow_loopback=allow_loopback)


def permitted(host: str, addresses: Sequence[str], *, allow_loopback: bool) -> list[str]:
    """Return those of a host's addresses that may be connected to.

    :raises RefusedAddressError: if there is none.
    """
    chosen = [
        address
        for address in addresses
        if is_public(address) or (allow_loopback and is_loopback(address))
    ]
    if not chosen:
        shown = ", ".join(addresses[:MAX_ADDRESSES]) or "no address"
        raise RefusedAddressError(f"{host} resolves to {shown} here: set CONNECT_TO")
    return chosen[:MAX_ADDRESSES]


def _parse(address: str) -> IPAddress:
    # The resolver adds the zone of a link-local address.
    return ipaddress.ip_address(address.partition("%")[0])


def _unwrap(address: IPAddress) -> IPAddress:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address
