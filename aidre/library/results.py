"""The hits of a local search: an answer of the engine as the list that programs get."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, cast

from aidre.engine.model import EmbeddingSpace
from aidre_client.values import Hit, Hits

if TYPE_CHECKING:
    from aidre.engine.retrieve import Answer


def to_hits(found: Answer, min_score: float | None) -> Hits:
    """An answer as a list, without the hits below `min_score`; their highlights go with them."""
    from aidre.engine.retrieve import told_copies

    least = -inf if min_score is None else min_score
    kept = [number for number, hit in enumerate(found.hits) if hit.score >= least]
    hits = Hits(found.hits[number] for number in kept)
    if found.question.text is not None:
        hits.set_relevance(partial(_relevances, found))
    hits.mode, hits.space = found.mode, None if found.space is None else found.space.id
    hits.corrected, hits.suggestion, hits.unknown_fields = found.corrected, found.suggestion, found.ignored
    if found.reading is not None:
        hits.understood = found.reading.understood
    hits.facets = {one.field: facet for one, facet in zip(found.question.facets, found.facets, strict=True)}
    if found.question.group == "document":
        passages = found.passages or [()] * len(found.hits)
        copies = found.copies or [()] * len(found.hits)
        hits.copies = [told_copies(copies[number]) for number in kept]
        hits.passages = [[hit for hit in passages[number] if hit.score >= least] for number in kept]
    if found.highlights is not None:
        hits.highlights = [found.highlights[number] for number in kept]
    return hits


def _relevances(found: Answer, hits: Sequence[Hit]) -> list[float]:
    """On the scale of the answer, which may have to be calibrated first."""
    from aidre.engine.retrieve import run, scale_of

    scale = found.scale or run(scale_of(found), _embed_nothing)
    as_searched = {hit.chunk.id: hit for hit in found.unranked}  # what a reranker scores has another scale
    hits = [as_searched.get(hit.id, cast("Any", hit)) for hit in hits] if as_searched else hits
    return scale.relevances(cast("Sequence[Any]", hits))


def _embed_nothing(space: EmbeddingSpace, text: str) -> Any:
    raise AssertionError("a scale embeds no text")
