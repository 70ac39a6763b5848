"""Which hosts are served and which web origins may ask, by configuration; over every route in test_web_pages.py."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.api.access.web_origins import WebOrigins
from aidre.api.config.settings import parse_settings
from aidre.api.http.http_errors import Forbidden, MisdirectedRequest
from aidre.engine.errors import ConfigurationError

LOCAL = '[server]\nbase_url = "http://127.0.0.1:8321"\n'
PUBLIC = '[server]\nbase_url = "https://ai.example.com/search"\norigin = "https://www.example.com"\n'


def scope_of(host: str | None, origin: str | None = None, path: str = "/search") -> dict[str, Any]:
    headers = [(b"accept", b"*/*")]
    headers += [(b"host", host.encode("latin-1"))] if host is not None else []
    headers += [(b"origin", origin.encode("latin-1"))] if origin is not None else []
    return {"type": "http", "path": path, "headers": headers}


def decision(configuration: str, host: str | None, origin: str | None = None, path: str = "/search") -> int:
    """The status of the refusal; 200 for none."""
    try:
        WebOrigins(parse_settings(configuration)).check(scope_of(host, origin, path))
    except (MisdirectedRequest, Forbidden) as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8321", "127.0.0.1", "127.8.9.1:1", "localhost:8321", "LOCALHOST", "localhost.", "[::1]:8321", "[::1]"],
)
@pytest.mark.parametrize("configuration", [LOCAL, PUBLIC])
def test_loopback_hosts_are_always_served(configuration: str, host: str) -> None:
    assert decision(configuration, host) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "[fe80::1]", "0.0.0.0", ":80"],
)
def test_another_host_is_misdirected(host: str) -> None:
    assert decision(LOCAL, host) == 421
    assert decision(PUBLIC, host) == 421


def test_the_hosts_of_the_configuration_are_served() -> None:
    for host in ("ai.example.com", "AI.example.com:443", "ai.example.com.", "www.example.com"):
        assert decision(PUBLIC, host) == 200
    more = LOCAL + 'hosts = ["search.internal", "[fd00::1]"]\n'
    assert decision(more, "search.internal:80") == decision(more, "[FD00:0::1]") == 200
    assert decision(more, "internal") == 421


def test_probes_may_name_any_host() -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert decision(LOCAL, "10.1.2.3:8080", path=path) == 200
    assert decision(LOCAL, "10.1.2.3:8080", path="/healthz/x") == 421


def test_a_name_that_was_made_to_mean_loopback_reads_no_metrics() -> None:
    """DNS rebinding: a page of a site whose name resolves to this machine."""
    assert decision(LOCAL, "attacker.example:8080", path="/metrics") == 421
    assert decision(LOCAL, "attacker.example:8080", path="/healthz") == 200
    assert decision(PUBLIC, "prometheus.internal", path="/metrics") == 200


def test_a_request_without_a_host_is_served() -> None:
    assert decision(LOCAL, None) == 200  # HTTP/1.0, which no browser sends


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:8443", "http://app.localhost"]
)
def test_a_local_server_answers_local_pages(origin: str) -> None:
    assert decision(LOCAL, "localhost:8321", origin) == 200


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "",
        "file://",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example:8321",
        "http://localhost:3000, https://evil.example",
        "chrome-extension://localhost",
        "127.0.0.1:8321",
        "http://evil.example@localhost",
    ],
)
def test_a_local_server_answers_no_other_page(origin: str) -> None:
    if origin:
        assert decision(LOCAL, "localhost:8321", origin) == 403
        assert decision(LOCAL, "localhost:8321", origin, "/.well-known/ai-discovery") == 403
    else:
        assert decision(LOCAL, "localhost:8321", origin) == 200  # an empty field says nothing, as its absence does


def test_a_public_server_answers_every_page_unless_it_lists_them() -> None:
    assert decision(PUBLIC, "ai.example.com", "https://anyone.example") == 200
    listed = PUBLIC + 'cors_origins = ["https://app.example.com"]\n'
    assert decision(listed, "ai.example.com", "https://app.example.com") == 200
    assert decision(listed, "ai.example.com", "https://anyone.example") == 403
    assert decision(listed, "ai.example.com", "http://localhost:3000") == 403
    for own in ("https://ai.example.com", "https://www.example.com"):
        assert decision(listed, "ai.example.com", own) == 200


def test_a_page_of_the_server_itself_may_ask_by_any_of_its_hosts() -> None:
    listed = LOCAL + 'hosts = ["search.internal"]\ncors_origins = []\n'
    assert decision(listed, "search.internal:8321", "http://search.internal:8321") == 200
    assert decision(listed, "search.internal:8321", "http://search.internal") == 403
    assert decision(LOCAL, "evil.example", "http://evil.example") == 421


def test_null_is_an_origin_only_where_it_is_listed() -> None:
    assert decision(LOCAL + 'cors_origins = ["null"]\n', "localhost", "null") == 200


def test_a_star_may_be_asked_for_on_loopback() -> None:
    assert decision(LOCAL + 'cors_origins = ["*"]\n', "localhost", "https://anyone.example") == 200


def test_the_fields_of_cors_name_the_origin_that_may_read() -> None:
    local = WebOrigins(parse_settings(LOCAL))
    fields = dict(local.cors_fields(scope_of("localhost:8321", "http://localhost:3000")))
    assert fields[b"access-control-allow-origin"] == b"http://localhost:3000"
    assert b"X-Request-Id" in fields[b"access-control-expose-headers"]
    for origin in (None, "https://evil.example"):
        assert local.cors_fields(scope_of("localhost:8321", origin)) == [(b"vary", b"Origin")]
    public = dict(WebOrigins(parse_settings(PUBLIC)).cors_fields(scope_of("ai.example.com")))
    assert public[b"access-control-allow-origin"] == b"*"
    assert b"vary" not in public


@pytest.mark.parametrize("host", ["https://search.internal", "search.internal:80", "", "a b", "*"])
def test_a_host_of_the_configuration_is_a_bare_name(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"server\.hosts\[0\] must be a name or an address such as"):
        parse_settings(f'[server]\nhosts = ["{host}"]')
