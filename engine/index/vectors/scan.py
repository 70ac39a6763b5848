"""The scan: approximate candidates from the 4-bit codes of many segments, from all lists or from the nearest ones.

Segments with the same codebook form one ScanGroup, which segments without centroids join if their product quantizer is
the same. FAISS fills the look-up tables of a query once and scans the lists of the whole group into one heap, so twenty
segments cost what one of their total size does. The caller compares the candidates exactly afterwards
(`distance.score_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors.distance import Bitmap, metric_of, spare_core, use_one_thread
from aidre.engine.index.vectors.vector_index import VectorIndex
from aidre.engine.storage import Calibration, Depth

if TYPE_CHECKING:
    from aidre.engine.native import kernel

Candidates = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Row ids (n,) and their estimated closeness (n,), larger is closer; best first."""

MIN_SHARED_ROWS = 1 << 18
"""Rows; a scan of as many takes long enough to be worth sharing with a second thread."""

_COPIES = 2
"""Lists that hold each row of an index with centroids."""

_MIN_LOCAL_SELECTIVITY = 0.7
"""Share of its overall selectivity that a filter must have in the nearest lists. If it allows less there, the allowed
rows lie far from the query, the nearest lists say nothing about them, and the scan is a full one."""

_MAX_PROBED_SHARE = 0.7
"""Share of the rows; a filtered probe of lists that hold more, copies included, gives way to a full scan."""

_GROWTH_EXPONENT = 0.5
"""The candidates grow by this power of the rows until the next calibration, as what it would find does."""

_MAX_PARAMETERS = 64
"""Numbers of lists for which a scan keeps FAISS's parameters."""


# -- depth -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchDepth:
    """How deep a search for the best `k` scans: `candidates` to compare exactly, and lists to probe.

    nprobe and the gap are interpolated in the calibrated `depths`. A filter that allows a share of the rows needs more:
    if these are spread evenly, the k-th allowed row is the k/selectivity-th of all rows.
    """

    candidates: int
    k: int = 0
    depths: tuple[Depth, ...] = ()

    def nprobe(self, selectivity: float = 1.0) -> int:
        """The largest number of centroids to probe the lists of; 0: scan all lists."""
        return math.ceil(_interpolated(self.depths, self._unfiltered_k(selectivity), "probes"))

    def max_gap(self, selectivity: float = 1.0) -> float:
        """The largest gap of a probed centroid (see `CoarseQuantizer.rank`); 0: no bound."""
        return _interpolated(self.depths, self._unfiltered_k(selectivity), "gap")

    @property
    def scanned(self) -> int:
        """The mean number of codes that are scanned without a filter; 0: all."""
        return math.ceil(_interpolated(self.depths, self.k, "scanned"))

    def _unfiltered_k(self, selectivity: float) -> float:
        return self.k / selectivity if selectivity > 0 else math.inf


def search_depth(calibration: Calibration | None, k: int, recall: float | None = None) -> SearchDepth | None:
    """The calibrated depth for the best k at a recall, None: that of the calibration; None for an exact search: the
    space is exact, or k or the recall exceeds what was calibrated."""
    if calibration is None:
        return None
    depths = calibration.depths_for(recall)
    growth = math.pow(1 + calibration.written / max(1, calibration.rows), _GROWTH_EXPONENT)
    candidates = math.ceil(growth * _interpolated(depths, k, "candidates"))
    return SearchDepth(candidates, k, depths) if candidates else None


def _interpolated(depths: tuple[Depth, ...], k: float, name: str) -> float:
    """A field of the depths at k, interpolated geometrically; 0 beyond the last depth, or if one of the two is 0."""
    for number, upper in enumerate(depths):
        if upper.results < k:
            continue
        value = float(getattr(upper, name))
        if upper.results == k or number == 0:
            return value
        lower = depths[number - 1]
        lower_value = float(getattr(lower, name))
        share = math.log(k / lower.results) / math.log(upper.results / lower.results)
        return lower_value * math.pow(value / lower_value, share) if lower_value else 0
    return 0


# -- groups ------------------------------------------------------------------------------------------------


