"""Hosts and ports of URLs: what is one, what programs could read differently, and where ports begin and end."""

from __future__ import annotations

import pytest

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch.urls import read_url


@pytest.mark.parametrize(
    ("url", "host", "port", "authority"),
    [
        ("http://a.example/", "a.example", 80, "a.example"),
        ("https://a.example", "a.example", 443, "a.example"),
        ("http://a.example:/", "a.example", 80, "a.example"),
        ("http://a.example:80/", "a.example", 80, "a.example"),
        ("http://a.example:443/", "a.example", 443, "a.example:443"),
        ("http://a.example:1/", "a.example", 1, "a.example:1"),
        ("http://a.example:65535/", "a.example", 65535, "a.example:65535"),
        ("http://A.Example.:08080/", "a.example", 8080, "a.example:8080"),
        ("http://[::1]/", "::1", 80, "[::1]"),
        ("http://[2001:DB8:0:0::7]:8080/", "2001:db8::7", 8080, "[2001:db8::7]:8080"),
        ("http://[::ffff:10.0.0.1]/", "::ffff:10.0.0.1", 80, "[::ffff:10.0.0.1]"),
        ("http://127.0.0.1:81/", "127.0.0.1", 81, "127.0.0.1:81"),
    ],
)
def test_a_host_and_its_port_are_read_in_one_form(url: str, host: str, port: int, authority: str) -> None:
    found = read_url(url)
    assert found.host in {host, host.replace("10.0.0.1", "a00:1")}
    assert found.port == port
    if "ffff" not in url:
        assert found.authority == authority


@pytest.mark.parametrize("port", ["0", "00", "65536", "99999"])
def test_a_port_that_does_not_exist_is_refused(port: str) -> None:
    with pytest.raises(FetchFailed, match=f"the URL has the port {int(port)}, which does not exist"):
        read_url(f"http://a.example:{port}/")


@pytest.mark.parametrize(
    "authority",
    ["", ":80", "a.example:80:80", "a.example:x", "a.example:-1", "a.example:123456", "[::1", "::1", "[::1]x"],
)
def test_what_is_no_host_is_refused(authority: str) -> None:
    with pytest.raises(FetchFailed, match="the URL has no valid host"):
        read_url(f"http://{authority}/")


@pytest.mark.parametrize(
    "host", ["", "1", "127.0.0.1", "::1%25eth0", "::1%eth0", "fe80::1%1", ":", "a.example", "g::1"]
)
def test_only_an_ipv6_address_without_a_zone_stands_in_brackets(host: str) -> None:
    with pytest.raises(FetchFailed, match="the host in brackets is not an IPv6 address"):
        read_url(f"http://[{host}]/")


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "127.0.0.01", "1.2.3.256", "1.2.3.4.5", "a.1"])
def test_a_number_that_is_no_plain_address_is_refused(host: str) -> None:
    with pytest.raises(FetchFailed, match="the host is a number that is not a plain IPv4 address"):
        read_url(f"http://{host}/")
