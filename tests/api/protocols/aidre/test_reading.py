"""`api/protocols/aidre/reading.py`: whole documents by id and by filter, page by page, and how many there are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from aidre.engine.model import Document
from tests.support.clients import COSINE, TEXT, Client, a_document, delete, fill, serving, vector_of

QUERY, COUNT = "/collections/docs/query", "/collections/docs/count"
CONFIGURATION = f"""
[collections.withheld]
return_text = false
[collections.vectors]
return_vectors = true
[[keys]]
name = "partner"
sha256 = "{hashlib.sha256(b"partner").hexdigest()}"
collections = ["archive"]
[[keys]]
name = "sighted"
sha256 = "{hashlib.sha256(b"sighted").hexdigest()}"
scopes = ["search", "vectors"]
[[keys]]
name = "writer"
sha256 = "{hashlib.sha256(b"writer").hexdigest()}"
scopes = ["write"]
"""


def a_product(number: int, **members: Any) -> Document:
    metadata = {"n": number, "colour": ["red", "blue"][number % 2], **({} if number == 5 else {"price": number % 4})}
    return a_document(f"d/{number}", f"alpha {number}", title=f"T{number}", metadata=metadata, **members)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    item = {"@type": "Article", "headline": "Alpha", "articleBody": "alpha 1"}
    fill(store, "docs", [a_product(number) for number in range(12)])
    withheld = [a_product(number, schema_object=item, semantic_payload=item) for number in range(3)]
    fill(store, "withheld", withheld)
    fill(store, "vectors", [a_product(0), a_product(1)], (COSINE,))
    fill(store, "archive", [a_document("secret", "gamma")], (TEXT,), "private")
    with serving(store, CONFIGURATION) as shared:
        yield shared


def ask(client: Client, path: str, key: str | None = None, **members: Any) -> httpx.Response:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    return client.request("POST", path, json=members, headers=headers)


def ids(answer: httpx.Response) -> list[str | None]:
    assert answer.status_code == 200, answer.text
    return [one and one["id"] for one in answer.json()["documents"]]


def pages(client: Client, **members: Any) -> list[str | None]:
    found: list[str | None] = []
    while True:
        answer = ask(client, QUERY, **members)
        found += ids(answer)
        if "next" not in answer.json():
            return found
        members["cursor"] = answer.json()["next"]


def test_documents_come_in_the_order_of_their_ids_and_null_for_what_is_not_there(client: Client) -> None:
    answer = ask(client, QUERY, ids=["d/3", "absent", "d/1", "d/3"])
    assert ids(answer) == ["d/3", None, "d/1", "d/3"]
    assert answer.json()["documents"][0] == {
        "id": "d/3",
        "text": "alpha 3",
        "title": "T3",
        "updated_at": "2026-04-01T10:00:00Z",
        "metadata": {"n": 3, "colour": "blue", "price": 3},
    }
    assert ids(ask(client, QUERY, ids=[])) == []
    assert pages(client, ids=["d/3", "absent", "d/1"], limit=1) == ["d/3", None, "d/1"]


def test_pages_have_every_document_that_passes_once(client: Client) -> None:
    red = [f"d/{number}" for number in range(0, 12, 2)]
    assert sorted(map(str, pages(client, filter={"colour": "red"}, limit=4))) == sorted(red)
    assert len(set(pages(client, limit=5))) == 12
    assert len(pages(client, limit=5, offset=10)) == 2
    assert pages(client, offset=12) == []


def test_documents_are_ordered_by_a_field_and_those_without_it_are_last(client: Client) -> None:
    rising = sorted((n for n in range(12) if n != 5), key=lambda n: (n % 4, f"d/{n}"))
    assert pages(client, order_by="price", limit=5) == [*(f"d/{n}" for n in rising), "d/5"]
    assert pages(client, order_by="-n", limit=3, offset=2, filter={"n": {"gt": 4}}) == [
        f"d/{n}" for n in range(9, 4, -1)
    ]


def test_fields_are_what_each_document_has(client: Client) -> None:
    answer = ask(client, QUERY, ids=["d/1"], fields=["price", "title", "absent"])
    assert answer.json()["documents"] == [{"id": "d/1", "title": "T1", "metadata": {"price": 1}}]
    assert ask(client, QUERY, ids=["d/1"], fields=["text"]).json()["documents"][0]["text"] == "alpha 1"


def test_a_cursor_reads_its_state_without_what_was_deleted_since(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_product(number) for number in range(6)])
    with serving(tmp_path) as client:
        first = ask(client, QUERY, limit=2)
        gone = next(f"d/{number}" for number in range(6) if f"d/{number}" not in ids(first))
        delete(tmp_path, "docs", [gone])
        fill(tmp_path, "docs", [a_product(7)])
        client.refresh()
        rest = ask(client, QUERY, cursor=first.json()["next"])
        assert set(ids(first)) | set(ids(rest)) == {f"d/{number}" for number in range(6)} - {gone}
        assert rest.json()["generation"] == first.json()["generation"]
        other = ask(client, QUERY, cursor=first.json()["next"], filter={"n": 1})
        assert (other.status_code, other.json()["details"]["member"]) == (400, "cursor")


def test_documents_are_counted_with_their_values(client: Client) -> None:
    assert ask(client, COUNT).json()["documents"] == 12
    answer = ask(client, COUNT, filter={"n": {"lt": 4}}, facets=["colour", {"field": "n", "limit": 1}]).json()
    assert answer["documents"] == 4
    assert answer["facets"]["colour"]["values"] == [{"value": "blue", "count": 2}, {"value": "red", "count": 2}]
    assert (answer["facets"]["n"]["distinct"], len(answer["facets"]["n"]["values"])) == (4, 1)
    assert ask(client, COUNT, filter={"sku": 1}).json()["ignored"] == ["sku"]


@pytest.mark.parametrize(
    ("path", "members", "words"),
    [
        (QUERY, {"ids": ["a"], "filter": {}}, "ids or filter"),
        (QUERY, {"ids": ["a"], "offset": 1}, "ids or offset"),
        (QUERY, {"ids": ["a"] * 1_001}, "ids"),
        (QUERY, {"ids": [7]}, "ids"),
        (QUERY, {"ids": "a"}, "ids"),
        (QUERY, {"limit": 0}, "limit"),
        (QUERY, {"limit": "5"}, "limit"),
        (QUERY, {"offset": -1}, "offset"),
        (QUERY, {"offset": 10**30}, "offset must be a whole number from 0 to 10000000"),
        (QUERY, {"order_by": ""}, "order_by"),
        (QUERY, {"order_by": ["n", ""]}, "order_by"),
        (QUERY, {"order_by": "-"}, "order_by"),
        (QUERY, {"fields": ["a"], "vectors": True}, "fields or vectors"),
        (QUERY, {"cursor": "x"}, "cursor"),
        (QUERY, {"filter": {"n": {"near": 1}}}, "near"),
        (COUNT, {"filter": {"text": "a"}}, "text"),
        (COUNT, {"facets": [7]}, "facets"),
        (COUNT, {"facets": ["n", "n"]}, "facets"),
    ],
)
def test_what_is_wrong_with_a_request_is_named(client: Client, path: str, members: dict[str, Any], words: str) -> None:
    refused = ask(client, path, **members)
    assert refused.status_code == 400, refused.text
    assert words in refused.json()["message"]


def test_what_a_caller_may_not_see_is_not_there(client: Client) -> None:
    for verb in ("query", "count"):
        unseen = ask(client, f"/collections/archive/{verb}")
        absent = ask(client, f"/collections/absent/{verb}")
        assert unseen.status_code == absent.status_code == 404
        assert unseen.json()["message"] == absent.json()["message"].replace("absent", "archive")
        assert ask(client, f"/collections/archive/{verb}", "partner").status_code == 200
        assert ask(client, f"/collections/docs/{verb}", "writer").status_code == 403
        assert ask(client, f"/collections/docs/{verb}", "wrong").status_code == 401
        assert client.get(f"/collections/docs/{verb}").status_code == 405


def test_vectors_need_the_scope_and_the_collection(client: Client) -> None:
    path = "/collections/vectors/query"
    [one] = ask(client, path, "sighted", ids=["d/1"], vectors=True).json()["documents"]
    expected = vector_of("d/1") / np.linalg.norm(vector_of("d/1"))
    assert np.allclose(one["vectors"][COSINE.id] / np.linalg.norm(one["vectors"][COSINE.id]), expected, atol=1e-3)
    for refused in (ask(client, path, ids=["d/1"], vectors=True), ask(client, QUERY, "sighted", vectors=True)):
        assert (refused.status_code, refused.json()["error"]) == (422, "unsupported_return_field")


def test_a_collection_that_withholds_its_text_tells_none_of_it(client: Client) -> None:
    path = "/collections/withheld/query"
    answer = ask(client, path)
    assert len(ids(answer)) == 3 and "alpha" not in answer.text.lower().replace('"headline":"alpha"', "")
    refusals = [
        (ask(client, path, fields=["text"]), 422),
        (ask(client, path, filter={"articleBody": {"contains": "alpha"}}), 400),
        (ask(client, path.replace("query", "count"), filter={"articleBody": {"contains": "alpha"}}), 400),
        (ask(client, path.replace("query", "count"), facets=["colour"]), 422),
    ]
    for refused, status in refusals:
        assert refused.status_code == status, refused.text
    assert ask(client, path.replace("query", "count"), filter={"colour": "red"}).json()["documents"] == 2


def test_documents_are_charged_by_their_chunks(tmp_path: Path) -> None:
    item = {"@type": "Article", "articleBody": "alpha"}
    fill(tmp_path, "docs", [a_product(number, schema_object=item) for number in range(6)])
    with serving(tmp_path, "[limits]\nchunks_per_day = 3") as limited:
        told = ask(limited, COUNT, filter={"articleBody": {"contains": "alpha"}})
        assert told.status_code == 400 and "counted here" in told.json()["message"]
        assert ask(limited, COUNT, facets=["articleBody"]).status_code == 422
        assert ask(limited, QUERY, limit=2).status_code == 200
        assert ask(limited, QUERY, ids=["d/5"], fields=["n"]).status_code == 200
        for path in (QUERY, COUNT):
            assert ask(limited, path).status_code == 429


def test_a_page_ends_where_it_is_long_enough(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.api.protocols.aidre.reading.PAGE_BYTES", 10)
    assert len(ids(ask(client, QUERY))) == 2
    assert len(set(pages(client))) == 12


def test_discovery_advertises_them(client: Client) -> None:
    about = client.get("/.well-known/ai-discovery").json()
    assert about["extensions"]["read"]["documents_max"] == 500
    assert "write_bytes" not in about["limits"]
