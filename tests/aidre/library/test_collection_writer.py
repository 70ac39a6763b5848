"""The writer of a collection takes what the collection takes, `aidre/library/collection_writer.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import aidre


def test_a_writer_adds_what_a_collection_adds(tmp_path: Path) -> None:
    """Texts, mappings, documents, lists, tables and vectors, with the same ids, in the order of the calls."""
    single, many = np.eye(4, dtype=np.float32)[:1], np.eye(4, dtype=np.float32)
    calls: list[tuple[Any, Any]] = [
        ({"id": "a", "text": "a", "vectors": {"mine": single[0]}}, None),
        ({"id": "b", "text": "b"}, single),
        (["one", "two"], many[:2]),
        (pa.table({"id": ["x", "y", "a"], "text": ["x", "y", "again"]}), {"mine": many[1:]}),
    ]
    db, space = aidre.open(tmp_path), aidre.EmbeddingSpace("mine", 4, "cosine")
    alone, together = db.collection("alone", space=space), db.collection("together", space=space)
    added = [alone.add(rows, vectors=vectors) for rows, vectors in calls]
    with together.writer() as writer:
        assert [writer.add(rows, vectors=vectors) for rows, vectors in calls] == added
    assert added[0] == ["a"] and added[3] == ["x", "y", "a"]
    assert {one.id: one.text for one in together.scan()} == {one.id: one.text for one in alone.scan()}
    assert together["a"].text == "again"
    assert together.search(vector=many[3], k=1)[0].document_id == "a"
    with pytest.raises(aidre.InvalidInput, match="2 vectors for 1"), together.writer() as writer:
        writer.add("three", vectors=many[:2])
