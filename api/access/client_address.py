"""The client address of a request: that of its connection, or the one that a trusted proxy forwards.

Addresses are grouped by their usual allocation: IPv4 singly, IPv6 by the /64 network that each host controls.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

CACHE_SIZE = 4_096
"""Pairs of connection address and forwarding header whose group is cached."""
MAX_FORWARDED_BYTES = 1_024
"""Bytes of X-Forwarded-For that are read, from the right end; a client can write anything further left."""


class ClientAddresses:
    """`trusted` are addresses, networks and host names of the proxies whose X-Forwarded-For is used."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._names = frozenset(trusted)
        self._networks = []
        for name in self._names:
            with suppress(ValueError):  # a host name is compared as it is
                self._networks.append(ip_network(name, strict=False))
        self._cached_group = lru_cache(CACHE_SIZE)(self._find_group)
        self._cached_trust = lru_cache(CACHE_SIZE)(self._is_trusted)

    def of(self, scope: Any) -> str:
        """The group of the client's address, the same for all requests of one network."""
        client = scope.get("client")
        host: str = client[0] if client is not None else ""
        if not self._names:
            return self._cached_group(host, b"")
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        return self._cached_group(host, _right_end(b",".join(forwarded)))

    def trusts(self, scope: Any) -> bool:
        """Whether the connection comes from a trusted proxy."""
        client = scope.get("client")
        return client is not None and self._cached_trust(client[0])

    def _find_group(self, host: str, forwarded: bytes) -> str:
        if forwarded and self._is_trusted(host):
            # Each proxy appends the address it saw. Entries left of the first untrusted one can be forged.
            for hop in reversed(forwarded.split(b",")):
                address = _without_port(hop.decode("latin-1").strip())
                if address and not self._is_trusted(address):
                    return _group(address)
        return _group(host)

    def _is_trusted(self, address: str) -> bool:
        if address in self._names:
            return True
        try:
            parsed = _parse(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)


def _right_end(hops: bytes) -> bytes:
    """The last whole entries of a forwarding header, within the limit."""
    return hops if len(hops) <= MAX_FORWARDED_BYTES else hops[-MAX_FORWARDED_BYTES:].partition(b",")[2]


def _parse(address: str) -> Any:
    """An address without its zone; an IPv4-mapped IPv6 address as IPv4. Raises ValueError."""
    parsed = ip_address(address.partition("%")[0])
    return parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed


def _group(address: str) -> str:
    try:
        parsed = _parse(address)
    except ValueError:
        return address[:64]
    if isinstance(parsed, IPv6Address) and not parsed.is_loopback:
        return str(IPv6Network((parsed, 64), strict=False))
    return str(parsed)


def _without_port(hop: str) -> str:
    """Some proxies append the port: 203.0.113.7:1234, [2001:db8::7]:1234."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
