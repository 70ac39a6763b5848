"""AIDRE 11.4, signed provenance: what a publisher signs and where a client finds the keys, by other people's libraries.

The specification asks a deployment to define what is signed (`test_what_is_signed_*`), which keys are authoritative,
how they are discovered, how long signatures live and how keys rotate, and what holds when one does not verify.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from http_message_signatures import InvalidSignature

from aidre.api.protocols.provenance.keys import make_key
from aidre.engine.errors import ConfigurationError
from tests.support.clients import AIDRE, BASE, Client, a_document, fill, serving
from tests.support.discovery import DISCOVERY
from tests.support.signatures import Received, verified_answer, verified_chunk

KEYS = "/.well-known/aidre-keys.json"
CHUNK = "/chunks/doc%231%23chunk_1"
SIGNED = {"content-digest", "signature-input", "signature"}
MONTH = 30 * 86_400
PUBLISHER = """
[limits]
body_bytes = 2_000
[intent]
enabled = true
[intent.editorial_domains.all]
collection = "docs"
[intent.keys]
platform = "test-secret-0123456789abcdef"
[[intakes]]
id = "find"
name = "Find"
description = "Find a text."
category = "search/text"
offer_type = "matched"
collection = "docs"
query = "{need}"
[intakes.input_schema]
type = "object"
[intake]
bind_key = "a bind key that the tests know"
"""


def configured(key: Path, *lines: str) -> str:
    return "\n".join(["[provenance]", f'key = "{key}"', *lines])


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "provenance.pem"
    make_key(path, time.time())
    return path


@pytest.fixture(scope="module")
def articles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of what is signed, with addresses and without."""
    path = tmp_path_factory.mktemp("store")
    documents = [a_document(f"doc#{n}", f"alpha word{n}", url=f"https://example.com/ä?n={n}") for n in range(3)]
    fill(path, "docs", [*documents, a_document("bare", "alpha, of no address")])
    return path


@pytest.fixture(scope="module")
def publisher(articles: Path, key: Path) -> Iterator[Client]:
    """A server of every protocol that signs what it answers."""
    with serving(articles, configured(key) + PUBLISHER) as client:
        yield client


def declared(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get(DISCOVERY).json()["provenance"]
    return found


def published(client: Client) -> bytes:
    """The keys, from where the discovery document says they are."""
    return client.get(declared(client)["jwks_uri"].removeprefix(BASE)).content


# -- what is signed --------------------------------------------------------------------------------------------------

REQUESTS: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", DISCOVERY, {}, 200),
    ("GET", KEYS, {}, 200),
    ("GET", "/", {}, 200),
    ("GET", "/healthz", {}, 200),
    ("GET", "/openapi.json", {}, 200),
    ("GET", "/collections", {}, 200),
    ("GET", "/collections/docs", {"headers": {"accept": "application/json"}}, 200),
    ("GET", "/collections/docs/changes?limit=1&limit=2", {}, 200),
    ("GET", CHUNK, {}, 200),
    ("GET", f"{CHUNK}?collection=docs&x=%C3%A4%2f", {}, 200),
    ("POST", "/search", {"json": {"query": "alpha"}, "headers": {"content-type": AIDRE}}, 200),
    ("POST", "/search", {"json": {}, "headers": {"content-type": AIDRE}}, 400),
    ("POST", "/search", {"content": b"x" * 3_000, "headers": {"content-type": AIDRE}}, 413),
    ("POST", "/search", {"json": {}, "headers": {"content-type": "text/plain"}}, 415),
    ("GET", "/collections", {"headers": {"accept": "text/html"}}, 406),
    ("GET", "/search", {}, 405),
    ("GET", "/nowhere/%20//", {}, 404),
    ("GET", "/chunks/nothing", {}, 404),
    ("GET", "/chunks/%FF", {}, 404),
    ("POST", "/ask", {"json": {"query": {"text": "alpha"}}}, 200),
    ("POST", "/ask", {"json": {}}, 400),
    ("GET", "/sites", {}, 200),
    ("POST", "/mcp", {"content": b"{", "headers": {"content-type": "application/json"}}, 400),
    ("GET", "/.well-known/aip.json", {}, 200),
    ("POST", "/aip/retrieve", {"json": {}}, 401),
    ("GET", "/.well-known/agent-intake.json", {}, 200),
    ("POST", "/intakes/none", {"json": {}}, 404),
]


@pytest.mark.needs("changes")
@pytest.mark.parametrize(("method", "path", "options", "status"), REQUESTS)
def test_what_is_signed_is_every_answer_with_a_body(
    publisher: Client, method: str, path: str, options: dict[str, Any], status: int
) -> None:
    response = publisher.request(method, path, **options)
    assert response.status_code == status, response.text
    received = Received.of(response, BASE + path)
    result = verified_answer(received, published(publisher))
    assert int(result.parameters["expires"]) - int(result.parameters["created"]) == 300
    with pytest.raises(InvalidSignature):
        verified_answer(Received.of(response, BASE + path + "&"), published(publisher))


