"""BM25 over the parts of a generation: every chunk that holds a word of the query, with its exact score.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with Lucene's idf and without
its constant factor: score = sum of idf * tf / (tf + K1 * (1 - B + B * length / mean length)). Document frequencies and
lengths are those of all live chunks of the generation, so no score depends on segments, deleted rows or the filter.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.analysis import query_terms
from aidre.engine.filters import Filter
from aidre.engine.lexicon import Postings
from aidre.engine.parts import Part, Ranked, ordered

K1: Final = 1.2
B: Final = 0.75

ROUNDING: Final = 1e-5
"""The share that a sum of float32 may be wrong by. Final scores are summed in float64, in the order of words."""

_BLOCK: Final = 1 << 17
"""Rows that are scored at once: their sums stay in the cache."""

_SMALL: Final = 1 << 16
"""A part of no more rows is scored whole: that takes less time than to find out which of its lists can be left out."""

_TOGETHER: Final = 1 << 16
"""Rows of small parts that are scored at once."""

_KEPT: Final = 1 << 20
"""Postings of small parts, sixteen bytes each, whose shares are kept for the next queries."""

_LOOKUP: Final = 6
"""How many postings are added up in the time in which one is looked up."""

_POSITIVE: Final = 5e-324
"""The least score above none."""

Scores = NDArray[np.float64]
"""A score for each of some chunks, 0 where no word of the query stands."""


class Statistics:
    """What BM25 needs to know of a whole generation; sums over its live chunks, made when first asked for."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._saturations: dict[str, NDArray[np.float32]] = {}

    @cached_property
    def chunks(self) -> int:
        return sum(part.live.count for part in self._parts)

    @cached_property
    def mean_length(self) -> float:
        return sum(part.words for part in self._parts) / max(1, self.chunks)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Of any live chunk, in order of their tags."""
        return tuple(sorted({tag for part in self._parts for tag in part.languages}))

    @property
    def chunks_by_language(self) -> dict[str, int]:
        """Live chunks, by the tag of their language; most first."""
        counts: dict[str, int] = {}
        for part in self._parts:
            for tag, count in part.languages.items():
                counts[tag] = counts.get(tag, 0) + count
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    @cached_property
    def small(self) -> Small:
        return Small(self._parts, self.saturation)

    def saturation(self, part: Part) -> NDArray[np.float32]:
        """The term count at which a chunk of the part has half of a term's weight: longer ones need more."""
        known = self._saturations.get(part.segment.id)
        if known is None:
            lengths = part.segment.lexicon.lengths / np.float64(max(self.mean_length, 1e-9))
            known = self._saturations[part.segment.id] = (K1 * (1 - B + B * lengths)).astype(np.float32)
        return known


