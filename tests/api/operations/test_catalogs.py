"""Programs that know the address of the page alone find the rest: links, the catalog of interfaces, the server card."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients import AGENTS, Client, a_document, fill, serving

BASE = "http://127.0.0.1:8000"
HTML = {"accept": "text/html"}
LINK = re.compile(r'<([^>]+)>; rel="([^"]+)"; type="([^"]+)"')


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    fill(store, "docs", [a_document("a", "alpha")])
    with serving(store, f'[server]\norganization = "The press"\n{AGENTS}') as shared:
        yield shared


def local(url: str) -> str:
    assert url.startswith(BASE), url
    return url.removeprefix(BASE)


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_the_page_links_to_documents_of_the_types_that_it_says(client: Client, accept: str) -> None:
    links = LINK.findall(client.get("/", {"accept": accept}).headers["link"])
    assert {relation for _, relation, _ in links} >= {"service-meta", "service-desc", "describedby", "api-catalog"}
    for url, _, media_type in links:
        answer = client.get(local(url), {"accept": f"{media_type}, */*;q=0.1"})
        assert answer.status_code == 200, url
        assert answer.headers["content-type"].partition(";")[0] == media_type, url


def test_the_head_of_the_page_links_to_the_same(client: Client) -> None:
    page = client.get("/", HTML)
    elements = dict(re.findall(r'<link rel="([\w-]+)"(?: type="[^"]+")? href="([^"]+)">', page.text))
    header = {(relation, local(url)) for url, relation, _ in LINK.findall(page.headers["link"])}
    del elements["icon"]
    assert len(elements) >= 5
    assert {(relation, "/" + href.lstrip("/")) for relation, href in elements.items()} <= header


def test_the_catalog_lists_each_interface_and_what_describes_it(client: Client) -> None:
    answer = client.get("/.well-known/api-catalog")
    assert answer.headers["content-type"].startswith("application/linkset+json")
    assert 'rel="api-catalog"' in client.request("HEAD", "/.well-known/api-catalog").headers["link"]
    first, *others = answer.json()["linkset"]
    assert first["anchor"] == BASE + "/.well-known/api-catalog"
    assert [one["anchor"] for one in others] == [item["href"] for item in first["item"]]
    assert {item["title"] for item in first["item"]} >= {"AIDRE", "NLWeb", "Model Context Protocol", "Agent Intake"}
    for one in others:
        assert one.keys() == {"anchor", "service-desc", "service-doc", "service-meta"}
        for target in (*one["service-desc"], *one["service-doc"], *one["service-meta"]):
            assert client.get(local(target["href"]), {"accept": target["type"]}).status_code == 200, target


def test_the_server_card_has_the_address_and_the_versions_of_mcp(client: Client) -> None:
    [entry] = client.get("/.well-known/ai-catalog.json").json()["entries"]
    assert entry["url"] == BASE + "/mcp/server-card" and entry["identifier"].startswith("urn:air:")
    hosted = client.get(local(entry["url"]), {"accept": entry["type"]})
    assert hosted.headers["content-type"] == entry["type"] == "application/mcp-server-card+json"
    card = hosted.json()
    assert client.get("/.well-known/mcp/server-card.json").json() == card
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", card["name"])
    assert 1 <= len(card["description"]) <= 100
    [remote] = card["remotes"]
    assert (remote["type"], remote["url"]) == ("streamable-http", BASE + "/mcp")
    for version in remote["supportedProtocolVersions"][:-1]:
        begin = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
        assert client.request("POST", "/mcp", json=body).json()["result"]["protocolVersion"] == version


def test_without_a_collection_of_nlweb_there_is_no_card(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "alpha")])
    with serving(tmp_path, '[collections.docs]\nprotocols = ["aidre"]') as client:
        for path in ("/mcp/server-card", "/.well-known/mcp/server-card.json"):
            assert client.get(path).status_code == 404
        assert client.get("/.well-known/ai-catalog.json").json()["entries"] == []
        titles = [one["title"] for one in client.get("/.well-known/api-catalog").json()["linkset"][0]["item"]]
    assert titles == ["AIDRE"]
