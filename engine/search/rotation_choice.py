"""Whether a codebook should rotate rows, which is decided before anything large is built.

Rotating the query takes time with every search, and pays where it saves more candidates than that: not where there are
few rows, nor where the dimensions of the rows are independent of each other, or hold few values each. What a Gaussian
of the same covariance would lose tells the first two cases at once; a trial on a part of the training sample takes ten
times as long and tells the third.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors import (
    Codebook,
    PreparedScan,
    ScanGroup,
    Transform,
    VectorColumn,
    VectorIndex,
    quantize_rows,
    row_blocks,
    train_codebook,
)
from aidre.engine.model import EmbeddingSpace
from aidre.engine.search.cost import scan_cost, scan_setup_cost, transform_cost
from aidre.engine.search.depth_choice import MIN_DEPTH, MIN_DEPTH_EXPONENT

_TRIAL_ROWS = 2_048
_TRIAL_QUERIES = 64
_TRIAL_ITERATIONS = 3
_RESULTS = 10
_MISSED_SHARE = 0.01
"""Share of the true neighbours that the depth of a trial may miss."""

_MAX_COST_SHARE = 0.25
"""Largest share of the cost of the scan that a rotation may cost."""

_MIN_ROWS_PER_SQUARE = 1 / 6
"""Rows for each square of the dimensions: to find the principal axes takes as long as the cube, and so may take about
an eighth of the time in which the rows are quantized and measured."""

_MIN_SAVED_SHARE = 0.1
"""Share of the candidates that a rotation must save; less may be chance."""

_MAX_DISTORTION_SHARE = 0.8
"""Largest ratio to the distortion without a rotation; embeddings of passages reach .6."""

_DISTORTION_ROWS = 1_024
_BITS = 4


def rotation_may_pay(dimensions: int, codes_dimensions: int, code_size: int, rows: int) -> bool:
    """Whether a rotation is cheap beside a scan of `rows` rows, and its training beside that of the codebook."""
    is_cheap = transform_cost(dimensions * codes_dimensions) <= _MAX_COST_SHARE * scan_cost(rows, code_size, rows)
    return is_cheap and rows >= _MIN_ROWS_PER_SQUARE * dimensions**2


def promises_less_distortion(sample: NDArray[Any], code_size: int, transform: Transform) -> bool:
    """Whether codes of Gaussian rows with the covariance of the sample would lose far less with the transform."""
    rows = sample[:: -(-len(sample) // _DISTORTION_ROWS)].astype(np.float32)
    rows -= rows.mean(axis=0)
    rotated = transform.apply(rows)
    left_out = float(rows.var(axis=0).sum() - rotated.var(axis=0).sum())
    plain = np.pad(rows, ((0, 0), (0, -rows.shape[1] % code_size)))
    return _distortion(rotated, code_size) + max(0.0, left_out) <= _MAX_DISTORTION_SHARE * _distortion(plain, code_size)


def _distortion(rows: NDArray[np.float32], code_size: int) -> float:
    """The least mean squared error of Gaussian rows in codes of 4 bits, summed over the sub-quantizers.

    Reverse water-filling: bits go to the variances above a level, which is the error that they are left with.
    """
    groups = rows.reshape(len(rows), code_size, -1).transpose(1, 2, 0).astype(np.float64)
    variances = np.linalg.eigvalsh(groups @ groups.transpose(0, 2, 1) / len(rows))[:, ::-1]
    variances = np.maximum(variances, np.finfo(np.float32).tiny)
    levels = (np.log2(variances).cumsum(axis=1) - 2 * _BITS) / np.arange(1, variances.shape[1] + 1)
    return float(np.minimum(variances, 2 ** levels.max(axis=1, keepdims=True)).sum())


def rotation_pays(
    space: EmbeddingSpace,
    sample: NDArray[Any],
    queries: NDArray[np.float32],
    codes: tuple[int, Transform],
    rows: int,
) -> bool:
    """Whether a search of `rows` rows, of which `sample` are some, is cheaper with the transform, at that code size."""
    code_size, transform = codes
    queries = queries[:_TRIAL_QUERIES]
    trial = np.ascontiguousarray(sample[:: -(-len(sample) // _TRIAL_ROWS)])
    column = VectorColumn(space, trial)
    nearest = [column.search(query[None], _RESULTS, None)[0] for query in queries]
    plain, rotated = (
        _depth(
            space,
            train_codebook(space, trial, code_size, trial_transform, iterations=_TRIAL_ITERATIONS),
            column,
            (queries, nearest),
        )
        for trial_transform in (None, transform)
    )
    growth = max(1.0, rows / len(trial)) ** MIN_DEPTH_EXPONENT
    costs = [scan_setup_cost(max(MIN_DEPTH, math.ceil(depth * growth)), column.row_bytes) for depth in (plain, rotated)]
    return rotated <= (1 - _MIN_SAVED_SHARE) * plain and costs[1] + transform_cost(transform.rotation.size) < costs[0]


def _depth(
    space: EmbeddingSpace,
    codebook: Codebook,
    column: VectorColumn,
    sample: tuple[NDArray[np.float32], Sequence[NDArray[np.int64]]],
) -> int:
    """The candidates among which the true neighbours are found, but for the share that may be missed."""
    queries, nearest = sample
    index = VectorIndex(space, quantize_rows(codebook, row_blocks(column.codes)))
    index.assign_slot(0)
    rows = len(column)
    scanned = PreparedScan(ScanGroup([index])).search_all(queries, rows)
    ranks = np.full((len(queries), rows), rows)
    for own, (row_ids, _) in zip(ranks, scanned, strict=True):
        own[row_ids] = np.arange(len(row_ids))
    found = np.concatenate([own[true] for own, true in zip(ranks, nearest, strict=True)])
    return int(np.quantile(found, 1 - _MISSED_SHARE, method="higher")) + 1
