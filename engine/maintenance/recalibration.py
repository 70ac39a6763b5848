"""Calibration of a live space with queries of users, as a generation of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection import Generations, Snapshot, local_store
from aidre.engine.errors import InvalidInput, InvalidVector, SpaceMissing
from aidre.engine.index.vectors import encode_query, search_depth
from aidre.engine.model import EmbeddingSpace
from aidre.engine.ports import EmbedQueries, Source
from aidre.engine.search import search_dense, search_dense_batch
from aidre.engine.storage import Calibration

MAX_GIVEN_QUERIES = 1_000
"""Queries that are measured; of more, as many are drawn evenly."""

_RESULTS = 10
"""Hits (k) of the searches by which given queries are compared before and after."""


@dataclass(frozen=True, slots=True)
class Recalibration:
    """The calibration of a space before and after, and the recall at ten that the given queries found with each."""

    generation: int
    queries: int
    before: Calibration | None
    after: Calibration
    found_before: float
    found_after: float


def recalibrate(
    store: Source,
    collection: str,
    space_id: str,
    vectors: NDArray[np.float32],
    models: Mapping[str, EmbedQueries] | None = None,
) -> Recalibration:
    """Calibrate a live space with queries (n, dimensions), and publish it.

    Unsupported, SpaceMissing, StoreLocked; InvalidInput where there is no query or nothing is stored; DimensionMismatch
    and InvalidVector, which names the query in `details["row"]`; StorageFailed.
    """
    with local_store(store).writer(collection, spaces=None, models=models) as writer:
        return _recalibrate(writer.generations, space_id, vectors)


def _recalibrate(generations: Generations, space_id: str, vectors: NDArray[np.float32]) -> Recalibration:
    snapshot = generations.snapshot
    space = _live_space(generations, space_id)
    if snapshot is None or not snapshot.chunks:
        raise InvalidInput(f"collection {generations.manifest.name!r} stores nothing: ingest documents first")
    queries = _encode_given(space, vectors)
    before = snapshot.space(space_id).calibration
    found_before = measure_recall(snapshot, space_id, queries)
    generations.calibrate({space_id: queries})
    assert generations.snapshot is not None
    after = generations.snapshot.space(space_id).calibration
    assert after is not None
    found_after = measure_recall(generations.snapshot, space_id, queries)
    return Recalibration(generations.manifest.generation, len(queries), before, after, found_before, found_after)


def measure_recall(snapshot: Snapshot, space_id: str, queries: NDArray[np.float32]) -> float:
    """The mean recall at `_RESULTS` of encoded queries (n, dimensions) at the calibrated depth, ties tolerated."""
    state = snapshot.space(space_id)
    depth = search_depth(state.calibration, _RESULTS)
    if depth is None:
        return 1.0
    found = 0.0
    for number, hits in enumerate(search_dense_batch(snapshot.segments, space_id, queries, k=_RESULTS, depth=depth)):
        exact = search_dense(snapshot.segments, space_id, queries[number : number + 1], k=_RESULTS)
        found += float(np.count_nonzero(hits.scores >= exact.scores[-1])) / max(1, len(exact.scores))
    return found / len(queries)


def _live_space(generations: Generations, space_id: str) -> EmbeddingSpace:
    manifest = generations.manifest
    live = {space.id: space for space in manifest.collection.spaces}
    if space_id not in live:
        raise SpaceMissing(
            f"collection {manifest.name!r} has no embedding space {space_id!r}: {', '.join(live)}",
            embedding_space=space_id,
        )
    return live[space_id]


def _encode_given(space: EmbeddingSpace, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    if not len(vectors):
        raise InvalidInput("there are no queries: give at least one")
    queries = []
    for row in np.linspace(0, len(vectors) - 1, min(len(vectors), MAX_GIVEN_QUERIES)).astype(int).tolist():
        try:
            queries.append(encode_query(space, vectors[row]))
        except InvalidVector as error:
            raise InvalidVector(f"query {row + 1}: {error.message}", row=row) from error
    return np.concatenate(queries)
