"""FAISS over columns that it does not own: exact search, scans, bitmaps, and indexes that fit their vectors only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from building import DISTANCES, Vectors, normal, space_of, structured, true_scores

from aidre.engine import index
from aidre.engine.arrow import FileProblem, open_file, write_file
from aidre.engine.index import Bits, Column, Scan, blocks_of, evaluate, fill, index_batch, measure_of, open_scan, train
from aidre.engine.model import Distance
from aidre.engine.schema import INDEX
from aidre.engine.vectors import encode, encode_query

DIMENSIONS = 48


def column_of(distance: Distance, rows: Vectors) -> Column:
    space = space_of(distance, rows.shape[1])
    return Column(space, encode(space, rows).codes)


def scan_of(distance: Distance, column: Column, code_size: int) -> Scan:
    space = space_of(distance, column.codes.shape[1])
    built = fill(train(space, column.codes, code_size), blocks_of(column.codes))
    return Scan(space, built, None)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dimensions", [1, 7, 64, 384])
def test_exact_search_and_evaluation_give_the_same_scores_to_the_last_bit(distance: Distance, dimensions: int) -> None:
    rows = normal(500, dimensions)
    column = column_of(distance, rows)
    query = encode_query(space_of(distance, dimensions), normal(1, dimensions, 1)[0])
    found, scores = column.search(query, 500, None)
    assert sorted(found.tolist()) == list(range(500))
    assert (scores[:-1] >= scores[1:]).all()
    assert (evaluate(column.measure, column.codes, query)[found] == scores).all()
    some = found[10:50]
    assert (evaluate(column.measure, column.take(some), query) == scores[10:50]).all()
    assert np.allclose(scores, true_scores(distance, rows, normal(1, dimensions, 1)[0])[found], atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("ties", [1, 5, 60])
def test_an_evaluation_for_the_best_scores_those_and_all_ties_with_the_last_as_one_of_all(
    distance: Distance, ties: int
) -> None:
    column = column_of(distance, np.repeat(normal(300, 16), ties, axis=0))
    query = encode_query(space_of(distance, 16), normal(1, 16, 1)[0])
    every = evaluate(column.measure, column.codes, query)
    for best in (1, 7, len(every) - 1, len(every) + 5):
        some = evaluate(column.measure, column.codes, query, best)
        reached = every >= np.sort(every)[::-1][:best][-1]
        assert (some[reached] == every[reached]).all()
        assert ((some == every) | (some == -np.inf)).all()


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 1000])
def test_a_bitmap_lets_its_rows_through_and_no_others(distance: Distance, rows: int) -> None:
    column = column_of(distance, normal(rows, DIMENSIONS))
    query = encode_query(space_of(distance, DIMENSIONS), normal(1, DIMENSIONS, 1)[0])
    mask = np.random.default_rng(0).random(rows) < 0.5
    mask[0] = True
    found, _ = column.search(query, rows, Bits(mask))
    assert sorted(found.tolist()) == np.flatnonzero(mask).tolist()


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("code_size", [12, 24, 48])
def test_a_scan_yields_allowed_rows_once_each_best_first(distance: Distance, code_size: int) -> None:
    rows = structured(2000, DIMENSIONS)
    column = column_of(distance, rows)
    scan = scan_of(distance, column, code_size)
    assert scan.code_size == code_size
    query = encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, 1)[0])
    everything, scores = scan.search(query, 5000, None)
    assert sorted(everything.tolist()) == list(range(2000))
    assert (scores[:-1] >= scores[1:]).all()
    mask = np.arange(2000) % 3 == 0
    found, _ = scan.search(query, 50, Bits(mask))
    assert len(set(found.tolist())) == 50
    assert mask[found].all()
    fewer, _ = scan.search(query, 50, Bits(np.arange(2000) < 5))
    assert sorted(fewer.tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_scan_s_scores_come_near_the_exact_ones(distance: Distance) -> None:
    column = column_of(distance, structured(2000, DIMENSIONS))
    scan = scan_of(distance, column, DIMENSIONS)
    query = encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, 1)[0])
    rows, approximate = scan.search(query, 2000, None)
    exact = evaluate(column.measure, column.codes, query)[rows]
    assert np.corrcoef(approximate, exact)[0, 1] > 0.98


def test_dimensions_that_the_code_size_does_not_divide_are_padded() -> None:
    column = column_of("dot", structured(2000, 50))
    assert index.code_sizes(50) == [13, 25, 50]
    scan = scan_of("dot", column, 13)
    query = encode_query(space_of("dot", 50), structured(1, 50, 1)[0])
    assert len(scan.search(query, 10, None)[0]) == 10


def test_one_dimension_has_one_code_size() -> None:
    assert index.code_sizes(1) == [1]


def test_identical_rows_have_identical_scores_wherever_they_stand() -> None:
    rows = normal(1000, 384)
    rows[::3] = rows[0]
    for distance in DISTANCES:
        column = column_of(distance, rows)
        query = encode_query(space_of(distance, 384), normal(1, 384, 1)[0])
        assert len(np.unique(evaluate(column.measure, column.codes, query)[::3])) == 1


def test_a_column_is_searched_in_place(tmp_path: Path) -> None:
    codes = encode(space_of("dot", 8), normal(100, 8)).codes
    column = Column(space_of("dot", 8), codes)
    query = np.ones((1, 8), dtype=np.float32)
    before = column.search(query, 1, None)[0][0]
    codes[(before + 1) % 100] = 1e6
    assert column.search(query, 1, None)[0][0] == (before + 1) % 100


# -- on disk -----------------------------------------------------------------------------------------------


def stored(tmp_path: Path, checksum: str = "abc") -> tuple[Any, Column]:
    column = column_of("cosine", structured(1500, DIMENSIONS))
    built = fill(train(space_of("cosine", DIMENSIONS), column.codes, 12), blocks_of(column.codes))
    batch = index_batch(built, checksum, 1500)
    entry = write_file(tmp_path / "index.arrow", [batch], batch.schema)
    return open_file(tmp_path / "index.arrow", entry, whole=True).batches[0], column


def test_an_index_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    batch, column = stored(tmp_path)
    space = space_of("cosine", DIMENSIONS)
    opened = open_scan(space, batch, 1500, "abc")
    del batch
    fresh = scan_of("cosine", column, 12)
    query = encode_query(space, structured(1, DIMENSIONS, 1)[0])
    assert (opened.search(query, 100, None)[0] == fresh.search(query, 100, None)[0]).all()


def test_an_index_of_other_vectors_is_refused(tmp_path: Path) -> None:
    batch, _ = stored(tmp_path)
    with pytest.raises(FileProblem, match="other vectors"):
        open_scan(space_of("cosine", DIMENSIONS), batch, 1500, "another")


def test_an_index_that_does_not_fit_its_segment_is_refused(tmp_path: Path) -> None:
    batch, _ = stored(tmp_path)
    with pytest.raises(FileProblem, match="fit"):
        open_scan(space_of("cosine", DIMENSIONS), batch, 1499, "abc")
    with pytest.raises(FileProblem, match="fit"):
        open_scan(space_of("cosine", DIMENSIONS * 2), batch, 1500, "abc")


@pytest.mark.parametrize("body", [b"", b"nonsense", b"IwPf" + b"\xff" * 200])
def test_bytes_that_are_no_index_are_refused(body: bytes) -> None:
    schema = INDEX.with_metadata({"vectors": "abc"})
    batch = pa.RecordBatch.from_arrays([pa.array([body], pa.large_binary())], schema=schema)
    with pytest.raises(FileProblem, match="cannot be read"):
        open_scan(space_of("cosine", 8), batch, 5, "abc")


def test_a_measure_of_few_dimensions_uses_the_chord() -> None:
    assert measure_of(space_of("cosine", 8)).chord
    assert not measure_of(space_of("cosine", 384)).chord
