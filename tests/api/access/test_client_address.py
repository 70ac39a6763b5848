"""From which address a request is counted, `api/access/client_address.py`: networks, proxies, long lists of hops."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.api.access.client_address import ClientAddresses


def coming(host: str | None, *forwarded: str) -> dict[str, Any]:
    headers = [(b"x-forwarded-for", one.encode("latin-1")) for one in forwarded]
    return {"client": None if host is None else (host, 4_711), "headers": [(b"host", b"x"), *headers]}


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("127.0.0.1", "127.0.0.1"),
        (None, ""),
        ("testclient", "testclient"),
    ],
)
def test_an_address_stands_for_all_that_its_owner_holds(host: str | None, group: str) -> None:
    assert ClientAddresses().of(coming(host)) == group


def test_nobody_is_believed_who_is_not_trusted() -> None:
    assert ClientAddresses().of(coming("203.0.113.7", "198.51.100.1")) == "203.0.113.7"
    assert ClientAddresses(["10.0.0.0/8"]).of(coming("203.0.113.7", "198.51.100.1")) == "203.0.113.7"


@pytest.mark.parametrize(
    ("forwarded", "found"),
    [
        (["198.51.100.1"], "198.51.100.1"),
        (["192.0.2.66, 198.51.100.1"], "198.51.100.1"),
        (["192.0.2.66", "198.51.100.1"], "198.51.100.1"),
        (["198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        (["192.0.2.66, 198.51.100.1, 10.0.0.2, 10.9.9.9"], "198.51.100.1"),
        (["10.0.0.2, 10.0.0.3"], "10.0.0.1"),
        (["198.51.100.1:4711"], "198.51.100.1"),
        (["[2001:db8:1:2::9]:4711"], "2001:db8:1:2::/64"),
        (["2001:db8:1:2::9"], "2001:db8:1:2::/64"),
        (["fd00::7, ::ffff:10.1.1.1"], "fd00::/64"),
        (["198.51.100.1, , "], "198.51.100.1"),
        (["", "10.0.0.2"], "10.0.0.1"),
        (["unknown"], "unknown"),
        (["é" * 200], "é" * 64),
        (["198.51.100.1" * 100], "10.0.0.1"),
        (["198.51.100.1," + "192.0.2.66" * 110 + ",10.0.0.2"], "10.0.0.1"),
        ([], "10.0.0.1"),
    ],
)
def test_a_trusted_proxy_names_the_nearest_stranger(forwarded: list[str], found: str) -> None:
    assert ClientAddresses(["10.0.0.0/8"]).of(coming("10.0.0.1", *forwarded)) == found


def test_a_proxy_is_trusted_by_address_by_network_and_by_name() -> None:
    for trusted, host in [
        ("10.1.2.3", "10.1.2.3"),
        ("fd00::/8", "fd00::5"),
        ("gate", "gate"),
        ("10.0.0.0/8", "10.9.0.1"),
    ]:
        assert ClientAddresses([trusted]).of(coming(host, "198.51.100.1")) == "198.51.100.1"
        assert ClientAddresses([trusted]).of(coming("192.0.2.1", "198.51.100.1")) == "192.0.2.1"


def test_a_long_list_of_hops_is_read_from_its_right_end_only() -> None:
    addresses = ClientAddresses(["10.0.0.0/8"])
    hops = ", ".join(["198.51.100.1", *["10.0.0.2"] * 100_000])
    assert addresses.of(coming("10.0.0.1", hops)) == "10.0.0.1"
    assert addresses.of(coming("10.0.0.1", hops + ", 198.51.100.9")) == "198.51.100.9"
