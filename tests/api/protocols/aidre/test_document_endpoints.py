"""Writing documents over HTTP: who may, what is answered, and what a server without it says."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from aidre.api.config.settings import parse_settings
from aidre.api.http import Unavailable
from aidre.api.writing import IdempotencyKeys
from aidre.engine.errors import ConfigurationError
from tests.support.clients import TEXT, Client, a_document, fill, serving

SECRETS = {"writer": "w" * 32, "limited": "l" * 32, "pure": "p" * 32, "reader": "r" * 32}
SCOPES = {
    "writer": '["search", "write"]',
    "limited": '["search", "write"]',
    "pure": '["write"]',
    "reader": '["search"]',
}
COLLECTIONS = {"limited": '["hidden"]'}


def configuration(writes: str = "true") -> str:
    keys = "".join(
        f"""
[[keys]]
name = "{name}"
sha256 = "{hashlib.sha256(secret.encode()).hexdigest()}"
collections = {COLLECTIONS.get(name, "[]")}
scopes = {SCOPES[name]}
"""
        for name, secret in SECRETS.items()
    )
    return f"""
[server]
writes = {writes}
[limits]
write_bytes = 10_000
[[spaces]]
id = "{TEXT.id}"
dimensions = 64
distance = "cosine"
normalized = true
provider = "aidre"
model = "hashing"
[collections.new]
spaces = ["{TEXT.id}"]
[collections.hidden]
visibility = "private"
{keys}
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    fill(store, "docs", [a_document("a", "alpha")])
    fill(store, "hidden", [a_document("a", "alpha")])
    with serving(store, configuration()) as shared:
        yield shared


def call(
    client: Client, method: str, path: str, body: Any = None, key: str | None = "writer", **headers: str
) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if key is not None:
        named["authorization"] = f"Bearer {SECRETS[key]}"
    if body is not None:
        named.setdefault("content-type", "application/json")
    content = body if isinstance(body, bytes | None) else orjson.dumps(body)
    response = client.request(method, path, content=content, headers=named)
    client.refresh()
    return response


def put(client: Client, *rows: Any, collection: str = "docs", **options: Any) -> httpx.Response:
    return call(client, "PUT", f"/collections/{collection}/documents", list(rows), **options)


def row(document_id: str, text: str = "some words", **members: Any) -> dict[str, Any]:
    return {"id": document_id, "text": text, **members}


def test_what_is_answered_is_found(client: Client) -> None:
    answer = put(client, row("b", "a walrus in the bath"), row("c", "a quiet house"))
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert (body["documents"], body["written"], body["unchanged"]) == (2, 2, 0)
    assert body["generation"] <= client.app.state.retrieval.snapshots.collections["docs"].snapshot.generation
    found = client.search({"query": "walrus", "collection": "docs", "mode": "lexical"}).json()
    assert [hit["id"] for hit in found["results"]] == ["b#chunk_1"]


def test_rows_may_come_one_a_line(client: Client) -> None:
    lines = b"\n".join(orjson.dumps(row(f"line/{number}")) for number in range(3))
    answer = call(client, "PUT", "/collections/docs/documents", lines, content_type="application/x-ndjson")
    assert answer.json()["documents"] == 3
    assert client.get("/chunks/line%2F2%23chunk_1").status_code == 200