def test_what_is_signed_of_a_chunk_is_what_its_answer_says(publisher: Client, key: Path) -> None:
    chunk = publisher.get(CHUNK).json()
    header, claims = verified_chunk(chunk["metadata"]["provenance"], published(publisher))
    assert header["typ"] == declared(publisher)["typ"] == "aidre-provenance+jws"
    assert header["alg"] == declared(publisher)["alg"] == "Ed25519"
    issued = claims.pop("iat")
    assert int(key.stat().st_mtime) <= issued <= time.time()
    assert claims == {
        "iss": BASE,
        "sub": chunk["id"],
        "collection": "docs",
        "content_hash": "sha256:" + hashlib.sha256(chunk["text"].encode()).hexdigest(),
        "source_url": chunk["source"]["url"],
        "updated_at": chunk["metadata"]["updated_at"],
        "exp": issued + MONTH,
    }
    bare = publisher.get("/chunks/bare%23chunk_1").json()
    assert verified_chunk(bare["metadata"]["provenance"], published(publisher))[1]["source_url"] is None


def test_what_is_not_signed_has_no_content_or_no_end(publisher: Client) -> None:
    etag = publisher.get(CHUNK).headers["etag"]
    for response in (
        publisher.request("HEAD", CHUNK),
        publisher.get(CHUNK, {"if-none-match": etag}),
        publisher.request("OPTIONS", "/search"),
        publisher.request(
            "POST", "/ask", json={"query": {"text": "alpha"}, "prefer": {"streaming": True}}, headers={"accept": "*/*"}
        ),
    ):
        assert not SIGNED & response.headers.keys()


@pytest.mark.parametrize("path", [DISCOVERY, KEYS, "/", "/collections", CHUNK, "/chunks/nothing", "/aip/retrieve"])
def test_what_is_signed_must_not_be_transformed_on_its_way(publisher: Client, path: str) -> None:
    response = publisher.get(path)
    assert "content-digest" in response.headers
    [field] = response.headers.get_list("cache-control")
    directives = field.split(", ")
    assert directives.count("no-transform") == 1
    etag = response.headers.get("etag")
    if etag is not None:
        unchanged = publisher.get(path, {"if-none-match": etag})
        assert (unchanged.status_code, unchanged.headers["cache-control"]) == (304, field)


def test_signatures_can_be_read_by_pages_of_other_origins(publisher: Client) -> None:
    exposed = publisher.get(CHUNK).headers["access-control-expose-headers"].lower().split(", ")
    assert set(exposed) >= SIGNED


def test_the_etag_of_a_signed_chunk_is_weak_and_stands_in_its_metadata(publisher: Client) -> None:
    response = publisher.get(CHUNK)
    etag = response.headers["etag"]
    assert etag.startswith('W/"')
    assert response.json()["metadata"]["etag"] == etag
    found = publisher.search({"query": "alpha", "top_k": 10}).json()["results"]
    assert etag in [result["metadata"]["etag"] for result in found]
    assert all("provenance" not in result["metadata"] for result in found)
    assert publisher.get(CHUNK, {"if-none-match": etag}).status_code == 304
    assert publisher.get(CHUNK, {"if-none-match": etag.removeprefix("W/")}).status_code == 304


def test_without_a_key_nothing_is_signed_or_said_of_it(articles: Path) -> None:
    with serving(articles) as client:
        response = client.get(CHUNK)
        assert not SIGNED & response.headers.keys()
        assert response.headers["etag"].startswith('"')
        assert "provenance" not in response.json()["metadata"]
        assert "provenance" not in client.get(DISCOVERY).json()
        assert client.get(KEYS).status_code == 404
        assert KEYS not in client.get("/openapi.json").json()["paths"]


# -- which keys are authoritative, and how they are found ------------------------------------------------------------


def test_the_keys_are_those_on_the_publishers_origin(articles: Path, key: Path) -> None:
    configuration = '[server]\nbase_url = "https://ai.example.com/x"\norigin = "https://example.com"\n'
    with serving(articles, configuration + configured(key)) as client:
        declaration = declared(client)
        assert declaration["issuer"] == "https://example.com"
        assert declaration["jwks_uri"] == f"https://example.com{KEYS}"
        response = client.get(CHUNK)
        document = client.get(KEYS).content
        assert verified_chunk(response.json()["metadata"]["provenance"], document)[1]["iss"] == "https://example.com"
        verified_answer(Received.of(response, f"https://ai.example.com/x{CHUNK}"), document)
        with pytest.raises(InvalidSignature):
            verified_answer(Received.of(response, f"https://ai.example.com{CHUNK}"), document)


