"""Pages of one search that neither overlap nor leave a gap, though the scan is calibrated by the number of results.

The first page is the cheap search for its few hits. All later ones are cut from one ranking, as deep as pages go,
without the hits of the first page, which is found again from its size. It knows no cursor and no HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from aidre.engine.model import Query
from aidre.engine.snapshot import Hit, Snapshot


class Page(NamedTuple):
    """`offset` is where the next page begins, None after the last one."""

    hits: list[Hit]
    offset: int | None


def first_page(snapshot: Snapshot, query: Query, most: int) -> Page:
    """The best `top_k` hits of at most `most` that all pages may hold."""
    if query.mode == "lexical":  # one hit more costs nothing; counting all that hold a word costs another search
        hits = snapshot.search(replace(query, top_k=query.top_k + 1))
        return Page(hits[: query.top_k], query.top_k if query.top_k < min(len(hits), most) else None)
    return _first(snapshot, query, snapshot.search(query), most)


def first_pages(snapshot: Snapshot, queries: Sequence[Query], most: int) -> list[Page]:
    """The first pages of dense searches, which are searched together."""
    found = snapshot.search_all(queries)
    return [_first(snapshot, query, hits, most) for query, hits in zip(queries, found, strict=True)]


def _first(snapshot: Snapshot, query: Query, hits: list[Hit], most: int) -> Page:
    if len(hits) < query.top_k or len(hits) >= most:
        return Page(hits, None)
    return Page(hits, len(hits) if len(hits) < snapshot.count(query.filter) else None)


def later_page(then: Snapshot, now: Snapshot, query: Query, first: int, most: int) -> Page:
    """The page of `then` at `query.offset`, after a first page of `first`; what `now` has no more is passed over."""
    seen = {hit.chunk.id for hit in then.search(replace(query, top_k=first, offset=0))}
    rest = [hit for hit in then.search(replace(query, top_k=most, offset=0)) if hit.chunk.id not in seen]
    rest = rest[: most - first]
    place = query.offset - first
    hits: list[Hit] = []
    while place < len(rest) and len(hits) < query.top_k:
        if then is now or now.get(rest[place].chunk.id) is not None:
            hits.append(rest[place])
        place += 1
    return Page(hits, first + place if place < len(rest) else None)
