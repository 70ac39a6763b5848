"""The segments of one generation, each with its deleted rows: what every kind of search goes over, and how hits rank.

Caches of a part are filled by several threads at once: what two of them compute twice is the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aidre.engine.filters import Compare, Filter, canonical
from aidre.engine.index import Bits, Scan
from aidre.engine.lexicon import Postings
from aidre.engine.segment import Segment

_ALLOWED = 32
_FEW = 1 << 14
_TERMS = 4_096


class Allowed:
    """Live rows of a part that pass a filter. `mask` is None where every row does."""

    def __init__(self, mask: NDArray[np.bool_] | None, rows: int) -> None:
        self.mask = mask
        self.count = rows if mask is None else int(np.count_nonzero(mask))
        self.bits = None if mask is None or self.count == rows else Bits(mask)
        self._rows: NDArray[np.int64] | None = None

    def rows(self, total: int) -> NDArray[np.int64]:
        """The rows in order; few of them are kept, for to find them takes as long as to search them."""
        if self._rows is not None:
            return self._rows
        rows = np.arange(total) if self.mask is None else np.flatnonzero(self.mask)
        if len(rows) <= _FEW:
            self._rows = rows
        return rows


class Part:
    """A segment as one generation sees it: with its deleted documents (None where there are none)."""

    def __init__(self, segment: Segment, deleted: NDArray[np.bool_] | None) -> None:
        self.segment = segment
        self.deleted = deleted
        self.live = Allowed(None if deleted is None else segment.to_chunks(~deleted), segment.entry.chunks)
        self.means: dict[tuple[str, int | None], Means] = {}
        self._allowed: OrderedDict[bytes, Allowed] = OrderedDict()
        self._postings: OrderedDict[str, Postings | None] = OrderedDict()
        self._frequencies: OrderedDict[str, int] = OrderedDict()

    def allowed(self, wanted: Filter | None) -> Allowed:
        if wanted is None:
            return self.live
        key = canonical(wanted)
        allowed = self._allowed.get(key)
        if allowed is None:
            mask = self.segment.document_mask(wanted)
            if self.deleted is not None:
                mask = mask & ~self.deleted
            allowed = Allowed(self.segment.to_chunks(mask), self.segment.entry.chunks)
            while len(self._allowed) >= _ALLOWED:
                self._allowed.popitem(last=False)
            self._allowed[key] = allowed
        return allowed

    def postings(self, term: str) -> Postings | None:
        """The chunks that hold a term, deleted ones too."""
        try:
            return self._postings[term]
        except KeyError:
            found = self.segment.lexicon.postings(term)
        while len(self._postings) >= _TERMS:
            self._postings.popitem(last=False)
        self._postings[term] = found
        return found  # not read back: another thread may have dropped it by now

    def document_frequency(self, term: str) -> int:
        """How many live chunks hold a term."""
        postings = self.postings(term)
        if postings is None:
            return 0
        if self.live.mask is None:
            return len(postings.rows)
        known = self._frequencies.get(term)
        if known is None:
            known = int(np.count_nonzero(self.live.mask[postings.rows]))
            while len(self._frequencies) >= _TERMS:
                self._frequencies.popitem(last=False)
            self._frequencies[term] = known
        return known

    @cached_property
    def words(self) -> int:
        """The terms of all live chunks, each as often as it stands there."""
        lengths = self.segment.lexicon.lengths
        return int(lengths.sum() if self.live.mask is None else lengths[self.live.mask].sum())

    @cached_property
    def languages(self) -> dict[str, int]:
        """How many live chunks are in each language, by tag; those that none is in are left out."""
        spoken, tags = self.segment.lexicon.languages, self.segment.lexicon.tags
        counts = np.bincount(spoken if self.live.mask is None else spoken[self.live.mask], minlength=len(tags))
        return {tag: count for tag, count in zip(tags, counts.tolist(), strict=True) if count}

    @property
    def without_url(self) -> int:
        """Live documents that no answer can link to."""
        absent = self.segment.documents.chunked("url").is_null().to_numpy()
        return int(np.count_nonzero(absent if self.deleted is None else absent & ~self.deleted))

    def has_field(self, name: str) -> bool:
        """Whether any live document has a value in the field."""
        mask = self.segment.fields.mask(Compare(name, "exists", True))
        return bool((mask if self.deleted is None else mask & ~self.deleted).any())

    def is_live(self, document_row: int) -> bool:
        return self.deleted is None or not self.deleted[document_row]


@dataclass(frozen=True, slots=True)
class Means:
    """How a part is searched: by its scan, by gathering the allowed rows, or (neither) by its column."""

    scan: Scan | None
    gather: bool


@dataclass(frozen=True, slots=True)
class Ranked:
    """The answer: for each hit its part (a place in `parts`), its chunk row and its score, best first."""

    parts: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


def ordered(
    parts: Sequence[Part],
    owners: Sequence[NDArray[np.int64]],
    rows: Sequence[NDArray[np.int64]],
    scores: Sequence[NDArray[np.float64]],
    wanted: int,
) -> Ranked:
    """The best `wanted` of what was found in each part."""
    if not owners:
        return Ranked(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    owner, row, score = np.concatenate(owners), np.concatenate(rows), np.concatenate(scores)
    order = best(parts, owner, row, score, wanted)
    return Ranked(owner[order], row[order], score[order])


def best(
    parts: Sequence[Part],
    owner: NDArray[np.int64],
    row: NDArray[np.int64],
    scores: NDArray[np.float64],
    wanted: int,
) -> NDArray[np.int64]:
    """The best `wanted` places by (-score, chunk id). Ids are read only where scores tie."""
    order = np.argsort(-scores, kind="stable")
    if len(order) > wanted:
        order = order[: int(np.searchsorted(-scores[order], -scores[order[wanted - 1]], side="right"))]
    ranked = scores[order]
    if len(order) < 2 or not (ranked[1:] == ranked[:-1]).any():
        return order[:wanted]
    # Within a segment the stored rank of ids decides; ids themselves only between segments.
    ranks = np.empty(len(order), dtype=np.uint32)
    for place in np.unique(owner[order]):
        mine = owner[order] == place
        ranks[mine] = parts[place].segment.ids.ranks[row[order][mine]]
    order = order[np.lexsort((ranks, owner[order], -ranked))]
    kept = _first_of_each(owner[order], scores[order], wanted)
    order = order[kept]
    keys = [(-scores[i], parts[owner[i]].segment.chunks.bytes("id")[row[i]]) for i in order.tolist()]
    return order[sorted(range(len(keys)), key=keys.__getitem__)][:wanted]


def _first_of_each(owner: NDArray[np.int64], scores: NDArray[np.float64], wanted: int) -> NDArray[np.int64]:
    """At most `wanted` of each run of one owner and score: a tie of thousands must not read thousands of ids."""
    starts = np.flatnonzero(np.r_[True, (owner[1:] != owner[:-1]) | (scores[1:] != scores[:-1])])
    within = np.arange(len(owner)) - np.repeat(starts, np.diff(np.r_[starts, len(owner)]))
    return np.flatnonzero(within < wanted)
