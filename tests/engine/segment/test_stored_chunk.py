"""A stored chunk and the columns behind a hit: each gives back what was written, in every form in which it is read."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from aidre.engine.model import Chunk, Document, Record
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.segment.stored_chunk import StoredChunk
from tests.support.segments import write_segment
from tests.support.stores import SPACE, TIME, normal

WHOLE = Document(
    "é/1",
    "First part. Second part.",
    title='A "title"',
    url="https://example.org/1",
    updated_at="2026-03-01T00:00:00Z",
    type="Recipe",
    canonical=False,
    metadata={"lang": "en", "n": 1},
    semantic_payload={"paid": True},
    schema_object={"@type": "Recipe", "name": "Soup"},
)
BARE = Document("bare", "Text")
VECTORS = normal(3, SPACE.dimensions) * np.float32(3)


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> SegmentReader:
    chunks = (
        Chunk("é/1#chunk_1", 1, "First part. ", 0, 12, "Top > Sub", 3),
        Chunk("é/1#chunk_2", 2, "Second part.", 12, 24, None, 0),
    )
    records = [Record(WHOLE, chunks, b"w" * 16), Record(BARE, (Chunk("bare#chunk_1", 1, "Text", 0, 4),), b"b" * 16)]
    return write_segment(tmp_path_factory.mktemp("segment"), records, VECTORS)


@pytest.fixture
def chunks(segment: SegmentReader) -> list[StoredChunk]:
    return [StoredChunk(segment, row) for row in range(3)]


def test_a_chunk_gives_back_what_was_written_of_it(chunks: list[StoredChunk]) -> None:
    assert [chunk.id for chunk in chunks] == ["é/1#chunk_1", "é/1#chunk_2", "bare#chunk_1"]
    assert [chunk.text for chunk in chunks] == ["First part. ", "Second part.", "Text"]
    assert [chunk.span for chunk in chunks] == [(0, 12), (12, 24), (0, 4)]
    assert [chunk.section for chunk in chunks] == ["Top > Sub", None, None]
    assert [chunk.passage[3] for chunk in chunks] == [3, 0, None]
    assert [chunk.digest for chunk in chunks] == [hashlib.sha256(chunk.text.encode()).digest() for chunk in chunks]
    assert chunks[2].content_hash == "sha256:" + hashlib.sha256(b"Text").hexdigest()


def test_a_chunk_knows_its_document(chunks: list[StoredChunk], segment: SegmentReader) -> None:
    assert [chunk.document_row for chunk in chunks] == [0, 0, 1]
    assert [chunk.document_chunk_count for chunk in chunks] == [2, 2, 1]
    assert [chunk.document_id for chunk in chunks] == ["é/1", "é/1", "bare"]
    assert [chunk.document_key for chunk in chunks] == [(segment.id, 0), (segment.id, 0), (segment.id, 1)]
    assert [chunk.title for chunk in chunks] == ['A "title"', 'A "title"', None]
    assert [chunk.url for chunk in chunks] == ["https://example.org/1"] * 2 + [None]
    assert [chunk.type for chunk in chunks] == ["Recipe", "Recipe", None]
    assert [chunk.updated_at for chunk in chunks] == ["2026-03-01T00:00:00Z"] * 2 + [TIME]
    assert [chunk.metadata for chunk in chunks] == [WHOLE.metadata, WHOLE.metadata, {}]
    assert [chunk.json_payload for chunk in chunks] == [b'{"paid":true}'] * 2 + [None]
    assert chunks[0].schema_object == orjson.dumps(WHOLE.schema_object)
    assert chunks[2].schema_object is None


def test_the_json_of_a_chunk_is_what_answers_show_of_it(chunks: list[StoredChunk]) -> None:
    assert orjson.loads(chunks[0].fragments[0]) == "é/1#chunk_1"
    assert orjson.loads(chunks[0].fragments[1]) == {
        "url": "https://example.org/1", "title": 'A "title"', "section": "Top > Sub",
    }  # fmt: skip
    assert orjson.loads(b"{" + chunks[0].fragments[2] + b"}") == {
        "updated_at": "2026-03-01T00:00:00Z", "canonical": False, "lang": "en", "n": 1,
        "content_hash": chunks[0].content_hash,
    }  # fmt: skip
    assert orjson.loads(chunks[2].fragments[1]) == {}
    assert orjson.loads(b"{" + chunks[2].fragments[2] + b"}") == {
        "updated_at": TIME, "canonical": True, "content_hash": chunks[2].content_hash,
    }  # fmt: skip


def test_the_columns_of_a_hit_say_what_the_properties_say(chunks: list[StoredChunk]) -> None:
    for chunk in chunks:
        assert chunk.fragments[0] == orjson.dumps(chunk.id)
        assert (*chunk.passage[:3], chunk.passage[4]) == (chunk.document_key, chunk.id, chunk.text, chunk.digest)
    assert len({chunk.fragments[3] for chunk in chunks}) == 3


def test_a_chunk_knows_the_digests_of_all_chunks_of_its_document(chunks: list[StoredChunk]) -> None:
    for chunk in chunks:
        siblings = [one for one in chunks if one.document_key == chunk.document_key]
        assert chunk.document_digests == [(one.id, one.digest) for one in siblings]


def test_a_chunk_gives_back_its_vector_at_its_own_length(chunks: list[StoredChunk]) -> None:
    for chunk, vector in zip(chunks, VECTORS, strict=True):
        np.testing.assert_allclose(chunk.vectors()[SPACE.id], vector, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("member", ["title", "url", "updated_at", "semantic_payload", "metadata", "canonical", "text"])
def test_the_etag_differs_where_anything_differs_that_an_answer_shows(member: str, tmp_path: Path) -> None:
    other: dict[str, Any] = {
        "metadata": {"n": 2},
        "canonical": False,
        "text": "Texts",
        "updated_at": "2026-01-01T00:00:00Z",
    }
    etags = set()
    changed: dict[str, Any] = {member: other.get(member, "other")}
    for document in (BARE, replace(BARE, **changed)):
        chunk = Chunk("bare#chunk_1", 1, document.text, 0, len(document.text))
        etags.add(StoredChunk(write_segment(tmp_path, [Record(document, (chunk,), b"b" * 16)]), 0).fragments[3])
    assert len(etags) == 2
