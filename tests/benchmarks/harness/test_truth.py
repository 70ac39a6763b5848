"""The ground truth of a benchmark: ties, filters, and fewer rows than asked for."""

from __future__ import annotations

import numpy as np

from benchmarks.harness.truth import truth


def test_ties_count_as_found_and_rows_that_are_not_allowed_do_not() -> None:
    rows = np.array([[1, 0], [0.8, 0.6], [0.8, 0.6], [0, 1], [-1, 0]], np.float32)
    queries = np.array([[1, 0]], np.float32)
    judged = truth(rows, queries, 2)
    assert judged.found(0, [0, 1]) == judged.found(0, [2, 0]) == 2
    assert judged.found(0, [0, 0]) == 1
    assert judged.found(0, [3, 4, -1, 99]) == 0
    filtered = truth(rows, queries, 2, np.array([False, True, False, True, True]))
    assert filtered.found(0, [0, 1]) == 1 and filtered.found(0, [1, 3]) == 2
    few = truth(rows, queries, 3, np.array([False, False, False, False, True]))
    assert few.count == 1 and few.found(0, [4]) == 1


def test_the_nearest_rows_are_those_of_a_sorted_list_of_all_scores() -> None:
    rng = np.random.default_rng(0)
    rows, queries = (rng.normal(size=(count, 8)).astype(np.float32) for count in (200, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    judged = truth(rows, queries, 10)
    for number, query in enumerate(queries):
        order = np.argsort(-(rows @ query)).tolist()
        assert judged.found(number, order[:10]) == judged.count == 10
        assert judged.found(number, order[5:15]) == 5
