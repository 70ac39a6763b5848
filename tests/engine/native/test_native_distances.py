"""Scores of the kernel against the definitions in float64, on each instruction set that the processor has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.native import METRICS, Hits, chosen, hits_of, kernel, runnable, scores_of

DIMENSIONS = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    15,
    16,
    17,
    31,
    32,
    33,
    48,
    63,
    64,
    65,
    100,
    127,
    384,
    385,
    1001,
    1536,
    4095,
    4096,
)
ROWS = 37


def columns_of(metric: kernel.Metric, rows: NDArray[Any]) -> kernel.Columns:
    return kernel.Columns(metric, rows.shape[1], rows.itemsize, [(rows, (), 1)])


def scored(metric: kernel.Metric, rows: NDArray[Any], query: NDArray[np.float32]) -> NDArray[np.float64]:
    scores = np.full(len(rows), np.nan)
    columns_of(metric, rows).score(0, query, np.arange(len(rows)), scores)
    return scores


def searched(metric: kernel.Metric, rows: NDArray[Any], query: NDArray[np.float32], k: int) -> Hits:
    return hits_of(columns_of(metric, rows).search(0, query, k, None))


def tolerances(metric: kernel.Metric, rows: NDArray[Any], query: NDArray[np.float32]) -> NDArray[np.float64]:
    """1e-6 of the product of the norms; of the larger squared norm where distances are compared."""
    lengths, asked = np.linalg.norm(rows.astype(np.float64), axis=1), float(np.linalg.norm(query.astype(np.float64)))
    if metric == "euclidean":  # its square errs by as much as the others do
        exact = np.maximum(-scores_of(metric, query, rows), 1e-30)
        return np.asarray(1e-6 * np.maximum(lengths, asked) ** 2 / exact)
    return np.asarray(1e-6 * np.maximum(lengths, asked) * max(asked, 1.0))


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_scores_are_those_of_float64_in_any_number_of_dimensions(name: str, metric: kernel.Metric, dtype: Any) -> None:
    for dimensions in DIMENSIONS:
        rng = np.random.default_rng(dimensions)
        rows = rng.standard_normal((ROWS, dimensions))
        query = rng.standard_normal(dimensions)
        if metric in {"cosine", "chord"}:
            rows, query = rows / np.linalg.norm(rows, axis=1)[:, None], query / np.linalg.norm(query)
        stored, asked = rows.astype(dtype), query.astype(np.float32)
        with chosen(name):
            scores = scored(metric, stored, asked)
            found = searched(metric, stored, asked, ROWS)
        errors = np.abs(scores - scores_of(metric, asked, stored))
        assert (errors <= tolerances(metric, stored, asked)).all(), (dimensions, errors.max())
        assert sorted(row for _, row, _ in found) == list(range(ROWS))
        assert [score for _, _, score in found] == sorted(scores.tolist(), reverse=True)
        assert all(scores[row] == score for _, row, score in found)


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_every_half_precision_number_is_read_as_it_is(name: str, dtype: Any) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    rows = every[np.isfinite(every)].astype(dtype)[:, None]
    with chosen(name):
        assert (scored("dot", rows, np.ones(1, np.float32)) == rows[:, 0]).all()
        wide = np.zeros((len(rows), 19), dtype)
        wide[:, 18] = rows[:, 0]
        assert (scored("dot", wide, np.ones(19, np.float32)) == rows[:, 0]).all()


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("dimensions", [1, 3, 16, 33, 130])
def test_what_is_no_number_comes_last_and_infinities_at_their_end(
    name: str, metric: kernel.Metric, dtype: Any, dimensions: int
) -> None:
    rows = np.full((5, dimensions), 0.125, dtype)
    rows[1, -1], rows[2, 0], rows[3, dimensions // 2] = np.nan, np.inf, -np.inf
    query = np.full(dimensions, 0.5 / dimensions, np.float32)
    with chosen(name):
        found, scores = searched(metric, rows, query, 5), scored(metric, rows, query)
    assert not np.isnan(scores).any()
    assert scores[1] == -np.inf
    assert {row for _, row, _ in found} == set(range(5))
    assert found[-1][2] == -np.inf
    if metric in {"dot", "cosine"}:
        assert found[0][1] == 2
        assert scores[3] == (-np.inf if metric == "dot" else -1)
    else:
        assert found[0][1] in {0, 4}
        assert scores[2] == scores[3] == (-np.inf if metric == "euclidean" else -1)


@pytest.mark.parametrize("name", runnable())
def test_small_numbers_are_not_taken_for_zero(name: str) -> None:
    tiny = np.float32(1e-40)  # subnormal
    rows = np.array([[tiny, 0], [0, tiny], [tiny, tiny]], np.float32)
    with chosen(name):
        scores = scored("dot", rows, np.array([1, 2], np.float32))
    assert scores.tolist() == [float(tiny), 2 * float(tiny), 3 * float(tiny)]


def test_all_instruction_sets_agree_to_the_last_bits() -> None:
    rng = np.random.default_rng(5)
    for dimensions in (5, 64, 384, 1000):
        rows, query = rng.standard_normal((200, dimensions)).astype(np.float16), rng.standard_normal(dimensions)
        scores = []
        for name in runnable():
            with chosen(name):
                scores.append(scored("dot", rows, query.astype(np.float32)))
        for other in scores[1:]:
            assert np.abs(other - scores[0]).max() <= 1e-6 * np.linalg.norm(query) * np.sqrt(dimensions) * 1.5


def test_a_query_is_scaled_and_checked_as_it_is_without_the_kernel() -> None:
    rng = np.random.default_rng(0)
    for dimensions in (1, 7, 8, 9, 384):
        for dtype in (np.float32, np.float64):
            vector = rng.standard_normal(dimensions).astype(dtype)
            query = np.empty(dimensions, np.float32)
            assert kernel.encode_query(vector, False, query)
            assert (query == vector.astype(np.float32)).all()
            assert kernel.encode_query(vector, True, query)
            wide = vector.astype(np.float64)
            assert np.abs(query - wide / np.linalg.norm(wide)).max() <= 6e-8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.5e18])
@pytest.mark.parametrize("place", [0, 7, 8, 10])
def test_a_vector_that_is_no_query_is_refused_and_nothing_written(dtype: Any, value: float, place: int) -> None:
    vector, query = np.ones(11, dtype), np.full(11, 7, np.float32)
    vector[place] = value
    for is_unit in (False, True):
        assert not kernel.encode_query(vector, is_unit, query)
    assert (query == 7).all()


def test_a_vector_without_a_direction_is_refused_only_where_one_is_needed() -> None:
    query = np.full(5, 7, np.float32)
    for vector in (np.zeros(5), np.full(5, 1e-155), np.zeros(5, np.float32)):
        assert not kernel.encode_query(vector, True, query)
        assert (query == 7).all()
        assert kernel.encode_query(vector, False, query.copy())


def test_a_vector_of_another_kind_raises() -> None:
    query = np.empty(3, np.float32)
    others: tuple[Any, ...] = (np.ones(3, np.int32), np.ones(3, np.float16), np.ones(4), np.ones(3, ">f4"), b"abc")
    for vector in others:
        with pytest.raises(ValueError, match="vector"):
            kernel.encode_query(vector, False, query)
    with pytest.raises(ValueError, match="vector"):
        kernel.encode_query(np.ones(3), False, np.empty(3, np.float64))
    query.flags.writeable = False
    with pytest.raises((BufferError, ValueError)):
        kernel.encode_query(np.ones(3), False, query)