def test_documents_are_deleted_by_id_and_by_filter(client: Client) -> None:
    put(client, row("x/1", price=1), row("x/2", price=2), row("x/3", price=3))
    assert call(client, "DELETE", "/collections/docs/documents/x%2F1").json()["deleted"] == 1
    assert client.get("/chunks/x%2F1%23chunk_1").status_code == 404
    answer = call(client, "POST", "/collections/docs/documents/delete", {"filter": {"price": {"gte": 2}}})
    assert answer.json()["deleted"] == 2


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"filter": {"text": {"ne": "a"}}, "allow_unknown": True}, "mode lexical"),
        ({"filter": {"sku": {"ne": "a"}}}, "allow_unknown"),
        ({"filter": {"sku": {"ne": "a"}}, "allow_unknown": None}, "allow_unknown"),
        ({"filter": {"sku": {"ne": "a"}}, "allow_unknown": False}, "allow_unknown"),
        ({"filter": {"id": {"nin": [1]}}}, "strings"),
        ({"filter": {"title": {"ne": "Keep"}}, "allow_unknown": True}, "metadata.title"),
        ({"filter": {"document_id": "none"}, "allow_unknown": 1}, "allow_unknown must be true or false"),
    ],
)
def test_a_deletion_that_could_take_what_it_seems_to_spare_is_refused(
    client: Client, members: dict[str, Any], words: str
) -> None:
    put(client, row("ambiguous", metadata={"title": "x"}))
    before = client.app.state.retrieval.snapshots.collections["docs"].snapshot.documents
    answer = call(client, "POST", "/collections/docs/documents/delete", members)
    call(client, "DELETE", "/collections/docs/documents/ambiguous")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert words in answer.json()["message"]
    assert answer.json()["details"]["member"] in members
    assert client.app.state.retrieval.snapshots.collections["docs"].snapshot.documents == before - 1


def test_a_deletion_by_members_and_by_unknown_fields_that_are_allowed(client: Client) -> None:
    put(client, row("keep/1", title="Keep"), row("keep/2", title="Other"), row("keep/3"))
    path, kept = "/collections/docs/documents/delete", {"id": {"in": ["keep/1", "keep/2", "keep/3"]}}
    assert call(client, "POST", path, {"filter": {"title": {"ne": "Keep"}, **kept}}).json()["deleted"] == 2
    assert client.get("/chunks/keep%2F1%23chunk_1").status_code == 200
    asked = {"filter": {"id": "keep/1", "sku": {"exists": False}}, "allow_unknown": True}
    assert call(client, "POST", path, asked).json()["deleted"] == 1


def test_what_is_not_there_cannot_be_deleted(client: Client) -> None:
    answer = call(client, "DELETE", "/collections/docs/documents/none")
    assert (answer.status_code, answer.json()["error"]) == (404, "not_found")


def test_members_of_a_document_are_changed(client: Client) -> None:
    put(client, row("p/ä 1", "a walrus", title="Old", price=1, draft=True))
    answer = call(
        client, "PATCH", "/collections/docs/documents/p%2F%C3%A4%201", {"price": 2, "draft": None, "title": "New"}
    )
    assert (answer.status_code, answer.json()["documents"], answer.json()["changed"]) == (200, 1, 1)
    shown = client.get("/chunks/p%2F%C3%A4%201%23chunk_1").json()
    assert (shown["text"], shown["source"]["title"]) == ("a walrus", "New")
    assert (shown["metadata"]["price"], "draft" in shown["metadata"]) == (2, False)
    again = call(client, "PATCH", "/collections/docs/documents/p%2F%C3%A4%201", {"price": 2})
    assert (again.json()["changed"], again.json()["generation"]) == (0, answer.json()["generation"])


def test_several_documents_are_changed_or_none(client: Client) -> None:
    put(client, row("all/1", n=1), row("all/2", n=1))
    merge = "application/merge-patch+json"
    whole = call(
        client, "PATCH", "/collections/docs/documents", {"all/1": {"n": 2}, "all/2": {"n": 2}}, content_type=merge
    )
    assert (whole.json()["documents"], whole.json()["changed"]) == (2, 2)
    refused = call(client, "PATCH", "/collections/docs/documents", {"all/1": {"n": 3}, "absent": {"n": 3}})
    assert (refused.status_code, refused.json()["error"]) == (404, "not_found")
    assert refused.json()["details"] == {"document_id": "absent", "code": "document_missing"}
    assert client.get("/chunks/all%2F1%23chunk_1").json()["metadata"]["n"] == 2


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/documents/d1", [1], 400, "JSON object"),
        ("/documents/d1", b"{", 400, "JSON"),
        ("/documents/d1", {"etag": 1}, 400, "etag is a reserved name"),
        ("/documents/d1", {"updated_at": "soon"}, 400, "updated_at"),
        ("/documents/d1", {"title": ["x"]}, 400, "title"),
        ("/documents/d1", {"vectors": {"none": [1]}}, 400, "no such embedding space"),
        ("/documents", {"d1": 7}, 400, "object of changed members"),
        ("/documents/absent", {"a": 1}, 404, "absent"),
        ("/documents/" + "x" * 2_000, {"a": 1}, 404, "there is no document"),
        ("/documents/d1", {"a": "x" * 11_000}, 413, "bytes"),
    ],
)
def test_a_change_that_cannot_be_made_names_what_is_wrong(
    client: Client, path: str, body: Any, status: int, words: str
) -> None:
    put(client, row("d1", n=1))
    refused = call(client, "PATCH", "/collections/docs" + path, body)
    assert refused.status_code == status, refused.text
    assert words in refused.json()["message"]
    assert client.get("/chunks/d1%23chunk_1").json()["metadata"]["n"] == 1


