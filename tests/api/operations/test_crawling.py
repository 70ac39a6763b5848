"""What crawlers and browsers read: robots.txt, the sitemap, OpenSearch and JSON-LD; of public collections alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.clients import Client, a_document, fill, serving

BASE = "http://127.0.0.1:8000"
CONFIGURATION = """
[server]
organization = "Salt & <sea>"
[collections.docs]
description = "About boats"
[collections.unseen]
visibility = "private"
"""
PATHS = ("/", "/robots.txt", "/sitemap.xml", "/opensearch.xml", "/catalog.jsonld", "/.well-known/api-catalog")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    urls = [f"{BASE}/a?x=1&y=2", f"{BASE}/b", "http://127.0.0.1:8001/other", "https://example.com/c", None]
    fill(path, "docs", [a_document(str(at), f"alpha {at}", url=url) for at, url in enumerate(urls)])
    fill(path, "unseen", [a_document("h", "alpha", url=f"{BASE}/unseen-page")])
    return path


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[Client]:
    with serving(store, CONFIGURATION) as shared:
        yield shared


def sitemap(client: Client) -> list[str]:
    answer = client.get("/sitemap.xml")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/xml")
    root = ElementTree.fromstring(answer.text)
    names = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9"}
    return [one.text or "" for one in root.findall("s:url/s:loc", names)]


def test_the_sitemap_has_the_documents_whose_addresses_are_ours(client: Client) -> None:
    assert sitemap(client) == [f"{BASE}/", f"{BASE}/a?x=1&y=2", f"{BASE}/b"]
    entry = re.search(r"<loc>[^<]*/b</loc><lastmod>([^<]+)</lastmod>", client.get("/sitemap.xml").text)
    assert entry is not None and entry[1][:2] == "20"


def test_the_sitemap_is_made_anew_where_the_documents_change(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "alpha", url=f"{BASE}/a")])
    with serving(tmp_path) as client:
        assert sitemap(client)[1:] == [f"{BASE}/a"]
        fill(tmp_path, "docs", [a_document("b", "beta", url=f"{BASE}/b")])
        client.app.state.retrieval.snapshots.refresh()
        assert f"{BASE}/b" in sitemap(client)


def test_robots_may_read_and_find_the_sitemap(client: Client) -> None:
    answer = client.get("/robots.txt")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert f"Sitemap: {BASE}/sitemap.xml" in answer.text.splitlines()


def test_a_browser_learns_how_to_search(client: Client) -> None:
    root = ElementTree.fromstring(client.get("/opensearch.xml").text)
    names = {"o": "http://a9.com/-/spec/opensearch/1.1/"}
    assert root.findtext("o:ShortName", "", names) == "Salt & <sea>"
    templates = {one.get("type"): one.get("template") for one in root.findall("o:Url", names)}
    assert templates["text/html"] == BASE + "/?q={searchTerms}"
    asked = str(templates["application/json"]).removeprefix(BASE).replace("{searchTerms}", "alpha")
    assert client.get(asked).json()["_meta"]["response_type"] == "answer"


def graph(client: Client) -> dict[str, Any]:
    answer = client.get("/catalog.jsonld")
    assert answer.headers["content-type"] == "application/ld+json"
    return {one["@type"]: one for one in answer.json()["@graph"]}


def test_the_catalog_has_the_site_and_its_public_collections(client: Client) -> None:
    found = graph(client)
    assert found["WebSite"]["potentialAction"]["target"] == BASE + "/?q={q}"
    [dataset] = found["DataCatalog"]["dataset"]
    assert (dataset["name"], dataset["description"]) == ("docs", "About boats")
    assert client.get(dataset["url"].removeprefix(BASE)).json()["name"] == "docs"
    assert client.get(dataset["distribution"][0]["contentUrl"].removeprefix(BASE)).status_code == 200


def test_the_page_has_the_site_as_json_ld(client: Client) -> None:
    page = client.get("/", {"accept": "text/html"}).text
    [data] = re.findall(r'<script type="application/ld\+json">(.*?)</script>', page, re.DOTALL)
    site = json.loads(data)
    assert (site["@type"], site["url"], site["hasPart"]["@type"]) == ("WebSite", BASE + "/", "DataCatalog")
    assert client.get("/" + site["hasPart"]["@id"]).status_code == 200


def test_a_private_collection_is_nowhere(client: Client) -> None:
    for path in PATHS:
        answer = client.get(path, {"accept": "text/html, */*;q=0.1"})
        assert answer.status_code == 200
        assert "unseen" not in answer.text, path


def test_a_copy_that_is_current_is_not_sent_again(client: Client) -> None:
    for path in PATHS:
        etag = client.get(path, {"accept": "text/html, */*;q=0.1"}).headers["etag"]
        assert client.get(path, {"accept": "text/html, */*;q=0.1", "if-none-match": etag}).status_code == 304, path
