"""A merged segment: it is the one that its live documents would have made, and never a copy of damage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine.errors import StoreDamaged
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.model import EncodedVectors
from aidre.engine.segment import merge
from aidre.engine.segment.merge import LiveRows, live_rows, split_live_rows, write_merged
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.segment.stored_chunk import StoredChunk
from aidre.engine.segment.view import SegmentView
from aidre.engine.storage.format import CHUNKS_FILE, DOCUMENTS_FILE, SEGMENTS, vectors_file
from tests.support.segments import open_segment, without, write_segment
from tests.support.stores import normal, record, space_of

SPACE = space_of("cosine", 8, model="m")
RECORDS = [
    [record("a", ["cat", "dog"]), record("b"), record("c", ["x", "y", "z"], metadata={"n": 1}), record("d")],
    [record("e"), record("f", ["the bird", "the cat"], url="https://example.org/f")],
]
DELETED = [[0], [1]]
VECTORS = [normal(7, 8, 1), normal(3, 8, 2)]
KEYS = [[bytes([part, row] * 8) for row in range(10)] for part in (1, 2)]


def key_of(part: int, row: int) -> bytes:
    return KEYS[part][row]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[SegmentReader]:
    folder = tmp_path_factory.mktemp("parts")
    return [
        write_segment(folder, records, vectors, space=SPACE, keys=keys[: len(vectors)])
        for records, vectors, keys in zip(RECORDS, VECTORS, KEYS, strict=True)
    ]


@pytest.fixture
def sources(parts: list[SegmentReader]) -> list[LiveRows]:
    return [live_rows(part, without(part, gone).deleted) for part, gone in zip(parts, DELETED, strict=True)]


def content(segment: SegmentReader) -> dict[str, Any]:
    """All columns of documents and chunks, and what the derived files hold."""
    lexicon = segment.lexicon
    return {
        "documents": [batch.to_pylist() for batch in segment.documents.file.batches],
        "chunks": [batch.to_pylist() for batch in segment.chunks.file.batches],
        "codes": segment.columns[SPACE.id].codes.tolist(),
        "norms": segment.columns[SPACE.id].norms.tolist(),
        "keys": segment.key_column(SPACE.id).to_pylist(),
        "ranks": segment.ids.ranks.tolist(),
        "terms": {term: lexicon.postings(term).rows.tolist() for term in lexicon.terms.texts()},  # type: ignore[union-attr]
        "fields": segment.fields.names,
    }


def test_all_rows_are_live_where_nothing_is_deleted(parts: list[SegmentReader]) -> None:
    rows = live_rows(parts[0], None)
    assert rows.document_rows.tolist() == [0, 1, 2, 3]
    assert rows.chunk_rows.tolist() == list(range(7))


def test_live_rows_leave_out_documents_with_all_their_chunks(sources: list[LiveRows]) -> None:
    assert sources[0].document_rows.tolist() == [1, 2, 3]
    assert sources[0].chunk_rows.tolist() == [2, 3, 4, 5, 6]


def test_a_merge_makes_what_its_live_documents_would_make(
    parts: list[SegmentReader], sources: list[LiveRows], tmp_path: Path
) -> None:
    kept = [
        one
        for records, gone in zip(RECORDS, DELETED, strict=True)
        for row, one in enumerate(records)
        if row not in gone
    ]
    vectors = np.concatenate([VECTORS[0][2:], VECTORS[1][:1]])
    keys = [*KEYS[0][2:7], KEYS[1][0]]
    anew = write_segment(tmp_path, kept, vectors, space=SPACE, keys=keys)
    merged = open_segment(tmp_path, write_merged(tmp_path, sources, [SPACE]), SPACE)
    assert content(merged) == content(anew)
    assert merged.warnings == []
    assert merged.find_keys(SPACE.id, keys).tolist() == list(range(6))
    assert merged.find_documents([b"a", b"c", b"e"]).tolist() == [-1, 1, 3]
    assert list((tmp_path / SEGMENTS / merged.id).glob(".*")) == []


def test_recomputed_vectors_take_the_place_of_stored_ones(
    sources: list[LiveRows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "_RECOMPUTED_CHUNKS", 2)
    calls: list[list[str]] = []

    def compute(chunks: Sequence[StoredChunk]) -> tuple[EncodedVectors, Sequence[bytes]]:
        calls.append([chunk.id for chunk in chunks])
        rows = np.array([[ord(chunk.id[0]), *[1.0] * 7] for chunk in chunks])
        return encode(SPACE, rows), [chunk.id.encode().ljust(16) for chunk in chunks]

    merged = open_segment(tmp_path, write_merged(tmp_path, sources, [SPACE], {SPACE.id: compute}), SPACE)
    ids = [StoredChunk(merged, row).id for row in range(6)]
    assert [id_ for call in calls for id_ in call] == ids
    assert [len(call) for call in calls] == [2, 2, 1, 1]
    assert merged.key_column(SPACE.id).to_pylist() == [id_.encode().ljust(16) for id_ in ids]
    for row, id_ in enumerate(ids):
        np.testing.assert_allclose(StoredChunk(merged, row).vectors()[SPACE.id][0], ord(id_[0]), rtol=1e-3)


@pytest.mark.parametrize("name", [DOCUMENTS_FILE, CHUNKS_FILE, vectors_file(SPACE.id)])
def test_damage_is_not_copied(name: str, tmp_path: Path) -> None:
    segment = write_segment(tmp_path, RECORDS[0], VECTORS[0], space=SPACE)
    path = tmp_path / SEGMENTS / segment.id / name
    frame = segment.entry.files[name].frame
    assert frame[1][0] + frame[1][1] < frame[2][0]
    altered = bytearray(path.read_bytes())
    altered[frame[2][0] - 1] ^= 1  # in the body of the first batch
    path.unlink()
    path.write_bytes(altered)
    damaged = open_segment(tmp_path, segment.entry, SPACE)
    with pytest.raises(StoreDamaged, match=re.escape(name)):
        write_merged(tmp_path, [live_rows(damaged, None)], [SPACE])
    assert [one.name for one in (tmp_path / SEGMENTS).iterdir()] == [segment.id]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 100])
def test_pieces_hold_all_rows_in_order_and_no_more_chunks_than_they_may(most: int, parts: list[SegmentReader]) -> None:
    for deleted in (None, np.array([False, True, False, False])):
        rows = live_rows(parts[0], deleted)
        pieces = split_live_rows(rows, most)
        assert np.concatenate([piece.document_rows for piece in pieces]).tolist() == rows.document_rows.tolist()
        assert np.concatenate([piece.chunk_rows for piece in pieces]).tolist() == rows.chunk_rows.tolist()
        for piece in pieces:
            assert len(piece.chunk_rows) <= most or len(piece.document_rows) == 1
            owners = parts[0].chunks.numbers("document_row")[piece.chunk_rows]
            assert sorted(set(owners.tolist())) == piece.document_rows.tolist()
    assert len(split_live_rows(live_rows(parts[0], None), 100)) == 1


def test_documents_of_one_chunk_are_split_by_their_number(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, [record(name) for name in "abcde"])
    assert SegmentView(segment, None).segment.chunk_counts is None
    pieces = split_live_rows(live_rows(segment, None), 2)
    assert [piece.chunk_rows.tolist() for piece in pieces] == [[0, 1], [2, 3], [4]]
