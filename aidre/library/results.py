"""The hits of a query with what was asked beside them, and those of many queries, as lists or as one Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from aidre.engine.errors import Unsupported
from aidre.engine.model import Highlight, HighlightLimits, Query
from aidre.engine.types import Facet, Hit
from aidre.library.facets import FacetRequest, to_asked

if TYPE_CHECKING:
    import pyarrow as pa

    from aidre.engine.ports import Reader


class Hits(list[Hit]):
    """The hits of a search, best first: a list, with what was asked beside them.

    `facets` are by field as it was named, `highlights` those of the hits, in their order. `corrected` is the text that
    was answered in place of the one as typed, `suggestion` one that finds something, too. `unknown_fields` are those
    of the filter that no document has: a condition on one finds nothing, and its negation everything.
    """

    facets: Mapping[str, Facet] = MappingProxyType({})
    highlights: Sequence[Highlight] = ()
    corrected: str | None = None
    suggestion: str | None = None
    unknown_fields: Sequence[str] = ()
    _found: tuple[Reader, Query, Sequence[Hit]] | None = None
    _relevance: list[float] | None = None

    @property
    def relevance(self) -> list[float] | None:
        """The relevance of each hit from 0 to 1, on one scale for all modes and collections: from 0.51 on a hit counts
        as relevant. None for a vector, and where a server does not say. It is computed when it is asked for."""
        if self._relevance is None and self._found is not None and self._found[1].text is not None:
            from aidre.api.retrieval import best_of, scale_of

            reader, query, found = self._found
            scale = scale_of(reader, query, best_of(reader, query, found))
            self._relevance = scale.relevances(hit.score for hit in self)
        return self._relevance

    def set_relevance(self, relevance: list[float] | None) -> None:
        """For a server's hits, whose relevance it says."""
        self._relevance = relevance


def to_hits(reader: Reader, query: Query, found: list[Hit], min_score: float | None) -> Hits:
    """What a reader has found for a query, without the hits below `min_score`."""
    hits = Hits(found if min_score is None else [hit for hit in found if hit.score >= min_score])
    hits._found = reader, query, found
    return hits


def to_forgiving_hits(reader: Reader, text: str, ask: Callable[[str], Query], min_score: float | None) -> Hits:
    """The same for a text that may be answered repaired. Raises what `ask` raises."""
    from aidre.api.retrieval import search_forgiving

    answer = search_forgiving(reader, text, ask)
    hits = to_hits(reader, answer.query, answer.hits, min_score)
    hits.corrected, hits.suggestion = answer.corrected, answer.suggestion
    return hits


def add_extras(hits: Hits, facets: Sequence[FacetRequest], limits: HighlightLimits | None) -> None:
    """The facets of all matches of the hits' query, and where its words are. Unsupported, InvalidFilter."""
    if hits._found is None:
        return
    reader, query, _ = hits._found
    if facets:
        from aidre.api.retrieval import count_facets

        _check(reader, "facets", reader.can.facets)
        text = query.text if query.mode == "lexical" else None
        counted = count_facets(reader, tuple(map(to_asked, facets)), query.filter, text)
        hits.facets = {one.field: facet for one, facet in zip(facets, counted, strict=True)}
    if limits is not None:
        _check(reader, "highlight", reader.can.highlight)
        hits.highlights = reader.highlight(str(query.text), hits, limits)


def _check(reader: Reader, capability: str, can: bool) -> None:
    if not can:
        raise Unsupported(
            f"collection {reader.collection.name!r} has no {capability}: its engine lacks it", capability=capability
        )


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
