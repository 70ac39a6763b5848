"""Strict parsing of absolute http and https URLs: one that programs could parse differently is rejected.

The addresses of a host, resolved and classified: public, or special for a reason that a message can name.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import quote, urljoin

from aidre.engine.errors import FetchFailed
from aidre.ingest.records import escape_unprintable

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


MAX_URL_CHARS = 4096
PORTS = {"http": 80, "https": 443}

_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff]")
_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.IGNORECASE)
_ANY_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(//)?", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PLAIN_IPV4 = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")
_SAFE = "!#$%&'()*+,/:;=?@[]~"
# Characters that IDNA 2003 (Python's) and IDNA 2008 encode differently.
_DISPUTED = re.compile("[\u00df\u1e9e\u03c2\u200c\u200d]")


@dataclass(frozen=True, slots=True)
class Url:
    """`host` is in lower case, without brackets and in ASCII; `target` is path and query, percent-encoded."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def site(self) -> str:
        """The host without "www."."""
        return self.host.removeprefix("www.")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def join(self, reference: str) -> Url:
        """The target of a reference on this page; raises FetchFailed like `read_url`."""
        _check_characters(reference)
        try:
            return read_url(urljoin(str(self), reference))
        except ValueError:
            raise FetchFailed("its target is not a URL") from None


def is_url(text: str) -> bool:
    """Whether a source has a scheme, and so is an address rather than a path."""
    match = _ANY_SCHEME.match(text.strip())
    return match is not None and (match[1] is not None or match[0].lower() in ("http:", "https:"))


def read_url(text: str) -> Url:
    """Parse and normalize a URL; raises FetchFailed with the reason."""
    if len(text) > MAX_URL_CHARS:
        raise FetchFailed(f"the URL has {len(text)} characters: at most {MAX_URL_CHARS} are allowed")
    _check_characters(text)
    match = _URL.fullmatch(text)
    if match is None:
        raise FetchFailed("a URL must begin with http:// or https:// and a host")
    scheme, authority, path, query = match[1].lower(), match[2], match[3], match[4]
    if "@" in authority:
        raise FetchFailed("the URL carries a user name before its host: leave it out")
    host, port = _host_and_port(authority, scheme)
    return Url(scheme, host, port, quote(path or "/", safe=_SAFE) + quote(query or "", safe=_SAFE))


def display_url(text: str) -> str:
    """A URL for messages: one line, bounded, without credentials."""
    return escape_unprintable(re.sub(r"//[^/?#]*@", "//", text)[:300])


def _check_characters(text: str) -> None:
    if _UNSAFE.search(text):
        raise FetchFailed("the URL has a space, a backslash or a control character: percent-encode it")


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", authority)
    if match is None or not match[1]:
        raise FetchFailed("the URL has no valid host")
    port = int(match[2]) if match[2] else PORTS[scheme]
    if not 0 < port < 1 << 16:
        raise FetchFailed(f"the URL has the port {port}, which does not exist")
    return (_host_6(match[1][1:-1]) if match[1][0] == "[" else _host(match[1])), port


def _host_6(text: str) -> str:
    address = None if "%" in text or ":" not in text else parse_address(text)
    if address is None:
        raise FetchFailed("the host in brackets is not an IPv6 address")
    return address.compressed


def _host(text: str) -> str:
    name = text if text.isascii() else _ascii(text)
    labels = name.lower().removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # Some programs parse 127.1, 0x7f000001 and 2130706433 as addresses, others as names.
        host = ".".join(labels)
        if not _PLAIN_IPV4.fullmatch(host) or parse_address(host) is None:
            raise FetchFailed("the host is a number that is not a plain IPv4 address: write four decimal numbers")
        return host
    if not all(map(_LABEL.fullmatch, labels)) or len(name) > 253:
        raise FetchFailed("the host is not a valid name")
    return ".".join(labels)


def _ascii(name: str) -> str:
    """An internationalized name in its ASCII form: "bücher.de" is "xn--bcher-kva.de"."""
    if _DISPUTED.search(name):
        raise FetchFailed("the host has a letter that programs encode differently: write it as xn--")
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        raise FetchFailed("the host is not a valid name") from None
