"""FAISS over columns that it does not own: exact search, scans, bitmaps, and indexes that fit their vectors only."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pytest

from aidre.engine.index.vectors.codes import (
    VectorIndex,
    build_index_batch,
    index_to_batch,
    open_index,
    serialize_codebook,
)
from aidre.engine.index.vectors.distance import Bitmap, VectorColumn, metric_of, score_rows
from aidre.engine.index.vectors.encoding import encode, encode_query
from aidre.engine.index.vectors.quantizer import code_sizes, quantize_rows, row_blocks, train_codebook
from aidre.engine.index.vectors.scan import Scan, ScanGroup
from aidre.engine.model import Distance
from aidre.engine.storage.arrow import FileProblem, open_file, write_file
from aidre.engine.storage.format import INDEX_SCHEMA, MAX_SEGMENT_ROWS
from tests.support.stores import DISTANCES, Vectors, normal, space_of, structured, true_scores

DIMENSIONS = 48


def column_of(distance: Distance, rows: Vectors) -> VectorColumn:
    space = space_of(distance, rows.shape[1])
    return VectorColumn(space, encode(space, rows).codes)


def scan_of(distance: Distance, column: VectorColumn, code_size: int) -> VectorIndex:
    space = space_of(distance, column.codes.shape[1])
    built = quantize_rows(train_codebook(space, column.codes, code_size), row_blocks(column.codes))
    return VectorIndex(space, built)


def bits_of(mask: Any) -> Bitmap:
    return Bitmap(np.packbits(mask, bitorder="little"))


def every(column: VectorColumn) -> Any:
    return np.arange(len(column))


def evaluate(column: VectorColumn, rows: Any, query: Vectors) -> Any:
    """The score of each of some rows, in their order."""
    positions, found = score_rows([(column, rows)], query)
    scores = np.empty(len(rows))
    scores[positions] = found
    return scores


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dimensions", [1, 7, 64, 384])
def test_exact_search_and_evaluation_give_the_same_scores_to_the_last_bit(distance: Distance, dimensions: int) -> None:
    rows = normal(500, dimensions)
    column = column_of(distance, rows)
    query = encode_query(space_of(distance, dimensions), normal(1, dimensions, 1)[0])
    found, scores = column.search(query, 500, None)
    assert sorted(found.tolist()) == list(range(500))
    assert (scores[:-1] >= scores[1:]).all()
    assert (evaluate(column, every(column), query)[found] == scores).all()
    assert (evaluate(column, found[10:50], query) == scores[10:50]).all()
    assert np.allclose(scores, true_scores(distance, rows, normal(1, dimensions, 1)[0])[found], atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("ties", [1, 5, 60])
def test_the_nearest_of_rows_are_the_best_and_all_ties_with_the_last_with_the_scores_they_always_have(
    distance: Distance, ties: int
) -> None:
    column = column_of(distance, np.repeat(normal(300, 16), ties, axis=0))
    query = encode_query(space_of(distance, 16), normal(1, 16, 1)[0])
    known = evaluate(column, every(column), query)
    for wanted in (1, 7, len(known) - 1, len(known) + 5):
        places, scores = score_rows([(column, every(column))], query, wanted)
        assert (scores == known[places]).all()
        assert (scores[:-1] >= scores[1:]).all()
        reached = np.flatnonzero(known >= np.sort(known)[::-1][:wanted][-1])
        assert set(reached.tolist()) <= set(places.tolist())
        assert len(set(places.tolist())) == len(places)


@pytest.mark.parametrize("distance", DISTANCES)
def test_rows_of_several_columns_are_compared_as_those_of_one(distance: Distance) -> None:
    rows = normal(900, 24)
    one, two, all_ = (column_of(distance, part) for part in (rows[:400], rows[400:], rows))
    query = encode_query(space_of(distance, 24), normal(1, 24, 1)[0])
    first, second = np.arange(0, 400, 3), np.arange(0, 500, 7)
    places, scores = score_rows([(one, first), (two, second[:0]), (two, second)], query)
    chosen = np.concatenate([first, second + 400])
    assert (scores == evaluate(all_, chosen[places], query)).all()
    assert sorted(places.tolist()) == list(range(len(chosen)))


def test_no_rows_have_no_nearest() -> None:
    places, scores = score_rows([], np.ones((1, 4), np.float32), 10)
    assert len(places) == len(scores) == 0


def test_what_was_compared_before_leaves_no_trace() -> None:
    column = column_of("dot", normal(5_000, 16))
    query = normal(1, 16, 1)
    known = evaluate(column, every(column), query)
    for count in (5_000, 3, 700, 1, 2_000):
        chosen = np.random.default_rng(count).permutation(5_000)[:count]
        places, scores = score_rows([(column, chosen)], query)
        assert sorted(places.tolist()) == list(range(count))
        assert (scores == known[chosen[places]]).all()


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 1000])
def test_a_bitmap_lets_its_rows_through_and_no_others(distance: Distance, rows: int) -> None:
    column = column_of(distance, normal(rows, DIMENSIONS))
    query = encode_query(space_of(distance, DIMENSIONS), normal(1, DIMENSIONS, 1)[0])
    mask = np.random.default_rng(0).random(rows) < 0.5
    mask[0] = True
    found, _ = column.search(query, rows, bits_of(mask))
    assert sorted(found.tolist()) == np.flatnonzero(mask).tolist()


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("code_size", [12, 24, 48])
def test_a_scan_yields_allowed_rows_once_each_best_first(distance: Distance, code_size: int) -> None:
    rows = structured(2000, DIMENSIONS)
    column = column_of(distance, rows)
    scan = scan_of(distance, column, code_size)
    assert scan.code_size == code_size
    sweep = ScanGroup([scan])
    query = encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, 1)[0])
    everything, seeming = Scan(sweep).search(query, 2000)
    assert sorted(everything.tolist()) == list(range(2000))
    assert (seeming[:-1] >= seeming[1:]).all()
    mask = np.arange(2000) % 3 == 0
    found, _ = Scan(sweep, bitmap=bits_of(mask)).search(query, 50)
    assert len(set(found.tolist())) == 50
    assert mask[found].all()
    fewer, _ = Scan(sweep, bitmap=bits_of(np.arange(2000) < 5)).search(query, 50)
    assert sorted(fewer.tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("distance", DISTANCES)
def test_what_a_scan_says_comes_near_the_exact_scores(distance: Distance) -> None:
    column = column_of(distance, structured(2000, DIMENSIONS))
    sweep = ScanGroup([scan_of(distance, column, DIMENSIONS)])
    query = encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, 1)[0])
    rows, seeming = Scan(sweep).search(query, 2000)
    assert np.corrcoef(seeming, evaluate(column, rows, query))[0, 1] > 0.95


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_sweep_over_segments_finds_what_one_of_all_their_rows_does(distance: Distance) -> None:
    rows = structured(3000, DIMENSIONS)
    column = column_of(distance, rows)
    whole = scan_of(distance, column, 24)
    ends = [0, 1, 500, 700, 3000]
    scans = []
    for slot, (start, end) in enumerate(itertools.pairwise(ends)):
        scan = VectorIndex(whole.space, quantize_rows(whole.codebook(), row_blocks(column.codes[start:end])))
        scan.assign_slot(slot)
        scans.append(scan)
    query = encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, 1)[0])
    seeming = np.empty(3000)
    numbers, values = Scan(ScanGroup([whole])).search(query, 3000)
    seeming[numbers] = values
    numbers, values = Scan(ScanGroup(scans)).search(query, 100)
    found = np.array(ends)[numbers // MAX_SEGMENT_ROWS] + numbers % MAX_SEGMENT_ROWS
    assert len(set(found.tolist())) == 100
    assert values.tolist() == seeming[found].tolist() == np.sort(seeming)[::-1][:100].tolist()
    numbers, _ = Scan(ScanGroup(scans), [0, 2]).search(query, 201)
    assert set(numbers.tolist()) == {0, *range(2 * MAX_SEGMENT_ROWS, 2 * MAX_SEGMENT_ROWS + 200)}


def test_scans_with_one_codebook_are_known_by_it() -> None:
    column = column_of("dot", structured(2000, DIMENSIONS))
    scan, other = scan_of("dot", column, 12), scan_of("dot", column_of("dot", structured(2000, DIMENSIONS, 5)), 12)
    alike = VectorIndex(scan.space, quantize_rows(scan.codebook(), row_blocks(column.codes[:100])))
    assert scan.codebook_key == alike.codebook_key
    assert scan.codebook_key != other.codebook_key


def test_dimensions_that_the_code_size_does_not_divide_are_padded() -> None:
    column = column_of("dot", structured(2000, 50))
    assert code_sizes(50) == [13, 25, 50]
    scan = scan_of("dot", column, 13)
    query = encode_query(space_of("dot", 50), structured(1, 50, 1)[0])
    assert len(Scan(ScanGroup([scan])).search(query, 10)[0]) == 10


def test_one_dimension_has_one_code_size() -> None:
    assert code_sizes(1) == [1]


def test_identical_rows_have_identical_scores_wherever_they_stand() -> None:
    rows = normal(1000, 384)
    rows[::3] = rows[0]
    for distance in DISTANCES:
        column = column_of(distance, rows)
        query = encode_query(space_of(distance, 384), normal(1, 384, 1)[0])
        assert len(np.unique(evaluate(column, every(column), query)[::3])) == 1


def test_a_column_is_searched_in_place(tmp_path: Path) -> None:
    codes = encode(space_of("dot", 8), normal(100, 8)).codes
    column = VectorColumn(space_of("dot", 8), codes)
    query = np.ones((1, 8), dtype=np.float32)
    before = column.search(query, 1, None)[0][0]
    codes[(before + 1) % 100] = 1e6
    assert column.search(query, 1, None)[0][0] == (before + 1) % 100


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
    fresh = scan_of("cosine", column, 12)
    query = encode_query(space, structured(1, DIMENSIONS, 1)[0])
    found = [Scan(ScanGroup([scan])).search(query, 100)[0].tolist() for scan in (opened, fresh)]
    assert found[0] == found[1]


def test_a_codebook_that_travels_as_text_encodes_rows_alike() -> None:
    column = column_of("cosine", structured(1500, DIMENSIONS))
    space = space_of("cosine", DIMENSIONS)
    scan = scan_of("cosine", column, 12)
    sent = open_index(space, build_index_batch(column.codes, serialize_codebook(scan), "abc", 1500), 1500, "abc")
    query = encode_query(space, structured(1, DIMENSIONS, 1)[0])
    assert sent.codebook_key == scan.codebook_key
    found = [Scan(ScanGroup([one])).search(query, 100)[0].tolist() for one in (scan, sent)]
    assert found[0] == found[1]


def test_an_index_of_an_older_release_with_smaller_blocks_is_still_read() -> None:
    column = column_of("dot", structured(1500, DIMENSIONS))
    space = space_of("dot", DIMENSIONS)
    older = faiss.index_factory(DIMENSIONS, "IVF1,PQ12x4fs", faiss.METRIC_INNER_PRODUCT)
    older.train(column.codes.astype(np.float32))
    older.add(column.codes.astype(np.float32))
    scan = open_index(space, index_to_batch([older], "abc", 1500), 1500, "abc")
    query = encode_query(space, structured(1, DIMENSIONS, 1)[0])
    expected = older.search(query, 50)[0][0].tolist()
    assert Scan(ScanGroup([scan])).search(query, 50)[1].tolist() == expected


def test_an_index_of_another_kind_is_refused() -> None:
    other = faiss.index_factory(DIMENSIONS, "IVF2,PQ12x4fs", faiss.METRIC_INNER_PRODUCT)
    rows = structured(1500, DIMENSIONS)
    other.train(rows)
    other.add(rows)
    with pytest.raises(FileProblem, match="kind"):
        open_index(space_of("cosine", DIMENSIONS), index_to_batch([other], "abc", 1500), 1500, "abc")


def test_an_index_of_other_vectors_is_refused(tmp_path: Path) -> None:
    batch, _ = stored(tmp_path)
    with pytest.raises(FileProblem, match="other vectors"):
        open_index(space_of("cosine", DIMENSIONS), batch, 1500, "another")


def test_an_index_that_does_not_fit_its_segment_is_refused(tmp_path: Path) -> None:
    batch, _ = stored(tmp_path)
    with pytest.raises(FileProblem, match="fit"):
        open_index(space_of("cosine", DIMENSIONS), batch, 1499, "abc")
    with pytest.raises(FileProblem, match="fit"):
        open_index(space_of("cosine", DIMENSIONS * 2), batch, 1500, "abc")


@pytest.mark.parametrize("body", [b"", b"nonsense", b"IwPf" + b"\xff" * 200])
def test_bytes_that_are_no_index_are_refused(body: bytes) -> None:
    schema = INDEX_SCHEMA.with_metadata({"vectors": "abc"})
    batch = pa.RecordBatch.from_arrays([pa.array([body], pa.large_binary())], schema=schema)
    with pytest.raises(FileProblem, match="cannot be read"):
        open_index(space_of("cosine", 8), batch, 5, "abc")


def test_a_measure_of_few_dimensions_uses_the_chord() -> None:
    assert metric_of(space_of("cosine", 8)).chord
    assert not metric_of(space_of("cosine", 384)).chord
