"""Centroids in bytes: each instruction set ranks them as the plain kernel does, and nearly as float64 does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.native import centroids_for, chosen, kernel, runnable

SHAPES = ((1, 1), (2, 63), (3, 64), (5, 65), (7, 200), (64, 384), (257, 256), (1_000, 1_024))

pytestmark = pytest.mark.skipif(kernel is None, reason="the kernel was not built here")


def ranked(centroids: kernel.Centroids, query: np.ndarray) -> tuple[list[int], np.ndarray]:
    numbers, gaps = centroids.rank(query)
    return np.frombuffer(numbers, np.int64).tolist(), np.frombuffer(gaps, np.float64)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_l2", [False, True])
def test_all_instruction_sets_rank_alike(shape: tuple[int, int], is_l2: bool) -> None:
    rng = np.random.default_rng(shape[0])
    centroids = centroids_for(rng.standard_normal(shape).astype(np.float32), is_l2=is_l2)
    for query in (
        rng.standard_normal(shape[1]),
        np.zeros(shape[1]),
        np.full(shape[1], 1e-30),
        rng.random(shape[1]) * 1e9,
    ):
        found = []
        for name in runnable():
            with chosen(name):
                found.append(centroids.rank(query.astype(np.float32)))
        assert all(one == found[0] for one in found)
        assert sorted(np.frombuffer(found[0][0], np.int64).tolist()) == list(range(shape[0]))


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("is_l2", [False, True])
def test_the_order_and_the_gaps_are_about_those_of_float64(name: str, is_l2: bool) -> None:
    rng = np.random.default_rng(3)
    points = (rng.standard_normal((500, 384)) + 3 * rng.standard_normal(384)).astype(np.float32)
    query = rng.standard_normal(384).astype(np.float32)
    products = points.astype(np.float64) @ query
    scores = -np.linalg.norm(points - query, axis=1) if is_l2 else products
    with chosen(name):
        numbers, gaps = ranked(centroids_for(points, is_l2=is_l2), query)
    true_gaps = np.sort(scores)[-4:].mean() - scores[numbers]  # from the nearest four in the mean
    assert gaps[:4].mean() == pytest.approx(0, abs=1e-5 * float(np.ptp(scores)))
    assert (np.diff(gaps) >= 0).all()
    assert np.abs(gaps - true_gaps).max() < 0.02 * np.ptp(scores)
    assert len(set(numbers[:50]) & set(np.argsort(-scores)[:50].tolist())) >= 47


def test_a_gap_is_that_of_a_query_of_length_1() -> None:
    rng = np.random.default_rng(4)
    points, query = rng.standard_normal((40, 33)).astype(np.float32), rng.standard_normal(33).astype(np.float32)
    centroids = centroids_for(points, is_relative=True)
    numbers, gaps = ranked(centroids, query)
    for length in (1e-3, 7.0, 1e6):
        again, same_gaps = ranked(centroids, np.float32(length) * query)
        assert again == numbers
        assert np.allclose(same_gaps, gaps, rtol=1e-4)


@pytest.mark.parametrize("is_l2", [False, True])
@pytest.mark.parametrize("is_relative", [False, True])
@pytest.mark.parametrize("value", [3e38, 1e30, 1e-45])
def test_a_query_whose_distances_are_beyond_a_float_is_ranked(is_l2: bool, is_relative: bool, value: float) -> None:
    points = np.random.default_rng(5).standard_normal((700, 70)).astype(np.float32)
    centroids = centroids_for(points, is_l2=is_l2, is_relative=is_relative)
    for query in (np.full(70, value, np.float32), np.r_[np.float32(-value), np.zeros(69, np.float32)]):
        assert sorted(ranked(centroids, query)[0]) == list(range(700))


def test_a_query_that_is_not_finite_is_refused_or_ranked() -> None:
    centroids = centroids_for(np.eye(5, 70, dtype=np.float32))
    for value in (np.nan, np.inf, -np.inf):
        for query in (np.full(70, value, np.float32), np.r_[np.float32(value), np.ones(69, np.float32)]):
            try:
                assert len(ranked(centroids, query)[0]) == 5
            except ValueError as error:
                assert "finite" in str(error)
