"""What a trusted proxy forwards of a request: the address of its client, and the target as the client sent it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network
from posixpath import normpath
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.types import Scope

from aidre.api.config import ServerSettings
from aidre.api.http import BELOW_BASE, TARGET, request_target

CACHE_SIZE = 4_096
"""Pairs of connection address and forwarding header whose group is cached."""
MAX_FORWARDED_BYTES = 1_024
"""Bytes of X-Forwarded-For that are read, from the right end; a client can write anything further left."""


class ClientAddresses:
    """The client address of a request: that of its connection, or the one that a trusted proxy forwards.

    Addresses are grouped by their usual allocation: IPv4 singly, IPv6 by the /64 network that each host controls.
    `trusted` are addresses, networks and host names of the proxies whose X-Forwarded-For is used.
    """

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


TARGET_FORM = re.compile(rb"/[!-~]*")
"""Path and query in visible ASCII."""


class OriginalTarget:
    """Notes the original target of a request without the path of `base_url`, for `request_target`.

    Proxies rewrite targets: nginx with a path in `proxy_pass` decodes `%2F` and merges slashes. Signatures cover what
    the client sent. The header may say how a target was written, not which resource is meant: it is ignored unless both
    targets are the same after decoding, so that a client whose header a proxy passes on gains nothing.
    """

    def __init__(self, server: ServerSettings) -> None:
        self._addresses = ClientAddresses(server.trusted_proxies)
        self._header = server.original_uri_header.lower().encode()
        self._prefix = urlsplit(server.base_url or "").path.rstrip("/").encode()

    def note(self, scope: Scope) -> None:
        """Does so if a trusted proxy has sent one."""
        original = self._original(scope)
        if original is not None:
            scope.setdefault("state", {}).update({TARGET: original, BELOW_BASE: True})

    def _original(self, scope: Scope) -> bytes | None:
        """None where the target as received is the one to sign."""
        values = [value for name, value in scope["headers"] if name == self._header]
        if len(values) != 1 or not self._addresses.trusts(scope):
            return None
        target: bytes = values[0].removeprefix(self._prefix)
        is_under_prefix = values[0].startswith(self._prefix + b"/")
        if not is_under_prefix or TARGET_FORM.fullmatch(target) is None:
            return None
        return target if _resource(target) == _resource(request_target(scope)) else None


def _resource(target: bytes) -> tuple[bytes, bytes]:
    """The decoded path without empty and dot segments, and the query as it is."""
    path, _, query = target.partition(b"?")
    decoded = unquote_to_bytes(path)
    normal = b"/" + normpath(b"/" + decoded).lstrip(b"/")
    return normal + (b"/" if decoded.endswith(b"/") and normal != b"/" else b""), query
