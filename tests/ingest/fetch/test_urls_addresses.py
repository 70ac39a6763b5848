"""Which IP addresses are public, and why the others are not."""

from __future__ import annotations

import pytest

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch.urls import checked_addresses, parse_address, special_kind

NOT_PUBLIC = {
    "loopback": "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 ::ffff:7f00:1 64:ff9b::7f00:1 2002:7f00:1::",
    "private": "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 fd00::1 fc00:: fec0::1 ::ffff:10.0.0.1 fd00:ec2::254 "
    "64:ff9b::192.168.1.1 2002:c0a8:101::1 ::ffff:0:10.0.0.1",
    "link-local": "169.254.169.254 169.254.0.1 fe80::1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::",
    "unspecified": "0.0.0.0 0.1.2.3 :: ::ffff:0.0.0.0",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ff0e::1",
    "reserved": "240.0.0.1 255.255.255.255 192.0.0.192 192.88.99.1 ::127.0.0.1 100:: 64:ff9b:1::1 4000::1 2001:10::1 "
    "5f00::1",
    "shared by a provider's customers": "100.64.0.1 100.127.255.255 100.100.100.200",
    "for documentation": "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1",
    "for benchmarks": "198.18.0.1 198.19.255.255",
    "tunnelled": "2001:0:53aa:64c:1::1",
    "a cloud's own": "168.63.129.16",
}
PUBLIC = (
    "1.1.1.1 8.8.8.8 93.184.215.14 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 169.253.255.255 192.0.1.0 "
    "198.17.255.255 223.255.255.255 2606:4700::1111 2001:4860:4860::8888 2a00:1450:: ::ffff:8.8.8.8 64:ff9b::808:808 "
    "2002:808:808::1"
)


@pytest.mark.parametrize(
    ("text", "kind"), [(text, kind) for kind, texts in NOT_PUBLIC.items() for text in texts.split()]
)
def test_an_address_inside_or_around_a_network_is_not_public(text: str, kind: str) -> None:
    address = parse_address(text)
    assert address is not None
    assert special_kind(address) == kind


@pytest.mark.parametrize("text", PUBLIC.split())
def test_an_address_of_the_internet_is_public(text: str) -> None:
    address = parse_address(text)
    assert address is not None
    assert special_kind(address) is None


def test_a_zone_is_no_part_of_an_address_and_a_name_is_none() -> None:
    assert parse_address("fe80::1%eth0") == parse_address("fe80::1")
    assert [parse_address(text) for text in ("", "127.1", "0x7f.0.0.1", "010.0.0.1", "example.com", "1.2.3.4.")] == [
        None
    ] * 6


@pytest.mark.parametrize(
    ("host", "addresses", "said"),
    [
        ("10.0.0.1", [], r"refused: 10\.0\.0\.1 is private; \[sources\]"),
        (
            "a.example",
            ["93.184.216.34", "10.0.0.1"],
            r"refused: a\.example has the address 10\.0\.0\.1, which is private",
        ),
        ("a.example", ["::1"], r"refused: a\.example has the address ::1, which is loopback"),
        ("a.example", ["nonsense"], r"refused: a\.example has the address nonsense, which is unreadable"),
    ],
)
def test_one_address_that_is_not_public_refuses_all(host: str, addresses: list[str], said: str) -> None:
    with pytest.raises(FetchFailed, match=said):
        checked_addresses(host, 80, private=False, seconds=60.0, resolve=lambda *_: addresses)
    allowed = checked_addresses(host, 80, private=True, seconds=60.0, resolve=lambda *_: addresses)
    assert allowed == (addresses or [host])
