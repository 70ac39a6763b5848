"""Pages of one search that neither overlap nor leave gaps, although the scan is calibrated by the number of results.

The first page is a cheap search for its few hits. All later pages are cut from one ranking down to the last result,
without the hits of the first page, which is searched again to know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from aidre.engine.model import Query
from aidre.engine.ports import Reader
from aidre.engine.types import Hit


class Page(NamedTuple):
    """`offset` is that of the next page, None after the last one; `best` is the best hit of all pages."""

    hits: list[Hit]
    offset: int | None
    best: Hit | None


def only_page(reader: Reader, query: Query) -> Page:
    """The hits after `query.offset`, without a next page; the best hit is known where none is left out."""
    hits = reader.search(query)
    return Page(hits, None, _best(hits) if query.offset == 0 else None)


def first_page(reader: Reader, query: Query, max_results: int) -> Page:
    """The best `query.top_k` hits. `max_results` is the limit over all pages."""
    if query.mode == "lexical":  # searching for one hit more costs nothing, counting all matches costs a search
        hits = reader.search(replace(query, top_k=query.top_k + 1))
        return Page(
            hits[: query.top_k], query.top_k if query.top_k < min(len(hits), max_results) else None, _best(hits)
        )
    return _first_page_of(reader, query, reader.search(query), max_results)


def first_pages(reader: Reader, queries: Sequence[Query], max_results: int) -> list[Page]:
    """The first pages of dense searches, from one scan."""
    results = reader.search_all(queries)
    pairs = zip(queries, results, strict=True)
    return [_first_page_of(reader, query, hits, max_results) for query, hits in pairs]


def _first_page_of(reader: Reader, query: Query, hits: list[Hit], max_results: int) -> Page:
    best = _best(hits)
    is_last = len(hits) < query.top_k or len(hits) >= max_results or len(hits) >= reader.count(query.filter)
    return Page(hits, None if is_last else len(hits), best)


def _best(hits: Sequence[Hit]) -> Hit | None:
    return hits[0] if hits else None


def later_page(then: Reader, now: Reader, query: Query, first_size: int, max_results: int) -> Page:
    """The page at `query.offset` after a first page of `first_size` hits.

    `then` is the state of the first page; hits deleted from `now` are skipped.
    """
    first = then.search(replace(query, top_k=first_size, offset=0))
    first_ids = {hit.chunk.id for hit in first}
    ranking = then.search(replace(query, top_k=max_results, offset=0))
    rest = [hit for hit in ranking if hit.chunk.id not in first_ids][: max_results - first_size]
    position = query.offset - first_size
    hits: list[Hit] = []
    while position < len(rest) and len(hits) < query.top_k:
        if then is now or now.get(rest[position].chunk.id) is not None:
            hits.append(rest[position])
        position += 1
    return Page(hits, first_size + position if position < len(rest) else None, _best(first))
