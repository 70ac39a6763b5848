"""How the hits of a search are ranked by engines that store vectors and terms.

BM25, the fused score, its feedback and the bonus of codes are those of local segments (`aidre.engine.search`). What
differs: a hybrid search fuses the best of both sides and stops after some thousand candidates, and the hits of several
languages are not weighed against one another after the feedback.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding import cosine_floor
from aidre.engine.index.text import comparable_text, find_codes, find_sequences, phrase_pattern, required_words
from aidre.engine.index.vectors import VectorColumn, score_rows
from aidre.engine.model import FUSED_RANKS, EmbeddingSpace, Fusion
from aidre.engine.search import FEEDBACK_DEPTH, bm25, codes, hybrid
from aidre.engine.types import RetrievedChunk
from aidre_rows.words import Numbers, QueryWords, Scores

_FIRST: Final = 100
"""Candidates of each side that a hybrid search begins with."""
_MOST: Final = 4_096
_DEEPER: Final = 4


class Ranked(NamedTuple):
    """Chunks by their numbers, in no order, and their scores (n,)."""

    numbers: Numbers
    scores: Scores


class RowsSearch(Protocol):
    """One query of an engine among the chunks that pass its filter, which it knows by numbers."""

    def nearest(self, n: int) -> tuple[Numbers, NDArray[Any]]:
        """The nearest n chunks and some more, in no order, with their stored vectors; all that pass, where these are
        fewer."""

    def codes_of(self, numbers: Numbers) -> NDArray[Any]:
        """The stored vectors of chunks, in their order."""

    def best_by_words(self, n: int, delta: float) -> Ranked:
        """The best n chunks that have a word, by BM25."""

    def word_scores(self, numbers: Numbers, delta: float) -> Scores:
        """BM25 of some chunks."""

    def with_terms(self, groups: Sequence[tuple[str, ...]], most: int) -> tuple[int, Numbers]:
        """The chunks that have a term of each group: how many of all there are, at most `most` + 1, and the first
        `most` that pass."""

    def headed_texts(self, numbers: Numbers) -> Mapping[int, tuple[str, ...]]:
        """Text, title and section of some chunks, those that they have."""

    def chunks_of(self, numbers: Numbers) -> Mapping[int, RetrievedChunk]:
        """By number; without those that are gone meanwhile."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """A query vector in a space among the chunks of a search."""

    search: RowsSearch
    space: EmbeddingSpace
    vector: NDArray[np.float32]

    def nearest(self, n: int) -> Ranked:
        numbers, codes = self.search.nearest(n)
        return Ranked(numbers, self._scores(codes))

    def nearest_cosines(self, n: int) -> Ranked:
        numbers, scores = self.nearest(n)
        return Ranked(numbers, hybrid.to_cosines(self.space, scores))

    def cosines_of(self, numbers: Numbers) -> Scores:
        return hybrid.to_cosines(self.space, self._scores(self.search.codes_of(numbers)))

    def _scores(self, codes: NDArray[Any]) -> Scores:
        scores = np.empty(len(codes))
        if len(codes):
            positions, found = score_rows([(VectorColumn(self.space, codes), np.arange(len(codes)))], self.vector)
            scores[positions] = found
        return scores


def ranked_by_words(search: RowsSearch, words: QueryWords, k: int) -> Ranked:
    """`search_lexical` of local segments."""
    found = search.best_by_words(k, 0.0)
    bonuses: dict[int, float] = {}
    for code, weight in words.code_weights.items():
        _, having = _with_code(search, words, code, codes.MAX_TEXTS)
        for number in _as_written(search, having, code):
            bonuses[number] = bonuses.get(number, 0.0) + codes.ORDER_SHARE * weight
    if not bonuses:
        return found
    numbers = np.union1d(found.numbers, np.fromiter(bonuses, np.int64))
    scores = search.word_scores(numbers, 0.0)
    return Ranked(numbers, scores + np.array([bonuses.get(number, 0.0) for number in numbers.tolist()]))


def fused(vectors: Vectors, words: QueryWords, fusion: Fusion, k: int) -> Ranked:
    """`HybridQuery` of local segments, with the feedback of the best hits."""
    search = vectors.search
    if fusion.method == "rrf":
        count = max(FUSED_RANKS, k)
        lists = vectors.nearest(count), ranked_by_words(search, words, count)
        near, lexical = (ordered(search, *ranked, count)[0] for ranked in lists)
        by_near, by_words = hybrid.rank_shares(len(near), len(lexical), fusion.a)
        return Ranked(*hybrid.joined(near, by_near, lexical, by_words))
    fusion = replace(fusion, a=hybrid.without_floor(fusion.a, cosine_floor(vectors.space)))
    depth = max(k, FEEDBACK_DEPTH)
    numbers, scores = ordered(search, *_ranked_by_both(vectors, words, fusion, depth), depth)
    if len(numbers) < 2 or fusion.a == 0:
        return Ranked(numbers, scores)
    codes = search.codes_of(numbers[:FEEDBACK_DEPTH]).astype(np.float32)
    reordered, rest = hybrid.fed_back(scores[:FEEDBACK_DEPTH], codes, fusion.a), scores[FEEDBACK_DEPTH:]
    return Ranked(numbers, np.concatenate([reordered, hybrid.kept_below(reordered.min(), rest) if len(rest) else rest]))


def _ranked_by_both(vectors: Vectors, words: QueryWords, fusion: Fusion, k: int) -> Ranked:
    """The best k chunks by the fused score among the best of both sides; more of these are looked at until no other
    chunk can reach the k-th place, or they are some thousand."""
    search, n = vectors.search, max(_FIRST, 2 * k)
    bonuses = _code_bonuses(search, words, fusion)
    while True:
        near, lexical = vectors.nearest_cosines(n), search.best_by_words(n, bm25.DELTA)
        numbers = np.unique(np.concatenate([near.numbers, lexical.numbers, np.fromiter(bonuses, np.int64)]))
        cosines = _filled(numbers, near, vectors.cosines_of)
        of_words = _filled(numbers, lexical, lambda missing: search.word_scores(missing, bm25.DELTA))
        scores = hybrid.fused(fusion, cosines, of_words)
        scores += np.array([bonuses.get(number, 0.0) for number in numbers.tolist()])
        place = len(scores) - k
        if len(near.numbers) < n or n >= _MOST or place < 0:
            return Ranked(numbers, scores)
        least = float(np.partition(scores, place)[place]) - fusion.a * float(near.scores.min())
        if len(lexical.numbers) < n or lexical.scores.min() < hybrid.least_bm25(fusion, least):
            return Ranked(numbers, scores)
        n = min(_MOST, n * _DEEPER)


def _filled(numbers: Numbers, known: Ranked, ask: Callable[[Numbers], Scores]) -> Scores:
    """The scores of some chunks: known ones are taken, the others computed."""
    scores, places = np.empty(len(numbers)), np.searchsorted(numbers, known.numbers)
    scores[places] = known.scores
    missing = np.ones(len(numbers), np.bool_)
    missing[places] = False
    if missing.any():
        scores[missing] = ask(numbers[missing])
    return scores


def ordered(search: RowsSearch, numbers: Numbers, scores: Scores, most: int) -> Ranked:
    """The best chunks in order, equal ones by id, which is asked for these alone."""
    order = np.argsort(-scores, kind="stable")
    if most < len(order):
        order = order[: np.searchsorted(-scores[order], -scores[order[most - 1]], side="right")]
    numbers, scores = numbers[order], scores[order]
    is_tie = np.zeros(len(scores) + 1, np.bool_)
    is_tie[1:-1] = scores[1:] == scores[:-1]
    tied = is_tie[1:] | is_tie[:-1]
    if tied.any():
        chunks = search.chunks_of(numbers[tied])
        ids = [chunks[number].id if number in chunks else "" for number in numbers.tolist()]
        order = np.array(sorted(range(len(ids)), key=lambda place: (-scores[place], ids[place])))
        numbers, scores = numbers[order], scores[order]
    return Ranked(numbers[:most], scores[:most])


# -- codes -------------------------------------------------------------------------------------------------------


def _code_bonuses(search: RowsSearch, words: QueryWords, fusion: Fusion) -> dict[int, float]:
    """`code_chunks` of local segments: what codes add to the scores of the chunks that have them."""
    bonuses: dict[int, float] = {}
    named, sequences = find_codes(words.text), find_sequences(words.text)
    for code in dict.fromkeys([*named, *sequences]):
        most = max(codes.MAX_TEXTS, math.isqrt(words.chunks) + 1)
        frequency, numbers = _with_code(search, words, code, most)
        share = 1 - 2 * math.log(max(frequency, 1)) / math.log(max(words.chunks, 2)) if code in named else 0.0
        if code in sequences:
            numbers, share = _as_written(search, numbers[: codes.MAX_TEXTS], code), max(share, codes.LEAST_ORDERED)
        for number in numbers if frequency and share > 0 else ():
            added = 2 * (1 - fusion.a) * codes.CODE_WEIGHT * share
            bonuses[int(number)] = bonuses.get(int(number), 0.0) + added
    return bonuses


def _with_code(search: RowsSearch, words: QueryWords, code: str, most: int) -> tuple[int, list[int]]:
    groups = required_words(code, sorted(words.languages))
    if not groups:
        return 0, []
    frequency, numbers = search.with_terms(groups, most)
    return frequency, numbers.tolist()


def _as_written(search: RowsSearch, numbers: Sequence[int], code: str) -> list[int]:
    """Those of the chunks that have a code as it is written."""
    pattern = phrase_pattern(code)
    if pattern is None or not numbers:
        return []
    texts = search.headed_texts(np.array(numbers, np.int64))
    return [
        number for number in numbers if any(pattern.search(comparable_text(text)) for text in texts.get(number, ()))
    ]