class Small:
    """The small parts of a generation, their rows laid after one another.

    `firsts` has for each part of the generation where its rows begin, -1 where it is not small; `owners` has the place
    of each row's part.
    """

    def __init__(self, parts: Sequence[Part], saturation: Callable[[Part], NDArray[np.float32]]) -> None:
        places = [place for place, part in enumerate(parts) if part.segment.entry.chunks <= _SMALL]
        sizes = [parts[place].segment.entry.chunks for place in places]
        starts = np.cumsum([0, *sizes])
        self.parts = [parts[place] for place in places]
        self.firsts = np.full(len(parts), -1)
        self.firsts[places] = starts[:-1]
        self.owners = np.repeat(np.array(places, np.int64), sizes)
        self._starts = starts.tolist()
        self._saturation = np.concatenate([np.empty(0, np.float32), *map(saturation, self.parts)])
        self._shares: OrderedDict[str, tuple[NDArray[np.intp], Scores]] = OrderedDict()
        self._kept, self._keeping = 0, threading.Lock()

    def __len__(self) -> int:
        return len(self.owners)

    def shares(self, term: str) -> tuple[NDArray[np.intp], Scores]:
        """The rows that hold a term, and the share of its weight that each of them gets. Kept while there is room."""
        known = self._shares.get(term)
        if known is None:
            known = self._made(term)
            with self._keeping:
                self._keep(term, known)
        return known

    def _made(self, term: str) -> tuple[NDArray[np.intp], Scores]:
        lists = [(first, part.postings(term)) for first, part in zip(self._starts, self.parts, strict=False)]
        held = [(first, postings) for first, postings in lists if postings is not None]
        rows = np.concatenate(
            [np.empty(0, np.intp), *(postings.rows.astype(np.intp) + first for first, postings in held)]
        )
        shares = np.concatenate([np.empty(0), *(postings.counts for _, postings in held)])
        shares /= shares + self._saturation[rows]
        return rows, shares

    def _keep(self, term: str, made: tuple[NDArray[np.intp], Scores]) -> None:
        if term not in self._shares:
            self._shares[term] = made
            self._kept += len(made[0]) + 1
        while self._kept > _KEPT:
            _, (rows, _) = self._shares.popitem(last=False)
            self._kept -= len(rows) + 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A word of the query: its terms in the languages of the collection, and what a chunk that is full of it scores."""

    terms: tuple[str, ...]
    weight: float


def asked(parts: Sequence[Part], statistics: Statistics, text: str) -> list[Asked]:
    """The words of a query that any live chunk holds. One that several languages write differently is one word.

    A word that is asked for n times weighs as the square root of n: measured over nine test collections that is
    better than n, which long queries misuse, and than once.
    """
    words = []
    for terms, times in query_terms(text, statistics.languages).items():
        holding = sum(part.document_frequency(term) for part in parts for term in terms)
        if holding:
            rest = max(0, statistics.chunks - holding)
            words.append(Asked(terms, math.sqrt(times) * math.log1p((rest + 0.5) / (holding + 0.5))))
    return words


def score(part: Part, statistics: Statistics, words: Sequence[Asked], rows: NDArray[np.int64]) -> Scores:
    """Some chunks of a part against the words of a query; found several times as fast where rows ascend."""
    sums, saturation, wanted = np.zeros(len(rows)), statistics.saturation(part)[rows], rows.astype(np.uint32)
    for word in words:
        for term in word.terms:
            postings = part.postings(term)
            if postings is not None:
                places, holds = _lookup(postings.rows, wanted)
                counts = postings.counts[places].astype(np.float64)
                sums[holds] += word.weight * (counts / (counts + saturation[holds]))
    return sums


class Scorer:
    """The words of one query over the parts of a generation. Small parts are scored whole, together and only once."""

    def __init__(self, parts: Sequence[Part], statistics: Statistics, text: str) -> None:
        self._parts, self._statistics = parts, statistics
        self.words = asked(parts, statistics, text)

    def score(self, owners: NDArray[np.int64], rows: NDArray[np.int64]) -> Scores:
        """Some chunks, given by the places of their parts and their rows."""
        firsts = self._statistics.small.firsts[owners]
        inside = firsts >= 0
        if inside.all():
            return self._whole[firsts + rows]
        scores = np.empty(len(rows))
        scores[inside] = self._whole[(firsts + rows)[inside]]
        for place in np.flatnonzero(np.bincount(owners[~inside])).tolist():
            mine = owners == place
            scores[mine] = score(self._parts[place], self._statistics, self.words, rows[mine])
        return scores

    def strongest(
        self, *, wanted: int, least: float = 0.0, only: Filter | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The allowed chunks that hold any of the words and score at least `least`: the best `wanted`, with all that
        tie with the last of them, and some that do not count. The places of their parts, their rows, and their scores
        but for ROUNDING.
        """
        small = self._statistics.small
        chosen, values = self._strongest_small(wanted, least, only)
        owners = [small.owners[chosen]]
        rows, sums = [chosen - small.firsts[owners[0]]], [values]
        for place in np.flatnonzero(small.firsts < 0).tolist():
            # What is still to come has to reach the last of these.
            least = max(least, _last(np.concatenate(sums), wanted) * (1 - ROUNDING))
            found, lasting = _strongest(
                self._parts[place], self._statistics, self.words, wanted=wanted, least=least, only=only
            )
            owners.append(np.full(len(found), place))
            rows.append(found)
            sums.append(lasting.astype(np.float64))
        return np.concatenate(owners), np.concatenate(rows), np.concatenate(sums)

    def _strongest_small(self, wanted: int, least: float, only: Filter | None) -> tuple[NDArray[np.int64], Scores]:
        """As rows of the small parts laid after one another."""
        mask = self._allowed(only)
        found, values = np.empty(0, np.int64), np.empty(0)
        least = max(least, _POSITIVE)
        for first in range(0, len(self._whole), _TOGETHER):
            scores = self._whole[first : first + _TOGETHER]
            enough = scores >= least
            chosen = np.flatnonzero(enough if mask is None else enough & mask[first : first + _TOGETHER])
            found, values = np.concatenate([found, chosen + first]), np.concatenate([values, scores[chosen]])
            if len(values) > wanted:
                least = max(least, _last(values, wanted))
                found, values = found[values >= least], values[values >= least]
        return found, values

    def _allowed(self, only: Filter | None) -> NDArray[np.bool_] | None:
        """Which rows of the small parts pass the filter, None where all do."""
        allowed = [part.allowed(only) for part in self._statistics.small.parts]
        if all(each.mask is None for each in allowed):
            return None
        return np.concatenate([np.ones(each.count, np.bool_) if each.mask is None else each.mask for each in allowed])

    @cached_property
    def _whole(self) -> Scores:
        """Every row of the small parts, deleted ones too; summed in the order of `score`, so to the same bit."""
        small = self._statistics.small
        sums = np.zeros(len(small))
        for word in self.words:
            for term in word.terms:
                rows, shares = small.shares(term)
                np.add.at(sums, rows, word.weight * shares)
        return sums


def search(
    parts: Sequence[Part], statistics: Statistics, text: str, *, wanted: int, only: Filter | None = None
) -> Ranked:
    """The best `wanted` of the chunks that hold a word of the query and pass the filter, by their BM25 scores."""
    scorer = Scorer(parts, statistics, text)
    owners, rows, _ = scorer.strongest(wanted=wanted, only=only)
    return ordered(parts, [owners], [rows], [scorer.score(owners, rows)], wanted)


