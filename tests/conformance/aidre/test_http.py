"""AIDRE, draft-batum-aidre-00: representations, chunks, media types, caching, errors. Names begin with the section."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from tests.support.clients import AIDRE, COSINE, DOT, Client, a_document, fill, serving, vector_of
from tests.support.discovery import DISCOVERY, ERROR_MEMBERS, JSON, SPECIAL_IDS, ids, refused

PROBLEM = "application/problem+json"
CHUNK = "/chunks/rich%23chunk_1"
RICH = {"query": "sso setup", "top_k": 1}
DEFAULTS = {"id", "score", "relevance", "source", "metadata"}


def rich(client: Client, **returns: Any) -> dict[str, Any]:
    [result] = client.search({**RICH, "return": returns}).json()["results"]
    found: dict[str, Any] = result
    return found


def test_20_1_without_return_ids_and_metadata_come(client: Client) -> None:
    [result] = client.search(RICH).json()["results"]
    assert result == rich(client)
    assert set(result) == DEFAULTS


@pytest.mark.parametrize(
    ("field", "member", "default"),
    [
        ("ids", "id", True),
        ("metadata", "metadata", True),
        ("text", "text", False),
        ("semantic_payload", "semantic_payload", False),
    ],
)
def test_20_1_a_return_field_changes_exactly_its_member(client: Client, field: str, member: str, default: bool) -> None:
    assert set(rich(client, **{field: True})) == DEFAULTS | {member}
    assert set(rich(client, **{field: False})) == DEFAULTS - {member}
    assert set(rich(client, **{field: None})) == (DEFAULTS | {member} if default else DEFAULTS - {member})


def test_7_2_a_result_tells_where_it_comes_from(client: Client) -> None:
    result = rich(client, text=True, semantic_payload=True)
    assert result["id"] == "rich#chunk_1"
    assert result["source"] == {
        "url": "https://example.com/docs/sso",
        "title": "SSO Setup",
        "section": "Prerequisites",
    }
    assert result["text"] == "Şifre değişimi: 単一サインオン 😀 sso setup"
    assert result["semantic_payload"] == {"type": "application/semantic+json", "claims": [{"subject": "SSO"}]}
    metadata = result["metadata"]
    assert (metadata["topic"], metadata["canonical"], metadata["visibility"]) == ("sso", True, "public")
    assert metadata["updated_at"] == "2026-04-01T10:00:00Z"
    assert metadata["content_hash"] == "sha256:" + hashlib.sha256(result["text"].encode()).hexdigest()


def test_20_2_unknown_return_fields_are_ignored(client: Client) -> None:
    assert rich(client, zzz=True, other=5) == rich(client)


def test_20_2_what_is_not_granted_is_refused_by_name(client: Client) -> None:
    vectors = client.search({"query": "alpha", "return": {"vectors": True}})
    assert refused(vectors, 422, "unsupported_return_field") == {"field": "vectors"}
    text = client.search({"query": "alpha", "collection": "textless", "return": {"text": True}})
    assert refused(text, 422, "unsupported_return_field") == {"field": "text"}
    assert client.search({"query": "alpha", "return": {"vectors": False}}).status_code == 200
    assert client.search({"query": "alpha", "collection": "textless", "return": {"text": False}}).status_code == 200


def test_7_3_vectors_come_as_they_were_given_and_only_where_granted(client: Client) -> None:
    body = {"query_vector": [1, 0, 0, 0], "embedding_space": DOT.id, "collection": "textless"}
    assert "vectors" not in client.search(body).json()["results"][0]
    [result] = client.search({**body, "return": {"vectors": True}}).json()["results"]
    assert result["vectors"][DOT.id] == pytest.approx(vector_of("quiet").tolist())
    unit = vector_of("quiet") / np.linalg.norm(vector_of("quiet"))
    assert result["vectors"][COSINE.id] == pytest.approx(unit.tolist(), rel=2e-3), "this space is normalized"


def test_8_a_chunk_is_found_by_its_id(client: Client) -> None:
    chunk = client.get(CHUNK).json()
    result = rich(client, text=True, semantic_payload=True)
    stored = {name: value for name, value in result.items() if name not in {"score", "relevance"}}
    assert chunk == {**stored, "collection": "docs"}
    assert client.get("/chunks/quiet%23chunk_1").json().keys() == {"id", "collection", "source", "metadata"}


@pytest.mark.parametrize("document_id", SPECIAL_IDS)
def test_8_every_percent_encoding_of_an_id_is_understood(client: Client, document_id: str) -> None:
    chunk_id = f"{document_id}#chunk_1"
    everything = "".join(f"%{byte:02X}" for byte in chunk_id.encode())
    for path in {everything, everything.lower(), everything.replace("%2F", "/")}:
        raw = httpx.Request("GET", f"http://127.0.0.1:8000/chunks/{path}").url.raw_path.decode()
        assert raw == f"/chunks/{path}", "the client must not change what this test sends"
        assert client.get(raw).json()["id"] == chunk_id


@pytest.mark.parametrize("path", ["", "%FF", "doc_1%FF%23chunk_1", "doc_1", "doc_1%23chunk_2", "%", "%zz", "%00"])
def test_8_any_other_id_is_404(client: Client, path: str) -> None:
    assert refused(client.get(f"/chunks/{path}"), 404, "not_found") == {}


@pytest.mark.parametrize(
    "content_type", [AIDRE, JSON, f"{AIDRE}; charset=utf-8", 'Application/AIDRE+JSON;charset="UTF-8"']
)
def test_14_1_both_media_types_are_accepted(client: Client, content_type: str) -> None:
    assert ids(client.search({"query": "alpha"}, content_type=content_type))


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/xml", f"{JSON}; charset=latin-1", "application/*"]
)
def test_15_4_any_other_media_type_is_415(client: Client, content_type: str) -> None:
    response = client.post(b'{"query":"alpha"}', content_type=content_type)
    refused(response, 415, "unsupported_media_type")
    assert response.headers["accept"] == "application/aidre+json, application/json"


@pytest.mark.parametrize("algorithm", ["sha-256", "sha-512"])
def test_15_4_a_body_is_held_against_the_digest_that_was_sent_along(client: Client, algorithm: str) -> None:
    body = b'{"query": "alpha"}'
    right, wrong = (b64encode(hashlib.new(algorithm.replace("-", ""), sent).digest()) for sent in (body, body + b" "))
    for value, expected in [
        (f"{algorithm}=:{right.decode()}:", 200),
        (f"md5=:AAAA:, {algorithm}=:{right.decode()}:", 200),
        ("md5=:AAAA:", 200),
        ("no dictionary", 200),
    ]:
        assert client.post(body, content_digest=value).status_code == expected
    for value in (f"{algorithm}=:{wrong.decode()}:", f"md5=:AAAA:, {algorithm}=:{wrong.decode()}:", f"{algorithm}=::"):
        refused(client.post(body, content_digest=value), 400, "invalid_request")


def test_15_4_a_coded_body_is_415(client: Client) -> None:
    response = client.post(b'{"query":"alpha"}', content_encoding="gzip")
    refused(response, 415, "unsupported_media_type")
    assert response.headers["accept-encoding"] == "identity"


NEGOTIATED = [
    (None, AIDRE),
    ("*/*", AIDRE),
    ("application/*", AIDRE),
    (AIDRE, AIDRE),
    (f"{JSON}, {AIDRE};q=0.1", JSON),
    (f"{JSON};q=0.5, {AIDRE};q=0.6", AIDRE),
    (f"{JSON};q=0.6, {AIDRE};q=0.5", JSON),
    (f"{JSON}, {AIDRE}", AIDRE),
    (f"{JSON}, */*;q=0.1", JSON),
    (JSON, JSON),
    (f"{JSON}, {AIDRE};q=0", JSON),
    (f"*/*, {AIDRE};q=0", JSON),
    ("text/html, */*;q=0.1", AIDRE),
    ("text/html", None),
    ("application/*;q=0", None),
]


@pytest.mark.parametrize(("accept", "expected"), NEGOTIATED)
@pytest.mark.parametrize("path", ["/search", "/collections", "/collections/docs", CHUNK])
def test_14_1_the_representation_is_negotiated(client: Client, path: str, accept: str | None, expected: Any) -> None:
    headers = {"accept": accept} if accept is not None else {}
    response = client.search({"query": "alpha"}, **headers) if path == "/search" else client.get(path, headers)
    assert response.headers["vary"] == "Accept"
    if expected is None:
        refused(response, 406, "not_acceptable")
    else:
        assert (response.status_code, response.headers["content-type"]) == (200, expected)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, JSON),
        ("*/*", JSON),
        (JSON, JSON),
        (f"{AIDRE}, {JSON}", JSON),
        (f"{AIDRE}, {JSON};q=0.1", JSON),
        (AIDRE, AIDRE),
        (f"{AIDRE}, {JSON};q=0", AIDRE),
        ("text/html", JSON),
    ],
)
def test_3_2_discovery_is_application_json_wherever_that_is_acceptable(
    client: Client, accept: str | None, expected: str
) -> None:
    response = client.get(DISCOVERY, {"accept": accept} if accept is not None else {})
    assert (response.status_code, response.headers["content-type"]) == (200, expected)
    assert response.headers["vary"] == "Accept"


def test_14_2_bodies_are_utf_8(client: Client) -> None:
    response = client.search({**RICH, "query": "単一サインオン 😀 Şifre", "return": {"text": True}})
    assert "単一サインオン 😀".encode() in response.content
    for body in (
        b'{"query":"\xff"}',
        b"\xef\xbb\xbf{}",
        '{"query":"é"}'.encode("latin-1"),
        '{"query":"a"}'.encode("utf-16"),
    ):
        refused(client.post(body), 400, "invalid_request")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"query"', b"null", b"5", b'{"query":NaN}', b'{"query":"\\ud800"}']
)
def test_15_4_a_body_that_is_no_json_object_is_400(client: Client, body: bytes) -> None:
    refused(client.post(body), 400, "invalid_request")


def test_11_5_a_nesting_bomb_is_400(client: Client) -> None:
    for bomb in (b'{"query":' + b"[" * 9_000 + b"]" * 9_000 + b"}", b'{"a":' * 3_000):
        refused(client.post(bomb), 400, "invalid_request")


def test_11_5_limits_are_inclusive(client: Client) -> None:
    assert client.search({"query": "ş" * 100}).status_code == 200
    refused(client.search({"query": "ş" * 101}), 400, "invalid_request")
    body = b'{"query":"alpha","padding":"%b"}'
    fitting = body % (b"x" * (20_000 - len(body) + 2))
    assert len(fitting) == 20_000
    assert client.post(fitting).status_code == 200
    assert refused(client.post(fitting + b" "), 413, "payload_too_large") == {"limit": 20_000}


def test_11_5_a_chunked_body_is_not_read_to_its_end(client: Client) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 10_000_000:
            sent += 1_000
            yield b" " * 1_000

    refused(client.post(endless()), 413, "payload_too_large")
    assert sent < 100_000


def test_11_5_a_body_that_does_not_come_is_not_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.api.http.request.BODY_SECONDS", 0.01)

    async def stalled() -> AsyncIterator[bytes]:
        yield b'{"query":'
        await asyncio.Event().wait()

    response = client.post(stalled())
    refused(response, 408, "invalid_request")
    assert response.headers["connection"] == "close"


def test_9_chunks_say_hash_time_and_etag(client: Client) -> None:
    response = client.get(CHUNK)
    metadata = response.json()["metadata"]
    assert metadata["etag"] == response.headers["etag"]
    assert response.headers["last-modified"] == "Wed, 01 Apr 2026 10:00:00 GMT"
    assert "max-age" in response.headers["cache-control"]
    assert rich(client)["metadata"]["etag"] == metadata["etag"]


def test_15_3_etags_are_strong_and_differ_by_representation(client: Client) -> None:
    for path in (DISCOVERY, CHUNK):
        tags = [client.get(path, {"accept": accept}).headers["etag"] for accept in (AIDRE, JSON)]
        assert len(set(tags)) == 2
        assert all(tag.startswith('"') for tag in tags)
    plain = client.get(CHUNK, {"accept": JSON})
    assert plain.json()["metadata"]["etag"] == plain.headers["etag"]
    assert client.get("/collections").headers["etag"].startswith('W/"')
    assert client.get("/collections").headers["etag"] == client.get("/collections").headers["etag"]
    assert client.get(CHUNK).content == client.get(CHUNK).content


@pytest.mark.parametrize("path", [DISCOVERY, CHUNK, "/collections", "/collections/docs", "/openapi.json"])
def test_9_if_none_match_answers_304(client: Client, path: str) -> None:
    full = client.get(path)
    tag = full.headers["etag"]
    for wanted in (tag, f"W/{tag.removeprefix('W/')}", f'"other", {tag}', "*"):
        response = client.get(path, {"if-none-match": wanted, "if-modified-since": "Thu, 01 Jan 1970 00:00:00 GMT"})
        assert (response.status_code, response.content) == (304, b"")
        for name in ("etag", "cache-control", "vary", "x-request-id"):
            assert name not in full.headers or name in response.headers
        assert response.headers["etag"] == tag
    for wanted in ('"other"', tag.replace('"', ""), ""):
        headers = {"if-none-match": wanted, "if-modified-since": "Fri, 01 Jan 2038 00:00:00 GMT"}
        assert client.get(path, headers).status_code == 200


def test_9_if_modified_since_counts_without_if_none_match(client: Client) -> None:
    assert client.get(CHUNK, {"if-modified-since": "Wed, 01 Apr 2026 10:00:00 GMT"}).status_code == 304
    assert client.get(CHUNK, {"if-modified-since": "Wed, 01 Apr 2026 09:59:59 GMT"}).status_code == 200
    assert client.get(CHUNK, {"if-modified-since": "yesterday"}).status_code == 200


def test_9_what_is_dated_ahead_has_no_last_modified(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("ahead", "alpha", updated_at="2999-01-01T00:00:00Z")])
    with serving(tmp_path) as client:
        found = client.get("/chunks/ahead%23chunk_1")
        assert found.json()["metadata"]["updated_at"] == "2999-01-01T00:00:00Z"
        assert "last-modified" not in found.headers
        since = {"if-modified-since": "Tue, 01 Jan 2999 00:00:00 GMT"}
        assert client.get("/chunks/ahead%23chunk_1", since).status_code == 200


def test_9_search_is_not_conditional(client: Client) -> None:
    response = client.search({"query": "alpha"}, if_none_match="*")
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")


@pytest.mark.parametrize("path", [DISCOVERY, CHUNK, "/collections", "/healthz", "/openapi.json", "/nowhere"])
def test_15_1_head_is_get_without_a_body(client: Client, path: str) -> None:
    got, head = client.get(path), client.request("HEAD", path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    varying = {"x-request-id"}
    assert {k: v for k, v in head.headers.items() if k not in varying} == {
        k: v for k, v in got.headers.items() if k not in varying
    }


@pytest.mark.parametrize("path", ["/nowhere", "/search/", "/collections/docs/", "/chunks", f"{DISCOVERY}.json"])
def test_17_1_what_the_framework_refuses_has_the_envelope_too(client: Client, path: str) -> None:
    response = client.get(path)
    refused(response, 404, "not_found")
    assert (response.headers["content-type"], response.headers["vary"]) == (AIDRE, "Accept")
    wrong = client.request("POST", "/collections", headers={"accept": JSON})
    refused(wrong, 405, "method_not_allowed")
    assert (wrong.headers["allow"], wrong.headers["content-type"]) == ("GET, HEAD, OPTIONS", JSON)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (PROBLEM, PROBLEM),
        (f"{PROBLEM}, {JSON};q=0.5", PROBLEM),
        (f"{PROBLEM}, */*;q=0.5", PROBLEM),
        (f"{AIDRE}, {PROBLEM};q=0.9", AIDRE),
        ("*/*", AIDRE),
        (JSON, JSON),
        ("text/html", AIDRE),
    ],
)
def test_17_1_errors_are_problem_details_where_those_are_preferred(client: Client, accept: str, expected: str) -> None:
    response = client.get("/nowhere", {"accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (404, expected)
    body = response.json()
    assert body.keys() >= ERROR_MEMBERS
    if expected == PROBLEM:
        assert (body["type"], body["title"], body["status"]) == ("about:blank", "Not Found", 404)
        assert (body["detail"], body["instance"]) == (body["message"], f"urn:aidre:request:{body['request_id']}")


@pytest.mark.needs("segments")
def test_15_4_what_breaks_is_500_without_a_trace(client: Client, monkeypatch: Any, caplog: Any) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("in /home/secret/file.py")

    monkeypatch.setattr(Snapshot, "splice", broken)
    response = client.search({"query": "alpha"})
    assert refused(response, 500, "internal_error") == {}
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    assert "in /home/secret/file.py" in caplog.text, "the operator must see what the caller must not"


def test_12_errors_name_no_file_of_the_server(client: Client) -> None:
    answers = [client.search(body).text for body in ({}, {"query": "alpha", "collection": "../docs"}, {"query": 5})]
    answers += [client.get(path).text for path in ("/nowhere", "/chunks/x", "/collections/x", "/readyz", "/")]
    assert not any(str(client.store) in answer or ".py" in answer for answer in answers)


def test_15_cors_is_open_and_without_credentials(client: Client) -> None:
    asked = {"origin": "https://app.example.com", "access-control-request-method": "POST"}
    headers = {**asked, "access-control-request-headers": "content-type"}
    preflight = client.request("OPTIONS", "/search", headers=headers)
    assert preflight.status_code == 204
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-allow-headers"] == "content-type"
    for response in (preflight, client.search({"query": "alpha"}), client.search({}), client.get("/nowhere")):
        assert response.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in response.headers
    assert "X-Request-Id" in client.get(CHUNK).headers["access-control-expose-headers"]
    plain = client.request("OPTIONS", "/search")
    assert (plain.status_code, plain.headers["allow"]) == (204, "OPTIONS, POST")


def test_20_3_duplicate_members_do_not_confuse(client: Client) -> None:
    response = client.post(b'{"query":"beta","query":"word17","top_k":1}')
    assert ids(response) == ["doc_17#chunk_1"]
    assert json.loads(response.content)["meta"]["returned"] == 1
