"""A collection that returns no text returns none inside of objects either, and answers no filter about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import TEXT, Client, a_document, fill, serving

SECRET = "SENTINEL of the body"
COMMENT = {"@type": "Comment", "author": "Ada", "context": "kept"}
OBJECT = {
    "@type": "Article",
    "name": "On tea",
    "articleBody": SECRET,
    "schema:transcript": SECRET,
    "hasPart": [{**COMMENT, "https://schema.org/text": SECRET}],
}
CONFIGURATION = "[collections.quiet]\nreturn_text = false\n"
CHUNK = "d%23chunk_1"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("store")
    documents = [
        a_document("d", "tea is steeped", type="Article", semantic_payload=OBJECT, schema_object=OBJECT),
        a_document("e", "tea is poured", metadata={"text": "green", "transcript": {"by": "Ada"}, "name": "e"}),
        a_document("f", "tea is drunk", metadata={"name": "f"}, semantic_payload={"text": SECRET}),
    ]
    for name in ("quiet", "open"):
        fill(path, name, documents, (TEXT,))
    with serving(path, CONFIGURATION) as client:
        yield client


def asked(client: Client, collection: str, **members: Any) -> Any:
    return client.search({"collection": collection, "query": "tea", **members})


def test_no_payload_carries_a_text_out(client: Client) -> None:
    only = {"filter": {"document_id": "d"}, "return": {"semantic_payload": True}}
    [hit] = asked(client, "quiet", **only).json()["results"]
    chunk = client.get(f"/chunks/{CHUNK}?collection=quiet")
    for payload in (hit["semantic_payload"], chunk.json()["semantic_payload"]):
        assert payload == {
            "@type": "Article",
            "name": "On tea",
            "hasPart": [{"@type": "Comment", "author": "Ada", "context": "kept"}],
        }
    assert SECRET not in chunk.text
    [hit] = asked(client, "open", **only).json()["results"]
    assert hit["semantic_payload"] == OBJECT


@pytest.mark.parametrize(
    "filter",
    [
        {"articleBody": {"gte": "S"}},
        {"schema:transcript": {"eq": "S"}},
        {"not": {"hasPart.https://schema.org/text": {"exists": True}}},
    ],
)
def test_no_filter_asks_about_a_text_that_stays(client: Client, filter: Any) -> None:
    answer = asked(client, "quiet", filter=filter)
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"
    assert "is a text, which this collection does not return" in answer.json()["message"]
    assert asked(client, "open", filter=filter).status_code == 200


@pytest.mark.parametrize("name", ["metadata.text", "text", "transcript.by", "metadata.transcript.by"])
def test_metadata_that_leave_with_every_answer_can_be_asked_about_whatever_they_are_called(
    client: Client, name: str
) -> None:
    value = {"gte": "A", "lt": "z"}
    [hit] = asked(client, "quiet", filter={name: value}).json()["results"]
    assert hit["id"] == "e#chunk_1" and hit["metadata"]["text"] == "green"
    hits = asked(client, "quiet", filter={"not": {name: value}}).json()["results"]
    assert sorted(each["id"] for each in hits) == ["d#chunk_1", "f#chunk_1"]


def test_of_a_name_that_metadata_and_an_object_have_neither_can_be_asked_about(tmp_path: Path) -> None:
    other = {"@type": "Comment", "text": SECRET}
    documents = [
        a_document("e", "tea is poured", metadata={"text": "green"}),
        a_document("d", "tea is steeped", schema_object=other),
    ]
    fill(tmp_path / "store", "quiet", documents, (TEXT,))
    with serving(tmp_path / "store", CONFIGURATION) as client:
        answer = asked(client, "quiet", filter={"metadata.text": {"gte": "S"}})
        assert answer.status_code == 400 and "text is a text" in answer.json()["message"]
