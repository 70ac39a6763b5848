"""Which IP addresses belong to the public internet. Knows no names: whoever connects resolves them and asks here."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

_SPECIAL_4 = [
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a provider's customers"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        # Answers the metadata and secrets of every virtual machine of one cloud, from a public range.
        ("168.63.129.16/32", "a cloud's own"),
    )
]
_SPECIAL_6 = [
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        ("3fff::/20", "for documentation"),
    )
]
_GLOBAL_6 = IPv6Network("2000::/3")
_TEREDO = IPv6Network("2001::/32")
# Where an IPv4 address stands inside an IPv6 address, in bits from the right.
_EMBEDDED = [
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::ffff:0:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
]


def read_address(text: str) -> Address | None:
    """The address that a text is, None where it is another text. A zone ("%eth0") is no part of an address."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def special(address: Address) -> str | None:
    """Why an address is not of the public internet ("loopback", "private", ...), None where it is.

    An IPv4 address inside an IPv6 address counts as itself, since that is where the packets go.
    """
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _SPECIAL_4 if address in network), None)
    for around, shift in _EMBEDDED:
        if address in around:
            return special(IPv4Address(int(address) >> shift & 0xFFFFFFFF))
    if address in _TEREDO:
        return "tunnelled"
    kind = next((kind for network, kind in _SPECIAL_6 if address in network), None)
    return kind or (None if address in _GLOBAL_6 else "reserved")
