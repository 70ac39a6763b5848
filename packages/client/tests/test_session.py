"""Discovery: templates, redirects, whom the key is sent to, and addresses that are not followed."""

from __future__ import annotations

import json

import pytest

import aidre_client
from aidre_client.session import expand
from aidre_client.verification import origin_of
from tests.support.fault_proxy import Asked, Fault, FaultyServer, Plan, answering, foreign
from tests.support.remote import connected


@pytest.mark.parametrize(
    ("template", "value", "expected"),
    [
        ("/chunks/{id}", "d#1", "/chunks/d%231"),
        ("/c?id={id}&x=1", "a b/ç&?=%2F~-._", "/c?id=a%20b%2F%C3%A7%26%3F%3D%252F~-._&x=1"),
        ("{id}{id}", "a", "aa"),
        ("/none", "a", "/none"),
        ("/{id}", "{id}", "/%7Bid%7D"),
        ("/{id}", "", "/"),
        ("/{id}{?collection}", "a", "/a"),
        ("/{?x,id,y}", "a b", "/?id=a%20b"),
    ],
)
def test_a_template_of_level_1_is_expanded(template: str, value: str, expected: str) -> None:
    assert expand(template, id=value) == expected


@pytest.mark.parametrize("template", ["/{+id}", "/{id*}", "/{name}", "/{id", "/{?id*}", "/{?}", "/{id,name}", "/{}"])
def test_a_template_of_another_level_is_unsupported(template: str) -> None:
    with pytest.raises(aidre_client.Unsupported):
        expand(template, id="1")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Example.com:443/a?b#c", "https://example.com"),
        ("http://example.com:8080", "http://example.com:8080"),
        ("http://[::1]:80/", "http://[::1]"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "url", ["example.com", "ftp://example.com", "http://", "http://h:x", "https://u:p@h", "http://h/?a=1", ""]
)
def test_an_address_that_is_none_is_invalid_input(url: str) -> None:
    with pytest.raises(aidre_client.InvalidInput):
        aidre_client.connect(url)


@pytest.mark.parametrize(
    "misuse",
    [{"verify": "always"}, {"embed": "never"}, {"trust": "here"}, {"key": "a\nb"}, {"key": "é"}, {"key": ""}],
)
def test_a_misuse_of_connect_is_invalid_input(misuse: dict[str, str]) -> None:
    with pytest.raises(aidre_client.InvalidInput):
        aidre_client.connect("http://127.0.0.1", **misuse)  # type: ignore[arg-type]


def test_nothing_is_asked_before_it_is_needed_and_nothing_after_the_end(proxy: FaultyServer) -> None:
    client = connected(proxy.url)
    docs = client.collection("docs")
    assert proxy.asked == []
    assert client.discovery.version == "1"
    client.close()
    with pytest.raises(aidre_client.Closed):
        docs.search("alpha")


def serving(documents: dict[str, object]) -> Plan:
    def plan(asked: Asked) -> Fault:
        found = documents.get(asked.target)
        if isinstance(found, Fault):
            return found
        return answering(404, b'{"error":"not_found"}') if found is None else answering(200, json.dumps(found).encode())

    return plan


WELL_KNOWN = "/.well-known/ai-discovery"


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (None, aidre_client.Missing),
        ([], aidre_client.RequestFailed),
        ({"service": "AIDRE"}, aidre_client.RequestFailed),
        ({"version": "1", "embedding_spaces": [{"id": "x"}]}, aidre_client.RequestFailed),
        ({"version": "1", "endpoints": {"search": "ftp://x"}}, aidre_client.RequestFailed),
    ],
)
def test_a_discovery_document_that_is_none_is_one_exception(
    document: object, kind: type[aidre_client.AidreError]
) -> None:
    with foreign(serving({WELL_KNOWN: document})) as proxy, connected(proxy.url) as client, pytest.raises(kind):
        _ = client.discovery


