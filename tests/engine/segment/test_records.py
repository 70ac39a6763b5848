"""Records as columns: the order of documents and chunks, and what stands for what is absent."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.engine.model import Chunk, Document, Record
from aidre.engine.segment.records import to_columns
from aidre.engine.storage.format import CHUNKS_SCHEMA, DOCUMENTS_SCHEMA
from tests.support.stores import record


def columns_of(**members: Any) -> Any:
    return to_columns([Record(Document("a", "text", **members), (Chunk("a#chunk_1", 1, "text", 0, 4),), b"f" * 16)])


def test_chunks_follow_their_documents_in_order() -> None:
    columns = to_columns([record("a", ["one ", "two"]), record("b", ["three"])])
    assert columns.ids == ["a", "b"]
    assert columns.chunks.counts == [2, 1]
    assert columns.chunks.ids.to_pylist() == ["a#chunk_1", "a#chunk_2", "b#chunk_1"]
    assert columns.chunks.texts.to_pylist() == ["one ", "two", "three"]
    assert list(zip(columns.chunks.starts.to_pylist(), columns.chunks.ends.to_pylist(), strict=True)) == [
        (0, 4), (4, 7), (0, 5),
    ]  # fmt: skip


@pytest.mark.parametrize("empty", [{}, {"metadata": {}, "schema_object": {}, "state": {}, "updated_at": ""}])
def test_what_is_absent_or_empty_is_null(empty: dict[str, Any]) -> None:
    columns = columns_of(**empty)
    for name in ("urls", "titles", "types", "updated_at", "metadata", "schema_objects", "payloads", "states"):
        assert getattr(columns, name).to_pylist() == [None], name
    assert columns.canonical.to_pylist() == [True]
    assert columns.chunks.sections.to_pylist() == columns.chunks.token_counts.to_pylist() == [None]


def test_the_payload_is_the_documents_own_or_its_schema_object() -> None:
    thing = {"@type": "Thing"}
    assert columns_of(schema_object=thing).payloads.to_pylist() == [b'{"@type":"Thing"}']
    assert columns_of(schema_object=thing, semantic_payload=thing).payloads.to_pylist() == [b'{"@type":"Thing"}']
    assert columns_of(schema_object=thing, semantic_payload=[1]).payloads.to_pylist() == [b"[1]"]
    assert columns_of(semantic_payload=False).payloads.to_pylist() == [b"false"]


def test_columns_have_the_types_that_are_stored() -> None:
    columns = columns_of(metadata={"n": 1}, state={"etag": "x"})
    for name, column in (("url", columns.urls), ("metadata", columns.metadata), ("fingerprint", columns.fingerprints)):
        assert column.type == DOCUMENTS_SCHEMA.field(name).type
    for name, column in (("start", columns.chunks.starts), ("token_count", columns.chunks.token_counts)):
        assert column.type == CHUNKS_SCHEMA.field(name).type
