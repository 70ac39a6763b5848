"""Codebooks and centroids: sizes of codes, the two lists of a row, and blocks of rows."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from aidre.engine.index.vectors import quantizer
from aidre.engine.index.vectors.encoding import encode_query
from aidre.engine.index.vectors.quantizer import (
    MAX_LISTS,
    MIN_LISTED_ROWS,
    assign_lists,
    centroids_of,
    code_sizes,
    codebook_for,
    copy_without_rows,
    nlist_for,
    row_blocks,
    train_centroids,
    train_codebook,
    uses_lists,
    with_centroids,
    without_centroids,
)
from aidre.engine.index.vectors.scan import PreparedScan, ScanGroup
from aidre.engine.model import Distance
from aidre.engine.native import native
from tests.engine.index.vectors.vector_indexes import (
    DIMENSIONS,
    LISTS,
    ROWS,
    codes_of,
    column_of,
    index_of,
    listed_index,
)
from tests.support.stores import DISTANCES, space_of, structured


def test_dimensions_that_the_code_size_does_not_divide_are_padded() -> None:
    column = column_of("dot", structured(2000, 50))
    assert code_sizes(50) == [9, 13, 25, 50]
    scan = index_of("dot", column, 13)
    query = encode_query(space_of("dot", 50), structured(1, 50, 1)[0])
    assert len(PreparedScan(ScanGroup([scan])).search(query, 10)[0]) == 10


@pytest.mark.skipif(native is None, reason="the kernel was not built here")
@pytest.mark.parametrize("count", [1, 2, 63, 64, 200])
def test_the_kernel_chooses_the_two_lists_that_numpy_does(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, centroids = structured(500, 24), structured(count, 24, 1)
    rows[:count] = centroids[: len(rows)]  # these have no residual
    rows[400:] *= 1e3
    chosen = np.stack(assign_lists(centroids, rows))
    monkeypatch.setattr(quantizer, "native", None)
    assert np.array_equal(chosen, np.stack(assign_lists(centroids, rows)))
    assert count == 1 or (chosen[0] != chosen[1]).all()


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_codebook_of_the_most_lists_is_copied_and_the_bound_of_arrays_is_as_it_was(distance: Distance) -> None:
    rng, space = np.random.default_rng(0), space_of(distance, 16)
    codebook = train_codebook(space, rng.standard_normal((500, 16)).astype(np.float32), 16, iterations=1)
    many = with_centroids(space, codebook, rng.random((MAX_LISTS, 16)).astype(np.float32))
    limit = faiss.get_deserialization_vector_byte_limit()
    assert copy_without_rows(many.index).nlist == MAX_LISTS
    assert faiss.get_deserialization_vector_byte_limit() == limit


def test_one_dimension_has_one_code_size() -> None:
    assert code_sizes(1) == [1]


@pytest.mark.parametrize("unit", [True, False])
def test_the_second_list_of_a_row_is_the_one_that_errs_in_another_direction(unit: bool) -> None:
    rows, centroids = structured(500, DIMENSIONS), structured(60, DIMENSIONS, 5)
    if not unit:
        rows, centroids = rows * 3, centroids * 2
    first, second = assign_lists(centroids, rows)
    apart = rows[:, None] - centroids
    distances = (apart**2).sum(axis=2)
    assert first.tolist() == distances.argmin(axis=1).tolist()
    left = apart[np.arange(500), first]
    loss = distances + np.einsum("nd,ncd->nc", left, apart) ** 2 / (left**2).sum(axis=1)[:, None]
    loss[np.arange(500), first] = np.inf
    assert np.allclose(loss[np.arange(500), second], loss.min(axis=1), rtol=1e-4)


def test_only_large_segments_get_lists_and_their_number_is_a_power_of_two() -> None:
    assert [nlist_for(rows) for rows in (0, MIN_LISTED_ROWS - 1, MIN_LISTED_ROWS, 10**6, 10**9)] == [
        0, 0, 512, MAX_LISTS, MAX_LISTS,
    ]  # fmt: skip
    assert [uses_lists(LISTS, rows) for rows in (0, 64 * LISTS - 1, 64 * LISTS)] == [False, False, True]


def test_blocks_of_rows_are_all_rows_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantizer, "_BLOCK_ROWS", 4)
    for rows in (0, 1, 4, 9):
        blocks = list(row_blocks(np.arange(rows)))
        assert [row for block in blocks for row in block.tolist()] == list(range(rows))
        assert all(0 < len(block) <= 4 for block in blocks)


def test_a_small_segment_is_encoded_without_the_centroids_of_its_codebook() -> None:
    codebook = listed_index("cosine", structured(ROWS, DIMENSIONS)).codebook()
    assert codebook_for(codebook, 64 * LISTS).index.nlist == LISTS
    plain = codebook_for(codebook, 64 * LISTS - 1)
    assert (plain.index.nlist, len(centroids_of(plain.index))) == (1, 0)
    assert codebook_for(plain, 5) is plain


def test_centroids_come_back_from_the_codebook_that_holds_them() -> None:
    for distance in DISTANCES:
        space, codes = space_of(distance, DIMENSIONS), codes_of(distance, structured(ROWS, DIMENSIONS))
        centroids = train_centroids(space, codes, LISTS)
        listed = with_centroids(space, train_codebook(space, codes, 12), centroids)
        assert np.unique(centroids, axis=0).shape == (LISTS, DIMENSIONS)
        assert centroids_of(listed.index)[:, :DIMENSIONS].tolist() == centroids.tolist()
        assert len(centroids_of(without_centroids(listed).index)) == 0


@pytest.mark.parametrize("dimensions", [96, 384, 1024])
def test_an_index_of_many_lists_is_copied_within_the_bound_of_arrays(dimensions: int) -> None:
    """FAISS counts a table of all lists and sub-quantizers, before it knows that it needs none."""
    coarse = faiss.IndexScalarQuantizer(dimensions, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_L2)
    coarse.add(structured(2_000, dimensions))
    index = faiss.IndexIVFPQFastScan(coarse, dimensions, 2_000, dimensions // 2, 4)
    index.by_residual = False
    index.pq.train(structured(500, dimensions))
    index.is_trained = True
    assert copy_without_rows(index).nlist == 2_000


def test_the_bound_of_arrays_holds_for_one_read_only() -> None:
    former = faiss.get_deserialization_vector_byte_limit()
    with quantizer.bounded_arrays(100), pytest.raises(RuntimeError):
        larger = faiss.IndexFlatL2(64)
        larger.add(np.zeros((10_000, 64), np.float32))
        faiss.deserialize_index(faiss.serialize_index(larger))
    assert faiss.get_deserialization_vector_byte_limit() == former
