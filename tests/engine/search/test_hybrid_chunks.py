"""The chunks that a hybrid search has scored: which it lacks, and the k-th best score among them."""

from __future__ import annotations

import numpy as np
import pytest

from aidre.engine.search.hybrid import _NO_CHUNKS, _ScoredChunks

CHUNKS = _ScoredChunks(np.array([1, 0, 1]), np.array([0, 7, 5]), np.array([3.0, 4.0, 1.0]))


@pytest.mark.parametrize(("k", "score"), [(1, 4.0), (2, 3.0), (3, 1.0), (4, -np.inf)])
def test_the_kth_best_score_is_minus_infinity_where_there_are_fewer(k: int, score: float) -> None:
    assert CHUNKS.kth_best(k) == score
    assert _NO_CHUNKS.kth_best(k) == -np.inf


def test_chunks_are_known_by_segment_and_row() -> None:
    segment_ords, rows = np.array([0, 0, 1, 1, 1, 2]), np.array([0, 7, 7, 5, 0, 5])
    assert CHUNKS.lacks(segment_ords, rows).tolist() == [True, False, True, False, False, True]
    assert _NO_CHUNKS.lacks(segment_ords, rows).all()
    assert CHUNKS.extended((np.array([2]), np.array([5])), np.array([9.0])).lacks(segment_ords, rows)[-1:] == [False]
