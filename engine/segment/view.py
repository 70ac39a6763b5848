"""The segments of one generation, each without its deleted documents: what is searched, and the best hits of it.

A segment is addressed by its ordinal (`segment_ord`), its index in the generation. FAISS needs another address, since
one scan covers the inverted lists of several segments: there a row has the number

    slot * MAX_SEGMENT_ROWS + row

where no two vector indexes of one space and generation share a slot. A vector index gets its slot before the first
generation with it is searched, and keeps it in every later generation that shares its segment, because the numbers are
stored in its lists; new indexes take the free slots. So slots do not follow the order of segments, and
`Segments.segment_ords` translates them back.

Hits of several segments are ordered by score and then by chunk id (`merge_top_k`). The merge is associative: hits that
were merged before can be merged again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Compare, Filter, Wording, filter_digest, split_wording
from aidre.engine.index.text import comparable_text, phrase_pattern, plain_phrase, plain_text, required_words
from aidre.engine.index.vectors import Bitmap, ScanGroup, group_by_codebook, native_columns
from aidre.engine.native import native
from aidre.engine.segment.arrival import Arrivals
from aidre.engine.segment.segment_reader import BoundedCache, SegmentReader, fragment_arrays, max_masks
from aidre.engine.segment.stored_chunk import StoredChunk
from aidre.engine.storage import (
    BATCH_ROWS,
    CHUNKS_FILE,
    ETAG_BYTES,
    MAX_SEGMENT_ROWS,
    SEGMENTS,
    Manifest,
    SegmentEntry,
    deletes,
)

if TYPE_CHECKING:
    from aidre.engine.native import kernel

_MIN_THREADED_ROWS = 100_000
"""Segments are opened in threads where the new ones have this many rows or more."""
_MAX_OPENING_THREADS = 4

_MAX_MASKS = 32
_MAX_MASK_BYTES = 1 << 24
"""Bounds on the cached masks of filters of one segment, in number and in bytes together; four always fit."""

_MAX_TEXTS = 1 << 15
"""Texts of a segment that are looked into for one phrase: a tenth of a second. Of more, as for "of the", the first."""

_LOOKUP_COST = 6
"""Rows that are sorted in the time in which one is looked up in an ascending list."""

_UNDECIDED, _STANDS = 1, 2
"""What the kernel says of a phrase in a text, beside 0: it has to be normalized, or has the phrase."""

_APART = "\n" * 9
"""More signs than may stand between two words of a phrase."""

_MAX_TERMS = 4_096
"""Cached terms of one segment: their postings (views of the mapped file) and their document frequencies."""


class RowMask:
    """Live rows of a segment that pass a filter. `mask` (one bool a chunk row) is None where every row does."""

    def __init__(self, mask: NDArray[np.bool_] | None, rows: int) -> None:
        self.count = rows if mask is None else int(np.count_nonzero(mask))
        self.mask = None if self.count == rows else mask
        self._total = rows

    @cached_property
    def packed(self) -> NDArray[np.uint8]:
        """The mask as a bitmap: row i is bit i % 8 of byte i // 8, least significant first."""
        if self.mask is None:
            return np.full(-(-self._total // 8), 0xFF, np.uint8)
        return np.packbits(self.mask, bitorder="little")

    def rows(self) -> NDArray[np.int64]:
        return np.arange(self._total) if self.mask is None else np.flatnonzero(self.mask)


def pack_bitmap(masks: Sequence[tuple[int, RowMask]]) -> Bitmap | None:
    """One bitmap over the FAISS row numbers of several (slot, mask) pairs; None where every row is allowed."""
    if all(mask.mask is None for _, mask in masks):
        return None
    if len(masks) == 1 and masks[0][0] == 0:
        return Bitmap(masks[0][1].packed)
    slot_bytes = MAX_SEGMENT_ROWS // 8
    packed = np.zeros((max(slot for slot, _ in masks) + 1) * slot_bytes, np.uint8)
    for slot, mask in masks:
        packed[slot * slot_bytes : slot * slot_bytes + len(mask.packed)] = mask.packed
    return Bitmap(packed)


class SegmentView:
    """A segment as one generation sees it. `deleted` marks document rows; None where no document is deleted."""

    def __init__(self, segment: SegmentReader, deleted: NDArray[np.bool_] | None) -> None:
        self.segment = segment
        self.deleted = deleted
        self.live = RowMask(None if deleted is None else segment.to_chunks(~deleted), segment.entry.chunks)
        mask_limit = max_masks(segment.entry.chunks, _MAX_MASKS, _MAX_MASK_BYTES)
        self._masks: BoundedCache[bytes, RowMask] = BoundedCache(mask_limit)
        self.postings = lru_cache(_MAX_TERMS)(segment.lexicon.postings)
        """The chunks that hold a term, deleted ones included; None where there are none."""
        self._frequencies: BoundedCache[str, int] = BoundedCache(_MAX_TERMS)

    # -- rows ----------------------------------------------------------------------------------------------

    def row_mask(self, filter_: Filter | None) -> RowMask:
        """The live chunks that pass the filter; without one, all live chunks."""
        if filter_ is None:
            return self.live
        key = filter_digest(filter_)
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks.add(key, RowMask(self._passing(filter_), self.segment.entry.chunks))
        return mask

    def _passing(self, filter_: Filter) -> NDArray[np.bool_]:
        """The live chunks that pass the filter, as a mask."""
        of_documents, wording = split_wording(filter_)
        chunks = self.segment.to_chunks(self._documents(of_documents))
        return chunks if wording is None else _narrowed(self, wording, chunks)

    def _documents(self, filter_: Filter | None) -> NDArray[np.bool_]:
        live = np.ones(self.segment.entry.documents, np.bool_) if self.deleted is None else ~self.deleted
        return live if filter_ is None else self.segment.document_mask(filter_) & live

    def document_mask(self, filter_: Filter | None) -> NDArray[np.bool_]:
        """The live documents of which a chunk passes the filter."""
        if filter_ is None or split_wording(filter_)[1] is None:
            return self._documents(filter_)
        documents = np.zeros(self.segment.entry.documents, np.bool_)
        documents[self.segment.to_chunks(np.arange(len(documents)))[self.row_mask(filter_).rows()]] = True
        return documents

    def is_live(self, document_row: int) -> bool:
        return self.deleted is None or not self.deleted[document_row]

    # -- terms ---------------------------------------------------------------------------------------------

    def document_frequency(self, term: str) -> int:
        """The number of live chunks that contain a term; a chunk is the document of BM25."""
        postings = self.postings(term)
        if postings is None:
            return 0
        if self.live.mask is None:
            return len(postings.rows)
        frequency = self._frequencies.get(term)
        if frequency is None:
            frequency = self._frequencies.add(term, int(np.count_nonzero(self.live.mask[postings.rows])))
        return frequency

    @cached_property
    def total_terms(self) -> int:
        """The sum of the lengths of all live chunks, in terms."""
        lengths = self.segment.lexicon.lengths
        return int(lengths.sum() if self.live.mask is None else lengths[self.live.mask].sum())

    @cached_property
    def languages(self) -> dict[str, int]:
        """The number of live chunks in each language, by tag; languages without a live chunk are absent."""
        tag_ids, tags = self.segment.lexicon.languages, self.segment.lexicon.tags
        counts = np.bincount(tag_ids if self.live.mask is None else tag_ids[self.live.mask], minlength=len(tags))
        return {tag: count for tag, count in zip(tags, counts.tolist(), strict=True) if count}

    # -- documents -----------------------------------------------------------------------------------------

    @cached_property
    def documents_without_url(self) -> int:
        """The number of live documents that no answer can link to."""
        absent = self.segment.documents.chunked("url").is_null().to_numpy()
        return int(np.count_nonzero(absent if self.deleted is None else absent & ~self.deleted))

    def has_field(self, name: str, *, with_schema_object: bool = False) -> bool:
        """Whether any live document has the field; `with_schema_object` looks only at documents that have one."""
        mask = self.segment.fields.mask(Compare(name, "exists", True))
        if with_schema_object:
            mask &= self.segment.documents.chunked("schema_object").is_valid().to_numpy()
        return bool((mask if self.deleted is None else mask & ~self.deleted).any())


# -- wording -----------------------------------------------------------------------------------------------


def _narrowed(view: SegmentView, wording: Wording, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The allowed rows that have the phrases, without the excluded words, as a mask: the lexicon finds chunks with all
    terms of a phrase, and their texts decide."""
    languages = tuple(view.languages)
    for word in wording.excluded:
        groups = required_words(word, languages)
        if groups:
            allowed = allowed.copy()
            allowed[rows_with(view, groups)] = False
    for phrase in wording.phrases:
        groups = required_words(phrase, languages)
        rows = rows_with(view, groups) if groups else np.arange(len(allowed))
        found = rows_containing(view, rows[allowed[rows]][:_MAX_TEXTS], phrase)
        allowed = np.zeros(len(allowed), np.bool_)
        allowed[found] = True
    return allowed


def rows_with(view: SegmentView, groups: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    """The chunks that contain a term of each group, ascending, deleted ones included."""
    lists = []
    for terms in dict.fromkeys(groups):
        present = [postings.rows for term in terms if (postings := view.postings(term)) is not None]
        if not present:
            return np.empty(0, np.int64)
        lists.append(present[0] if len(present) == 1 else reduce(np.union1d, present))
    return reduce(_both, sorted(lists, key=len)).astype(np.int64)


def _both(few: NDArray[np.uint32], many: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The rows of an ascending list that another one has, too: looked up, or sorted together where that is faster."""
    if len(few) * _LOOKUP_COST > len(many):
        both: NDArray[np.uint32] = np.intersect1d(few, many, assume_unique=True)
    else:
        both = few[many.take(many.searchsorted(few), mode="clip") == few]
    return both


def rows_containing(view: SegmentView, rows: NDArray[np.int64], phrase: str) -> NDArray[np.int64]:
    """The rows among these whose title, section or text has the phrase; all of them for one without a word."""
    words, texts = plain_phrase(phrase), view.segment.native_texts
    if words is None or texts is None:
        return _matching(view.segment, rows, phrase)
    rows, found = np.ascontiguousarray(rows), np.zeros(len(rows), np.uint8)
    texts.texts.find(rows, words, found)
    texts.sections.find(rows, words, found)
    texts.titles.find(view.segment.document_rows(rows), words, found)
    undecided = np.flatnonzero(found == _UNDECIDED)
    if len(undecided):
        plain = [plain_text(_wording_of(view.segment, row), words) for row in rows[undecided].tolist()]
        decided = np.zeros(len(plain), np.uint8)
        offsets = np.cumsum([0, *map(len, plain)])
        native.Texts([(offsets, b"".join(plain))], len(plain)).find(np.arange(len(plain)), words, decided)
        found[undecided] = decided
    with_phrase: NDArray[np.int64] = rows[found == _STANDS]
    return with_phrase


def _matching(segment: SegmentReader, rows: NDArray[np.int64], phrase: str) -> NDArray[np.int64]:
    """The same without the kernel, or of a phrase that it cannot look for."""
    pattern = phrase_pattern(phrase)
    if pattern is None:
        return rows
    texts = ((row, comparable_text(_wording_of(segment, row))) for row in rows.tolist())
    return np.array([row for row, text in texts if pattern.search(text) is not None], np.int64)


def _wording_of(segment: SegmentReader, row: int) -> str:
    """Text, title and section of a chunk, too far from each other for a phrase."""
    chunk = StoredChunk(segment, row)
    return _APART.join(filter(None, (chunk.text, chunk.title, chunk.section)))


class Segments(tuple[SegmentView, ...]):
    """All segments of one generation, in its order; assigns FAISS slots to their vector indexes (see the module).

    `segment_ords[slot]` is the ordinal of the segment at a slot (0 for a free slot), `slot_ends[slot]` the first number
    after the slot. `plans` is the cache of `engine/search/plan.py`.
    """

    def __init__(self, _: Iterable[SegmentView]) -> None:
        self.plans: OrderedDict[Any, Any] = OrderedDict()
        self._scan_groups: dict[str, list[ScanGroup]] = {}
        self._native_columns: dict[str, kernel.Columns] = {}
        self._native_codes: dict[str, list[kernel.Codes]] = {}
        self._assign_slots()
        ord_by_slot = {
            index.slot or 0: segment_ord
            for segment_ord, view in enumerate(self)
            for index in view.segment.scans.values()
        }
        self.segment_ords = [ord_by_slot.get(slot, 0) for slot in range(max(ord_by_slot, default=0) + 1)]
        self.slot_ends = np.arange(1, len(self.segment_ords) + 1) * MAX_SEGMENT_ROWS

    def _assign_slots(self) -> None:
        """Give the vector indexes without a slot the lowest free one, the same to all new indexes of a segment."""
        taken = {index.slot for view in self for index in view.segment.scans.values()}
        free = (slot for slot in count() if slot not in taken)
        for view in self:
            unnumbered = [index for index in view.segment.scans.values() if index.slot is None]
            slot = next(free) if unnumbered else 0
            for index in unnumbered:
                index.assign_slot(slot)

    def scan_groups(self, space_id: str) -> list[ScanGroup]:
        """The vector indexes of a space, grouped by codebook."""
        groups = self._scan_groups.get(space_id)
        if groups is None:
            indexes = [view.segment.scans[space_id] for view in self if space_id in view.segment.scans]
            groups = [ScanGroup(alike) for alike in group_by_codebook(indexes)]
            groups = self._scan_groups.setdefault(space_id, groups)  # two threads use those of one
        return groups

    def native_columns(self, space_id: str) -> kernel.Columns | None:
        """The vectors of a space and the ids of their chunks, for the kernel; None without it."""
        if native is None or not self:
            return None
        columns = self._native_columns.get(space_id)
        if columns is None:
            stored = [
                (view.segment.columns[space_id].codes, view.segment.chunks.buffers("id"), BATCH_ROWS) for view in self
            ]
            made = native_columns(self[0].segment.columns[space_id].space, stored)
            columns = self._native_columns.setdefault(space_id, made)
        return columns

    @cached_property
    def fragments(self) -> kernel.Fragments | None:
        """The stored JSON of all chunks, for the kernel; None without it."""
        if native is None:
            return None
        segments = tuple(fragment_arrays(view.segment.chunks) for view in self)
        made: kernel.Fragments = native.Fragments(segments, BATCH_ROWS, ETAG_BYTES)
        return made

    def native_codes(self, space_id: str, columns: kernel.Columns) -> list[kernel.Codes]:
        """The codes of each of the `scan_groups`, for the kernel."""
        codes = self._native_codes.get(space_id)
        if codes is None:
            made = [
                group.native_codes(columns, [self.segment_ords[index.slot or 0] for index in group.indexes])
                for group in self.scan_groups(space_id)
            ]
            codes = self._native_codes.setdefault(space_id, made)
        return codes


# -- the best hits of several segments -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopK:
    """Hits, best first: for each the ordinal of its segment in the generation, its chunk row and its score."""

    segment_ords: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


def merge_top_k(
    segments: Sequence[SegmentView],
    segment_ords: Sequence[NDArray[np.int64]],
    rows: Sequence[NDArray[np.int64]],
    scores: Sequence[NDArray[np.float64]],
    k: int,
) -> TopK:
    """The best `k` hits of several lists; list n is `segment_ords[n]`, `rows[n]` and `scores[n]`, of one length.

    Larger scores are better, and ties go to the smaller chunk id, in order of its UTF-8 bytes.
    """
    if not segment_ords:
        return TopK(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    if len(segment_ords) == 1:
        segment_ord, row, score = segment_ords[0], rows[0], scores[0]
    else:
        segment_ord, row, score = np.concatenate(segment_ords), np.concatenate(rows), np.concatenate(scores)
    if (score[1:] < score[:-1]).all():  # in descending order without ties already
        return TopK(segment_ord[:k], row[:k], score[:k])
    order = _select(segments, segment_ord, row, score, k)
    return TopK(segment_ord[order], row[order], score[order])


def _select(
    segments: Sequence[SegmentView],
    segment_ord: NDArray[np.int64],
    row: NDArray[np.int64],
    scores: NDArray[np.float64],
    k: int,
) -> NDArray[np.int64]:
    """The indices of the best `k` hits by (-score, chunk id). Reads ids only where scores tie."""
    order = np.argsort(-scores, kind="stable")
    if len(order) > k:
        order = order[: int(np.searchsorted(-scores[order], -scores[order[k - 1]], side="right"))]
    sorted_scores = scores[order]
    if not (sorted_scores[1:] == sorted_scores[:-1]).any():
        return order[:k]
    # Within a segment the stored rank of an id breaks a tie; ids are compared only between segments.
    ranks = np.empty(len(order), dtype=np.uint32)
    for ord_ in np.unique(segment_ord[order]):
        is_own = segment_ord[order] == ord_
        ranks[is_own] = segments[ord_].segment.ids.ranks[row[order][is_own]]
    order = order[np.lexsort((ranks, segment_ord[order], -sorted_scores))]
    order = order[_first_of_each_run(segment_ord[order], scores[order], k)]
    keys = [(-scores[i], segments[segment_ord[i]].segment.chunks.bytes("id")[row[i]]) for i in order.tolist()]
    return order[sorted(range(len(keys)), key=keys.__getitem__)][:k]


def _first_of_each_run(segment_ord: NDArray[np.int64], scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """At most `k` hits of each run of one segment and score, so that a tie of thousands reads few ids."""
    starts = np.flatnonzero(np.r_[True, (segment_ord[1:] != segment_ord[:-1]) | (scores[1:] != scores[:-1])])
    within = np.arange(len(segment_ord)) - np.repeat(starts, np.diff(np.r_[starts, len(segment_ord)]))
    return np.flatnonzero(within < k)


# -- opening -----------------------------------------------------------------------------------------------------


def open_segments(folder: Path, manifest: Manifest, shared: Sequence[SegmentView]) -> Segments:
    """The segments of a generation of the collection in a folder; those that are `shared` are open already."""
    open_views = {view.segment.id: view for view in shared}
    spaces = [state.space for state in manifest.spaces if state.state == "live"]
    deleted = deletes.read_deletes(folder, manifest)
    arrivals = Arrivals(folder)

    def open_view(entry: SegmentEntry) -> SegmentView:
        old = open_views.get(entry.id)
        if old is None or old.segment.entry.files != entry.files:
            segment = SegmentReader(folder / SEGMENTS / entry.id, entry, spaces, manifest, arrivals)
        elif _is_same_mask(old.deleted, deleted.get(entry.id)):
            return old
        else:
            segment = old.segment
        return SegmentView(segment, deleted.get(entry.id))

    entries = list(map(manifest.without_unfinished_spaces, manifest.segments))
    new = [entry for entry in entries if entry.id not in open_views]
    arrivals.announce({folder / SEGMENTS / entry.id / CHUNKS_FILE: entry.chunks for entry in new})
    if sum(entry.chunks for entry in new) < _MIN_THREADED_ROWS:
        segments = Segments(list(map(open_view, entries)))
    else:
        with ThreadPoolExecutor(_MAX_OPENING_THREADS) as pool:  # checksums and reads release the interpreter lock
            segments = Segments(list(pool.map(open_view, entries)))
    arrivals.save()
    return segments


def _is_same_mask(old: NDArray[np.bool_] | None, new: NDArray[np.bool_] | None) -> bool:
    if old is None or new is None:
        return old is new
    return bool(np.array_equal(old, new))