def test_the_discovery_document_is_at_the_root_or_else_below_the_path_of_the_url() -> None:
    documents: dict[str, object] = {
        "/ai" + WELL_KNOWN: {"version": "1", "endpoints": {"collections": "/ai/c"}},
        "/ai/c": {"collections": ["below"]},
        "/c": {"collections": ["root"]},
    }
    with foreign(serving(documents)) as proxy:
        for root in (None, answering(200, b"<html>", **{"Content-Type": "text/html"})):
            documents[WELL_KNOWN] = root
            with connected(f"{proxy.url}/ai/") as client:
                assert client.collections() == ["below"]
            with (
                connected(proxy.url) as client,
                pytest.raises(aidre_client.Missing, match="no discovery document: check the URL"),
            ):
                client.collections()
        documents[WELL_KNOWN] = {"version": "1", "endpoints": {"collections": "/c"}}
        with connected(f"{proxy.url}/ai") as client:
            assert client.collections() == ["root"]


def test_a_redirect_of_the_discovery_document_is_followed_without_the_key() -> None:
    with foreign(serving({"/moved": {"version": "1", "endpoints": {"collections": "/c"}}})) as other:
        moved = answering(301, b"", Location=f"{other.url}/moved")
        with foreign(serving({WELL_KNOWN: moved, "/c": {"collections": [{"name": "a"}]}})) as proxy:
            with connected(proxy.url, key="secret") as client:
                assert client.collections() == ["a"], "an address without a host is that of the origin"
            assert b"secret" not in other.asked[0].head
            assert all(b"Bearer secret" in asked.head for asked in proxy.asked)


def test_the_key_goes_to_the_endpoints_that_the_discovery_document_names() -> None:
    with foreign(serving({"/c": {"collections": []}})) as other:
        documents: dict[str, object] = {
            WELL_KNOWN: {"version": "1", "endpoints": {"collections": f"{other.url}/c", "nlweb": f"{other.url}/ask"}}
        }
        with foreign(serving(documents)) as proxy, connected(proxy.url, key="secret") as client:
            assert client.collections() == []
            assert b"Bearer secret" in other.asked[0].head


def test_the_key_shows_in_no_representation() -> None:
    client = aidre_client.connect("https://example.com", key="secret")
    session = client._session
    shown = [client, session, session.request("GET", "https://example.com/"), client.intent("id", "secret")._platform]
    assert "secret" not in repr(shown)


@pytest.mark.parametrize(
    "listed", [{"collections": [{"name": "a"}, {"other": 1}]}, [{"name": "a"}], ["a"], {"collections": ["a"]}]
)
def test_collections_are_listed_in_whatever_way_the_server_has(listed: object) -> None:
    documents: dict[str, object] = {
        WELL_KNOWN: {"version": "1", "endpoints": {"collections": "/c", "chunk": "/x/{id}"}},
        "/c": listed,
        "/x/1?collection=a": {"text": "t"},
    }
    with foreign(serving(documents)) as proxy, connected(proxy.url) as client:
        assert client.collections() == ["a"]
        chunk = client.collection("a").chunk("1")
        assert (chunk.id, chunk.text) == ("1", "t")


def test_redirects_end() -> None:
    documents: dict[str, object] = {}
    with foreign(serving(documents)) as proxy, connected(proxy.url) as client:
        documents[WELL_KNOWN] = answering(302, b"", Location=WELL_KNOWN)
        with pytest.raises(aidre_client.RequestFailed):
            _ = client.discovery
        assert len(proxy.asked) == 4


def test_an_address_without_encryption_is_not_followed_from_one_with() -> None:
    session = aidre_client.connect("https://example.com")._session
    assert session.allowed("/search") == "https://example.com/search"
    with pytest.raises(aidre_client.RequestFailed, match="not https"):
        session.allowed("http://example.com/search")


def test_a_wrong_key_is_access_denied(proxy: FaultyServer) -> None:
    with connected(proxy.url, key="wrong") as client, pytest.raises(aidre_client.AccessDenied) as caught:
        client.collections()
    assert (caught.value.code, caught.value.details["status"]) == ("access_denied", 401)
