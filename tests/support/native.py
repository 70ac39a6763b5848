"""Columns, codes and plans for the C kernel, made of plain arrays, and what they should answer, by numpy in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.native.loading import FALL_BACK, kernel_name

if TYPE_CHECKING:
    from aidre.engine.native import kernel
else:
    try:
        from aidre.engine.native import kernel
    except ImportError:  # it was not built here: its tests are skipped
        kernel = None
__all__ = ("kernel",)

METRICS: tuple[kernel.Metric, ...] = ("dot", "cosine", "chord", "euclidean")
INSTRUCTION_SETS = ("scalar", "avx2", "avx512", "vnni", "neon")
CODEWORDS, SUB_BLOCK, PAIR_BYTES = 16, 32, 32
Hits: TypeAlias = list[tuple[int, int, float]]
"""Column, row and score, best first."""


@contextmanager
def chosen(name: str | None) -> Iterator[None]:
    """Columns that are made within are searched by this kernel."""
    kernel.choose(name)
    try:
        yield
    finally:
        restore()


def restore() -> None:
    """Choose what the process uses outside of tests of the kernel."""
    kernel.choose(None if kernel_name() == FALL_BACK else kernel_name())


def runnable() -> list[str]:
    """The instruction sets that this processor can run, the plainest first; none where the kernel was not built."""
    found = []
    for name in INSTRUCTION_SETS if kernel is not None else ():
        with suppress(ValueError), chosen(name):
            found.append(name)
    return found


def hits_of(arrays: tuple[bytes, bytes, bytes]) -> Hits:
    columns, rows = (np.frombuffer(part, np.int64).tolist() for part in arrays[:2])
    return list(zip(columns, rows, np.frombuffer(arrays[2], np.float64).tolist(), strict=True))


def search_one(
    plan: kernel.Plan,
    query: NDArray[np.float32],
    k: int,
    candidates: int,
    lists: tuple[NDArray[np.int64] | None, ...] | None = None,
    *,
    has_rest: bool = True,
) -> tuple[kernel.Arrays, bool]:
    """The hits of one query, and whether equals of them may be missing."""
    return plan.search(query, k, candidates, lists, has_rest)[0]


def ids_in_batches(ids: Sequence[str], batch_rows: int) -> list[tuple[NDArray[np.int64], bytes]]:
    """Ids as Arrow stores them: the offsets and the bytes of each batch."""
    batches = []
    for start in range(0, len(ids), batch_rows):
        encoded = [one.encode() for one in ids[start : start + batch_rows]]
        batches.append((np.cumsum([0, *map(len, encoded)], dtype=np.int64), b"".join(encoded)))
    return batches


def scores_of(metric: kernel.Metric, query: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float64]:
    """The scores of all rows, by the definitions, in float64."""
    wide, asked = rows.astype(np.float64), query.astype(np.float64).reshape(-1)
    if metric in {"dot", "cosine"}:
        products = wide @ asked
        return np.asarray(np.clip(products, -1, 1) if metric == "cosine" else products)
    squares = ((wide - asked) ** 2).sum(axis=1)
    return np.asarray(np.clip(1 - squares / 2, -1, 1) if metric == "chord" else -np.sqrt(squares))


def packed(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(mask, bitorder="little")


# -- codes -------------------------------------------------------------------------------------------------------------


def pack_codes(codes: NDArray[np.uint8], block_rows: int) -> NDArray[np.uint8]:
    """Codes (n, sub-quantizers) of 4 bits in the blocks that the kernel scans.

    A block holds pair after pair of sub-quantizers; a pair has 32 bytes for each 32 rows, 16 of each of the two. Byte i
    holds the codes of the rows i // 2, or that + 8 for odd i, and of the row 16 further.
    """
    rows, count = codes.shape
    whole = np.zeros((-(-rows // block_rows) * block_rows, count + count % 2), np.uint8)
    whole[:rows, :count] = codes
    blocks = whole.reshape(-1, block_rows // SUB_BLOCK, SUB_BLOCK, whole.shape[1] // 2, 2)
    order = np.arange(16) // 2 + np.arange(16) % 2 * 8
    bytes_ = blocks[:, :, order] | blocks[:, :, order + 16] << 4  # (blocks, sub-blocks, 16, pairs, 2)
    return np.ascontiguousarray(bytes_.transpose(0, 3, 1, 4, 2)).reshape(-1)


@dataclass(frozen=True)
class Codebook:
    """Codewords (sub-quantizers, 16, sub-dimensions) of rows that are padded with zeros, or rotated."""

    codewords: NDArray[np.float32]
    rotation: NDArray[np.float16] | None = None
    norm_weight: float = 0.0

    def _parts(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        count, _, d = self.codewords.shape
        wide = rows.astype(np.float64)
        if self.rotation is not None:
            wide = wide @ self.rotation.astype(np.float64).T
        return np.pad(wide, ((0, 0), (0, count * d - wide.shape[1]))).reshape(len(rows), count, d)

    def encode(self, rows: NDArray[Any]) -> NDArray[np.uint8]:
        """The nearest codewords of each row (n, sub-quantizers)."""
        parts = self._parts(rows)
        distances = ((parts[:, :, None] - self.codewords.astype(np.float64)) ** 2).sum(axis=-1)
        return np.asarray(distances.argmin(axis=-1), dtype=np.uint8)

    def estimates(self, metric: kernel.Metric, query: NDArray[Any], codes: NDArray[np.uint8]) -> NDArray[np.float64]:
        """How close rows with these codes seem, before it is rounded to steps."""
        table = self.table(metric, query)
        return np.asarray(table[np.arange(table.shape[0]), codes].sum(axis=1))

    def table(self, metric: kernel.Metric, query: NDArray[Any]) -> NDArray[np.float64]:
        part, words = self._parts(query.reshape(1, -1))[0][:, None], self.codewords.astype(np.float64)
        squares = self.norm_weight * (words**2).sum(axis=-1)
        is_l2 = metric in {"chord", "euclidean"} and not self.norm_weight
        return np.asarray((-((part - words) ** 2) if is_l2 else part * words).sum(axis=-1) - squares)

    def rounding(self, metric: kernel.Metric, query: NDArray[Any]) -> float:
        """How much two estimates may differ although their values of 8 bits order them the other way."""
        table = self.table(metric, query)
        spans = np.pad(np.ptp(table, axis=1), (0, -len(table) % 8)).reshape(-1, 4, 2)
        step = max(spans.sum(axis=1).max() / 252, spans.sum() / (0.99 * 32767))
        return float((len(table) + 1) * step)


def random_codebook(seed: int, dimensions: int, sub_quantizers: int, *, is_rotated: bool = False) -> Codebook:
    rng = np.random.default_rng(seed)
    d = -(-dimensions // sub_quantizers)
    words = rng.standard_normal((sub_quantizers, CODEWORDS, d)).astype(np.float32)
    rotation = rng.standard_normal((sub_quantizers * d, dimensions)).astype(np.float16) if is_rotated else None
    return Codebook(words, rotation, 0.25 if is_rotated else 0.0)


def one(number: int) -> NDArray[np.int64]:
    return np.array([number], np.int64)


def codes_for(
    columns: kernel.Columns, codebook: Codebook, dimensions: int, block_rows: int, lists: Sequence[Any]
) -> kernel.Codes:
    count, _, d = codebook.codewords.shape
    assert dimensions <= count * d
    return kernel.Codes(
        columns, codebook.codewords, codebook.norm_weight, codebook.rotation, count, d, block_rows, lists
    )


def centroids_for(points: NDArray[np.float32], *, is_l2: bool = False, is_relative: bool = False) -> kernel.Centroids:
    """Centroids (n, d) in bytes."""
    mean = points.mean(axis=0)
    centred = points - mean
    step = float(np.abs(centred).max()) / 127 or 1.0
    steps = np.pad(np.rint(centred / step), ((0, 0), (0, -points.shape[1] % 64))) + 128
    squares = (centred**2).sum(axis=1)
    return kernel.Centroids(steps.astype(np.uint8), mean, squares.astype(np.float32), step, is_l2, is_relative)


def probe_of(codebook: Codebook, numbers: Sequence[int], lists: int) -> tuple[Any, ...]:
    """What makes a probe of len(numbers) centroids scan just these lists of `lists`: all centroids are equally near."""
    count, _, d = codebook.codewords.shape
    order = [*numbers, *(number for number in range(lists) if number not in numbers)]
    centroids = centroids_for(np.zeros((lists, count * d), np.float32))
    return centroids, np.array(order), np.zeros(lists, np.int64), np.empty(0, np.int64), None, None


def whole_list(column: int, codes: NDArray[np.uint8], block_rows: int) -> tuple[Any, ...]:
    """All rows of a column as one list."""
    return column, pack_codes(codes, block_rows), None, one(0), one(0), one(len(codes))
