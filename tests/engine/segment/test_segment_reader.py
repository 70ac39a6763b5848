"""An opened segment: look-ups, filters, and what happens where a file is damaged or missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.errors import StoreDamaged
from aidre.engine.index.fields import TITLE
from aidre.engine.index.fields.filters import Compare, parse_filter
from aidre.engine.index.text import postings
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.storage.format import (
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    FIELDS_FILE,
    IDS_FILE,
    LEXICON_FILE,
    SEGMENTS,
    keys_file,
    vectors_file,
)
from tests.support.fields import dated, stored_rows
from tests.support.segments import open_segment, write_segment
from tests.support.stores import normal, record, space_of

SPACE = space_of("cosine", 8, model="m")
RECORDS = [
    record("a", ["the cat", "the dog"], metadata={"n": 1, "born": "2026-04-01T02:00:00+02:00"}),
    record("é", metadata={"n": 2}),
    record("c", ["x", "y", "z"], metadata={"n": 1}),
]
KEYS = [bytes([row + 1] * 16) for row in range(6)]
DERIVED = [IDS_FILE, FIELDS_FILE, LEXICON_FILE, keys_file(SPACE.id)]
PRIMARY = [DOCUMENTS_FILE, CHUNKS_FILE, vectors_file(SPACE.id)]


def write(folder: Path) -> SegmentReader:
    return write_segment(folder, RECORDS, normal(6, 8), space=SPACE, keys=KEYS, dates=["born"])


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> SegmentReader:
    return write(tmp_path_factory.mktemp("segment"))


def assert_answers(segment: SegmentReader) -> None:
    """Every look-up finds what was written and nothing else."""
    assert segment.find_documents(["é".encode(), b"b", b"c", b"a"]).tolist() == [1, -1, 2, 0]
    assert [segment.find_chunk(id_) for id_ in ("c#chunk_2", "é#chunk_1", "é#chunk_2", "\ud800")] == [4, 2, None, None]
    assert segment.find_keys(SPACE.id, [KEYS[3], b"?" * 16, KEYS[0]]).tolist() == [3, -1, 0]
    assert segment.document_mask(parse_filter({"n": 1})).tolist() == [True, False, True]
    assert segment.document_mask(dated({"born": "2026-04-01"}, ["born"])).tolist() == [True, False, False]
    postings = segment.lexicon.postings("cat")
    assert postings is not None and postings.rows.tolist() == [0]


def test_what_was_written_is_found(segment: SegmentReader) -> None:
    assert_answers(segment)
    assert segment.warnings == []


def test_masks_over_documents_become_masks_over_their_chunks(segment: SegmentReader) -> None:
    assert segment.chunk_counts is not None and segment.chunk_counts.tolist() == [2, 1, 3]
    assert [list(segment.chunk_rows(row)) for row in range(3)] == [[0, 1], [2], [3, 4, 5]]
    assert np.flatnonzero(segment.to_chunks(np.array([True, False, True]))).tolist() == [0, 1, 3, 4, 5]


def test_the_mask_of_a_filter_is_made_once(segment: SegmentReader) -> None:
    asked = parse_filter({"n": 2})
    assert segment.document_mask(asked) is segment.document_mask(parse_filter({"and": [{"n": 2.0}]}))


def test_the_values_that_filters_see_are_read_from_the_documents(segment: SegmentReader) -> None:
    rows = list(stored_rows(segment))
    assert [row.document_id for row in rows] == ["a", "é", "c"]
    assert [row.metadata["n"] for row in rows] == [1, 2, 1]


def alter(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    path.unlink()
    if how == "altered":
        content[len(content) // 2] ^= 1
    if how != "missing":
        path.write_bytes(content[:-1] if how == "truncated" else content)


@pytest.mark.parametrize("how", ["missing", "truncated", "altered", "unnamed"])
@pytest.mark.parametrize("name", DERIVED)
def test_a_derived_file_that_cannot_be_trusted_is_rebuilt_with_a_warning(name: str, how: str, tmp_path: Path) -> None:
    entry = write(tmp_path).entry
    if how == "unnamed":
        entry = replace(entry, files={key: file for key, file in entry.files.items() if key != name})
    else:
        alter(tmp_path / SEGMENTS / entry.id / name, how)
    opened = open_segment(tmp_path, entry, SPACE, ["born"])
    assert_answers(opened)
    assert len(opened.warnings) == 1
    assert f"{entry.id}/{name}" in opened.warnings[0] and opened.warnings[0].endswith("rebuilt in memory")
    assert ("older release" in opened.warnings[0]) is (how == "unnamed")


def test_titles_that_are_damaged_are_an_error_of_a_filter_on_them(tmp_path: Path) -> None:
    entry = write_segment(tmp_path, [record(name, title=f"Title {name}") for name in "ab"], normal(2, 8)).entry
    path = tmp_path / SEGMENTS / entry.id / DOCUMENTS_FILE
    content = path.read_bytes()
    assert content.count(b"Title aTitle b") == 1
    path.chmod(0o600)
    path.write_bytes(content.replace(b"Title aTitle b", b"\xff" * 14))
    opened = open_segment(tmp_path, entry)
    assert opened.document_mask(parse_filter({"document_id": "a"})).tolist() == [True, False]
    with pytest.raises(StoreDamaged, match="restore it from a backup") as caught:
        opened.document_mask(Compare(TITLE, "contains", "a"))
    assert str(caught.value.details["file"]).endswith(f"{entry.id}/{DOCUMENTS_FILE}")


@pytest.mark.parametrize("how", ["missing", "truncated", "rows", "unnamed"])
@pytest.mark.parametrize("name", PRIMARY)
def test_a_segment_whose_primary_file_is_damaged_is_not_opened(name: str, how: str, tmp_path: Path) -> None:
    entry = write(tmp_path).entry
    if how == "unnamed":
        entry = replace(entry, files={key: file for key, file in entry.files.items() if key != name})
    elif how == "rows":
        entry = replace(entry, documents=9) if name == DOCUMENTS_FILE else replace(entry, chunks=9)
    else:
        alter(tmp_path / SEGMENTS / entry.id / name, how)
    with pytest.raises(StoreDamaged, match="restore it from a backup") as caught:
        open_segment(tmp_path, entry, SPACE)
    if how != "rows" or name != vectors_file(SPACE.id):  # chunks.arrow, which has as many rows, is opened before
        assert str(caught.value.details["file"]).endswith(f"{entry.id}/{name}")


def test_a_lexicon_of_another_analysis_answers_no_query_and_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(postings, "ANALYSIS_VERSION", "1")
        entry = write(tmp_path).entry
    opened = open_segment(tmp_path, entry, SPACE, ["born"])
    assert_answers(opened)
    (warning,) = opened.warnings
    assert f"{entry.id}/{LEXICON_FILE}" in warning and "text analysis; compact the collection" in warning
