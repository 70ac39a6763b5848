"""Vectors of a known shape as columns and as indexes: of one list, or of lists around centroids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors.distance import Bitmap, VectorColumn, score_rows
from aidre.engine.index.vectors.encoding import encode, encode_query
from aidre.engine.index.vectors.quantizer import (
    quantize_rows,
    rotated_dimensions,
    row_blocks,
    train_centroids,
    train_codebook,
    with_centroids,
)
from aidre.engine.index.vectors.scan import SearchDepth
from aidre.engine.index.vectors.transform import train_transform
from aidre.engine.index.vectors.vector_index import VectorIndex
from aidre.engine.model import Distance
from aidre.engine.storage.manifest import Depth
from tests.support.stores import Vectors, space_of, structured

DIMENSIONS, LISTS, ROWS = 48, 32, 3_000


def column_of(distance: Distance, rows: Vectors) -> VectorColumn:
    space = space_of(distance, rows.shape[1])
    return VectorColumn(space, encode(space, rows).codes)


def index_of(distance: Distance, column: VectorColumn, code_size: int) -> VectorIndex:
    space = space_of(distance, column.codes.shape[1])
    built = quantize_rows(train_codebook(space, column.codes, code_size), row_blocks(column.codes))
    return VectorIndex(space, built)


def codes_of(distance: Distance, rows: Vectors) -> NDArray[Any]:
    return encode(space_of(distance, rows.shape[1]), rows).codes


def listed_index(distance: Distance, rows: Vectors, code_size: int = 12) -> VectorIndex:
    space, codes = space_of(distance, rows.shape[1]), codes_of(distance, rows)
    listed = with_centroids(space, train_codebook(space, codes, code_size), train_centroids(space, codes, LISTS))
    return VectorIndex(space, quantize_rows(listed, row_blocks(codes)))


def rotated_index(distance: Distance, rows: Vectors, code_size: int = 12, *, has_lists: bool = False) -> VectorIndex:
    """An index whose codebook rotates rows, with LISTS centroids or without."""
    space, codes = space_of(distance, rows.shape[1]), codes_of(distance, rows)
    dimensions = rotated_dimensions(space.dimensions, code_size)
    codebook = train_codebook(space, codes, code_size, train_transform(codes, code_size, dimensions))
    if has_lists:
        codebook = with_centroids(space, codebook, train_centroids(space, codes, LISTS))
    return VectorIndex(space, quantize_rows(codebook, row_blocks(codes)))


def query_of(distance: Distance, seed: int = 1) -> Vectors:
    return encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, seed)[0])


def bits_of(mask: NDArray[np.bool_]) -> Bitmap:
    return Bitmap(np.packbits(mask, bitorder="little"))


def probing(probes: int) -> SearchDepth:
    return SearchDepth(100, 10, (Depth(10, 100, 1.0, 1.0, probes), Depth(1000, 5_000, 1.0, 1.0, 2 * probes)))


def every(column: VectorColumn) -> Any:
    return np.arange(len(column))


def evaluate(column: VectorColumn, rows: Any, query: Vectors) -> Any:
    """The score of each of some rows, in their order."""
    positions, found = score_rows([(column, rows)], query)
    scores = np.empty(len(rows))
    scores[positions] = found
    return scores
