"""Absolute http and https URLs, read strictly: one that two programs could read differently is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from aidre.engine.errors import FetchFailed
from aidre.ingest.addresses import read_address
from aidre.ingest.members import printable

LONGEST = 4096
PORTS = {"http": 80, "https": 443}

_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff]")
_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.IGNORECASE)
_ANY_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(//)?", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PLAIN_IPV4 = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")
_SAFE = "!#$%&'()*+,/:;=?@[]~"
# IDNA of 2003, which Python has, and of 2008 read these as different names.
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
        """The host, with and without "www." the same."""
        return self.host.removeprefix("www.")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def join(self, reference: str) -> Url:
        """What a reference on this page leads to; FetchFailed as `read_url`."""
        _check_characters(reference)
        try:
            return read_url(urljoin(str(self), reference))
        except ValueError:
            raise FetchFailed("the address it leads to is no URL") from None


def is_url(text: str) -> bool:
    """Whether a source is meant as an address rather than as a path: it has a scheme."""
    match = _ANY_SCHEME.match(text.strip())
    return match is not None and (match[1] is not None or match[0].lower() in ("http:", "https:"))


def read_url(text: str) -> Url:
    """A URL in its normal form; raises FetchFailed with what is wrong with it."""
    if len(text) > LONGEST:
        raise FetchFailed(f"the URL has {len(text)} characters: at most {LONGEST} are possible")
    _check_characters(text)
    match = _URL.fullmatch(text)
    if match is None:
        raise FetchFailed("a URL must begin with http:// or https:// and a host")
    scheme, authority, path, query = match[1].lower(), match[2], match[3], match[4]
    if "@" in authority:
        raise FetchFailed("the URL carries a user name before its host: leave it out")
    host, port = _host_and_port(authority, scheme)
    return Url(scheme, host, port, quote(path or "/", safe=_SAFE) + quote(query or "", safe=_SAFE))


def shown(text: str) -> str:
    """A URL for messages: one line, not endless, without what may be a password."""
    return printable(re.sub(r"//[^/?#]*@", "//", text)[:300])


def _check_characters(text: str) -> None:
    if _UNSAFE.search(text):
        raise FetchFailed("the URL has a space, a backslash or a control character: percent-encode it")


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", authority)
    if match is None or not match[1]:
        raise FetchFailed("the URL has no host that can be read")
    port = int(match[2]) if match[2] else PORTS[scheme]
    if not 0 < port < 1 << 16:
        raise FetchFailed(f"the URL has the port {port}, which does not exist")
    return (_host_6(match[1][1:-1]) if match[1][0] == "[" else _host(match[1])), port


def _host_6(text: str) -> str:
    address = None if "%" in text or ":" not in text else read_address(text)
    if address is None:
        raise FetchFailed("the host in brackets is no IPv6 address")
    return address.compressed


def _host(text: str) -> str:
    name = text if text.isascii() else _ascii(text)
    labels = name.lower().removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # Some programs read 127.1, 0x7f000001 and 2130706433 as an address, others as a name.
        host = ".".join(labels)
        if not _PLAIN_IPV4.fullmatch(host) or read_address(host) is None:
            raise FetchFailed("the host is a number that is no plain IPv4 address: write four decimal numbers")
        return host
    if not all(map(_LABEL.fullmatch, labels)) or len(name) > 253:
        raise FetchFailed("the host is no name that can be looked up")
    return ".".join(labels)


def _ascii(name: str) -> str:
    """A name in another script as it is looked up: "bücher.de" is "xn--bcher-kva.de"."""
    if _DISPUTED.search(name):
        raise FetchFailed("the host has a letter that programs encode differently: write it as xn--")
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        raise FetchFailed("the host is no name that can be looked up") from None
