"""Pages of one search that neither overlap nor leave gaps, although the scan is calibrated by the number of results.

The first page is a cheap search for its few hits. All later pages are cut from one ranking down to the last result,
without the hits of the first page, which is searched again to know them. Where no last result is set (`page_at`), they
are cut from a few rankings, each deeper than the one before and without what that has.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from aidre.engine.model import Query
from aidre.engine.ports import Reader
from aidre.engine.retrieve.by_document import Counted, documents
from aidre.engine.retrieve.relevance import FIRST_HITS
from aidre.engine.types import Hit

DEPTHS: Final = (128, 1_024, 8_192, 32_768)
"""Lengths of the rankings from which `page_at` cuts pages; the last is beyond every page that may be asked for."""


class SearchPage(NamedTuple):
    """`offset` is that of the next page, None after the last one; `best` are the first hits of all pages, by which
    relevance is told, None where they are not known. On a page of documents, `passages` has the next best chunks of
    each, `copies` the best ones of its near-copies."""

    hits: list[Hit]
    offset: int | None
    best: Sequence[Hit] | None
    passages: list[tuple[Hit, ...]] | None = None
    copies: list[tuple[Hit, ...]] | None = None


def page_at(reader: Reader, query: Query, counted: Counted = "chunk") -> SearchPage:
    """The `query.top_k` hits at `query.offset`, without a next page; the best hits are known on the first one.

    Pages of one size have no hit twice and leave none out.
    """
    if query.offset == 0 or (query.mode == "lexical" and counted == "chunk"):
        hits = reader.search(query)
        return SearchPage(hits, None, _best(hits) if query.offset == 0 else None)
    end = query.offset + query.top_k
    listed: list[_GroupedHit] = []
    known = set[Hashable]()
    for depth in (min(query.top_k, query.offset), *DEPTHS):
        ranking = _ranked(reader, replace(query, top_k=depth, offset=0), counted)
        fresh = [found for found in ranking if known.isdisjoint(found.keys(counted))][: depth - len(listed)]
        known.update(key for found in fresh for key in found.keys(counted))
        listed += fresh
        if len(listed) >= end or len(ranking) < depth:
            break
    return _shown(listed[query.offset : end], None, None, counted)


def first_page(reader: Reader, query: Query, max_results: int) -> SearchPage:
    """The best `query.top_k` hits. `max_results` is the limit over all pages."""
    if query.mode == "lexical":  # searching for one hit more costs nothing, counting all matches costs a search
        hits = reader.search(replace(query, top_k=query.top_k + 1))
        return SearchPage(
            hits[: query.top_k], query.top_k if query.top_k < min(len(hits), max_results) else None, _best(hits)
        )
    return _first_page_of(reader, query, reader.search(query), max_results)


def first_pages(reader: Reader, queries: Sequence[Query], max_results: int) -> list[SearchPage]:
    """The first pages of dense searches, from one scan."""
    results = reader.search_all(queries)
    pairs = zip(queries, results, strict=True)
    return [_first_page_of(reader, query, hits, max_results) for query, hits in pairs]


def _first_page_of(reader: Reader, query: Query, hits: list[Hit], max_results: int) -> SearchPage:
    best = _best(hits)
    is_last = len(hits) < query.top_k or len(hits) >= max_results or len(hits) >= reader.count(query.filter)
    return SearchPage(hits, None if is_last else len(hits), best)


def _best(hits: Sequence[Hit]) -> Sequence[Hit]:
    return hits[:FIRST_HITS]


class _GroupedHit(NamedTuple):
    """A hit with the other passages of its document, and the near-copies of that."""

    hits: tuple[Hit, ...]
    copies: tuple[Hit, ...] = ()

    def keys(self, counted: Counted) -> list[Hashable]:
        """The keys of the hit and of its copies, in the unit that is counted."""
        if counted == "chunk":
            return [self.hits[0].chunk.id]
        return [hit.chunk.document_key for hit in (self.hits[0], *self.copies)]


def later_page(
    then: Reader, now: Reader, query: Query, first_size: int, max_results: int, *, counted: Counted = "chunk"
) -> SearchPage:
    """The page at `query.offset` after a first page of `first_size` hits.

    `then` is the state of the first page; what was deleted from `now` is skipped.
    """
    first = _ranked(then, replace(query, top_k=first_size, offset=0), counted)
    chunks = [hit for found in first for hit in found.hits]
    known = {key for found in first for key in found.keys(counted)}
    ranking = _ranked(then, replace(query, top_k=max_results, offset=0), counted)
    rest = [found for found in ranking if known.isdisjoint(found.keys(counted))][: max_results - first_size]
    position = query.offset - first_size
    shown: list[_GroupedHit] = []
    while position < len(rest) and len(shown) < query.top_k:
        found = rest[position] if then is now else _GroupedHit(*(_kept(hits, now) for hits in rest[position]))
        if found.hits:
            shown.append(found)
        position += 1
    offset = first_size + position if position < len(rest) else None
    return _shown(shown, offset, _best(sorted(chunks, key=lambda hit: -hit.score)), counted)


def _shown(
    shown: Sequence[_GroupedHit], offset: int | None, best: Sequence[Hit] | None, counted: Counted
) -> SearchPage:
    page = SearchPage([found.hits[0] for found in shown], offset, best)
    if counted == "chunk":
        return page
    return page._replace(passages=[found.hits[1:] for found in shown], copies=[found.copies for found in shown])


def length_for(end: int) -> int:
    """How long a ranking is from which pages up to `end` are cut, so that most of them are cut from the same."""
    return next(depth for depth in DEPTHS if depth >= end)


def _kept(hits: tuple[Hit, ...], now: Reader) -> tuple[Hit, ...]:
    return tuple(hit for hit in hits if now.get(hit.chunk.id) is not None)


def _ranked(reader: Reader, query: Query, counted: Counted) -> list[_GroupedHit]:
    if counted == "chunk":
        return [_GroupedHit((hit,)) for hit in reader.search(query)]
    hits, passages, copies, _ = documents(reader, query, collapse=counted == "distinct")
    return [_GroupedHit((hit, *few), same) for hit, few, same in zip(hits, passages, copies, strict=True)]