class ScanGroup:
    """Vector indexes with one codebook, as the lists of one FAISS index."""

    def __init__(self, indexes: Sequence[VectorIndex]) -> None:
        self.indexes = tuple(indexes)
        self.transform = indexes[0].transform
        self.norm_weight = indexes[0].norm_weight
        self._padding = indexes[0].padding
        self._larger_is_closer = metric_of(indexes[0].space).faiss_type == faiss.METRIC_INNER_PRODUCT
        self.coarse_quantizer = next((index.coarse_quantizer for index in indexes if index.nlist), None)
        self.nlist = max(index.nlist for index in indexes)
        self.list_sizes: NDArray[np.int64] = np.concatenate([index.list_sizes for index in indexes])
        stacked = faiss.InvertedListsPtrVector()
        self.first_lists: list[int] = []
        lists = 0
        for index in indexes:
            self.first_lists.append(lists)
            lists += len(index.list_sizes)
            for faiss_lists in index.faiss_lists:
                stacked.push_back(faiss_lists)
        self._stacked_lists = faiss.VStackInvertedLists(stacked.size(), stacked.data())
        self.faiss_index = indexes[0].empty_index(lists)
        self.faiss_index.replace_invlists(self._stacked_lists, False)
        self.faiss_index.ntotal = int(self.list_sizes.sum())

    def native_codes(self, columns: kernel.Columns, ords: Sequence[int]) -> kernel.Codes:
        """The lists for the kernel; index n is that of column `ords[n]`."""
        lists = [
            inverted_list
            for index, column in zip(self.indexes, ords, strict=True)
            for inverted_list in index.native_lists(column)
        ]
        return self.indexes[0].native_codes(columns, lists)

    def covering_lists(self, number: int, counts: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """`VectorIndex.covering_lists` of one of the indexes, as lists of the group."""
        return self.indexes[number].covering_lists(counts) + self.first_lists[number]

    def prepare(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Queries (n, d) as the lists are scanned for them (n, d_codes).

        With a norm weight w the estimate of a row is q.x - w|x|^2, where x is the decoded row. It is equal to
        w|q'|^2 - w|q' - x|^2 for q' = q / 2w, so FAISS is asked for the Euclidean distances of q'.
        """
        if self.transform is not None:
            queries = self.transform.apply(queries)
        elif self._padding:
            queries = np.pad(queries, ((0, 0), (0, self._padding)))
        return np.asarray(queries / (2 * self.norm_weight), np.float32) if self.norm_weight else queries

    def estimates(self, queries: NDArray[np.float32], distances: NDArray[np.float32]) -> NDArray[np.float32]:
        """The estimated closeness (n, count), larger is closer, from FAISS's distances of prepared queries."""
        if self.norm_weight:
            squares = np.einsum("ij,ij->i", queries, queries)[:, None]
            return np.asarray(self.norm_weight * (squares - distances), np.float32)
        return distances if self._larger_is_closer else -distances


def group_by_codebook(indexes: Iterable[VectorIndex]) -> list[list[VectorIndex]]:
    """Indexes that can share a ScanGroup; those without centroids join any group with the same codes."""
    groups: dict[Any, list[VectorIndex]] = {}
    for index in sorted(indexes, key=lambda index: not index.nlist):
        key: Any = index.codebook_key
        if not index.nlist:
            key = next((codebook_key for codebook_key in groups if codebook_key[0] == index.codes_key), key)
        groups.setdefault(key, []).append(index)
    return list(groups.values())


# -- the scan ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterCounts:
    """Rows in the list of each centroid, without copies: all (nlist,), and those that a filter allows (nlist,)."""

    rows: NDArray[np.int64]
    allowed: NDArray[np.int64]


class PreparedScan:
    """A ScanGroup with a choice of its indexes and of their rows, prepared for many queries.

    `numbers` chooses indexes of the group (None: all), `bitmap` allows row ids (None: all). `counts` holds the
    `VectorIndex.count_by_list` of the allowed rows, for each chosen index in the order of the group.
    """

    def __init__(
        self,
        group: ScanGroup,
        numbers: Collection[int] | None = None,
        bitmap: Bitmap | None = None,
        counts: Sequence[NDArray[np.int64] | None] = (),
    ) -> None:
        chosen = [number for number in range(len(group.indexes)) if numbers is None or number in numbers]
        counts_of = dict(zip(chosen, counts, strict=False))
        self.group = group
        self._bitmap = bitmap  # FAISS's parameters do not keep it alive
        self._parameters: dict[int, tuple[Any, NDArray[np.float32]]] = {}
        self._full = np.concatenate([group.covering_lists(number, counts_of.get(number)) for number in chosen])
        self._full_rows = int(group.list_sizes[self._full].sum())
        self._full_split = self._split_point(self._full)
        listed = [number for number in chosen if group.indexes[number].nlist]
        unlisted = [group.covering_lists(number, None) for number in chosen if number not in listed]
        self._unlisted = np.concatenate([np.empty(0, np.int64), *unlisted])
        self._lists_of = np.empty((0, 0), np.int64)
        """The lists of each centroid, one in every index with centroids."""
        self._entries_of = np.empty(0, np.int64)
        """Allowed entries of those lists, copies included; an estimate if there is a bitmap."""
        self._filter_counts: FilterCounts | None = None
        if listed:
            first_lists = np.array([group.first_lists[number] for number in listed])
            self._lists_of = np.arange(group.nlist)[:, None] + first_lists
            self._entries_of = group.list_sizes[self._lists_of].sum(axis=1)
            if bitmap is not None:
                self._filter_counts = _filter_counts(group, listed, counts_of)
                self._entries_of = _COPIES * self._filter_counts.allowed

    @property
    def lists(self) -> NDArray[np.int64]:
        """The lists of the group that together hold each row once."""
        return self._full

    @property
    def has_lists(self) -> bool:
        """Whether there are centroids, whose lists can be probed."""
        return len(self._lists_of) > 0

    @property
    def is_long(self) -> bool:
        """Whether its lists hold enough rows to be shared with a second thread."""
        return self._full_split > 0

    def halves(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._full[: self._full_split], self._full[self._full_split :]

    @property
    def native_probe(self) -> tuple[Any, ...] | None:
        """For the kernel, how the nearest lists to a query are found; None without centroids."""
        if not self.has_lists:
            return None
        assert self.group.coarse_quantizer is not None
        counts = self._filter_counts
        allowed = (None, None) if counts is None else (counts.rows, counts.allowed)
        return self.group.coarse_quantizer.native, self._lists_of, self._entries_of, self._unlisted, *allowed

    @property
    def selectivity(self) -> float:
        """The share of the rows with centroids that are allowed."""
        counts = self._filter_counts
        return 1.0 if counts is None else float(counts.allowed.sum() / max(1, counts.rows.sum()))

    @property
    def size(self) -> int:
        """Bytes of its arrays."""
        counts = () if self._filter_counts is None else (self._filter_counts.rows, self._filter_counts.allowed)
        packed = () if self._bitmap is None else (self._bitmap.packed,)
        arrays = (self._full, self._unlisted, self._lists_of, self._entries_of, *counts, *packed)
        return sum(array.nbytes for array in arrays)

    def search(self, query: NDArray[np.float32], count: int, depth: SearchDepth | None = None) -> Candidates:
        """The best `count` allowed rows for a query (1, d), each once.

        Fewer if fewer are allowed, or if FAISS drops rows because their codes are all alike. With a depth only the
        nearest lists are scanned, unless a full scan is as cheap or the lists cannot answer.
        """
        return self.search_all(query, count, depth)[0]

    def search_all(
        self, queries: NDArray[np.float32], count: int, depth: SearchDepth | None = None
    ) -> list[Candidates]:
        """`search` for each of several queries (n, d)."""
        prepared = self.group.prepare(queries)
        if depth is None or not len(self._lists_of):
            return self._scan(self._full, self._full_split, prepared, count)
        return [
            self._search_nearest(queries[number : number + 1], prepared[number : number + 1], count, depth)
            for number in range(len(queries))
        ]

    def _search_nearest(
        self, query: NDArray[np.float32], prepared: NDArray[np.float32], count: int, depth: SearchDepth
    ) -> Candidates:
        lists = self._probed_lists(query, _COPIES * count, depth)
        if lists is not None:
            lists = np.concatenate([lists, self._unlisted])
            [(row_ids, estimates)] = self._scan(lists, self._split_point(lists), prepared, _COPIES * count)
            row_ids, estimates = _distinct(row_ids, estimates, count)
            if len(row_ids) == count:
                return row_ids, estimates
        return self._scan(self._full, self._full_split, prepared, count)[0]

    def _probed_lists(
        self, query: NDArray[np.float32], min_entries: int, depth: SearchDepth
    ) -> NDArray[np.int64] | None:
        """The lists of the nearest centroids, nearest first; None if a full scan is better.

        Where the lists within the gap hold fewer than `min_entries` allowed entries, the next ones are added.
        """
        coarse_quantizer, counts = self.group.coarse_quantizer, self._filter_counts
        assert coarse_quantizer is not None
        selectivity = self.selectivity
        nprobe = depth.nprobe(selectivity)
        if not nprobe:
            return None
        nearest, gaps = coarse_quantizer.rank(query, nprobe)
        if max_gap := depth.max_gap(selectivity):
            within = int(gaps.searchsorted(max_gap, side="right"))
            if self._entries_of[nearest[:within]].sum() < min_entries:
                within = int(self._entries_of[nearest].cumsum().searchsorted(min_entries)) + 1
            nearest = nearest[:within]
        if counts is None:
            return self._lists_of[nearest].ravel()
        for probed in (nearest[: -(-len(nearest) // 4)], nearest):  # the nearest quarter, then all
            if counts.allowed[probed].sum() < _MIN_LOCAL_SELECTIVITY * selectivity * counts.rows[probed].sum():
                return None
        lists = self._lists_of[nearest].ravel()
        return lists if self.group.list_sizes[lists].sum() < _MAX_PROBED_SHARE * self._full_rows else None

    def _split_point(self, lists: NDArray[np.int64]) -> int:
        """How many of the lists hold half of their rows; 0 if these are too few to be shared by two threads."""
        rows = np.cumsum(self.group.list_sizes[lists])
        if not len(rows) or rows[-1] < MIN_SHARED_ROWS:
            return 0
        split = int(np.searchsorted(rows, rows[-1] / 2)) + 1
        return split if split < len(lists) else 0

    def _scan(self, lists: NDArray[np.int64], split: int, queries: NDArray[np.float32], count: int) -> list[Candidates]:
        """Scan lists for prepared queries, in two threads if there is a split point and a core is idle."""
        if not split:
            return self._scan_in_thread(lists, queries, count)
        with spare_core() as second_thread:
            if second_thread is None:
                return self._scan_in_thread(lists, queries, count)
            second_half = second_thread.submit(self._scan_in_thread, lists[split:], queries, count)
            first_half = self._scan_in_thread(lists[:split], queries, count)
            pairs = zip(first_half, second_half.result(), strict=True)
        return [_merged(first, second, count) for first, second in pairs]

    def _scan_in_thread(self, lists: NDArray[np.int64], queries: NDArray[np.float32], count: int) -> list[Candidates]:
        use_one_thread()
        values, row_ids = np.empty((len(queries), count), np.float32), np.empty((len(queries), count), np.int64)
        if len(queries) > 1:
            lists = np.tile(lists, len(queries))
        parameters, list_distances = self._parameters_for(len(lists) // len(queries), len(lists))
        self.group.faiss_index.search_preassigned_c(
            len(queries), faiss.swig_ptr(queries), count, faiss.swig_ptr(lists), faiss.swig_ptr(list_distances),
            faiss.swig_ptr(values), faiss.swig_ptr(row_ids), False, parameters, None,
        )  # fmt: skip
        estimates = self.group.estimates(queries, values)
        return [_present(*candidates) for candidates in zip(row_ids, estimates, strict=True)]

    def _parameters_for(self, lists: int, repeated: int) -> tuple[Any, NDArray[np.float32]]:
        """FAISS's parameters for a number of lists a query, and distances for the `repeated` lists of all queries.

        FAISS wants the distance of each list, but ignores it, as the codes are not of residuals.
        """
        cached = self._parameters.get(lists)
        if cached is None:
            parameters = faiss.IVFSearchParameters(nprobe=lists)
            if self._bitmap is not None:
                parameters.sel = self._bitmap.selector
            if len(self._parameters) >= _MAX_PARAMETERS:  # a scan that two threads share is split at any list
                self._parameters.clear()
            cached = self._parameters[lists] = parameters, np.zeros(lists, np.float32)
        return cached if repeated == lists else (cached[0], np.zeros(repeated, np.float32))


def _filter_counts(
    group: ScanGroup, listed: Sequence[int], counts_of: dict[int, NDArray[np.int64] | None]
) -> FilterCounts:
    """Rows and allowed rows by centroid, summed over the indexes with centroids."""
    rows = np.stack([group.indexes[number].list_sizes[group.nlist : 2 * group.nlist] for number in listed])
    counts = [counts_of.get(number) for number in listed]
    allowed = [all_rows if some is None else some for all_rows, some in zip(rows, counts, strict=True)]
    return FilterCounts(rows.sum(axis=0), np.sum(allowed, axis=0))


def _merged(first: Candidates, second: Candidates, count: int) -> Candidates:
    row_ids, estimates = np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
    best = np.argsort(-estimates, kind="stable")[:count]
    return row_ids[best], estimates[best]


def _present(row_ids: NDArray[np.int64], estimates: NDArray[np.float32]) -> Candidates:
    """The candidates without the entries -1 at the end, with which FAISS fills up."""
    if row_ids[-1] >= 0:
        return row_ids, estimates
    present = row_ids >= 0
    return row_ids[present], estimates[present]


def _distinct(row_ids: NDArray[np.int64], estimates: NDArray[np.float32], count: int) -> Candidates:
    """The first `count` candidates without second copies of a row, whose estimates are equal to those of the first."""
    order = np.argsort(row_ids)
    ascending = row_ids[order]
    repeated = order[1:][ascending[1:] == ascending[:-1]]
    is_first = np.ones(len(row_ids), np.bool_)
    is_first[repeated] = False
    return row_ids[is_first][:count], estimates[is_first][:count]
