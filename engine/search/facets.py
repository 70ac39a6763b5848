"""Facets of a generation: the distinct values of a field among some documents, counted by segment and joined.

The documents are those that pass a filter; with the text of a query only those with a chunk that has one of its words,
which are the matches of a lexical search. Counts are cached, since a page shows the same facets for many queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.index.fields import (
    Compare,
    FieldIndex,
    Filter,
    Kind,
    ValueCounts,
    ValueRange,
    filter_digest,
    range_with_dates,
)
from aidre.engine.search import bm25
from aidre.engine.segment import BoundedCache, SegmentView
from aidre.engine.storage import build_dictionary
from aidre.engine.types import TYPE_ORDER, Facet, shown_value

_MAX_CACHED: Final = 128
_MAX_CACHED_VALUES: Final = 100
"""Facets that are cached, and the values that one may have."""

_Mask: TypeAlias = NDArray[np.bool_]


class FacetCounter:
    """Counts the facets of one generation."""

    def __init__(self, segments: Sequence[SegmentView], statistics: bm25.Statistics, dates: Sequence[str]) -> None:
        self._segments, self._statistics, self._dates = segments, statistics, dates
        self._cache: BoundedCache[Any, Facet] = BoundedCache(_MAX_CACHED)

    def count(
        self,
        field: str,
        filter: Filter | None = None,
        *,
        text: str | None = None,
        limit: int | None = None,
        ranges: Sequence[ValueRange] = (),
    ) -> Facet:
        """As `Reader.facet`. Fields declared as dates are instants in the filter already, not in the ranges."""
        key = field, None if filter is None else filter_digest(filter), text, limit, tuple(ranges)
        facet = self._cache.get(key)
        if facet is None:
            words = None if text is None else bm25.query_words(self._segments, self._statistics, text)
            facet = self._count(field, filter, words, limit, ranges)
            if len(facet.counts) <= _MAX_CACHED_VALUES:
                self._cache.add(key, facet)
        return facet

    def _count(
        self,
        field: str,
        filter: Filter | None,
        words: Sequence[bm25.QueryWord] | None,
        limit: int | None,
        ranges: Sequence[ValueRange],
    ) -> Facet:
        parts = (
            FacetPart(view.segment.fields, _documents(view, filter, words), view.segment.entry.documents)
            for view in self._segments
        )
        return count_facet(parts, field, limit, [range_with_dates(field, bounds, self._dates) for bounds in ranges])


class FacetPart(NamedTuple):
    """The fields of some documents, the mask of those that count (None: all), and how many there are."""

    fields: FieldIndex
    mask: _Mask | None
    documents: int


def count_facet(parts: Iterable[FacetPart], field: str, limit: int | None, ranges: Sequence[ValueRange]) -> Facet:
    """The facet of a field over all parts. Fields declared as dates are instants in the ranges."""
    counted: dict[Kind, list[ValueCounts]] = {}
    instants: list[int] = []
    within = [0] * len(ranges)
    documents = present = 0
    for fields, mask, total in parts:
        documents += total if mask is None else int(np.count_nonzero(mask))
        present += _count_both(fields.mask(Compare(field, "exists", True)), mask)
        for counts in fields.counts(field, mask):
            counted.setdefault(counts.kind, []).append(counts)
        instants += fields.bounds(field, "date", mask) or ()
        for number, bounds in enumerate(ranges):
            within[number] += _count_both(fields.within(field, bounds), mask)
    joined = [_join(found) for found in counted.values()]
    minimum, maximum = _bounds(joined, instants)
    return Facet(
        tuple(_most_frequent(joined, limit)),
        documents,
        documents - present,
        minimum,
        maximum,
        sum(len(part.values) for part in joined),
        tuple(within),
    )


def _documents(view: SegmentView, filter_: Filter | None, words: Sequence[bm25.QueryWord] | None) -> _Mask | None:
    """The live documents that pass the filter and have one of the words; None where all do."""
    if filter_ is None and words is None and view.deleted is None:
        return None
    mask = view.document_mask(filter_)
    return mask if words is None else mask & _documents_with(view, words)


def _documents_with(view: SegmentView, words: Iterable[bm25.QueryWord]) -> _Mask:
    """The documents with a chunk that has any of the words."""
    counts, mask = view.segment.chunk_counts, np.zeros(view.segment.entry.documents, np.bool_)
    starts = None if counts is None else np.cumsum(counts) - counts
    for term in {term for word in words for term in word.terms}:
        postings = view.postings(term)
        if postings is not None:
            rows = postings.rows if starts is None else np.searchsorted(starts, postings.rows, "right") - 1
            mask[rows] = True
    return mask


def _count_both(chosen: _Mask, mask: _Mask | None) -> int:
    return int(np.count_nonzero(chosen if mask is None else chosen & mask))


def _join(parts: Sequence[ValueCounts]) -> ValueCounts:
    """The counts of one kind in all segments together."""
    if len(parts) == 1:
        return parts[0]
    kind, dictionary = parts[0].kind, parts[0].dictionary
    codes: NDArray[Any]
    if kind == "string":
        strings = [part.dictionary.array.take(pa.array(part.values)) for part in parts]
        dictionary, codes = build_dictionary(pa.concat_arrays(strings))
        values: Any = np.arange(len(dictionary))
    else:
        values, codes = np.unique(np.concatenate([part.values for part in parts]), return_inverse=True)
    counts = np.zeros(len(values), np.int64)
    np.add.at(counts, codes, np.concatenate([part.counts for part in parts]))
    return ValueCounts(kind, values, counts, dictionary)


def _most_frequent(joined: Sequence[ValueCounts], limit: int | None) -> list[tuple[Any, int]]:
    """The values with their counts, the most frequent first, equal ones by type and value; at most `limit`."""
    total = sum(len(part.values) for part in joined)
    chosen: list[tuple[int, int, Any, Kind]] = []
    least = _least_count([part.counts for part in joined], limit) if limit is not None and limit < total else 0
    for kind, values, counts, dictionary in joined:
        # Of those as frequent as the last one that is shown, the first are enough: values are in order.
        places = np.flatnonzero(counts > least) if least else np.arange(len(values))
        ties = np.flatnonzero(counts == least)[:limit] if least else places[:0]
        for place in (*places.tolist(), *ties.tolist()):
            value = values[place].item()
            if kind == "string":
                value = dictionary[value].decode("utf-8", "surrogatepass")
            chosen.append((-int(counts[place]), TYPE_ORDER[kind], value, kind))
    chosen.sort(key=lambda entry: entry[:3])
    return [(shown_value(kind, value), -count) for count, _, value, kind in chosen[:limit]]


def _least_count(counts: Sequence[NDArray[np.int64]], limit: int) -> int:
    """The count of the last of the `limit` most frequent values, of which there are more."""
    with_count = np.bincount(np.concatenate(counts))
    return len(with_count) - 1 - int(np.searchsorted(with_count[::-1].cumsum(), limit))


def _bounds(joined: Sequence[ValueCounts], instants: Sequence[int]) -> tuple[Any, Any]:
    """The least and the greatest of the numbers, or of the dates where there is no number."""
    numeric = [part.values for part in joined if part.kind in {"int", "float"} and len(part.values)]
    numbers = [values[end].item() for values in numeric for end in (0, -1)]
    if numbers:
        return min(numbers), max(numbers)
    return (shown_value("date", min(instants)), shown_value("date", max(instants))) if instants else (None, None)
