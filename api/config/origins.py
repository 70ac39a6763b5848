"""Checks of web origins, hosts and proxies in the configuration: an entry that could never match is an error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_network

from aidre.engine.errors import ConfigurationError


def check_origins(origins: Iterable[str], where: str) -> None:
    """Raises ConfigurationError; browsers send a scheme, a host and at most a port, or "null"."""
    for origin in origins:
        if origin not in ("*", "null") and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+", origin):
            raise ConfigurationError(
                f'{where} must hold "*" or origins such as https://app.example.com, without a path, not {origin!r}'
            )


def check_hosts(hosts: Iterable[str], where: str) -> None:
    """Raises ConfigurationError; the port of a request does not matter."""
    for host in hosts:
        if not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\]", host):
            raise ConfigurationError(
                f'{where} must hold names or addresses such as "search.internal", without scheme and port, not {host!r}'
            )


def check_proxies(proxies: Iterable[str], where: str) -> None:
    """Raises ConfigurationError for an invalid address or network; any other name is taken as a host name."""
    for proxy in proxies:
        try:
            if not re.fullmatch(r"[0-9]*[A-Za-z_-][A-Za-z0-9_.-]*", proxy):
                ip_network(proxy, strict=False)
        except ValueError:
            raise ConfigurationError(
                f'{where} must hold addresses or networks such as "10.0.0.0/8", not {proxy!r}'
            ) from None
