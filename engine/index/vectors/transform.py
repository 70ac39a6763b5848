"""The rotation that a codebook may apply before it quantizes: principal axes, shared out among the sub-quantizers.

A product quantizer gives every group of dimensions as many bits. Rotated to their principal axes, rows lie in few
dimensions, and these are dealt out so that the product of the variances is about the same in every group: the
parametric solution of Ge et al., "Optimized Product Quantization", 2013. The axes of least variance can be left out,
which costs no accuracy that the codes would have. A rotation preserves inner products and distances, so the estimates
of codebooks with and without one compare. The mean need not be subtracted: k-means moves with it, and look-up tables by
one constant a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors.distance import use_one_thread
from aidre.engine.storage import FileProblem

_STORED = np.dtype("<f2")
"""Rows are rotated by the stored numbers, so rounding moves no estimate away from the codes."""

_TOLERANCE = 5e-3
"""The largest deviation from orthonormal axes; rounding to float16 makes one of about 1e-4."""

_MAX_QUERIES = 64
"""Vectors; more are rotated by one matrix product, which is slower to start and uses all cores."""

_MAX_ROWS = 2_048
"""Rows that axes are found from; more find no better ones."""

_MIN_VARIANCE = 1e-9
"""Relative to the largest; smaller variances count as this one, as the logarithm of 0 would outweigh all others."""


@dataclass(frozen=True)
class Transform:
    """`rotation` (d_codes, d) has orthonormal rows, or orthonormal columns if d_codes exceeds d."""

    rotation: NDArray[np.float32]

    def apply(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rotated vectors (n, d_codes) of the given ones (n, d)."""
        if len(vectors) > _MAX_QUERIES:
            return np.asarray(vectors @ self.rotation.T, np.float32)
        vectors, (rows, dimensions) = np.ascontiguousarray(vectors, np.float32), self.rotation.shape
        rotated = np.empty((len(vectors), rows), np.float32)
        rotation = faiss.swig_ptr(self.rotation)
        use_one_thread()
        for vector, out in zip(vectors, rotated, strict=True):  # numpy would wake its threads for one vector
            faiss.fvec_inner_products_ny(faiss.swig_ptr(out), faiss.swig_ptr(vector), rotation, dimensions, rows)
        return rotated

    @cached_property
    def digest(self) -> bytes:
        return blake2b(self.to_bytes(), digest_size=16).digest()

    def to_bytes(self) -> bytes:
        return self.rotation.astype(_STORED).tobytes()


def transform_from_bytes(stored: bytes | memoryview | NDArray[np.uint8], codes_dimensions: int) -> Transform:
    """Raises FileProblem unless `stored` is a rotation to that many dimensions."""
    numbers = np.frombuffer(stored, _STORED) if len(stored) % _STORED.itemsize == 0 else np.empty(0, _STORED)
    if not len(numbers) or len(numbers) % codes_dimensions:
        raise FileProblem("has a rotation of another shape")
    rotation = np.ascontiguousarray(numbers.reshape(codes_dimensions, -1), np.float32)
    if not np.isfinite(rotation).all():
        raise FileProblem("has a rotation that is not of finite numbers")
    if np.abs(rotation).max() > 1 + _TOLERANCE or _deviation(rotation) > _TOLERANCE:
        raise FileProblem("has a rotation matrix that is not orthogonal")
    return Transform(rotation)


def _deviation(rotation: NDArray[np.float32]) -> float:
    axes = rotation if len(rotation) <= rotation.shape[1] else rotation.T
    return float(np.abs(axes @ axes.T - np.eye(len(axes), dtype=np.float32)).max())


def train_transform(sample: NDArray[Any], code_size: int, codes_dimensions: int) -> Transform:
    """Principal axes of stored rows (n, d), as many as there are dimensions of codes; zeros for those beyond d.

    They are axes of the second moments, not of the covariance, so the mean of the rows is not left out with the axes of
    least variance.
    """
    rows = sample[:: -(-len(sample) // _MAX_ROWS)].astype(np.float32)
    dimensions = rows.shape[1]
    # By FAISS in one thread: numpy's decomposition takes ten times as long where other threads are busy.
    use_one_thread()
    axes = faiss.PCAMatrix(dimensions, min(dimensions, codes_dimensions))
    whole = np.resize(rows, (max(len(rows), dimensions), dimensions))  # FAISS finds no more axes than there are rows
    axes.train(np.concatenate([whole, -whole]))  # of mean zero
    components = faiss.vector_to_array(axes.A).reshape(-1, dimensions)
    padding = codes_dimensions - len(components)
    variances = np.pad((rows @ components.T).var(axis=0, dtype=np.float64), (0, padding))
    order = np.concatenate(_balanced_groups(variances, code_size))
    rotation = np.pad(components, ((0, padding), (0, 0)))[order]
    return Transform(np.ascontiguousarray(rotation.astype(_STORED), np.float32))


def _balanced_groups(variances: NDArray[np.float64], groups: int) -> Sequence[Sequence[int]]:
    """The dimensions in groups of one size with about the same product of variances: each of them, the largest first,
    goes to the group that has the smallest product so far."""
    size = len(variances) // groups
    logarithms = np.log(np.maximum(variances, max(_MIN_VARIANCE * float(variances.max()), np.finfo(float).tiny)))
    logarithms += 1 - logarithms.min()  # above 0: a group with more dimensions has the larger product
    chosen: list[list[int]] = [[] for _ in range(groups)]
    products = np.zeros(groups)
    for dimension in np.argsort(-variances, kind="stable").tolist():
        group = int(np.argmin(products))
        chosen[group].append(dimension)
        products[group] = products[group] + logarithms[dimension] if len(chosen[group]) < size else np.inf
    return chosen
