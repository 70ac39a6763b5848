"""The segments of one generation, each with its deleted rows: what every kind of search goes over, and how hits rank.

Caches of a part are filled by several threads at once: what two of them compute twice is the same.

FAISS goes over several segments at once, so there a row has a number: slot * SEGMENT_ROWS + row, where no two scans of
one space in one generation have the same slot. A scan gets its slot before a generation searches it and keeps it in
the next one that shares its segment; fresh ones get those that are free. So a slot tells nothing about the order of
parts; `Parts.places` leads from it to the part, a place in the generation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.filters import Compare, Filter, canonical
from aidre.engine.index import Scan
from aidre.engine.kernel import Bits
from aidre.engine.lexicon import Postings
from aidre.engine.passes import Sweep, together
from aidre.engine.schema import SEGMENT_ROWS
from aidre.engine.segment import Segment

_ALLOWED = 32
_ALLOWED_BYTES = 1 << 24
"""The masks of how many filters are kept, and of how many bytes in all; a few in any case."""
_TERMS = 4_096


class Allowed:
    """Live rows of a part that pass a filter. `mask` is None where every row does."""

    def __init__(self, mask: NDArray[np.bool_] | None, rows: int) -> None:
        self.count = rows if mask is None else int(np.count_nonzero(mask))
        self.mask = None if self.count == rows else mask
        self._total = rows

    @cached_property
    def packed(self) -> NDArray[np.uint8]:
        """The mask as a bitmap: bit i of byte i // 8, least significant first."""
        if self.mask is None:
            return np.full(-(-self._total // 8), 0xFF, np.uint8)
        return np.packbits(self.mask, bitorder="little")

    def rows(self) -> NDArray[np.int64]:
        return np.arange(self._total) if self.mask is None else np.flatnonzero(self.mask)


def bitmap(chosen: Sequence[tuple[int, Allowed]]) -> Bits | None:
    """One bitmap over the numbers of all slots (see Scan); None where every row is allowed."""
    if all(rows.mask is None for _, rows in chosen):
        return None
    if len(chosen) == 1 and chosen[0][0] == 0:
        return Bits(chosen[0][1].packed)
    slot_bytes = SEGMENT_ROWS // 8
    packed = np.zeros((max(slot for slot, _ in chosen) + 1) * slot_bytes, np.uint8)
    for slot, rows in chosen:
        packed[slot * slot_bytes : slot * slot_bytes + len(rows.packed)] = rows.packed
    return Bits(packed)


class Part:
    """A segment as one generation sees it: with its deleted documents (None where there are none)."""

    def __init__(self, segment: Segment, deleted: NDArray[np.bool_] | None) -> None:
        self.segment = segment
        self.deleted = deleted
        self.live = Allowed(None if deleted is None else segment.to_chunks(~deleted), segment.entry.chunks)
        self._allowed: OrderedDict[bytes, Allowed] = OrderedDict()
        self._most_allowed = max(4, min(_ALLOWED, _ALLOWED_BYTES // max(1, segment.entry.chunks)))
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
            while len(self._allowed) >= self._most_allowed:
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

    def has_field(self, name: str, *, beside_object: bool = False) -> bool:
        """Whether any live document has a value in the field; `beside_object`: any that has a schema.org object."""
        mask = self.segment.fields.mask(Compare(name, "exists", True))
        if beside_object:
            mask &= self.segment.documents.chunked("schema_object").is_valid().to_numpy()
        return bool((mask if self.deleted is None else mask & ~self.deleted).any())

    def is_live(self, document_row: int) -> bool:
        return self.deleted is None or not self.deleted[document_row]


class Parts(tuple[Part, ...]):
    """All parts of one generation; tells the rows of their scans apart by slots (see index.Scan).

    `places` has the part of each slot, `slot_ends` the number behind its last row. `plans` is a cache (see plan.py).
    """

    def __init__(self, _: Iterable[Part]) -> None:
        self.plans: OrderedDict[Any, Any] = OrderedDict()
        self._sweeps: dict[str, list[Sweep]] = {}
        taken = {scan.slot for scan in self._scans()}
        free = (slot for slot in count() if slot not in taken)
        for part in self:
            fresh = [scan for scan in part.segment.scans.values() if scan.slot is None]
            slot = next(free) if fresh else 0
            for scan in fresh:
                scan.number(slot)
        places = {scan.slot or 0: place for place, part in enumerate(self) for scan in part.segment.scans.values()}
        self.places = [places.get(slot, 0) for slot in range(max(places, default=0) + 1)]
        self.slot_ends = np.arange(1, len(self.places) + 1) * SEGMENT_ROWS

    def _scans(self) -> Iterable[Scan]:
        return (scan for part in self for scan in part.segment.scans.values())

    def sweeps(self, space_id: str) -> list[Sweep]:
        """The scans of a space, those with one codebook together."""
        found = self._sweeps.get(space_id)
        if found is None:
            scans = [part.segment.scans[space_id] for part in self if space_id in part.segment.scans]
            found = self._sweeps[space_id] = [Sweep(alike) for alike in together(scans)]
        return found


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
    if len(owners) == 1:
        owner, row, score = owners[0], rows[0], scores[0]
    else:
        owner, row, score = np.concatenate(owners), np.concatenate(rows), np.concatenate(scores)
    if (score[1:] < score[:-1]).all():  # as the kernel gives them, and no two alike
        return Ranked(owner[:wanted], row[:wanted], score[:wanted])
    order = _best(parts, owner, row, score, wanted)
    return Ranked(owner[order], row[order], score[order])


def _best(
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
    if not (ranked[1:] == ranked[:-1]).any():
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
