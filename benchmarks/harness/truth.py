"""Ground truth by exhaustive search, and the number of true neighbours in an answer. Ties are tolerated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

TIE: float = 1e-6
"""Scores closer than this are ties: the rounding error of a float32 sum of a few hundred products."""

_BLOCK_BYTES = 1 << 28
"""Memory bound of one block of rows or scores."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Per query the score of its k-th neighbour among the allowed rows (`last`); `count` is k or the allowed rows."""

    rows: Vectors
    queries: Vectors
    last: NDArray[np.float64]
    count: int
    allowed: NDArray[np.bool_] | None = None

    def found(self, query: int, answered: Sequence[int]) -> int:
        """Number of true neighbours in the answer; duplicates and rows that are not allowed do not count."""
        rows = np.unique(np.array([row for row in answered if 0 <= row < len(self.rows)], np.int64))
        if self.allowed is not None:
            rows = rows[self.allowed[rows]]
        scores = self.rows[rows].astype(np.float64) @ self.queries[query].astype(np.float64)
        return min(self.count, int(np.count_nonzero(scores >= self.last[query] - TIE)))


def truth(rows: Vectors, queries: Vectors, k: int, allowed: NDArray[np.bool_] | None = None) -> Truth:
    """Exact neighbours by inner product, in blocks of bounded memory."""
    count = min(k, len(rows) if allowed is None else int(np.count_nonzero(allowed)))
    best = np.full((len(queries), count), -np.inf)
    step = max(1, _BLOCK_BYTES // (4 * max(len(queries), rows.shape[1])))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        if allowed is not None:
            block = block[allowed[start : start + step]]
        if count and len(block):
            both = np.concatenate([best, (queries @ block.T).astype(np.float64)], axis=1)
            best = np.partition(both, both.shape[1] - count, axis=1)[:, -count:]
    last = best.min(axis=1) if count else np.full(len(queries), np.inf)
    return Truth(rows, queries, last, count, allowed)
