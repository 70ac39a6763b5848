"""Vector indexes on disk: they come back as they were, and one that does not fit its vectors is refused."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pytest

from aidre.engine.index.vectors.distance import VectorColumn
from aidre.engine.index.vectors.encoding import encode_query
from aidre.engine.index.vectors.quantizer import (
    Quantized,
    centroids_of,
    quantize_rows,
    row_blocks,
    train_centroids,
    train_codebook,
    with_centroids,
    with_prepared_centroids,
)
from aidre.engine.index.vectors.scan import PreparedScan, ScanGroup
from aidre.engine.index.vectors.transform import Transform, train_transform
from aidre.engine.index.vectors.vector_index import (
    VectorIndex,
    build_index_batch,
    index_to_batch,
    open_index,
    serialize_codebook,
)
from aidre.engine.model import Distance
from aidre.engine.storage.arrow import FileProblem, open_file, write_file
from aidre.engine.storage.format import INDEX_SCHEMA
from tests.engine.index.vectors.vector_indexes import (
    DIMENSIONS,
    LISTS,
    ROWS,
    codes_of,
    column_of,
    index_of,
    listed_index,
    probing,
    query_of,
    rotated_index,
)
from tests.support.stores import DISTANCES, space_of, structured

# -- on disk -----------------------------------------------------------------------------------------------


def stored(tmp_path: Path, checksum: str = "abc") -> tuple[Any, VectorColumn]:
    column = column_of("cosine", structured(1500, DIMENSIONS))
    built = quantize_rows(train_codebook(space_of("cosine", DIMENSIONS), column.codes, 12), row_blocks(column.codes))
    batch = index_to_batch(built, checksum, 1500)
    entry = write_file(tmp_path / "index.arrow", [batch], batch.schema)
    return open_file(tmp_path / "index.arrow", entry, whole=True).batches[0], column


def test_an_index_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    batch, column = stored(tmp_path)
    space = space_of("cosine", DIMENSIONS)
    opened = open_index(space, batch, 1500, "abc")
    del batch
    fresh = index_of("cosine", column, 12)
    query = encode_query(space, structured(1, DIMENSIONS, 1)[0])
    found = [PreparedScan(ScanGroup([scan])).search(query, 100)[0].tolist() for scan in (opened, fresh)]
    assert found[0] == found[1]


def test_a_codebook_that_travels_as_text_encodes_rows_alike() -> None:
    column = column_of("cosine", structured(1500, DIMENSIONS))
    space = space_of("cosine", DIMENSIONS)
    scan = index_of("cosine", column, 12)
    sent = open_index(space, build_index_batch(column.codes, serialize_codebook(scan), "abc", 1500), 1500, "abc")
    query = encode_query(space, structured(1, DIMENSIONS, 1)[0])
    assert sent.codebook_key == scan.codebook_key
    found = [PreparedScan(ScanGroup([one])).search(query, 100)[0].tolist() for one in (scan, sent)]
    assert found[0] == found[1]


def test_an_index_of_an_older_release_with_smaller_blocks_is_still_read() -> None:
    column = column_of("dot", structured(1500, DIMENSIONS))
    space = space_of("dot", DIMENSIONS)
    older = faiss.index_factory(DIMENSIONS, "IVF1,PQ12x4fs", faiss.METRIC_INNER_PRODUCT)
    older.train(column.codes.astype(np.float32))
    older.add(column.codes.astype(np.float32))
    scan = open_index(space, index_to_batch(Quantized((older,)), "abc", 1500), 1500, "abc")
    query = encode_query(space, structured(1, DIMENSIONS, 1)[0])
    expected = older.search(query, 50)[0][0].tolist()
    assert PreparedScan(ScanGroup([scan])).search(query, 50)[1].tolist() == expected


def test_an_index_of_another_kind_is_refused() -> None:
    other = faiss.index_factory(DIMENSIONS, "IVF2,PQ12x4fs", faiss.METRIC_INNER_PRODUCT)
    rows = structured(1500, DIMENSIONS)
    other.train(rows)
    other.add(rows)
    with pytest.raises(FileProblem, match="kind"):
        open_index(space_of("cosine", DIMENSIONS), index_to_batch(Quantized((other,)), "abc", 1500), 1500, "abc")


def test_an_index_of_other_vectors_is_refused(tmp_path: Path) -> None:
    batch, _ = stored(tmp_path)
    with pytest.raises(FileProblem, match="other vectors"):
        open_index(space_of("cosine", DIMENSIONS), batch, 1500, "another")


def test_an_index_that_does_not_fit_its_segment_is_refused(tmp_path: Path) -> None:
    batch, _ = stored(tmp_path)
    with pytest.raises(FileProblem, match="does not match the vectors"):
        open_index(space_of("cosine", DIMENSIONS), batch, 1499, "abc")
    with pytest.raises(FileProblem, match="does not match the vectors"):
        open_index(space_of("cosine", DIMENSIONS * 2), batch, 1500, "abc")


@pytest.mark.parametrize("body", [b"", b"nonsense", b"IwPf" + b"\xff" * 200])
def test_bytes_that_are_no_index_are_refused(body: bytes) -> None:
    schema = INDEX_SCHEMA.with_metadata({"vectors": "abc"})
    batch = pa.RecordBatch.from_arrays([pa.array([body], pa.large_binary())], schema=schema)
    with pytest.raises(FileProblem, match="cannot be read"):
        open_index(space_of("cosine", 8), batch, 5, "abc")


def test_lists_come_back_from_disk_as_they_were() -> None:
    scan = listed_index("euclidean", structured(ROWS, DIMENSIONS))
    opened = open_index(scan.space, index_to_batch(scan.quantized, "abc", 1500), ROWS, "abc")
    assert opened.codebook_key == scan.codebook_key
    assert (opened.assignments == scan.assignments).all()
    found = [
        PreparedScan(ScanGroup([one])).search(query_of("euclidean"), 100, probing(4))[0].tolist()
        for one in (opened, scan)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_codebook_with_centroids_travels_as_text(distance: Distance) -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan = listed_index(distance, rows)
    batch = build_index_batch(codes_of(distance, rows), serialize_codebook(scan), "abc", 1500)
    sent = open_index(scan.space, batch, ROWS, "abc")
    assert sent.codebook_key == scan.codebook_key
    assert (sent.assignments == scan.assignments).all()
    few = build_index_batch(codes_of(distance, rows[:300]), serialize_codebook(sent), "abc", 1500)
    assert (small := open_index(scan.space, few, 300, "abc")).nlist == 0
    assert small.codes_key == scan.codes_key


@pytest.mark.parametrize("name", ["x", "xx", "a-longer-name"])
def test_codes_stay_in_the_file_and_outlive_what_opened_it(name: str, tmp_path: Path) -> None:
    scan = listed_index("cosine", structured(ROWS, DIMENSIONS))
    batch = index_to_batch(scan.quantized, name, 1500)
    entry = write_file(tmp_path / "index.arrow", [batch], batch.schema)
    opened = open_file(tmp_path / "index.arrow", entry, whole=True).batches[0]
    mapped = opened.column(0).buffers()[2]
    again = open_index(scan.space, opened, ROWS, name)
    codes = again.quantized[0].codes
    assert mapped.address <= codes.ctypes.data < mapped.address + mapped.size
    sweep = ScanGroup([again])
    del opened, mapped, codes, again
    gc.collect()
    for reach in (None, probing(4)):
        found = [
            PreparedScan(one).search(query_of("cosine"), 100, reach)[0].tolist() for one in (sweep, ScanGroup([scan]))
        ]
        assert found[0] == found[1]


# -- rotated -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_lists", [False, True])
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_rotated_index_comes_back_from_disk_as_it_was(distance: Distance, has_lists: bool, tmp_path: Path) -> None:
    scan = rotated_index(distance, structured(ROWS, DIMENSIONS), has_lists=has_lists)
    batch = index_to_batch(scan.quantized, "abc", 1500)
    entry = write_file(tmp_path / "index.arrow", [batch], batch.schema)
    stored_batch = open_file(tmp_path / "index.arrow", entry, whole=True).batches[0]
    opened = open_index(scan.space, stored_batch, ROWS, "abc")
    del stored_batch, batch
    gc.collect()
    assert opened.transform is not None
    assert opened.codebook_key == scan.codebook_key
    assert opened.nlist == scan.nlist == (LISTS if has_lists else 0)
    for depth in (None, probing(4)):
        found = [
            PreparedScan(ScanGroup([one])).search(query_of(distance), 100, depth)[0].tolist() for one in (opened, scan)
        ]
        assert found[0] == found[1]


@pytest.mark.parametrize("has_lists", [False, True])
def test_a_codebook_that_rotates_travels_as_text(has_lists: bool) -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan = rotated_index("cosine", rows, has_lists=has_lists)
    batch = build_index_batch(codes_of("cosine", rows), serialize_codebook(scan), "abc", 1500)
    sent = open_index(scan.space, batch, ROWS, "abc")
    assert sent.codebook_key == scan.codebook_key
    found = [PreparedScan(ScanGroup([one])).search(query_of("cosine"), 100)[0].tolist() for one in (sent, scan)]
    assert found[0] == found[1]


def test_codebooks_with_other_rotations_are_other_codebooks() -> None:
    scan = rotated_index("cosine", structured(ROWS, DIMENSIONS))
    assert scan.transform is not None
    turned = VectorIndex(scan.space, replace(scan.quantized, transform=Transform(scan.transform.rotation[::-1].copy())))
    plain = VectorIndex(scan.space, replace(scan.quantized, transform=None))
    assert len({scan.codes_key, turned.codes_key, plain.codes_key}) == 3


@pytest.mark.parametrize("has_lists", [False, True])
@pytest.mark.parametrize("how", ["lost", "short", "no numbers", "no rotation", "of other vectors", "of another kind"])
def test_an_index_with_a_damaged_rotation_is_refused(how: str, has_lists: bool) -> None:
    scan = rotated_index("dot", structured(ROWS, DIMENSIONS), has_lists=has_lists)
    batch = index_to_batch(scan.quantized, "abc", 1500)
    *values, rotation = batch.column(0).to_pylist()
    numbers = np.frombuffer(rotation, np.float16).reshape(-1, DIMENSIONS).copy()
    if how == "no numbers":
        numbers[0, 0] = np.nan
    elif how == "no rotation":
        numbers[1] = numbers[2]
    elif how == "of other vectors":
        numbers = np.eye(len(numbers), 2 * DIMENSIONS, dtype=np.float16)
    rotation = numbers.tobytes()[: -2 if how == "short" else None]
    metadata = {**batch.schema.metadata, **({b"kind": b"rotated twice"} if how == "of another kind" else {})}
    column = pa.array([*values, *([] if how == "lost" else [rotation])], pa.large_binary())
    damaged = pa.RecordBatch.from_arrays([column], schema=INDEX_SCHEMA.with_metadata(metadata))
    with pytest.raises(FileProblem):
        open_index(scan.space, damaged, ROWS, "abc")


def as_before(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The file with the kind that had centroids which are not rotated."""
    metadata = {**batch.schema.metadata, b"kind": b"rotated codes in lists"}
    return pa.RecordBatch.from_arrays([batch.column(0)], schema=batch.schema.with_metadata(metadata))


