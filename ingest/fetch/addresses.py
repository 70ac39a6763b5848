"""The addresses of a host, resolved and classified: public, or special for a reason that a message can name."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from aidre.engine.errors import FetchFailed

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Sequence[str]]

MAX_ADDRESSES = 8
"""Addresses of one name that are tried."""

_SPECIAL = [
    (ip_network(network), kind)
    for kind, networks in (
        ("unspecified", "0.0.0.0/8 ::/128"),
        ("loopback", "127.0.0.0/8 ::1/128"),
        ("private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10"),
        ("link-local", "169.254.0.0/16 fe80::/10"),
        ("multicast", "224.0.0.0/4 ff00::/8"),
        ("shared by a provider's customers", "100.64.0.0/10"),
        ("for documentation", "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20"),
        ("for benchmarks", "198.18.0.0/15"),
        ("tunnelled", "2001::/32"),
        ("reserved", "192.0.0.0/24 192.88.99.0/24 240.0.0.0/4 2001::/23"),
        # A public address that serves metadata and secrets to every virtual machine of one cloud.
        ("a cloud's own", "168.63.129.16/32"),
    )
    for network in networks.split()
]
_GLOBAL_6 = IPv6Network("2000::/3")
# Position of an embedded IPv4 address in an IPv6 address, in bits from the right.
_EMBEDDED = [
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::ffff:0:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
]


def parse_address(text: str) -> Address | None:
    """The address in a text, or None. A zone ("%eth0") is ignored."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def special_kind(address: Address) -> str | None:
    """Why an address is not public ("loopback", "private", ...), or None.

    An embedded IPv4 address is classified itself, since packets are routed to it.
    """
    for network, shift in _EMBEDDED:
        if address in network:
            return special_kind(IPv4Address(int(address) >> shift & 0xFFFFFFFF))
    kind = next((kind for network, kind in _SPECIAL if address in network), None)
    return kind or (None if address.version == 4 or address in _GLOBAL_6 else "reserved")


def look_up(host: str, port: int) -> list[str]:
    """Resolve a name with the system's resolver."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def checked_addresses(host: str, port: int, *, private: bool, seconds: float, resolve: Resolve) -> list[str]:
    """The addresses of a host; raises FetchFailed if one of them is not public, unless `private` is true."""
    addresses = [host] if parse_address(host) is not None else _resolve(host, port, seconds, resolve)
    if not private:
        for text in addresses:
            address = parse_address(text)
            kind = "unreadable" if address is None else special_kind(address)
            if kind is not None:
                where = host if text == host else f"{host} has the address {text[:80]}, which"
                raise FetchFailed(f"refused: {where} is {kind}; [sources] allow_private_addresses permits it")
    return list(addresses[:MAX_ADDRESSES])


def _resolve(host: str, port: int, seconds: float, resolve: Resolve) -> Sequence[str]:
    """Resolve in a thread, because the system's resolver has no time-out."""
    answer: list[Sequence[str] | Exception] = []

    def run() -> None:
        try:
            answer.append(resolve(host, port))
        except Exception as error:
            answer.append(error)

    thread = threading.Thread(target=run, name="resolver", daemon=True)
    thread.start()
    thread.join(seconds)
    result = answer[0] if answer else TimeoutError()
    if isinstance(result, (OSError, UnicodeError)):
        reason = "no answer in time" if isinstance(result, TimeoutError) else getattr(result, "strerror", None)
        raise FetchFailed(f"the name {host} cannot be resolved: {reason or 'no such name'}", down=True) from result
    if isinstance(result, Exception):
        raise result
    if not result:
        raise FetchFailed(f"the name {host} cannot be resolved: it has no address")
    return result
