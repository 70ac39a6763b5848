"""Writing segments: whole under their name or not at all, and files that are added later."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from aidre.engine.errors import StorageFailed
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.segment import segment_writer
from aidre.engine.segment.build import ROW_FILES
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.segment.segment_writer import (
    add_file,
    add_vectors,
    key_array,
    publish_segment,
    rebatch,
    write_pending,
)
from aidre.engine.storage.arrow import FileEntry, check_file
from aidre.engine.storage.format import NO_KEY, SEGMENTS, keys_file, vectors_file
from tests.support.segments import open_segment, pending_rows, write_segment
from tests.support.stores import SPACE, normal, record, space_of

RECORDS = [record("a", ["one", "two"]), record("b")]


def stored(folder: Path) -> list[str]:
    return sorted(one.name for one in (folder / SEGMENTS).iterdir())


def test_a_written_segment_has_the_files_that_its_entry_names_and_they_are_read_only(tmp_path: Path) -> None:
    entry = write_pending(tmp_path, pending_rows(RECORDS, normal(3, 8)), [SPACE], [])
    assert (entry.documents, entry.chunks) == (2, 3)
    assert stored(tmp_path) == [entry.id]
    folder = tmp_path / SEGMENTS / entry.id
    assert {path.name for path in folder.iterdir()} == entry.files.keys()
    assert entry.files.keys() >= {f"{kind}.arrow" for kind in ROW_FILES}
    for name, file in entry.files.items():
        check_file(folder / name, file, whole=True)
        assert (folder / name).stat().st_mode & 0o222 == 0


def test_rows_are_freed_only_where_the_caller_says_so(tmp_path: Path) -> None:
    for release in (False, True):
        rows = pending_rows(RECORDS, normal(3, 8))
        write_pending(tmp_path, rows, [SPACE], [], release=release)
        assert bool(rows.document_batches) is not release


def test_what_is_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    def write(folder: Path) -> dict[str, FileEntry]:
        (folder / "half.arrow").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish_segment(tmp_path, 1, 1, write)
    assert stored(tmp_path) == []


def test_an_error_of_the_disk_names_the_segment(tmp_path: Path) -> None:
    def write(folder: Path) -> dict[str, FileEntry]:
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageFailed, match="No space left"):
        publish_segment(tmp_path, 1, 1, write)
    assert stored(tmp_path) == []


@pytest.mark.parametrize("sizes", [[], [3], [4], [1, 1, 1], [9, 2], [2, 0, 7, 3]])
def test_batches_are_cut_to_one_size(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_writer, "BATCH_ROWS", 4)
    ends = np.cumsum([0, *sizes]).tolist()
    batches = [pa.record_batch({"n": pa.array(range(a, b), pa.int64())}) for a, b in itertools.pairwise(ends)]
    cut = list(rebatch(iter(batches)))
    assert [number for batch in cut for number in batch.column(0).to_pylist()] == list(range(sum(sizes)))
    assert all(len(batch) == 4 for batch in cut[:-1])
    assert len(cut) == -(-sum(sizes) // 4)


def test_keys_are_one_column_and_absent_ones_are_zero() -> None:
    assert key_array([b"a" * 16, b"b" * 16], 2).to_pylist() == [b"a" * 16, b"b" * 16]
    assert key_array(None, 2).to_pylist() == [NO_KEY, NO_KEY]
    assert key_array([], 0).to_pylist() == []


@pytest.fixture
def segment(tmp_path: Path) -> SegmentReader:
    return write_segment(tmp_path, RECORDS)


def test_a_file_is_added_whole(segment: SegmentReader, tmp_path: Path) -> None:
    batch = pa.record_batch({"n": [1, 2, 3]})
    entry = add_file(tmp_path, segment.id, "later.arrow", batch)
    check_file(tmp_path / SEGMENTS / segment.id / "later.arrow", entry, whole=True)
    assert stored(tmp_path) == [segment.id]


@pytest.mark.parametrize("model", [None, "m"])
def test_the_vectors_of_another_space_are_added_in_blocks(
    model: str | None, segment: SegmentReader, tmp_path: Path
) -> None:
    other, vectors = space_of("dot", 4, model=model), normal(3, 4)
    keys = key_array([bytes([row] * 16) for row in (1, 2, 3)], 3)
    blocks = ((encode(other, vectors[part]), keys[part]) for part in (slice(0, 2), slice(2, 3)))
    files = add_vectors(tmp_path, segment.entry, other, blocks)
    assert files.keys() == {vectors_file(other.id), *([keys_file(other.id)] if model else [])}
    assert stored(tmp_path) == [segment.id]
    entry = type(segment.entry)(segment.id, 2, 3, {**segment.entry.files, **files})
    opened = open_segment(tmp_path, entry, other)
    assert opened.columns[other.id].codes.tolist() == vectors.tolist()
    assert opened.find_keys(other.id, keys.to_pylist()).tolist() == [0, 1, 2]


def test_an_addition_that_fails_leaves_the_segment_as_it_was(segment: SegmentReader, tmp_path: Path) -> None:
    before = {path.name for path in (tmp_path / SEGMENTS / segment.id).iterdir()}

    def blocks() -> object:
        yield encode(SPACE, normal(1, 8)), key_array(None, 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        add_vectors(tmp_path, segment.entry, SPACE, blocks())  # type: ignore[arg-type]
    assert {path.name for path in (tmp_path / SEGMENTS / segment.id).iterdir()} == before
    assert stored(tmp_path) == [segment.id]
