"""A new text of a stored document: chunked and embedded anew, with everything else as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aidre

ROW = {
    "id": "a", "text": "a banana", "title": "Fruit", "url": "https://example.com/a",
    "updated_at": "2026-01-01T00:00:00Z",
    "price": 3, "deep": {"n": [1]},
}  # fmt: skip


def test_a_new_text_keeps_the_rest_and_is_found(docs: aidre.Collection) -> None:
    docs.add([ROW, {"id": "b", "text": "other", "n": 1}])
    before = docs["a"]
    assert docs.patch({"a": {"text": "an apple pie " * 300, "price": 4}, "b": {"n": 2}}) == 2
    after = docs["a"]
    assert after.text.split() == ["an", "apple", "pie"] * 300
    assert (after.title, after.url, after.updated_at) == (before.title, before.url, before.updated_at)
    assert (after.metadata, docs["b"].metadata, docs.generation) == ({"price": 4, "deep": {"n": [1]}}, {"n": 2}, 2)
    assert docs.search("banana", mode="lexical") == []
    assert {hit.document_id for hit in docs.search("apple", mode="lexical")} == {"a"}
    assert docs.search("an apple pie", mode="dense", k=1)[0].document_id == "a"
    assert docs.patch({"a": {"text": "short"}}) == 1
    assert docs["a"].text == "short"
    assert docs.patch({"a": {"text": "short"}}) == 0
    assert len(docs) == 2


def test_vectors_that_come_with_rows_come_with_a_new_text(db: aidre.Database) -> None:
    rows = db.collection("rows", space=aidre.EmbeddingSpace("mine", 2, "cosine"))
    rows.add({"id": "a", "text": "one", "n": 1}, vectors=np.array([[1.0, 0]]))
    with pytest.raises(aidre.InvalidDocument, match="no vector for the space 'mine'"):
        rows.patch({"a": {"text": "two"}})
    rows.patch({"a": {"text": "two", "vectors": {"mine": [0, 1]}}})
    [found] = rows.get(["a"], vectors=True)
    assert found is not None and found.vectors is not None
    assert (found.text, found.metadata, found.vectors["mine"].tolist()) == ("two", {"n": 1}, [0, 1])
    rows.patch({"a": {"vectors": {"mine": [1, 0]}}})
    [found] = rows.get(["a"], vectors=True)
    assert found is not None and found.vectors is not None
    assert (found.text, found.vectors["mine"].tolist()) == ("two", [1, 0])


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"text": None}, aidre.InvalidDocument, "text must be a string"),
        ({"text": " "}, aidre.InvalidDocument, "no text"),
        ({"text": "x", "vectors": {"nope": [1, 2, 3]}}, aidre.InvalidDocument, "not a space of this collection"),
        ({"text": "x", "vectors": {"small": [1, 2]}}, aidre.DimensionMismatch, "3 dimensions"),
        ({"text": "x", "etag": "e"}, aidre.InvalidDocument, "reserved"),
        ({"vectors": [1, 2, 3]}, aidre.InvalidDocument, "mapping of spaces"),
    ],
)
def test_a_new_text_that_is_refused_changes_nothing(
    docs: aidre.Collection, changes: dict[str, Any], kind: type[aidre.AidreError], words: str
) -> None:
    docs.add([ROW, {"id": "b", "text": "other", "n": 1}])
    with pytest.raises(kind, match=words):
        docs.patch({"b": {"n": 2}, "a": changes})
    assert (docs["a"].text, docs["b"].metadata, docs.generation) == ("a banana", {"n": 1}, 1)


def test_vectors_alone_need_a_document_of_one_chunk(docs: aidre.Collection) -> None:
    docs.add({"id": "a", "text": "a banana and an apple. " * 300})
    with pytest.raises(aidre.InvalidDocument, match="several chunks"):
        docs.patch({"a": {"vectors": {"small": [1, 2, 3]}}})
