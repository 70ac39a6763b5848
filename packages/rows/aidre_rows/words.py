"""Words of chunks in the terms of aidre's own analysis, and searches by them, for engines that store terms.

An engine keeps of each chunk its terms with their counts, its length and its language, and of each term how many chunks
have it. BM25, the fused score and the bonus of codes are those of local segments (`aidre.engine.search`). What differs:
a hybrid search fuses the best of both sides and stops after some thousand candidates, and the hits of several languages
are not weighed against one another after the feedback.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.index.text import (
    LexicalText,
    Lexicon,
    build_lexicon,
    comparable_text,
    declared_language,
    find_codes,
    find_sequences,
    lexical_column,
    phrase_pattern,
    query_terms,
    required_words,
)
from aidre.engine.model import Fusion
from aidre.engine.search import bm25, codes, hybrid
from aidre_rows.rows import ChunkRow, DocumentRow

_BLOCK: Final = 2_000
"""Chunks that are analysed at once."""
_MOST_TERMS: Final = 200
"""Terms of a query that count: those of the rarest words."""
_FIRST: Final = 100
"""Candidates of each side that a hybrid search begins with."""
_MOST: Final = 4_096
_DEEPER: Final = 4

Numbers: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float64]


class ChunkWords(NamedTuple):
    """The terms of a chunk with their counts, how many they are as BM25 counts them, and the tag of its language."""

    terms: list[tuple[str, int]]
    length: int
    language: str


def chunk_words(chunks: Iterable[tuple[DocumentRow, ChunkRow]]) -> Iterator[ChunkWords]:
    """The words of chunks, with those of the headings above them, in order."""
    iterator = iter(chunks)
    while block := [pair for _, pair in zip(range(_BLOCK), iterator, strict=False)]:
        columns = zip(*((document.title, chunk.section, chunk.text) for document, chunk in block), strict=True)
        texts = lexical_column(*(pa.array(column, pa.large_binary()).cast(pa.large_string()) for column in columns))
        yield from _words_of(list(map(LexicalText, texts.to_pylist(), [_declared(document) for document, _ in block])))


def _declared(document: DocumentRow) -> str | None:
    return declared_language(
        *(orjson.loads(text) if text else None for text in (document.metadata, document.schema_object))
    )


def _words_of(texts: Sequence[LexicalText]) -> Iterator[ChunkWords]:
    lexicon = Lexicon(build_lexicon(texts))
    terms = [term.decode() for term in lexicon.terms.array.to_pylist()]
    codes_of = np.repeat(np.arange(len(terms)), np.diff(lexicon.starts))
    order = np.argsort(lexicon.rows, kind="stable")
    ends = np.searchsorted(lexicon.rows[order], np.arange(len(texts) + 1))
    ordered, counts = codes_of[order].tolist(), lexicon.counts[order].tolist()
    for row in range(len(texts)):
        own = slice(int(ends[row]), int(ends[row + 1]))
        pairs = zip([terms[code] for code in ordered[own]], counts[own], strict=True)
        yield ChunkWords(list(pairs), int(lexicon.lengths[row]), lexicon.tags[lexicon.languages[row]])


# -- queries -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryWords:
    """The words of a text that any chunk has. `find` gives the number of chunks that have each of some terms."""

    text: str
    chunks: int
    mean_length: float
    languages: Mapping[str, int]
    find: Callable[[Sequence[str]], Mapping[str, int]]

    @cached_property
    def words(self) -> list[bm25.QueryWord]:
        known: dict[str, int] = {}

        def frequency(terms: Sequence[str]) -> int:
            missing = [term for term in terms if term not in known]
            if missing:
                known.update(dict.fromkeys(missing, 0) | dict(self.find(missing)))
            return sum(known[term] for term in terms)

        tags = sorted(self.languages)
        frequency([term for word in query_terms(self.text, tags) for term in word.terms])  # all at once
        found = []
        for word in query_terms(self.text, tags, lambda term: frequency([term]) > 0):
            held = tuple(term for term in word.terms if frequency([term]))
            if held:
                made = word._replace(terms=held)
                found.append(bm25.weighed_word(made, frequency(held), self.chunks, self.languages))
        found.sort(key=lambda word: -word.weight)
        ends = accumulate(len(word.terms) for word in found)
        return [word for word, end in zip(found, ends, strict=True) if end <= _MOST_TERMS]

    @cached_property
    def terms(self) -> list[str]:
        return [term for word in self.words for term in word.terms]

    @cached_property
    def weights(self) -> list[float]:
        """By term."""
        return [word.weight for word in self.words for _ in word.terms]

    @cached_property
    def code_weights(self) -> dict[str, float]:
        """The codes of the text, with what their words weigh together."""
        own = {code: replace(self, text=code) for code in find_sequences(self.text)}
        return {code: sum(word.weight for word in words.words) for code, words in own.items()}

    def scores(self, counts: NDArray[Any], lengths: NDArray[Any], delta: float) -> Scores:
        """BM25 of chunks with these counts of the terms, shape (n, terms), and lengths (n,)."""
        half = bm25.half_weight_counts(lengths.astype(np.uint32), self.mean_length)
        sums = np.zeros(len(lengths))
        for weight, column in zip(self.weights, counts.astype(np.float64).T, strict=True):
            sums += np.where(column > 0, weight * (column / (column + half) + delta), 0.0)
        return sums


class Ranked(NamedTuple):
    """Chunks by their numbers, in no order, and their scores (n,)."""

    numbers: Numbers
    scores: Scores


class WordSearch(Protocol):
    """Searches by the words of one query among the chunks that pass its filter."""

    def best_by_words(self, n: int, delta: float) -> Ranked:
        """The best n chunks that have a word, by BM25."""

    def word_scores(self, numbers: Numbers, delta: float) -> Scores:
        """BM25 of some chunks."""

    def with_terms(self, groups: Sequence[tuple[str, ...]], most: int) -> tuple[int, Numbers]:
        """The chunks that have a term of each group: how many of all there are, at most `most` + 1, and the first
        `most` that pass."""

    def headed_texts(self, numbers: Numbers) -> Mapping[int, tuple[str, ...]]:
        """Text, title and section of some chunks, those that they have."""


class VectorSearch(Protocol):
    """Searches by the vector of one query among the chunks that pass its filter."""

    def nearest_cosines(self, n: int) -> Ranked:
        """The nearest n chunks with their cosines."""

    def cosines_of(self, numbers: Numbers) -> Scores: ...


def ranked_by_words(search: WordSearch, words: QueryWords, k: int) -> Ranked:
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


def ranked_by_both(vectors: VectorSearch, search: WordSearch, words: QueryWords, fusion: Fusion, k: int) -> Ranked:
    """The best k chunks by the fused score among the best of both sides; more of these are looked at until no other
    chunk can reach the k-th place, or they are some thousand."""
    bonuses, n = _code_bonuses(search, words, fusion), max(_FIRST, 2 * k)
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


# -- codes -------------------------------------------------------------------------------------------------------


def _code_bonuses(search: WordSearch, words: QueryWords, fusion: Fusion) -> dict[int, float]:
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


def _with_code(search: WordSearch, words: QueryWords, code: str, most: int) -> tuple[int, list[int]]:
    groups = required_words(code, sorted(words.languages))
    if not groups:
        return 0, []
    frequency, numbers = search.with_terms(groups, most)
    return frequency, numbers.tolist()


def _as_written(search: WordSearch, numbers: Sequence[int], code: str) -> list[int]:
    """Those of the chunks that have a code as it is written."""
    pattern = phrase_pattern(code)
    if pattern is None or not numbers:
        return []
    texts = search.headed_texts(np.array(numbers, np.int64))
    return [
        number for number in numbers if any(pattern.search(comparable_text(text)) for text in texts.get(number, ()))
    ]
