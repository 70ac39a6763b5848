"""The metadata of the protected resources, at the addresses that challenges name."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from aidre.api.access.guard import RESOURCE_METADATA, metadata_url
from aidre.api.config.settings import OAuth, Settings, parse_settings
from aidre.api.operations.catalogs import metadata_document

SERVERS = {
    "plain": ('base_url = "https://ai.example.com"', "https://ai.example.com", ""),
    "path": ('base_url = "https://ai.example.com/a/b"', "https://ai.example.com", "/a/b"),
    "origin": (
        'base_url = "https://ai.example.com/a"\norigin = "https://www.example.com"',
        "https://www.example.com",
        "/a",
    ),
    "port": ('base_url = "http://127.0.0.1:8000"', "http://127.0.0.1:8000", ""),
}


def settings(server: str) -> Settings:
    return parse_settings(f'[server]\norganization = "The Example"\n{SERVERS[server][0]}\n')


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(("path", "resource"), [("/search", ""), ("/mcp", "/mcp"), ("/mcp/x", "")])
def test_a_challenge_leads_to_the_metadata_of_the_very_resource(server: str, path: str, resource: str) -> None:
    configured = settings(server)
    _, origin, prefix = SERVERS[server]
    where = metadata_url(configured, path)
    assert where == f"{origin}{RESOURCE_METADATA}{prefix}{resource}"
    found = metadata_document(configured, urlsplit(where).path.removeprefix(RESOURCE_METADATA))
    assert found is not None
    assert found["resource"] == f"{configured.server.base_url}{resource}"
    assert found["resource_name"] == "The Example"
    assert "authorization_servers" not in found


def test_the_issuer_is_where_tokens_come_from() -> None:
    oauth = OAuth("https://login.example.com", "https://ai.example.com", jwks="keys.json")
    found = metadata_document(replace(settings("plain"), oauth=oauth), "/mcp")
    assert found is not None
    assert found["authorization_servers"] == ["https://login.example.com"]
    assert found["bearer_methods_supported"] == ["header"]


@pytest.mark.parametrize("behind", ["/", "/x", "/mcp/", "//mcp", "mcp", "/a/b/c", "/MCP", "s"])
def test_other_paths_are_no_resources(behind: str) -> None:
    assert metadata_document(settings("path"), behind) is None