def test_documents_are_deleted_by_their_ids_in_one_commit(client: Client) -> None:
    put(client, row("i/1"), row("i/2"))
    path = "/collections/docs/documents/delete"
    before = call(client, "POST", path, {"ids": []}).json()["generation"]
    answer = call(client, "POST", path, {"ids": ["i/1", "i/2", "absent"]}).json()
    assert (answer["deleted"], answer["generation"]) == (2, before + 1)
    both = call(client, "POST", path, {"ids": ["i/1"], "filter": {"n": 1}})
    assert (both.status_code, both.json()["details"]["members"]) == (400, ["ids", "filter"])


def test_a_write_whose_caller_goes_away_is_answered_to_who_repeats_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It acts once: what somebody else wrote meanwhile stays."""
    writes = client.app.state.document_writes
    write, began, may_end = writes.write, asyncio.Event(), asyncio.Event()

    async def slow(*arguments: Any) -> Any:
        began.set()
        await may_end.wait()
        return await write(*arguments)

    async def leave() -> None:
        body = orjson.dumps([row("left", "first")])
        headers = {"authorization": f"Bearer {SECRETS['writer']}", "content-type": "application/json"}
        asked = client._http.put(
            "/collections/docs/documents", content=body, headers={**headers, "idempotency-key": "left-1"}
        )
        task = asyncio.ensure_future(asked)
        await began.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        may_end.set()

    monkeypatch.setattr(writes, "write", slow)
    client._runner.run(leave())
    monkeypatch.setattr(writes, "write", write)
    for _ in range(100):
        again = put(client, row("left", "first"), idempotency_key="left-1")
        if again.status_code != 409:
            break
        put(client, row("beside"))
    assert (again.status_code, again.headers.get("idempotency-replayed")) == (200, "true")


def test_a_declared_collection_is_made_by_its_first_document(client: Client) -> None:
    assert put(client, row("a"), collection="new").json()["generation"] == 1
    assert client.search({"query": "words", "collection": "new"}).json()["results"]


@pytest.mark.parametrize(
    ("key", "collection", "status", "code"),
    [
        (None, "docs", 401, "unauthorized"),
        ("reader", "docs", 403, "forbidden"),
        ("writer", "none", 404, "not_found"),
        ("writer", "hidden", 404, "not_found"),
        ("writer", ".x", 404, "not_found"),
        ("limited", "docs", 403, "forbidden"),
        ("limited", "hidden", 200, None),
        ("pure", "docs", 200, None),
    ],
)
def test_who_may_write_where(client: Client, key: str | None, collection: str, status: int, code: str | None) -> None:
    requests = [
        ("PUT", f"/collections/{collection}/documents", [row("who")]),
        ("PATCH", f"/collections/{collection}/documents/who", {"seen": True}),
        ("PATCH", f"/collections/{collection}/documents", {"who": {"seen": False}}),
        ("POST", f"/collections/{collection}/documents/delete", {"ids": ["nobody"]}),
        ("POST", f"/collections/{collection}/documents/delete", {"filter": {"document_id": "who"}}),
    ]
    for method, path, body in requests:
        answer = call(client, method, path, body, key=key)
        assert (answer.status_code, answer.json().get("error")) == (status, code)
        if status in {401, 403} and key != "limited":
            assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_key_that_only_writes_may_not_search(client: Client) -> None:
    headers = {"authorization": f"Bearer {SECRETS['pure']}"}
    assert client.request("POST", "/search", json={"query": "words"}, headers=headers).status_code == 403
    assert client.get("/collections/docs", headers).status_code == 403


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        ([{"text": 1}], {}, 400, "text"),
        ([row("a", updated_at="soon")], {}, 400, "updated_at"),
        (b"{", {}, 400, "JSON"),
        (b"[]", {"content_type": "text/plain"}, 415, "Content-Type"),
        ([row("a", "x" * 10_000)], {}, 413, "10000 bytes"),
        ([row("a")], {"idempotency_key": ""}, 400, "Idempotency-Key"),
        ([row("a")], {"idempotency_key": "k" * 256}, 400, "Idempotency-Key"),
        ([row("a")], {"accept": "image/png"}, 406, "Accept"),
    ],
)
def test_what_is_refused_says_why(client: Client, body: Any, headers: dict[str, str], status: int, words: str) -> None:
    answer = call(client, "PUT", "/collections/docs/documents", body, **headers)
    assert answer.status_code == status
    assert words in answer.json()["message"]
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("body", [{}, {"filter": {"a": {"near": 1}}}, {"filter": 1}, []])
def test_a_deletion_needs_a_filter(client: Client, body: Any) -> None:
    answer = call(client, "POST", "/collections/docs/documents/delete", body)
    assert answer.status_code == 400


def test_the_same_key_gets_the_same_answer_once_more(client: Client) -> None:
    first = put(client, row("once", "first"), idempotency_key="k1")
    put(client, row("once", "second"))
    again = put(client, row("once", "first"), idempotency_key="k1")
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    assert client.get("/chunks/once%23chunk_1").json()["text"] == "second"
    assert put(client, row("once", "third"), idempotency_key="k1").status_code == 422


def test_a_write_is_answered_though_its_key_cannot_be_kept(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise Unavailable("the file of Idempotency-Keys cannot be written: nothing was done")

    monkeypatch.setattr(IdempotencyKeys, "keep", full)
    monkeypatch.setattr(IdempotencyKeys, "release", full)
    assert put(client, row("kept"), idempotency_key="k3").status_code == 200
    assert put(client, row("kept", " "), idempotency_key="k4").status_code == 400, "the refusal, not that of the key"
    assert "the answer to an Idempotency-Key is not kept" in caplog.text


def test_a_refused_request_may_be_corrected_under_its_key(client: Client) -> None:
    assert put(client, row("fix", " "), idempotency_key="k2").status_code == 400
    assert put(client, row("fix", "words"), idempotency_key="k2").status_code == 200


def test_a_writer_that_was_killed_is_replaced(client: Client) -> None:
    put(client, row("before"))
    child = client.app.state.document_writes._process._child
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    statuses = [put(client, row(f"after{number}")).status_code for number in range(3)]
    assert statuses[-1] == 200
    assert set(statuses) <= {200, 503}
    assert client.get("/chunks/before%23chunk_1").status_code == 200


def test_discovery_tells_writers_alone(client: Client) -> None:
    told = client.get("/.well-known/ai-discovery", {"authorization": f"Bearer {SECRETS['writer']}"}).json()
    assert told["endpoints"]["documents"].endswith("/collections/{name}/documents")
    assert "documents" in told["extensions"]
    for headers in ({}, {"authorization": f"Bearer {SECRETS['reader']}"}):
        other = client.get("/.well-known/ai-discovery", headers).json()
        assert "documents" not in other["endpoints"]
        assert "documents" not in other["extensions"]


def test_the_routes_are_described(client: Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths["/collections/{name}/documents"]) == {"put", "patch"}
    assert set(paths["/collections/{name}/documents/{id}"]) == {"delete", "patch"}
    assert set(paths["/collections/{name}/documents/delete"]) == {"post"}


def test_without_the_setting_there_are_no_such_routes(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "alpha")])
    with serving(tmp_path, configuration("false")) as client:
        assert put(client, row("b")).status_code == 404
        assert "/collections/{name}/documents" not in client.get("/openapi.json").json()["paths"]


def test_writing_without_a_key_that_may_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="aidre keys new"):
        parse_settings("[server]\nwrites = true\n")
