"""The centroids of inverted lists by rank for a query: which lists a neighbour is found in, and what probing reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors import CoarseQuantizer, VectorIndex
from aidre.engine.search.depth_choice import Reach


def entries_by_centroid(indexes: Mapping[int, VectorIndex]) -> dict[bytes, NDArray[np.int64]]:
    """For each set of centroids the entries in the lists of each, copies included, without the rows of indexes that
    have no centroids, which every search scans."""
    entries = dict[bytes, NDArray[np.int64]]()
    for index in indexes.values():
        if index.nlist:
            key, own = index.codebook_key[1], index.list_sizes[: index.nlist]
            entries[key] = entries[key] + own if key in entries else own
    return entries


class RankedCentroids(NamedTuple):
    """The centroids by rank for a query, the rank of each, from 1, and the gap at each rank."""

    centroids: NDArray[np.int64]
    ranks: NDArray[np.int64]
    gaps: NDArray[np.float64]

    def reach(self, entries: NDArray[np.int64]) -> Reach:
        return Reach(self.gaps.astype(np.float32), entries[self.centroids].cumsum().astype(np.int32))


def rank_centroids(coarse_quantizer: CoarseQuantizer, query: NDArray[np.float32]) -> RankedCentroids:
    centroids, gaps = coarse_quantizer.rank(query, len(coarse_quantizer))
    ranks = np.empty(len(coarse_quantizer), np.int64)
    ranks[centroids] = np.arange(1, len(coarse_quantizer) + 1)
    return RankedCentroids(centroids, ranks, gaps)
