"""The hits of a query with what was asked beside them, and those of many queries, as lists or as one Arrow table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from aidre.engine.model import EmbeddingSpace, Highlight, Mode
from aidre.engine.types import Facet, Hit

if TYPE_CHECKING:
    import pyarrow as pa

    from aidre.engine.retrieve import Answer


class Hits(list[Hit]):
    """The hits of a search, best first: a list, with what was asked beside them.

    `facets` are by field as it was named, `highlights` those of the hits, in their order. `corrected` is the text that
    was answered in place of the one as typed, `suggestion` one that finds something, too. `understood` has the
    `phrases` and the `excluded` words that were read in it. `unknown_fields` are those
    of the filter that no document has: a condition on one finds nothing, and its negation everything. `mode` and
    `space` are those of the search, which is lexical where a model is missing and no mode was asked for.
    """

    facets: Mapping[str, Facet] = MappingProxyType({})
    highlights: Sequence[Highlight] = ()
    corrected: str | None = None
    suggestion: str | None = None
    understood: Mapping[str, Sequence[str]] = MappingProxyType({})
    unknown_fields: Sequence[str] = ()
    mode: Mode | None = None
    space: str | None = None
    _answer: Answer | None = None
    _relevance: list[float] | None = None

    @property
    def relevance(self) -> list[float] | None:
        """The relevance of each hit from 0 to 1, on one scale for all modes and collections: from 0.51 on a hit counts
        as relevant. None for a vector, and where a server does not say. It is computed when it is asked for."""
        found = self._answer
        if self._relevance is None and found is not None and found.question.text is not None:
            from aidre.engine.retrieve import run, scale_of

            scale = found.scale or run(scale_of(found), _embed_nothing)
            self._relevance = scale.relevances(hit.score for hit in self)
        return self._relevance

    def set_relevance(self, relevance: list[float] | None) -> None:
        """For a server's hits, whose relevance it says."""
        self._relevance = relevance


def to_hits(found: Answer, min_score: float | None) -> Hits:
    """An answer as a list, without the hits below `min_score`; their highlights go with them."""
    kept = [number for number, hit in enumerate(found.hits) if min_score is None or hit.score >= min_score]
    hits = Hits(found.hits[number] for number in kept)
    hits._answer = found
    hits.mode, hits.space = found.mode, None if found.space is None else found.space.id
    hits.corrected, hits.suggestion, hits.unknown_fields = found.corrected, found.suggestion, found.ignored
    if found.reading is not None:
        hits.understood = found.reading.understood
    hits.facets = {one.field: facet for one, facet in zip(found.question.facets, found.facets, strict=True)}
    if found.highlights is not None:
        hits.highlights = [found.highlights[number] for number in kept]
    return hits


def _embed_nothing(space: EmbeddingSpace, text: str) -> Any:
    raise AssertionError("a scale embeds no text")


class SearchResults(Sequence[list[Hit]]):
    """The hits of each query, in the order of the queries. `unknown_fields` are those of `Hits`."""

    def __init__(self, hits: Sequence[list[Hit]], unknown_fields: Sequence[str] = ()) -> None:
        self._hits, self.unknown_fields = hits, unknown_fields

    def __len__(self) -> int:
        return len(self._hits)

    @overload
    def __getitem__(self, index: int) -> list[Hit]: ...
    @overload
    def __getitem__(self, index: slice) -> SearchResults: ...
    def __getitem__(self, index: int | slice) -> list[Hit] | SearchResults:
        if isinstance(index, slice):
            return SearchResults(self._hits[index], self.unknown_fields)
        return self._hits[index]

    def __iter__(self) -> Iterator[list[Hit]]:
        return iter(self._hits)

    def __repr__(self) -> str:
        return f"<SearchResults of {len(self)} queries>"

    def to_arrow(self) -> pa.Table:
        """One row a hit: query (its index), rank (from 0), id, document_id, score, text, title and url."""
        import pyarrow as pa

        rows = [(query, rank, hit) for query, hits in enumerate(self._hits) for rank, hit in enumerate(hits)]
        columns: dict[str, Any] = {
            "query": pa.array([query for query, _, _ in rows], pa.int64()),
            "rank": pa.array([rank for _, rank, _ in rows], pa.int64()),
            "score": pa.array([hit.score for _, _, hit in rows], pa.float64()),
        }
        for name in ("id", "document_id", "text", "title", "url"):
            columns[name] = pa.array([getattr(hit, name) for _, _, hit in rows], pa.string())
        return pa.table(columns)


def join_hits(found: Sequence[Hits]) -> SearchResults:
    """The hits of searches that were made one by one."""
    return SearchResults(found, tuple(dict.fromkeys(name for hits in found for name in hits.unknown_fields)))