def test_centroids_of_files_of_earlier_releases_are_rotated_when_they_are_opened() -> None:
    space, codes = space_of("cosine", DIMENSIONS), codes_of("cosine", structured(ROWS, DIMENSIONS))
    transform, centroids = train_transform(codes, 12, DIMENSIONS), train_centroids(space, codes, LISTS)
    trained = train_codebook(space, codes, 12, transform)
    old = quantize_rows(with_prepared_centroids(space, trained, centroids), row_blocks(codes))
    opened = open_index(space, as_before(index_to_batch(old, "abc", 1500)), ROWS, "abc")
    codebook = opened.codebook()
    assert np.abs(centroids_of(codebook.index) - transform.apply(centroids)).max() < 1e-3
    new = index_to_batch(quantize_rows(codebook, row_blocks(codes)), "abc", 1500)
    assert open_index(space, new, ROWS, "abc").codebook_key == opened.codebook_key


def test_codes_of_fewer_dimensions_are_refused_without_their_rotation_and_with_other_centroids() -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan = rotated_index("dot", rows, 8)
    assert scan.codebook().index.d < DIMENSIONS
    with pytest.raises(FileProblem, match="does not match the vectors"):
        open_index(scan.space, index_to_batch(replace(scan.quantized, transform=None), "abc", 1500), ROWS, "abc")
    codebook = scan.codebook()
    rotated = scan.transform.apply(rows) if scan.transform is not None else rows
    alone = with_centroids(scan.space, replace(codebook, transform=None), rotated[:LISTS])
    listed = replace(quantize_rows(alone, row_blocks(rotated)), transform=scan.transform)
    batch = index_to_batch(listed, "abc", 1500)
    assert open_index(scan.space, batch, ROWS, "abc").nlist == LISTS
    with pytest.raises(FileProblem, match="does not match the vectors"):
        open_index(scan.space, as_before(batch), ROWS, "abc")
