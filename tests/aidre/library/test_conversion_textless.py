"""Rows with vectors and no text: stored and found by their vectors, and by nothing else."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import aidre

MINE = aidre.EmbeddingSpace("mine", 4, "cosine")
RNG = np.random.default_rng(3)


@pytest.fixture
def rows(db: aidre.Database) -> aidre.Collection:
    return db.collection("rows", space=MINE)


def test_a_row_needs_no_text_where_it_has_vectors(rows: aidre.Collection) -> None:
    matrix = np.eye(4)[:3]
    rows.add([{"id": "a", "title": "Lentil soup"}, {"id": "b", "text": None, "n": 1}, "a text"], vectors=matrix)
    rows.add(
        [
            {"id": "c", "vectors": {"mine": [0, 0, 0, 1]}, "text": " "},
            aidre.Document("d", "", vectors={"mine": matrix[1]}),
        ]
    )
    assert [document and document.text for document in rows.get(["a", "b", "c", "d"])] == ["", "", "", ""]
    hit = rows.search(vector=[1, 0, 0, 0], k=1)[0]
    assert (hit.document_id, hit.text, hit.title) == ("a", "", "Lentil soup")
    assert hit.chunk.content_hash == f"sha256:{hashlib.sha256(b'').hexdigest()}"
    assert rows.count({"n": 1}) == 1


def test_words_never_find_a_row_without_text(rows: aidre.Collection) -> None:
    matrix = np.tile([1.0, 0, 0, 0], (2, 1))
    rows.add(
        [{"id": "a", "title": "Lentil soup", "section": "Lentils"}, {"id": "b", "text": "lentils"}], vectors=matrix
    )
    for text in ("lentil", "soup", "lentils -pea", '"lentils"'):
        assert {hit.document_id for hit in rows.search(text, mode="lexical")} <= {"b"}
    assert rows.search("soup", mode="lexical") == []
    assert rows.suggest("so") == []
    assert {hit.document_id for hit in rows.search("lentils", vector=[1, 0, 0, 0])} == {"a", "b"}
    rows.add([{"id": "c", "text": "more"}], vectors=matrix[:1])
    assert rows.search("soup", mode="lexical") == []


def test_rows_without_text_and_id_are_as_many_as_their_vectors(rows: aidre.Collection) -> None:
    for count in (3, 100):
        matrix = RNG.standard_normal((count, 4))
        ids = rows.add([{"n": 1}] * count, vectors=matrix)
        assert len(set(ids)) == count
        assert rows.add([{"n": 1}] * count, vectors=matrix) == ids
    assert len(rows) == 103


@pytest.mark.parametrize("texts", [None, ["alpha", None] * 50])
def test_tables_may_lack_the_text(rows: aidre.Collection, texts: Any) -> None:
    columns = {"id": [str(row) for row in range(100)], "n": range(100), **({} if texts is None else {"text": texts})}
    matrix = RNG.standard_normal((100, 4))
    rows.add(pa.table(columns), vectors=matrix)
    assert rows["1"].text == ""
    assert rows.search(vector=matrix[1], k=1)[0].document_id == "1"
    assert len(rows.search("alpha", mode="lexical", k=100)) == (0 if texts is None else 50)


def test_a_text_that_is_added_later_is_found(rows: aidre.Collection) -> None:
    rows.add({"id": "a", "title": "Soup"}, vectors=np.ones((1, 4)))
    rows.patch({"a": {"n": 2}})
    assert (rows["a"].metadata, rows["a"].text) == ({"n": 2}, "")
    rows.add({"id": "a", "text": "soup"}, vectors=np.ones((1, 4)))
    assert len(rows.search("soup", mode="lexical")) == 1


def test_without_a_vector_for_each_space_a_text_is_needed(db: aidre.Database, docs: aidre.Collection) -> None:
    for row in ({"id": "a"}, {"id": "a", "text": ""}, {"id": "a", "text": 3}):
        with pytest.raises(aidre.InvalidDocument, match="has no text"):
            docs.add(row)
    both = db.collection("both", space=[MINE, aidre.EmbeddingSpace("other", 2, "cosine")])
    with pytest.raises(aidre.InvalidDocument, match="no vector for the space 'other'"):
        both.add({"id": "a", "vectors": {"mine": [1, 0, 0, 0]}})
    assert (len(docs), len(both)) == (0, 0)
