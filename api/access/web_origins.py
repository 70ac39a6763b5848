"""The hosts that a request may name, and the web origins whose scripts may send requests and read the answers.

A page of any site can send requests to a server on its visitor's machine, directly (CORS) or by a host name that it
resolves to that machine (DNS rebinding). Both are checked once, before every route. Host is that of RFC 9110, 7.2, an
origin that of RFC 6454, 6.2.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from aidre.api.access.limits import RawHeaders
from aidre.api.config import Settings, is_loopback
from aidre.api.http import Forbidden, MisdirectedRequest

METRICS = "/metrics"
PROBED = frozenset({"/healthz", "/readyz", METRICS})
"""Answered for any Host, since probes send addresses; a server on loopback answers /metrics for no other name, since it
names collections, and a page could have its name resolved to loopback."""
ANY = "*"
EXPOSED = (
    b"Content-Digest, ETag, Last-Modified, RateLimit, RateLimit-Limit, RateLimit-Policy, RateLimit-Remaining, "
    b"RateLimit-Reset, Retry-After, Signature, Signature-Input, WWW-Authenticate, X-Request-Id"
)
"""Header fields that a script of another origin may read."""
CACHE_SIZE = 1_024
"""Pairs of Host and Origin."""


class WebOrigins:
    """One per process; fixed by the configuration.

    Without `server.cors_origins` every origin may ask a server whose `base_url` is not loopback, because what it serves
    without credentials is meant for everybody; a server on loopback answers loopback origins alone.
    """

    def __init__(self, settings: Settings) -> None:
        server = settings.server
        own = [urlsplit(url) for url in (server.base_url, server.origin) if url is not None]
        self._hosts = {_host_name(str(url.hostname)) for url in own} | {_host_name(name) for name in server.hosts}
        self._is_local = all(is_loopback(url.hostname or "") for url in own)
        declared = server.cors_origins
        self._allows_any = ANY in declared if declared is not None else not self._is_local
        self._allows_loopback = declared is None and self._is_local
        own_origins = {f"{url.scheme}://{url.netloc}" for url in own}
        self._origins = {origin.lower() for origin in own_origins.union(declared or ())}
        self._decide = lru_cache(CACHE_SIZE)(self._judge)
        self._any_fields: RawHeaders = [
            (b"access-control-allow-origin", b"*"),
            (b"access-control-expose-headers", EXPOSED),
        ]

    def check(self, scope: Any) -> None:
        """Raises MisdirectedRequest for a Host, and Forbidden for an Origin, that this server does not serve."""
        host, origin = _named(scope)
        is_host_served, is_origin_allowed = self._decide(host, origin)
        if not is_host_served and not self._is_probe(host, scope["path"]):
            raise MisdirectedRequest(
                "this server does not answer for the Host of this request: use the address in server.base_url, or name "
                "the host in server.hosts"
            )
        if not is_origin_allowed:
            raise Forbidden("scripts of this Origin may not ask here: name it in server.cors_origins")

    def _is_probe(self, host: bytes, path: str) -> bool:
        is_open = path != METRICS or not self._is_local
        return path in PROBED and (is_open or _is_address(_host_name(host.decode("latin-1"))))

    def cors_fields(self, scope: Any) -> RawHeaders:
        """The fields that let a script read the answer."""
        if self._allows_any:
            return self._any_fields
        host, origin = _named(scope)
        if not origin or not self._decide(host, origin)[1]:
            return [(b"vary", b"Origin")]
        allowed = (b"access-control-allow-origin", origin)
        return [(b"vary", b"Origin"), allowed, (b"access-control-expose-headers", EXPOSED)]

    def _judge(self, host: bytes, origin: bytes) -> tuple[bool, bool]:
        """Whether the host is served, and whether the origin may ask; a request without either is not a browser's."""
        is_served = not host or self._serves(_host_name(host.decode("latin-1")))
        if not origin or self._allows_any:
            return is_served, True
        text = origin.decode("latin-1").lower()
        scheme, _, authority = text.partition("://")
        if text in self._origins:
            return is_served, True
        is_own = is_served and authority == host.decode("latin-1").lower()
        is_local_page = self._allows_loopback and is_loopback(_host_name(authority))
        return is_served, scheme in {"http", "https"} and (is_own or is_local_page)

    def _serves(self, name: str) -> bool:
        return name in self._hosts or is_loopback(name)


def _named(scope: Any) -> tuple[bytes, bytes]:
    """Host and Origin of a request; the connection has refused a second Host."""
    host = origin = b""
    for name, value in scope["headers"]:
        if name == b"host":
            host = value.strip()
        elif name == b"origin":
            origin = origin + b", " + value if origin else value.strip()
    return host, origin


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(authority: str) -> str:
    """The host of "host:port" in one spelling: lower case, without brackets, port and the dot of a full name."""
    name = authority.lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.removesuffix(".")
