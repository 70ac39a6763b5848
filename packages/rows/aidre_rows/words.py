"""Words of chunks and of questions in the terms of aidre's own analysis, for engines that store terms.

An engine keeps of each chunk its terms with their counts, its length and its language, and of each term how many chunks
have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.index.text import (
    LexicalText,
    Lexicon,
    build_lexicon,
    declared_language,
    find_sequences,
    lexical_column,
    query_terms,
)
from aidre.engine.search import bm25
from aidre_rows.rows import ChunkRow, DocumentRow

_BLOCK: Final = 2_000
"""Chunks that are analysed at once."""
_MOST_TERMS: Final = 200
"""Terms of a query that count: those of the rarest words."""

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
