"""Which lists to go over: those whose centroids are near to the query.

A fixed number of lists is too many for a query that one of them fits well and too few for one that lies between many.
So those count that are not much farther than the nearest (as in SPANN: Chen et al., "SPANN: Highly-efficient
Billion-scale Approximate Nearest Neighbor Search", 2021), up to a number of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aidre.engine.kernel import Column
from aidre.engine.model import EmbeddingSpace
from aidre.engine.vectors import dtype_of, is_unit

_TINY = 1e-30


class Router:
    """The centroids (n, d) of a space, by their numbers."""

    def __init__(self, space: EmbeddingSpace, centroids: NDArray[np.float32]) -> None:
        if is_unit(space):  # the direction alone tells most
            centroids = centroids / np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), _TINY)
        self._column = Column(space, centroids.astype(dtype_of(space)))
        self._grows = space.distance == "dot"

    def __len__(self) -> int:
        return len(self._column)

    def nearest(self, query: NDArray[np.float32], most: int, gap: float = 0.0) -> NDArray[np.int64]:
        """Up to `most` of them that are no more than `gap` behind the first, 0: however far; nearest first."""
        numbers, gaps = self.ranked(query, most)
        return numbers[: int(np.searchsorted(gaps, gap, side="right"))] if gap else numbers

    def ranked(self, query: NDArray[np.float32], most: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The `most` that are nearest to a query (1, d), nearest first, and by how much each is less close than the
        first: in the scores of the space, of inner products in those of a query of length 1."""
        numbers, scores = self._column.search(query, most, None)
        gaps = scores[:1] - scores
        return numbers, gaps / max(float(np.linalg.norm(query)), _TINY) if self._grows else gaps