@dataclass(frozen=True, slots=True)
class _List:
    """The postings of a term in a block of rows, counted from its first; no chunk gets more than `bound` from it."""

    rows: NDArray[np.uint32]
    counts: NDArray[np.uint16]
    weight: np.float32
    bound: float

    def add_all(self, sums: NDArray[np.float32], saturation: NDArray[np.float32]) -> None:
        rows, counts = self.rows.astype(np.intp), self.counts.astype(np.float32)
        sums[rows] += self.weight * (counts / (counts + saturation[rows]))

    def add_to(self, chosen: NDArray[np.intp], sums: NDArray[np.float32], saturation: NDArray[np.float32]) -> None:
        places, holds = _lookup(self.rows, chosen.astype(np.uint32))
        rows, counts = chosen[holds], self.counts[places].astype(np.float32)
        sums[rows] += self.weight * (counts / (counts + saturation[rows]))


def _lookup(rows: NDArray[np.uint32], chosen: NDArray[np.uint32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where those of the chosen rows that are among `rows` stand there, and which they are."""
    places = rows.searchsorted(chosen)
    holds = (rows.take(places, mode="clip") == chosen).nonzero()[0]
    return places[holds], holds


def _strongest(
    part: Part, statistics: Statistics, words: Sequence[Asked], *, wanted: int, least: float, only: Filter | None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """MaxScore (Turtle and Flood, "Query Evaluation: Strategies and Optimizations", 1995) over blocks of rows.

    What the first blocks hold is the bar for the next ones.
    """
    allowed = part.allowed(only)
    lists = [(part.postings(term), word.weight) for word in words for term in word.terms]
    known = [(postings, weight) for postings, weight in lists if postings is not None]
    if not allowed.count or not known:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    bar = least * (1 - ROUNDING)
    if allowed.count * _LOOKUP < sum(len(postings.rows) for postings, _ in known):
        found = allowed.rows()
        sums = score(part, statistics, words, found).astype(np.float32)
        enough = (sums >= bar) & (sums > 0)
        return found[enough], sums[enough]
    saturation = statistics.saturation(part)
    found, sums = np.empty(0, np.int64), np.empty(0, np.float32)
    for first in range(0, len(saturation), _BLOCK):
        block = slice(first, first + _BLOCK)
        within = _lists(known, first, float(saturation[block].min()))
        rows, values = _block(within, saturation[block], None if allowed.mask is None else allowed.mask[block], bar)
        if len(rows):
            found, sums = np.concatenate([found, rows + first]), np.concatenate([sums, values])
            bar = max(bar, _last(sums, wanted) * (1 - ROUNDING))
            found, sums = found[sums >= bar], sums[sums >= bar]
    return found, sums


def _lists(known: Sequence[tuple[Postings, float]], first: int, saturation: float) -> list[_List]:
    """The postings of a block, that which can give most first. `saturation` is that of its shortest chunk."""
    lists, bounds = [], np.array([first, first + _BLOCK], np.uint32)
    for postings, weight in known:
        rows, counts = postings
        if first or not len(rows) or int(rows[-1]) >= _BLOCK:
            start, stop = rows.searchsorted(bounds).tolist()
            rows, counts = rows[start:stop] - bounds[0], counts[start:stop]
        if len(rows):
            most = int(counts.max())
            lists.append(_List(rows, counts, np.float32(weight), weight * most / (most + saturation)))
    return sorted(lists, key=lambda each: -each.bound)


def _block(
    lists: Sequence[_List], saturation: NDArray[np.float32], mask: NDArray[np.bool_] | None, bar: float
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """The rows of a block whose sums reach the bar, and these.

    Lists are added up as long as a chunk that stands in none of them before could still reach it. Of the others, which
    are the longest, only the chunks that are left are looked up.
    """
    rest = sum(each.bound for each in lists)
    if rest < bar:
        return np.empty(0, np.intp), np.empty(0, np.float32)
    sums = np.zeros(len(saturation), np.float32)
    chosen: NDArray[np.intp] | None = None
    for each in lists:
        if rest < bar:
            reached = sums if chosen is None else sums[chosen]
            left = np.flatnonzero(reached >= bar - rest)
            chosen = left if chosen is None else chosen[left]
            if not len(chosen):
                return chosen, sums[:0]
        if chosen is not None and len(chosen) * _LOOKUP < len(each.rows):
            each.add_to(chosen, sums, saturation)
        else:
            each.add_all(sums, saturation)
        rest -= each.bound
    if chosen is None:
        chosen = np.flatnonzero(sums > 0)  # as bools several times as fast
    if mask is not None:
        chosen = chosen[mask[chosen]]
    values = sums[chosen]
    enough = values >= bar
    return chosen[enough], values[enough]


def _last(scores: NDArray[Any], wanted: int) -> float:
    """The score of the last of the best `wanted`, minus infinity where there are fewer."""
    place = len(scores) - wanted
    return float(np.partition(scores, place)[place]) if place >= 0 else -np.inf
