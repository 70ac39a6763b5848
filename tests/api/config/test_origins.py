"""Origins and proxies in the configuration, `api/config/origins.py`: what could never match is refused."""

from __future__ import annotations

import pytest

from aidre.api.config.settings import ServerSettings, parse_settings
from aidre.engine.errors import ConfigurationError


def server(key: str, *values: str) -> ServerSettings:
    return parse_settings(f"[server]\n{key} = {list(values)!r}").server


def test_origins_as_browsers_send_them_are_taken() -> None:
    origins = ("*", "null", "https://app.example.com", "http://localhost:5173", "chrome-extension://abc")
    assert server("cors_origins", *origins).cors_origins == origins


@pytest.mark.parametrize(
    "origin",
    ["", "app.example.com", "https://", "https://a.example/", "https://a.example?b", "HTTPS://a.example", "a b"],
)
def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^server\.cors_origins\[1\] must be .* such as https://app\.example"):
        server("cors_origins", "*", origin)


def test_proxies_are_addresses_networks_and_names() -> None:
    proxies = ("10.0.0.1", "10.0.0.0/8", "10.0.0.7/8", "fd00::/8", "::1", "gate", "proxy.internal", "1gate")
    assert server("trusted_proxies", *proxies).trusted_proxies == proxies


@pytest.mark.parametrize("proxy", ["", "10.0.0", "10.0.0.0/33", "256.0.0.1", "fd00::/129", "a b", "*"])
def test_a_proxy_that_is_none_of_them_is_refused(proxy: str) -> None:
    with pytest.raises(ConfigurationError, match=r'^server\.trusted_proxies\[1\] must be .* such as "10\.0\.0\.0/8"'):
        server("trusted_proxies", "10.0.0.1", proxy)
