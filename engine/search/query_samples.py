"""The queries of a calibration, in kinds, each of which has to be found well enough.

| kind | queries | made |
|---|---|---|
| rows | some live rows, without themselves among their neighbours | always, fewer: they are the easiest queries |
| mixtures | three rows in random shares, and as much noise in all directions | always |
| pairs | two rows in about equal shares, and some noise | always |
| texts | titles and sentences of the stored documents, embedded as queries | where the model is at hand |
| others | texts about many other subjects, embedded as queries | where the model is at hand |
| given | queries of users | where they are given |

Pairs are for the inverted lists: where rows lie in clusters, a query between two of them has its neighbours in lists
whose centroids are far from it, and needs several times the lists of rows and mixtures.

Questions lie off the rows, and those about other subjects farther off: their neighbours differ less from the other
rows, and are harder to find among codes. Mixtures are as hard as questions about a related subject. In a collection
about one subject those about another can be harder, which only their texts show: queries about climate found .941 of
their ten nearest functions of Python at 200 candidates, mixtures .994 (`benchmarks.quality.bench_calibration`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors import VectorColumn, is_unit
from aidre.engine.model import EmbeddingSpace
from aidre.engine.segment import RowMask

SAMPLED_QUERIES = 260
"""Rows, mixtures and pairs together. The mean recall of 140 queries is known to about .003."""

_ROWS_SHARE = 3 / 13
"""Share of the rows, and of the pairs, among SAMPLED_QUERIES: fewer than sixty could not prove a recall of .995."""

_MIXED_ROWS = 3

_EVENNESS = 20.0
"""Parameter of the distribution of the two shares of a pair: most are between .35 and .65."""

_PAIRS_NOISE = 0.4
_NOISE = 0.7
"""The norm of the noise in a mixture, relative to that of the mixed rows. Over collections of 3,000 to 300,000 passages
mixtures need 1.2 to 4 times the candidates of questions about the subject of the rows, whether or not codes are
rotated."""

NO_ROW = -1
"""The key of a query that is not a row."""

_SEED = 20_260_101

Kind = Literal["rows", "mixtures", "pairs", "texts", "others", "given"]


class LiveColumn(Protocol):
    """A column with its live rows."""

    @property
    def column(self) -> VectorColumn: ...

    @property
    def live(self) -> RowMask: ...


@dataclass(frozen=True, slots=True)
class QuerySample:
    """Queries of one kind (n, d), normalized where the space is, and the keys of those that are rows, or `NO_ROW`."""

    kind: Kind
    queries: NDArray[np.float32]
    row_keys: NDArray[np.int64]


def row_key(target_ord: Any, row: Any) -> Any:
    """One number for a row of a target; works on arrays."""
    return (target_ord << 32) + row


def target_of(key: Any) -> Any:
    return key >> 32


def row_of(key: Any) -> Any:
    return key & ((1 << 32) - 1)


def asked_sample(kind: Kind, queries: NDArray[np.float32]) -> QuerySample:
    """A sample of queries that are not rows."""
    return QuerySample(kind, queries, np.full(len(queries), NO_ROW, np.int64))


def generated_samples(
    space: EmbeddingSpace,
    targets: Sequence[LiveColumn],
    rows: int,
    count: int | None = None,
    *,
    seed: int = _SEED,
    shares: tuple[float, float] = (_ROWS_SHARE, _ROWS_SHARE),
) -> list[QuerySample]:
    """Rows, mixtures and pairs of the live rows of all targets, `rows` in number; the same for the same rows. `count`
    are all of them (None: SAMPLED_QUERIES), `shares` those of the rows and of the pairs."""
    rng, count = np.random.default_rng(seed), SAMPLED_QUERIES if count is None else count
    row_queries, pairs = (round(share * count) for share in shares)
    picks = np.sort(rng.choice(rows, min(row_queries, rows), replace=False))
    keys, vectors = _take_live(targets, picks)
    mixtures = count - row_queries - pairs
    mixed: Sequence[tuple[Kind, NDArray[np.float32]]] = (
        ("mixtures", _mix(space, targets, rng, (mixtures, _MIXED_ROWS), evenness=1.0, noise=_NOISE)),
        ("pairs", _mix(space, targets, rng, (pairs, 2), evenness=_EVENNESS, noise=_PAIRS_NOISE)),
    )
    return [QuerySample("rows", vectors, keys), *(asked_sample(kind, queries) for kind, queries in mixed)]


def _mix(
    space: EmbeddingSpace,
    targets: Sequence[LiveColumn],
    rng: np.random.Generator,
    shape: tuple[int, int],
    *,
    evenness: float,
    noise: float,
) -> NDArray[np.float32]:
    """Mixtures with noise, as long as the rows; in a Euclidean space around their centre. `shape` is their number and
    that of the rows in each."""
    (count, mixed_rows), rows = shape, sum(target.live.count for target in targets)
    _, parts = _take_live(targets, rng.integers(0, rows, count * mixed_rows))
    centre = parts.mean(axis=0) if space.distance == "euclidean" else np.zeros(space.dimensions, np.float32)
    parts -= centre
    radius = float(np.sqrt(np.mean(np.einsum("ij,ij->i", parts, parts))))
    shares = rng.dirichlet(np.full(mixed_rows, evenness), count).astype(np.float32)
    mixed = np.einsum("nm,nmd->nd", shares, parts.reshape(count, mixed_rows, -1))
    directions = _unit(rng.standard_normal(mixed.shape).astype(np.float32))
    queries = _unit(_unit(mixed) + np.float32(noise) * directions)
    return queries if is_unit(space) else np.asarray(centre + radius * queries, np.float32)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, np.finfo(np.float32).tiny), np.float32)


def _take_live(
    targets: Sequence[LiveColumn], picks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Keys and vectors of live rows, by their ordinals among the live rows of all targets."""
    ends = np.cumsum([target.live.count for target in targets])
    target_ords = np.searchsorted(ends, picks, side="right")
    keys = np.empty(len(picks), np.int64)
    vectors = np.empty((len(picks), targets[0].column.codes.shape[1]), np.float32)
    for target_ord in np.unique(target_ords).tolist():
        own = np.flatnonzero(target_ords == target_ord)
        target = targets[target_ord]
        rows = target.live.rows()[picks[own] - (ends[target_ord] - target.live.count)]
        keys[own] = row_key(target_ord, rows)
        vectors[own] = target.column.take(rows)
    return keys, vectors
