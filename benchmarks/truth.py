"""The true nearest rows, by comparing everything, and how many of them an answer has. Ties are tolerated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

TIE: float = 1e-6
"""Scores closer than this are equal: float32 sums of a few hundred products differ by so much."""

_BLOCK_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Truth:
    """For each query the score of its k-th neighbour among the rows that are allowed, and how many there can be."""

    rows: Vectors
    queries: Vectors
    last: NDArray[np.float64]
    count: int
    allowed: NDArray[np.bool_] | None = None

    def found(self, query: int, answered: Sequence[int]) -> int:
        """How many of the true neighbours are in the answer; a row counts once, and one that is not allowed never."""
        rows = np.unique(np.array([row for row in answered if 0 <= row < len(self.rows)], np.int64))
        if self.allowed is not None:
            rows = rows[self.allowed[rows]]
        scores = self.rows[rows].astype(np.float64) @ self.queries[query].astype(np.float64)
        return min(self.count, int(np.count_nonzero(scores >= self.last[query] - TIE)))


def truth(rows: Vectors, queries: Vectors, k: int, allowed: NDArray[np.bool_] | None = None) -> Truth:
    """Exact neighbours by inner product; memory stays bounded however many rows there are."""
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
