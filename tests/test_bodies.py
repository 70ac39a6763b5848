"""A collection that returns no text returns none inside of objects either, and answers no filter about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import TEXT, Client, a_document, fill, serving

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


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    document = a_document("d", "tea is steeped", type="Article", semantic_payload=OBJECT)
    for name in ("quiet", "open"):
        fill(tmp_path / "store", name, [document], (TEXT,))
    with serving(tmp_path / "store", CONFIGURATION) as client:
        yield client


def asked(client: Client, collection: str, **members: Any) -> Any:
    return client.search({"collection": collection, "query": "tea", **members})


def test_no_payload_carries_a_text_out(client: Client) -> None:
    [hit] = asked(client, "quiet", **{"return": {"semantic_payload": True}}).json()["results"]
    chunk = client.get(f"/chunks/{CHUNK}?collection=quiet")
    for payload in (hit["semantic_payload"], chunk.json()["semantic_payload"]):
        assert payload == {
            "@type": "Article",
            "name": "On tea",
            "hasPart": [{"@type": "Comment", "author": "Ada", "context": "kept"}],
        }
    assert SECRET not in chunk.text
    [hit] = asked(client, "open", **{"return": {"semantic_payload": True}}).json()["results"]
    assert hit["semantic_payload"] == OBJECT


@pytest.mark.parametrize(
    "filter",
    [{"articleBody": {"gte": "S"}}, {"schema:transcript": {"eq": "S"}}, {"not": {"hasPart.text": {"exists": True}}}],
)
def test_no_filter_asks_about_a_text_that_stays(client: Client, filter: Any) -> None:
    answer = asked(client, "quiet", filter=filter)
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"
    assert "is a text, which this collection does not return" in answer.json()["message"]
    assert asked(client, "open", filter=filter).status_code == 200
