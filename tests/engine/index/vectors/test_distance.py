"""Columns of vectors: exact search and the scores of single rows, the same to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aidre.engine.index.vectors.distance import VectorColumn, metric_of, score_rows
from aidre.engine.index.vectors.encoding import encode, encode_query
from aidre.engine.model import Distance
from tests.engine.index.vectors.vector_indexes import DIMENSIONS, bits_of, column_of, evaluate, every
from tests.support.stores import DISTANCES, normal, space_of, true_scores


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


@pytest.mark.parametrize("count", [0, 1, 4_096, 20_000])
def test_the_mean_is_that_of_all_rows_or_close_to_it(count: int) -> None:
    rows = normal(count, 24)
    mean = column_of("euclidean", rows).mean
    assert mean.shape == (24,)
    assert np.allclose(mean, rows.mean(axis=0) if count else 0, atol=1e-3 if count <= 4_096 else 0.08)


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


def test_a_measure_of_few_dimensions_uses_the_chord() -> None:
    assert metric_of(space_of("cosine", 8)).chord
    assert not metric_of(space_of("cosine", 384)).chord
