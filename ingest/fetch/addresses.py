"""Classifies IP addresses as public or special. Host names are resolved by `connection`."""

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
        # A public address that serves metadata and secrets to every virtual machine of one cloud.
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
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _SPECIAL_4 if address in network), None)
    for network, shift in _EMBEDDED:
        if address in network:
            return special_kind(IPv4Address(int(address) >> shift & 0xFFFFFFFF))
    if address in _TEREDO:
        return "tunnelled"
    kind = next((kind for network, kind in _SPECIAL_6 if address in network), None)
    return kind or (None if address in _GLOBAL_6 else "reserved")
