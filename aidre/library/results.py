"""The hits of many queries, which a program reads as lists or as one Arrow table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from aidre.engine.backend import Hit

if TYPE_CHECKING:
    import pyarrow as pa


class SearchResults(Sequence[list[Hit]]):
    """The hits of each query, in the order of the queries."""

    def __init__(self, hits: Sequence[list[Hit]]) -> None:
        self._hits = hits

    def __len__(self) -> int:
        return len(self._hits)

    @overload
    def __getitem__(self, index: int) -> list[Hit]: ...
    @overload
    def __getitem__(self, index: slice) -> SearchResults: ...
    def __getitem__(self, index: int | slice) -> list[Hit] | SearchResults:
        return SearchResults(self._hits[index]) if isinstance(index, slice) else self._hits[index]

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
