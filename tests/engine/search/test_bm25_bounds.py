"""The bounds of a lexical search: the k-th best score, and rows that are looked up in a posting list."""

from __future__ import annotations

import numpy as np
import pytest

from aidre.engine.search.bm25 import _kth_best, _lookup


@pytest.mark.parametrize(("k", "score"), [(1, 4.0), (2, 3.0), (3, 3.0), (4, 1.0), (5, -np.inf), (9, -np.inf)])
def test_the_kth_best_score_is_a_bound_where_there_are_k(k: int, score: float) -> None:
    assert _kth_best(np.array([3.0, 1.0, 4.0, 3.0]), k) == score


def test_nothing_bounds_a_search_without_scores() -> None:
    assert _kth_best(np.empty(0), 1) == -np.inf


def test_rows_are_looked_up_where_they_occur() -> None:
    rows = np.array([2, 3, 5, 9], np.uint32)
    positions, present = _lookup(rows, np.array([0, 2, 4, 5, 9, 10], np.uint32))
    assert positions.tolist() == [0, 2, 3] and present.tolist() == [1, 3, 4]
    assert [len(found) for found in _lookup(rows, np.empty(0, np.uint32))] == [0, 0]
