"""Going over the codes of segments: all lists of a sweep, or those that are near to the query.

Segments whose codes come from the same codebook share one *sweep*: FAISS fills the query's look-up tables once and goes
over all their lists with one heap, so twenty segments cost what one of their size does. Candidates are compared exactly
by the kernel afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from aidre.engine.index import Scan
from aidre.engine.kernel import Bits, measure_of, single_thread, spare_core
from aidre.engine.reach import Reach

Candidates = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows, numbered by slots, and how close they seem."""

SHARED_ROWS = 1 << 18
"""A pass over so many rows takes long enough to be shared by two threads."""

_COPIES = 2
_SPARSE = 0.7
"""Near the query a filter may let through this much less than elsewhere; where it lets through less, all is gone over.
Then what it lets through lies far from the query, and the nearest lists say nothing about it."""

_NUMBERS = 64
"""For so many numbers of lists a pass keeps what FAISS is told."""

_WORTH = 0.7
"""Lists with more than this share of the rows, copies among them, are not worth being chosen."""


class Sweep:
    """Scans with one codebook, as the lists of one index."""

    def __init__(self, scans: Sequence[Scan]) -> None:
        self.scans = tuple(scans)
        self.padding = scans[0].padding
        self.larger_is_closer = measure_of(scans[0].space).metric == faiss.METRIC_INNER_PRODUCT
        self.router = next((scan.router for scan in scans if scan.lists), None)
        self.lists = max(scan.lists for scan in scans)
        self.sizes: NDArray[np.int64] = np.concatenate([scan.sizes for scan in scans])
        stacked = faiss.InvertedListsPtrVector()
        self.firsts: list[int] = []
        place = 0
        for scan in scans:
            self.firsts.append(place)
            place += len(scan.sizes)
            for inverted in scan.inverted:
                stacked.push_back(inverted)
        self._lists = faiss.VStackInvertedLists(stacked.size(), stacked.data())
        self.index = scans[0].emptied(place)
        self.index.replace_invlists(self._lists, False)
        self.index.ntotal = int(self.sizes.sum())

    def once(self, number: int, counts: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """The lists of a scan in which each of its rows stands once (see `Scan.once`)."""
        return self.scans[number].once(counts) + self.firsts[number]


def together(scans: Iterable[Scan]) -> list[list[Scan]]:
    """Scans by codebook; those without centroids go with any that have the same codes."""
    alike: dict[Any, list[Scan]] = {}
    for scan in sorted(scans, key=lambda scan: not scan.lists):
        key: Any = scan.codebook_key
        if not scan.lists:
            key = next((known for known in alike if known[0] == scan.codes_key), key)
        alike.setdefault(key, []).append(scan)
    return list(alike.values())


@dataclass(frozen=True, slots=True)
class Share:
    """Of the rows of each centroid's list, in all scans of a pass together: how many there are and are allowed."""

    rows: NDArray[np.int64]
    allowed: NDArray[np.int64]


class Pass:
    """One way to go over a sweep: which of its scans, None: all, and which of their rows `bits` allow.

    `allowed` has for each of those scans how many allowed rows its lists hold once (see `Scan.counts`).
    """

    def __init__(
        self,
        sweep: Sweep,
        scans: Collection[int] | None = None,
        bits: Bits | None = None,
        allowed: Sequence[NDArray[np.int64] | None] = (),
    ) -> None:
        numbers = [number for number in range(len(sweep.scans)) if scans is None or number in scans]
        counts = dict(zip(numbers, allowed, strict=False))
        self._sweep = sweep
        self._bits = bits  # which the parameters do not keep alive
        self._parameters: dict[int, tuple[Any, NDArray[np.float32]]] = {}
        listed = [number for number in numbers if sweep.scans[number].lists]
        self._once = np.concatenate([sweep.once(number, counts.get(number)) for number in numbers])
        self._rows = int(sweep.sizes[self._once].sum())
        self._half = self._middle(self._once)
        whole = [sweep.once(number, None) for number in numbers if number not in listed]
        self._others = np.concatenate([np.empty(0, np.int64), *whole])
        self._table = np.empty((0, 0), np.int64)
        """The lists of each centroid, one in every scan."""
        self._held = np.empty(0, np.int64)
        """How many allowed rows those hold, copies among them; about so many where `bits` say."""
        self._share: Share | None = None
        if listed:
            firsts = np.array([sweep.firsts[number] for number in listed])
            self._table = np.arange(sweep.lists)[:, None] + firsts
            self._held = sweep.sizes[self._table].sum(axis=1)
            if bits is not None:
                rows = np.stack([sweep.scans[number].sizes[sweep.lists : 2 * sweep.lists] for number in listed])
                passing = [counts.get(number) for number in listed]
                let = [size if own is None else own for size, own in zip(rows, passing, strict=True)]
                self._share = Share(rows.sum(axis=0), np.sum(let, axis=0))
                self._held = _COPIES * self._share.allowed

    @property
    def size(self) -> int:
        """Bytes of the arrays that it holds."""
        share = () if self._share is None else (self._share.rows, self._share.allowed)
        bits = () if self._bits is None else (self._bits.packed,)
        return sum(each.nbytes for each in (self._once, self._others, self._table, self._held, *share, *bits))

    def search(self, query: NDArray[np.float32], count: int, reach: Reach | None = None) -> Candidates:
        """The best `count` of the allowed rows, numbered by slots, and how close they seem (larger is closer).

        Best first; fewer where fewer are allowed, or where FAISS passes rows by since their codes are all alike.
        With a `reach` those of the lists that are near to the query, as far as that tells.
        """
        return self.search_all(query, count, reach)[0]

    def search_all(self, queries: NDArray[np.float32], count: int, reach: Reach | None = None) -> list[Candidates]:
        """The same for each of several queries (n, d)."""
        padded = np.pad(queries, ((0, 0), (0, self._sweep.padding))) if self._sweep.padding else queries
        if reach is None or not len(self._table):
            return self._over(self._once, self._half, padded, count)
        return [
            self._near(queries[place : place + 1], padded[place : place + 1], count, reach)
            for place in range(len(queries))
        ]

    def _near(self, query: NDArray[np.float32], padded: NDArray[np.float32], count: int, reach: Reach) -> Candidates:
        lists = self._nearest(query, _COPIES * count, reach)
        if lists is not None:
            lists = np.concatenate([lists, self._others])
            [(rows, near)] = self._over(lists, self._middle(lists), padded, _COPIES * count)
            rows, near = _distinct(rows, near, count)
            if len(rows) == count:
                return rows, near
        return self._over(self._once, self._half, padded, count)[0]

    def _nearest(self, query: NDArray[np.float32], least: int, reach: Reach) -> NDArray[np.int64] | None:
        """The lists that are near enough to the query, nearest first; None where all had better be gone over.

        As many as are near where those hold fewer than `least` rows.
        """
        router, share = self._sweep.router, self._share
        assert router is not None
        part = 1.0 if share is None else float(share.allowed.sum() / max(1, share.rows.sum()))
        probes = reach.probes(part)
        if not probes:
            return None
        nearest = router.nearest(query, probes, reach.gap(part))
        if self._held[nearest].sum() < least:
            nearest = router.nearest(query, probes)
        if share is None:
            return self._table[nearest].ravel()
        for closest in (nearest[: -(-len(nearest) // 4)], nearest):
            if share.allowed[closest].sum() < _SPARSE * part * share.rows[closest].sum():
                return None
        lists = self._table[nearest].ravel()
        return lists if self._sweep.sizes[lists].sum() < _WORTH * self._rows else None

    def _middle(self, lists: NDArray[np.int64]) -> int:
        """Behind which of some lists half of their rows are gone over, 0 where they are few."""
        rows = np.cumsum(self._sweep.sizes[lists])
        if not len(rows) or rows[-1] < SHARED_ROWS:
            return 0
        middle = int(np.searchsorted(rows, rows[-1] / 2)) + 1
        return middle if middle < len(lists) else 0

    def _over(
        self, lists: NDArray[np.int64], middle: int, queries: NDArray[np.float32], count: int
    ) -> list[Candidates]:
        """Go over some lists, in two threads where they are long and a core is idle."""
        if not middle:
            return self._gone_over(lists, queries, count)
        with spare_core() as helper:
            if helper is None:
                return self._gone_over(lists, queries, count)
            theirs = helper.submit(self._gone_over, lists[middle:], queries, count)
            pairs = zip(self._gone_over(lists[:middle], queries, count), theirs.result(), strict=True)
        return [_merged(mine, more, count) for mine, more in pairs]

    def _gone_over(self, lists: NDArray[np.int64], queries: NDArray[np.float32], count: int) -> list[Candidates]:
        single_thread()
        values, rows = np.empty((len(queries), count), np.float32), np.empty((len(queries), count), np.int64)
        if len(queries) > 1:
            lists = np.tile(lists, len(queries))
        parameters, distances = self._parameters_for(len(lists) // len(queries), len(lists))
        self._sweep.index.search_preassigned_c(
            len(queries), faiss.swig_ptr(queries), count, faiss.swig_ptr(lists), faiss.swig_ptr(distances),
            faiss.swig_ptr(values), faiss.swig_ptr(rows), False, parameters, None,
        )  # fmt: skip
        near = values if self._sweep.larger_is_closer else -values
        return [_present(*one) for one in zip(rows, near, strict=True)]

    def _parameters_for(self, lists: int, repeated: int) -> tuple[Any, NDArray[np.float32]]:
        """What FAISS is told beside the numbers of some lists: among it how far each is, which has no meaning here."""
        found = self._parameters.get(lists)
        if found is None:
            parameters = faiss.IVFSearchParameters(nprobe=lists)
            if self._bits is not None:
                parameters.sel = self._bits.selector
            if len(self._parameters) >= _NUMBERS:  # queries that two threads share are cut at any list
                self._parameters.clear()
            found = self._parameters[lists] = parameters, np.zeros(lists, np.float32)
        return found if repeated == lists else (found[0], np.zeros(repeated, np.float32))


def _merged(mine: Candidates, more: Candidates, count: int) -> Candidates:
    rows, near = np.concatenate([mine[0], more[0]]), np.concatenate([mine[1], more[1]])
    best = np.argsort(-near, kind="stable")[:count]
    return rows[best], near[best]


def _present(rows: NDArray[np.int64], near: NDArray[np.float32]) -> Candidates:
    """Without the places at the end where no row was found."""
    if rows[-1] >= 0:
        return rows, near
    present = rows >= 0
    return rows[present], near[present]


def _distinct(rows: NDArray[np.int64], near: NDArray[np.float32], count: int) -> Candidates:
    """The first `count` of them without second copies, which seem exactly as close as the first."""
    order = np.argsort(rows)
    ascending = rows[order]
    again = order[1:][ascending[1:] == ascending[:-1]]
    kept = np.ones(len(rows), np.bool_)
    kept[again] = False
    return rows[kept][:count], near[kept][:count]
