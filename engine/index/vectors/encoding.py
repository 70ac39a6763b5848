"""The stored form of vectors: checks, normalisation and precision. Knows no file and no FAISS."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aidre.engine.errors import DimensionMismatch, InvalidVector
from aidre.engine.model import MAX_NORM, EmbeddingSpace, EncodedVectors
from aidre.engine.native import native
from aidre.engine.storage import precision_of

MIN_NORM = 1e-150
"""Norm; below it the squares of components, and so the direction, are lost in float64."""

_MAX_FLOAT16 = 65504.0
"""The largest finite float16."""

_BLOCK_ROWS = 256
"""Rows converted at once, so that they and the intermediate arrays stay in the cache."""


def dtype_of(space: EmbeddingSpace) -> np.dtype[Any]:
    return np.dtype(np.float16 if precision_of(space) == "float16" else np.float32)


def is_unit(space: EmbeddingSpace) -> bool:
    """Whether rows and queries of this space are scaled to length one before they are compared."""
    return space.distance == "cosine" or space.normalized


def encode(space: EmbeddingSpace, vectors: NDArray[Any], into: NDArray[Any] | None = None) -> EncodedVectors:
    """Check vectors (n, dimensions) and convert them to stored form, in `into` if that is given.

    Raises DimensionMismatch, or InvalidVector with `details["row"]` for a vector that is not finite, has a norm above
    MAX_NORM, has no direction (norm below MIN_NORM) in a space that normalises, or leaves the range of float16.
    """
    if vectors.ndim != 2 or vectors.shape[1] != space.dimensions:
        raise _dimension_mismatch(space, int(vectors.shape[-1]) if vectors.ndim else 0)
    codes = np.empty(vectors.shape, dtype=dtype_of(space)) if into is None else into
    norms = np.ones(len(vectors), dtype=np.float32)
    wide, narrow = (
        np.empty((min(_BLOCK_ROWS, len(vectors)), space.dimensions), kind) for kind in (np.float64, np.float32)
    )
    for start in range(0, len(vectors), _BLOCK_ROWS):
        rows = vectors[start : start + _BLOCK_ROWS]
        block, single = wide[: len(rows)], narrow[: len(rows)]
        block[:] = rows
        lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
        _check_block(space, block, lengths, start)
        if is_unit(space):
            np.divide(block, lengths[:, None], out=block)
            if not space.normalized:
                norms[start : start + _BLOCK_ROWS] = lengths
        # By way of float32: numpy converts float64 to float16 value by value.
        single[:] = block
        codes[start : start + _BLOCK_ROWS] = single
    return EncodedVectors(codes, norms)


def _check_block(space: EmbeddingSpace, block: NDArray[np.float64], lengths: NDArray[np.float64], start: int) -> None:
    # A comparison with NaN is false: `not (<= limit)` finds NaN and infinity as well as norms above the limit.
    invalid = ~(lengths <= MAX_NORM)
    if invalid.any():
        row = int(np.flatnonzero(invalid)[0])
        problem = f"has a norm above {MAX_NORM:g}" if np.isfinite(block[row]).all() else "is not finite"
        raise _invalid(space, problem, start + row)
    if is_unit(space) and not (lengths >= MIN_NORM).all():
        row = int(np.flatnonzero(lengths < MIN_NORM)[0])
        raise _invalid(space, _without_direction(block[row]), start + row)
    if not is_unit(space) and precision_of(space) == "float16":
        large = np.abs(block).max(axis=1) > _MAX_FLOAT16
        if large.any():
            problem = f"has a component beyond {_MAX_FLOAT16:g}, the limit of float16"
            raise _invalid(space, problem, start + int(np.flatnonzero(large)[0]))


def encode_query(space: EmbeddingSpace, vector: ArrayLike) -> NDArray[np.float32]:
    """One query as float32 of shape (1, dimensions), normalised if the space is. Raises the errors of `encode`."""
    if native is not None and _is_plain(vector) and vector.shape == (space.dimensions,):
        encoded = np.empty((1, space.dimensions), np.float32)
        if native.encode_query(vector, is_unit(space), encoded):
            return encoded
    try:
        query = np.asarray(vector, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise _invalid(space, "has a component that is not a float64 number", None) from None
    if query.ndim != 1 or len(query) != space.dimensions:
        raise _dimension_mismatch(space, int(query.shape[-1]) if query.ndim else 0)
    with np.errstate(over="ignore"):
        length = math.sqrt(query.dot(query))
    if not length <= MAX_NORM:
        problem = f"has a norm above {MAX_NORM:g}" if np.isfinite(query).all() else "is not finite"
        raise _invalid(space, problem, None)
    if is_unit(space):
        if length < MIN_NORM:
            raise _invalid(space, _without_direction(query), None)
        query = query / length
    return query.astype(np.float32)[np.newaxis]


def _is_plain(vector: ArrayLike) -> TypeGuard[NDArray[Any]]:
    """Whether the kernel can read a vector."""
    if type(vector) is not np.ndarray or vector.dtype.char not in "fd" or not vector.dtype.isnative:
        return False
    return vector.flags.c_contiguous and vector.flags.aligned


def decode(codes: NDArray[Any], norms: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors (n, dimensions) that were encoded, to the stored precision: stored rows times their norms (n,)."""
    return np.asarray(codes.astype(np.float32) * norms[:, None], dtype=np.float32)


def _dimension_mismatch(space: EmbeddingSpace, actual: int) -> DimensionMismatch:
    return DimensionMismatch(
        f"the vector has length {actual}, but embedding space {space.id!r} requires {space.dimensions}",
        embedding_space=space.id,
        expected_dimensions=space.dimensions,
        actual_dimensions=actual,
    )


def _without_direction(vector: NDArray[np.float64]) -> str:
    return f"has a norm below {MIN_NORM:g}: scale it up" if vector.any() else "is zero and has no direction"


def _invalid(space: EmbeddingSpace, problem: str, row: int | None) -> InvalidVector:
    details = {"embedding_space": space.id, "problem": problem}
    return InvalidVector(f"the vector for embedding space {space.id!r} {problem}", **details, row=row)
