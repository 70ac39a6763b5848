"""From where a request comes: the address of its connection, or the one that a trusted proxy names.

Addresses are grouped as their owners hold them: IPv4 one by one, IPv6 by the network of 64 bits that every host has
to itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

REMEMBERED = 4_096
MOST_BYTES = 1_024
"""Of a list of forwarding addresses; what stands further to the left is what anybody may have written."""


class Addresses:
    """`trusted` are addresses, networks and names of proxies that are believed when they say for whom they call."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._names = frozenset(trusted)
        self._networks = []
        for name in self._names:
            with suppress(ValueError):  # what is no network is a name, which stands for itself
                self._networks.append(ip_network(name, strict=False))
        self._caller = lru_cache(REMEMBERED)(self._find)

    def of(self, scope: Any) -> str:
        """Who calls, as a short name that is the same for all requests of one network."""
        client = scope.get("client")
        host: str = client[0] if client is not None else ""
        if not self._names:
            return self._caller(host, b"")
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        return self._caller(host, _right_end(b",".join(forwarded)))

    def _find(self, host: str, forwarded: bytes) -> str:
        if forwarded and self._trusts(host):
            # From the right: each proxy adds whom it heard from, and what stands left of the first stranger is hearsay.
            for hop in reversed(forwarded.split(b",")):
                named = _without_port(hop.decode("latin-1").strip())
                if named and not self._trusts(named):
                    return _group(named)
        return _group(host)

    def _trusts(self, address: str) -> bool:
        if address in self._names:
            return True
        try:
            found = _plain(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)


def _right_end(hops: bytes) -> bytes:
    """The last of them, whole ones."""
    return hops if len(hops) <= MOST_BYTES else hops[-MOST_BYTES:].partition(b",")[2]


def _plain(address: str) -> Any:
    """An address without its zone; one of IPv4 as such, also where it is mapped into IPv6."""
    found = ip_address(address.partition("%")[0])
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def _group(address: str) -> str:
    try:
        found = _plain(address)
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address) and not found.is_loopback:
        return str(IPv6Network((found, 64), strict=False))
    return str(found)


def _without_port(hop: str) -> str:
    """Some proxies write the port, too: 203.0.113.7:1234, [2001:db8::7]:1234."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
