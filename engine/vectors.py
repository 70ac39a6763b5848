"""Vectors in and out of their stored form: checks, normalisation, precision. Knows no file and no FAISS."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aidre.engine.errors import DimensionMismatch, InvalidVector
from aidre.engine.model import EmbeddingSpace, Encoded
from aidre.engine.schema import precision_of

LARGEST_NORM = 1e18
"""Beyond this the product of two norms, and so a score, can leave float32."""

LEAST_NORM = 1e-150
"""Below this the squares of components, and so a direction, are lost in float64."""

LARGEST_HALF = 65504.0
_BLOCK = 256
"""Rows that are converted at once: they and what is made of them stay in the cache."""


def dtype_of(space: EmbeddingSpace) -> np.dtype[Any]:
    return np.dtype(np.float16 if precision_of(space) == "float16" else np.float32)


def is_unit(space: EmbeddingSpace) -> bool:
    """Whether rows and queries of this space are scaled to length one before they are compared."""
    return space.distance == "cosine" or space.normalized


def encode(space: EmbeddingSpace, vectors: NDArray[Any], into: NDArray[Any] | None = None) -> Encoded:
    """Check vectors of shape (n, dimensions) and bring them into stored form: `into` where that is given.

    Raises DimensionMismatch, or InvalidVector with `details["row"]`: not finite, too long (norm above 1e18),
    zero or as good as zero where the space has to normalise, or outside float16 where that is the precision.
    """
    if vectors.ndim != 2 or vectors.shape[1] != space.dimensions:
        raise dimension_mismatch(space, int(vectors.shape[-1]) if vectors.ndim else 0)
    codes = np.empty(vectors.shape, dtype=dtype_of(space)) if into is None else into
    norms = np.ones(len(vectors), dtype=np.float32)
    wide, narrow = (np.empty((min(_BLOCK, len(vectors)), space.dimensions), kind) for kind in (np.float64, np.float32))
    for start in range(0, len(vectors), _BLOCK):
        given = vectors[start : start + _BLOCK]
        block, single = wide[: len(given)], narrow[: len(given)]
        block[:] = given
        lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
        _check_block(space, block, lengths, start)
        if is_unit(space):
            np.divide(block, lengths[:, None], out=block)
            if not space.normalized:
                norms[start : start + _BLOCK] = lengths
        # By way of float32: numpy narrows float64 to float16 one by one.
        single[:] = block
        codes[start : start + _BLOCK] = single
    return Encoded(codes, norms)


def _check_block(space: EmbeddingSpace, block: NDArray[np.float64], lengths: NDArray[np.float64], start: int) -> None:
    # A comparison with NaN is false: `not (<= limit)` finds NaN and infinity as well as plain excess.
    wrong = ~(lengths <= LARGEST_NORM)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        problem = f"has a norm above {LARGEST_NORM:g}" if np.isfinite(block[row]).all() else "is not finite"
        raise _invalid(space, problem, start + row)
    if is_unit(space) and not (lengths >= LEAST_NORM).all():
        row = int(np.flatnonzero(lengths < LEAST_NORM)[0])
        raise _invalid(space, _without_direction(block[row]), start + row)
    if precision_of(space) == "float16" and not is_unit(space):
        large = np.abs(block).max(axis=1) > LARGEST_HALF
        if large.any():
            problem = f"has a component beyond {LARGEST_HALF:g}, the limit of float16"
            raise _invalid(space, problem, start + int(np.flatnonzero(large)[0]))


def encode_query(space: EmbeddingSpace, vector: ArrayLike) -> NDArray[np.float32]:
    """One query as float32 of shape (1, dimensions), normalised where the space is. Same errors as `encode`."""
    try:
        query = np.asarray(vector, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise _invalid(space, "has a component that is no number of float64", None) from None
    if query.ndim != 1 or len(query) != space.dimensions:
        raise dimension_mismatch(space, int(query.shape[-1]) if query.ndim else 0)
    with np.errstate(over="ignore"):
        length = math.sqrt(query.dot(query))
    if not length <= LARGEST_NORM:
        problem = f"has a norm above {LARGEST_NORM:g}" if np.isfinite(query).all() else "is not finite"
        raise _invalid(space, problem, None)
    if is_unit(space):
        if length < LEAST_NORM:
            raise _invalid(space, _without_direction(query), None)
        query = query / length
    return query.astype(np.float32)[np.newaxis]


def decode(codes: NDArray[Any], norms: NDArray[np.float32]) -> NDArray[np.float32]:
    """Stored rows of shape (n, dimensions) as they were given, to the stored precision."""
    return np.asarray(codes.astype(np.float32) * norms[:, None], dtype=np.float32)


def dimension_mismatch(space: EmbeddingSpace, actual: int) -> DimensionMismatch:
    return DimensionMismatch(
        f"the vector has length {actual}, but embedding space {space.id!r} requires {space.dimensions}",
        embedding_space=space.id,
        expected_dimensions=space.dimensions,
        actual_dimensions=actual,
    )


def _without_direction(vector: NDArray[np.float64]) -> str:
    return f"has a norm below {LEAST_NORM:g}: scale it up" if vector.any() else "is zero and has no direction"


def _invalid(space: EmbeddingSpace, problem: str, row: int | None) -> InvalidVector:
    details = {"embedding_space": space.id, "problem": problem}
    return InvalidVector(f"the vector for embedding space {space.id!r} {problem}", **details, row=row)
