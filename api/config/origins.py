"""URLs, web origins, hosts and proxies in the configuration: an entry that could never match is an error."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from aidre.api.config.toml import matching

Origin: TypeAlias = Annotated[
    str, matching(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#@\s]+", 'be "*" or an origin such as https://app.example.com')
]
"""As browsers send it: a scheme, a host and at most a port, or "null"."""
Host: TypeAlias = Annotated[
    str,
    matching(
        r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\]",
        'be a name or an address such as "search.internal", without scheme and port',
    ),
]


def is_loopback(host: str) -> bool:
    """Whether a host names this machine alone."""
    bare = host.strip("[]").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def check_url(url: str | None, where: str, *, secret: bool = False) -> None:
    """Raises ValueError. A `secret` URL is a capability: it may have a query, and messages do not repeat it."""
    if url is None:
        return
    shown = "" if secret or "@" in url or "?" in url else f", not {url!r}"
    without = "user and fragment" if secret else "user, query and fragment"
    wrong = f"{where} must be a URL such as https://ai.example.com, without {without}{shown}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(wrong) from None
    has_extras = parts.fragment or "@" in parts.netloc or (parts.query and not secret)
    if parts.scheme not in {"http", "https"} or not host or has_extras or not re.fullmatch("[!-~]+", url):
        raise ValueError(wrong)
    if parts.scheme == "http" and not is_loopback(host):
        shown = "" if secret else f", not {host}"
        raise ValueError(f"{where} must begin with https://: http:// is for loopback alone{shown}")


def check_sent_url(url: str | None, where: str) -> None:
    """Raises ValueError for a URL in another form than clients send: a signature over it would not verify."""
    check_url(url, where)
    if url is not None and url != (normalized := _normalize(url)):
        raise ValueError(f"{where} must be written in the form that clients send, {normalized!r}, not {url!r}")


def check_proxies(proxies: Iterable[str], where: str) -> None:
    """Raises ValueError for an invalid address or network; any other name is taken as a host name."""
    for number, proxy in enumerate(proxies):
        try:
            if not re.fullmatch(r"[0-9]*[A-Za-z_-][A-Za-z0-9_.-]*", proxy):
                ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            raise ValueError(
                f'{where}[{number}] must be an address or a network such as "10.0.0.0/8", not {proxy!r}'
            ) from None


def _normalize(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.lower().removesuffix(":443" if parts.scheme == "https" else ":80")
    return f"{parts.scheme}://{host}{parts.path}"
