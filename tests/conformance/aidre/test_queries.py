"""AIDRE, draft-batum-aidre-00: discovery, collections, queries and results. Names begin with the section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine.errors import ConfigurationError
from aidre.engine.model import Distance, EmbeddingSpace
from tests.support.clients import (
    AIDRE,
    BASE,
    COSINE,
    DOT,
    EUCLIDEAN,
    PLAIN,
    TEXT,
    Client,
    a_document,
    fill,
    serving,
    vector_of,
)
from tests.support.discovery import DISCOVERY, ids, refused


def test_3_1_discovery_is_a_json_object_at_the_well_known_path(client: Client) -> None:
    assert client.get(DISCOVERY).status_code == 200
    assert isinstance(client.get(DISCOVERY).json(), dict)


@pytest.mark.needs("words")
def test_3_1_published_addresses_are_https_or_loopback(client: Client) -> None:
    assert all(url.startswith(f"{BASE}/") for url in client.get(DISCOVERY).json()["endpoints"].values())
    with serving(client.store, '[server]\nbase_url = "https://ai.example.com/"') as beyond:
        assert beyond.get(DISCOVERY).json()["endpoints"] == {
            "search": "https://ai.example.com/search",
            "collections": "https://ai.example.com/collections",
            "changes": "https://ai.example.com/collections/{name}/changes",
            "chunk": "https://ai.example.com/chunks/{id}{?collection}",
            "suggest": "https://ai.example.com/collections/{name}/suggest",
            "profile": "https://ai.example.com/collections/{name}/profile",
            "browse": "https://ai.example.com/collections/{name}/browse",
            "query": "https://ai.example.com/collections/{name}/query",
            "count": "https://ai.example.com/collections/{name}/count",
            "nlweb": "https://ai.example.com/ask",
            "mcp": "https://ai.example.com/mcp",
        }
    with (
        pytest.raises(ConfigurationError),
        serving(client.store, '[server]\nbase_url = "http://ai.example.com"'),
    ):
        pass


def test_23_1_discovery_has_a_version(client: Client) -> None:
    document = client.get(DISCOVERY).json()
    assert document["version"] == "1"
    assert (document["service"], document["organization"]) == ("AIDRE", "Example")
    assert document["auth"] == {"type": "none"}


def test_19_1_every_space_says_what_makes_vectors_comparable(client: Client) -> None:
    spaces = client.get(DISCOVERY).json()["embedding_spaces"]
    assert sorted(space["id"] for space in spaces) == sorted(space.id for space in (TEXT, *PLAIN))
    declared = {space.id: space for space in (TEXT, *PLAIN)}
    for space in spaces:
        one = declared[space["id"]]
        assert (space["dimensions"], space["distance"], space["normalized"]) == (
            one.dimensions,
            one.distance,
            one.normalized,
        )
        assert {"provider", "model", "revision", "score"} <= space.keys()


def test_24_1_endpoints_resolve_on_the_running_server(client: Client) -> None:
    endpoints = client.get(DISCOVERY).json()["endpoints"]
    assert client.get(endpoints["collections"].removeprefix(BASE)).status_code == 200
    chunk = endpoints["chunk"].removeprefix(BASE).replace("{id}", "doc_1%23chunk_1")
    assert client.get(chunk.replace("{?collection}", "")).json()["id"] == "doc_1#chunk_1"
    chunk = chunk.replace("{?collection}", "?collection=docs")
    assert client.get(chunk).json()["id"] == "doc_1#chunk_1"
    body = {"query": "alpha"}
    path = endpoints["search"].removeprefix(BASE)
    assert client.request("POST", path, json=body, headers={"content-type": AIDRE}).status_code == 200


@pytest.mark.needs("lexical")
def test_24_1_vectors_are_no_capability_where_no_space_is(tmp_path: Path) -> None:
    with serving(tmp_path) as empty:
        assert empty.get(DISCOVERY).json()["capabilities"]["query_vector"] is False
    fill(tmp_path, "words", [a_document("a", "alpha")], ())
    with serving(tmp_path) as words:
        assert words.get(DISCOVERY).json()["capabilities"]["query_vector"] is False
        assert ids(words.search({"query": "alpha"})) == ["a#chunk_1"]
    fill(tmp_path, "vectors", [a_document("a", "alpha")], (COSINE,))
    with serving(tmp_path) as vectors:
        assert vectors.get(DISCOVERY).json()["capabilities"]["query_vector"] is True


@pytest.mark.needs("changes")
def test_24_1_capabilities_are_true(client: Client) -> None:
    stated = client.get(DISCOVERY).json()["capabilities"]
    everything = {"text": True, "semantic_payload": True}
    [rich] = client.search({"query": "sso setup", "top_k": 1, "return": everything}).json()["results"]
    vector = {"query_vector": [1, 0, 0, 0], "embedding_space": COSINE.id}
    vectors = client.search({"query": "alpha", "collection": "textless", "return": {"vectors": True}})
    assert stated == {
        "query_text": bool(ids(client.search({"query": "alpha"}))),
        "query_vector": bool(ids(client.search(vector))),
        "return_text": "text" in rich,
        "return_semantic_payload": "semantic_payload" in rich,
        "return_vectors": "vectors" in vectors.json()["results"][0],
        "delta_sync": bool(client.get("/collections/docs/changes").json()["changes"]),
        "filter": ids(client.search({"query": "alpha", "filter": {"n": 3}})) == ["doc_3#chunk_1"],
        "pagination": "next_cursor" in client.search({"query": "alpha", "top_k": 1}).json()["meta"],
    }


@pytest.mark.needs("hybrid")
def test_18_1_discovery_documents_defaults_and_limits(client: Client) -> None:
    document = client.get(DISCOVERY).json()
    assert (document["defaults"]["top_k"], document["limits"]["top_k"]) == (7, 20)
    assert (document["limits"]["query_chars"], document["limits"]["body_bytes"]) == (100, 20_000)
    assert (document["limits"]["results"], document["limits"]["cursor_seconds"]) == (1_000, 600)
    assert {"top_k", "return", "normalization", "pagination", "score"} <= document["behaviour"].keys()
    assert document["modes"] == ["hybrid", "dense", "lexical"]
    assert document["defaults"]["mode"] == "hybrid"


def test_11_6_what_is_private_is_nowhere(client: Client) -> None:
    listed = [item["name"] for item in client.get("/collections").json()["collections"]]
    assert listed == ["docs", "textless", "vectors"]
    assert not any(name in client.get(path).text for name in ("hidden", "shut") for path in (DISCOVERY, "/readyz"))
    unknown_chunk = refused(client.get("/chunks/nothing%23chunk_1"), 404, "not_found")
    for name, document in [("hidden", "secret"), ("shut", "shut"), ("elsewhere", "elsewhere")]:
        absent = refused(client.search({"query": "alpha", "collection": "absent"}), 404, "not_found")
        found = refused(client.search({"query": "alpha", "collection": name}), 404, "not_found")
        assert found == {**absent, "collection": name}
        assert refused(client.get(f"/collections/{name}"), 404, "not_found") == {"collection": name}
        assert refused(client.get(f"/chunks/{document}%23chunk_1"), 404, "not_found") == unknown_chunk
        narrowed = client.get(f"/chunks/{document}%23chunk_1?collection={name}")
        assert refused(narrowed, 404, "not_found") == {"collection": name}


def test_11_6_the_spaces_of_a_private_collection_are_unknown(tmp_path: Any) -> None:
    fill(tmp_path, "docs", [a_document("a", "alpha")])
    fill(tmp_path, "hidden", [a_document("b", "beta")], (DOT,), visibility="private")
    with serving(tmp_path) as client:
        assert DOT.id not in client.get(DISCOVERY).text
        body = {"query_vector": [1, 2, 3, 4], "embedding_space": DOT.id}
        assert refused(client.search(body), 422, "unsupported_embedding_space") == {"embedding_space": DOT.id}


def test_4_every_collection_says_what_it_is(client: Client) -> None:
    response = client.get("/collections")
    items = response.json()["collections"]
    assert response.json()["request_id"] == response.headers["x-request-id"]
    for item in items:
        assert item["description"] == f"About {item['name']}"
        assert item["visibility"] == "public"
        assert item["updated_at"].endswith("Z")
    [docs] = [item for item in items if item["name"] == "docs"]
    assert docs["document_count"] == docs["chunk_count"] > 40
    assert docs["embedding_spaces"] == [space.id for space in (TEXT, *PLAIN)]
    alone = client.get("/collections/docs").json()
    assert {name: value for name, value in alone.items() if name != "request_id"} == docs


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_6_1_search_is_post_alone(client: Client, method: str) -> None:
    response = client.request(method, "/search")
    refused(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "OPTIONS, POST"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": None, "query_vector": None},
        {"query": "alpha", "query_vector": [1, 0, 0, 0], "embedding_space": COSINE.id},
        {"query": "  \n"},
        {"query": ""},
        {"query": 5},
        {"query": ["alpha"]},
        {"query": "alpha", "collection": 5},
        {"query": "alpha", "embedding_space": 5},
        {"query": "alpha", "return": []},
        {"query": "alpha", "return": {"text": "yes"}},
        {"query": "alpha", "cursor": 5},
        {"query": "alpha", "mode": "fuzzy"},
        {"query": "alpha", "filter": {"n": {"near": 1}}},
        {"query": "alpha", "filter": []},
    ],
)
def test_5_1_a_malformed_request_is_400(client: Client, body: Any) -> None:
    refused(client.search(body), 400, "invalid_request")


def test_5_1_null_counts_as_absent(client: Client) -> None:
    names = ("query_vector", "embedding_space", "collection", "top_k", "return", "cursor", "filter", "mode")
    body = {"query": "alpha", **dict.fromkeys(names)}
    assert ids(client.search(body)) == ids(client.search({"query": "alpha"}))


def test_5_2_text_finds_what_is_nearest(client: Client) -> None:
    assert ids(client.search({"query": "word17", "top_k": 1})) == ["doc_17#chunk_1"]
    assert ids(client.search({"query": "word17", "embedding_space": TEXT.id, "top_k": 1})) == ["doc_17#chunk_1"]
    assert ids(client.search({"query": "word17", "mode": "dense", "top_k": 1})) == ["doc_17#chunk_1"]


@pytest.mark.needs("lexical")
def test_5_2_text_without_a_model_is_answered_by_its_words(client: Client) -> None:
    body = client.search({"query": "vector 3", "collection": "vectors"}).json()
    assert body["results"][0]["id"] == "v3#chunk_1"
    assert body["meta"]["mode"] == "lexical"
    assert "embedding_space" not in body["meta"]
    for mode in ("dense", "hybrid"):
        response = client.search({"query": "alpha", "collection": "vectors", "mode": mode})
        refused(response, 422, "invalid_request")
        assert "lexical does not" in response.json()["message"]
    named = client.search({"query": "alpha", "embedding_space": DOT.id})
    assert refused(named, 422, "unsupported_embedding_space") == {"embedding_space": DOT.id}


def test_5_3_a_vector_needs_its_space(client: Client) -> None:
    details = refused(client.search({"query_vector": [1, 0, 0, 0]}), 400, "invalid_request")
    assert details == {"missing": ["embedding_space"]}
    body = {"query_vector": [1, 0, 0, 0], "embedding_space": "nowhere"}
    assert refused(client.search(body), 422, "unsupported_embedding_space") == {"embedding_space": "nowhere"}


@pytest.mark.parametrize("length", [0, 3, 5, 1_000])
def test_19_2_wrong_dimension_is_422(client: Client, length: int) -> None:
    body = {"query_vector": [0.5] * length, "embedding_space": EUCLIDEAN.id}
    assert refused(client.search(body), 422, "invalid_embedding_dimension") == {
        "embedding_space": EUCLIDEAN.id,
        "expected_dimensions": 4,
        "actual_dimensions": length,
    }


QUERY = np.array([0.3, -1.2, 0.8, 2.0], np.float32)


def scores(space: Any, query: Any) -> dict[str, float]:
    """Every score of a space by brute force."""
    found = {}
    for number in range(40):
        vector = vector_of(f"doc_{number}").astype(np.float64)
        if space is COSINE:
            score = vector @ query / np.linalg.norm(vector) / np.linalg.norm(query)
        else:
            score = vector @ query if space is DOT else -np.linalg.norm(vector - query)
        found[f"doc_{number}#chunk_1"] = float(score)
    return found


@pytest.mark.parametrize("space", PLAIN, ids=lambda space: space.distance)
@pytest.mark.parametrize("scale", [1.0, 7.5])
def test_19_3_ranking_is_that_of_the_declared_distance(client: Client, space: Any, scale: float) -> None:
    query = QUERY * scale
    body = {"query_vector": query.tolist(), "embedding_space": space.id, "top_k": 20, "filter": {"n": {"exists": True}}}
    results = client.search(body).json()["results"]
    expected = scores(space, query)
    assert [result["id"] for result in results] == sorted(expected, key=lambda id: (-expected[id], id))[:20]
    for result in results:
        assert result["score"] == pytest.approx(expected[result["id"]], rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("distance", ["dot", "euclidean"])
def test_19_4_discovery_says_where_queries_are_normalised(tmp_path: Path, distance: Distance) -> None:
    space = EmbeddingSpace(f"test:unit:4:{distance}", 4, distance, normalized=True)
    fill(tmp_path, "docs", [a_document(f"d{n}", f"alpha {n}") for n in range(5)], (space,))
    with serving(tmp_path) as client:
        stated = client.get(DISCOVERY).json()["behaviour"]["normalization"]
        assert "where the distance is cosine or the space says normalized" in stated
        once, twice = (
            client.search({"query_vector": [n, 0, -n, n], "embedding_space": space.id}).json()["results"]
            for n in (1, 2)
        )
        assert once == twice
        zero = client.search({"query_vector": [0, 0, 0, 0], "embedding_space": space.id})
        refused(zero, 422, "invalid_request")


def test_19_4_cosine_queries_are_normalised_and_zero_is_refused(client: Client) -> None:
    body = {"embedding_space": COSINE.id, "top_k": 20}
    short = client.search({**body, "query_vector": QUERY.tolist()}).json()["results"]
    long = client.search({**body, "query_vector": (QUERY * 1_000).tolist()}).json()["results"]
    assert [result["id"] for result in short] == [result["id"] for result in long]
    refused(client.search({**body, "query_vector": [0, 0, 0, 0]}), 422, "invalid_request")
    assert ids(client.search({"embedding_space": DOT.id, "query_vector": [0, 0, 0, 0]}))


@pytest.mark.parametrize("item", [3.4e38, -3.4e38, 1e19])
def test_11_5_a_vector_too_long_for_its_space_is_422_and_no_warning(client: Client, item: float) -> None:
    refused(client.search({"query_vector": [item] * 4, "embedding_space": COSINE.id}), 422, "invalid_request")


@pytest.mark.parametrize("item", ["1.0", None, True, [1.0], {}, 1e39, -1e300])
def test_11_5_what_is_no_number_in_a_vector_is_400(client: Client, item: Any) -> None:
    body = {"query_vector": [1.0, item, 0.0, 0.0], "embedding_space": COSINE.id}
    refused(client.search(body), 400, "invalid_request")


def test_11_5_a_vector_that_is_no_list_is_400(client: Client) -> None:
    for wrong in ({"a": 1}, "1,2,3,4", 1.5, True):
        refused(client.search({"query_vector": wrong, "embedding_space": COSINE.id}), 400, "invalid_request")


def test_18_1_top_k_has_a_default_and_a_maximum(client: Client) -> None:
    response = client.search({"query": "alpha"})
    assert (len(ids(response)), response.json()["meta"]["top_k"]) == (7, 7)
    assert "top_k_requested" not in response.json()["meta"]
    for asked in (21, 2**40, 10**25):
        response = client.search({"query": "alpha", "top_k": asked})
        assert (len(ids(response)), response.json()["meta"]["top_k"]) == (20, 20)
        assert response.json()["meta"]["top_k_requested"] == pytest.approx(asked)
    assert len(ids(client.search({"query": "alpha", "top_k": 20}))) == 20
    assert len(ids(client.search({"query": "alpha", "top_k": 1}))) == 1


@pytest.mark.parametrize("top_k", [0, -1, -(10**25), -5.0, 0.0, 5.0, 5.5, "5", True, [5]])
def test_18_1_top_k_is_a_positive_whole_number(client: Client, top_k: Any) -> None:
    refused(client.search({"query": "alpha", "top_k": top_k}), 400, "invalid_request")


def test_16_1_the_response_has_its_envelope(client: Client) -> None:
    response = client.search({"query": "alpha beta"})
    body = response.json()
    assert body["request_id"] == response.headers["x-request-id"]
    assert body["collection"] == "docs"
    assert body["meta"]["returned"] == len(body["results"])
    order = [(-result["score"], result["id"]) for result in body["results"]]
    assert order == sorted(order)
    assert len({score for score, _ in order}) < len(order), "ties are part of this test"


def test_16_1_no_match_is_an_empty_array(client: Client) -> None:
    response = client.search({"query": "alpha", "filter": {"n": 10**6}})
    assert response.status_code == 200
    assert response.json()["results"] == []
    assert response.json()["meta"]["returned"] == 0
    assert "next_cursor" not in response.json()["meta"]


def test_16_3_request_ids_are_unique_on_every_response(client: Client) -> None:
    etag = client.get(DISCOVERY).headers["etag"]
    responses = [client.get(DISCOVERY, {"if-none-match": etag}) for _ in range(20)]
    responses += [client.search({"query": "alpha"}) for _ in range(20)] + [client.search({}) for _ in range(20)]
    responses += [client.get(path) for path in ("/", "/healthz", "/readyz", "/openapi.json", "/nowhere")]
    responses += [client.request("HEAD", DISCOVERY), client.request("OPTIONS", "/search")]
    assert {response.status_code for response in responses} == {200, 204, 304, 400, 404}
    assert len({response.headers["x-request-id"] for response in responses}) == len(responses)


def test_20_3_unknown_request_members_are_ignored(client: Client) -> None:
    assert ids(client.search({"query": "alpha", "zzz": {"a": 1}})) == ids(client.search({"query": "alpha"}))