def test_the_document_of_keys_is_public_and_can_be_kept_for_a_while(publisher: Client) -> None:
    response = publisher.get(KEYS)
    assert response.headers["content-type"] == "application/jwk-set+json"
    assert response.headers["cache-control"] == "max-age=300, no-transform"
    assert all(key.keys() == {"kty", "crv", "x", "kid", "alg", "use"} for key in response.json()["keys"])
    assert publisher.get(KEYS, {"if-none-match": response.headers["etag"]}).status_code == 304
    refused = publisher.request("POST", KEYS)
    assert (refused.status_code, refused.json()["error"]) == (405, "method_not_allowed")


def test_what_is_declared_is_what_is_sent(publisher: Client) -> None:
    said = declared(publisher)["responses"]
    response = publisher.get(CHUNK)
    label, _, rest = response.headers["signature-input"].partition("=")
    assert label == said["label"]
    assert re.findall(r'"[^"]+"(?:;req)?', rest.partition(")")[0]) == said["components"]
    assert f';alg="{said["alg"]}";tag="{said["tag"]}"' in rest


@pytest.mark.parametrize("name", ["Ed25519", "EdDSA"])
def test_the_algorithm_has_the_name_that_the_configuration_chooses(articles: Path, key: Path, name: str) -> None:
    with serving(articles, configured(key, f'alg = "{name}"')) as client:
        document = published(client)
        assert declared(client)["alg"] == name
        assert {one["alg"] for one in json.loads(document)["keys"]} == {name}
        assert declared(client)["responses"]["alg"] == "ed25519"
        response = client.get(CHUNK)
    verified_answer(Received.of(response, BASE + CHUNK), document)
    header, _ = verified_chunk(response.json()["metadata"]["provenance"], document)
    assert header["alg"] == name


def test_pyjwt_verifies_chunks_that_are_signed_as_eddsa(articles: Path, key: Path) -> None:
    with serving(articles, configured(key, 'alg = "EdDSA"')) as client:
        [public] = jwt.PyJWKSet.from_json(published(client).decode()).keys
        chunk = client.get(CHUNK).json()
    claims = jwt.decode(chunk["metadata"]["provenance"], public, algorithms=["EdDSA"], issuer=BASE)
    assert claims["sub"] == chunk["id"]


# -- how long signatures live, and rotation --------------------------------------------------------------------------


def test_after_rotation_what_was_signed_before_still_verifies(articles: Path, tmp_path: Path) -> None:
    key = tmp_path / "keys.pem"
    make_key(key, time.time())
    with serving(articles, configured(key)) as client:
        former = client.get(CHUNK)
        made = make_key(key, time.time())
        ring = client.app.state.provenance.ring
        ring.refresh()
        document = published(client)
        assert json.loads(document)["keys"][0]["kid"] == made.id
        ring.signing = ring.keys.signing  # as it does by itself, some seconds later
        now = client.get(CHUNK, {"if-none-match": former.headers["etag"]})
    assert now.status_code == 200, "a client must get the new signature"
    for response in (former, now):
        verified_answer(Received.of(response, BASE + CHUNK), document)
        verified_chunk(response.json()["metadata"]["provenance"], document)
    assert verified_chunk(now.json()["metadata"]["provenance"], document)[0]["kid"] == made.id


def test_the_lifetime_is_that_of_the_configuration(articles: Path, key: Path) -> None:
    with serving(articles, configured(key, 'lifetime = "1h"')) as client:
        assert declared(client)["lifetime_seconds"] == 3_600
        token = client.get(CHUNK).json()["metadata"]["provenance"]
        claims = verified_chunk(token, published(client))[1]
        assert claims["exp"] - claims["iat"] == 3_600
        assert client.get(CHUNK).json()["metadata"]["provenance"] == token


@pytest.mark.parametrize("lifetime", ["1s", "0s", "31d"])
def test_a_lifetime_that_keys_would_not_outlast_is_refused(articles: Path, key: Path, lifetime: str) -> None:
    with (
        pytest.raises(ConfigurationError, match=r"provenance\.lifetime"),
        serving(articles, configured(key, f'lifetime = "{lifetime}"')),
    ):
        pass


def test_a_key_that_is_not_there_is_said_before_anything_is_served(articles: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="aidre keys new --provenance"),
        serving(articles, configured(tmp_path / "none.pem")),
    ):
        pass


def test_a_signed_chunk_is_not_confirmed_by_its_date_alone(publisher: Client) -> None:
    later = {"if-modified-since": "Fri, 01 Jan 2100 00:00:00 GMT"}
    assert publisher.get(CHUNK, later).status_code == 200


@pytest.mark.parametrize(("lifetime", "kept"), [("3s", 0), ("90s", 22), ("1h", 60)])
def test_a_cache_does_not_keep_a_chunk_longer_than_its_signature_is_good(
    articles: Path, key: Path, lifetime: str, kept: int
) -> None:
    with serving(articles, configured(key, f'lifetime = "{lifetime}"')) as client:
        assert client.get(CHUNK).headers["cache-control"] == f"max-age={kept}, must-revalidate, no-transform"
