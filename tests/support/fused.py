"""What a hybrid search must find, computed in the plain way: over all chunks, from the formulas in hybrid.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.index.text.analysis import to_term, tokenize
from aidre.engine.model import Fusion, Query
from aidre.engine.search import bm25
from aidre.engine.types import Hit

DELTA: Final = 0.2
SEEDS, WEIGHT, SHARPNESS, DEPTH = 10, 0.2, 40.0, 25
TOLERANCE: Final = 1e-5
"""Products of matrices are not equal to the last bit over instruction sets."""

_LETTERS: Final = str.maketrans("0123456789", "bcdfghjklm")

Ranking = list[tuple[str, float]]
"""Chunk ids and scores, best first."""


def word(number: int) -> str:
    """A word of its own for each number; without digits, so that it is none of the codes that get a bonus."""
    return f"word{number}q".translate(_LETTERS)


def words(text: str) -> str:
    """The text with `word7` and the like as such words."""
    return " ".join(word(int(each[4:])) if each[4:].isdigit() else each for each in text.split())


def found(snapshot: Snapshot, mode: str, **members: object) -> dict[str, float]:
    """The score of every chunk that a search of a mode finds."""
    query = Query(mode=mode, top_k=max(1, snapshot.chunks), **{"vector": None, "space": None, **members})  # type: ignore[arg-type]
    return {hit.chunk.id: hit.score for hit in snapshot.search(query)}


def bm25_plus(snapshot: Snapshot, text: str, **members: object) -> dict[str, float]:
    """BM25, and DELTA times the weight of every word of the query that a chunk contains."""
    segments, statistics = snapshot.segments, bm25.Statistics(snapshot.segments)
    query = bm25.query_words(segments, statistics, text)
    filter: Any = members.get("filter")
    ranked = bm25.search(segments, statistics, text, k=max(1, snapshot.chunks), filter=filter)
    places = zip(ranked.segment_ords.tolist(), ranked.rows.tolist(), ranked.scores.tolist(), strict=True)
    scores = {segments[place].segment.chunks.value("id", row): score for place, row, score in places}
    for chunk_id in scores:
        chunk = snapshot.get(chunk_id)
        assert chunk is not None
        terms = {to_term(one, "en") for one in tokenize(chunk.text)}
        scores[chunk_id] += sum(DELTA * one.weight for one in query if terms & set(one.terms))
    return scores


def fused(
    snapshot: Snapshot, fusion: Fusion, vector: NDArray[np.float32], text: str, space: str, **members: object
) -> Ranking:
    """All chunks by a * cosine + (1 - a) * bm25 / (bm25 + c)."""
    cosines = found(snapshot, "dense", vector=vector, space=space, **members)
    lexical = bm25_plus(snapshot, text, **members)
    shares = {chunk: score / (score + fusion.c) for chunk, score in lexical.items()}
    # Rounded, so that chunks that tie by the formula tie here, whatever the order of the sums.
    return _ordered(
        (chunk, round(fusion.a * cosine + (1 - fusion.a) * shares.get(chunk, 0.0), 12))
        for chunk, cosine in cosines.items()
    )


def with_feedback(snapshot: Snapshot, fusion: Fusion, ranked: Ranking, space: str) -> Ranking:
    """The best DEPTH by the sum of their score and of their similarity to the weighted mean of the best SEEDS."""
    if len(ranked) < 2 or fusion.a == 0:
        return ranked
    vectors = {chunk: _unit(snapshot, chunk, space) for chunk, _ in ranked[:DEPTH]}
    shares = [np.exp(SHARPNESS * (score - ranked[0][1])) for _, score in ranked[:SEEDS]]
    mean = sum(share * vectors[chunk] for share, (chunk, _) in zip(shares, ranked[:SEEDS], strict=True)) / sum(shares)
    best = ((chunk, score + 2 * fusion.a * WEIGHT * float(mean @ vectors[chunk])) for chunk, score in ranked[:DEPTH])
    return _ordered(best) + ranked[DEPTH:]


def hybrid(
    snapshot: Snapshot, fusion: Fusion, vector: NDArray[np.float32], text: str, space: str, **members: object
) -> Ranking:
    """What a hybrid search of all chunks finds."""
    ranked = fused(snapshot, fusion, vector, text, space, **members)
    return with_feedback(snapshot, fusion, ranked, space)


def assert_same(hits: Sequence[Hit], expected: Ranking, first: int = 0) -> None:
    """The hits from place `first` on are the expected ones; among the best DEPTH, equal scores may change places, and
    scores of those that follow tell only their order."""
    wanted = expected[first : first + len(hits)]
    best = max(0, min(len(hits), DEPTH - first))
    scores = dict(expected)
    assert [hit.score for hit in hits[:best]] == _near([score for _, score in wanted[:best]])
    assert [hit.score for hit in hits[:best]] == _near([scores[hit.chunk.id] for hit in hits[:best]])
    assert [hit.chunk.id for hit in hits[best:]] == [chunk for chunk, _ in wanted[best:]]
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))
    assert len({hit.chunk.id for hit in hits}) == len(hits)


def _near(scores: list[float]) -> object:
    import pytest

    return pytest.approx(scores, abs=TOLERANCE, rel=0)


def _ordered(ranked: object) -> Ranking:
    return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))  # type: ignore[call-overload,no-any-return]


def _unit(snapshot: Snapshot, chunk_id: str, space: str) -> NDArray[np.float64]:
    chunk = snapshot.get(chunk_id)
    assert chunk is not None
    vector = np.asarray(chunk.vectors()[space], np.float64)
    unit: NDArray[np.float64] = vector / np.linalg.norm(vector)
    return unit
