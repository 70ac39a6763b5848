"""For whom a request is made: the caller's own address, or the one that a trusted proxy names."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address, ip_network

from starlette.requests import Request


class Proxies:
    """Addresses and networks that are believed when they say for whom they call."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._names = frozenset(trusted)
        self._networks = []
        for name in self._names:
            with suppress(ValueError):  # what is no network is a name, which stands for itself
                self._networks.append(ip_network(name, strict=False))

    def __contains__(self, address: str) -> bool:
        if address in self._names:
            return True
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)

    def address(self, request: Request) -> str:
        """Who calls: the nearest address that is no proxy."""
        address = request.client.host if request.client is not None else ""
        if address in self:
            hops = [hop.strip() for hop in ",".join(request.headers.getlist("x-forwarded-for")).split(",")]
            return next((hop for hop in reversed(hops) if hop and hop not in self), address)[:64]
        return address
