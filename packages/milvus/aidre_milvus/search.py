"""One query to Milvus: the nearest chunks of a vector, the best ones of words, and the chunks of numbers.

The server's BM25 finds candidates, in an order that takes other document frequencies; they are scored here, from the
codes of their terms (`words`) that come with them, as vectors are from their stored form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.types import RetrievedChunk
from aidre_milvus.server import Row
from aidre_milvus.stored import MilvusRows
from aidre_milvus.tables import WITH_BLOBS, vector_of
from aidre_milvus.words import code_of, having_any
from aidre_rows import Numbers, QueryWords, Ranked, Scores, StoredSpace

_FEW_ROWS: Final = 50
"""A filter that lets no more pass is answered by comparing these."""
_EF: Final = 256
_MOST_EF: Final = 32_768
_MOST_FOUND: Final = 16_384
"""Hits of one search; a search for more compares all rows that pass."""
_SLACK: Final = 16
"""Hits that are asked for beyond the wanted ones: of equal scores those with the first ids are wanted."""
_TIMES: Final = 3
_MORE: Final = 100
"""Candidates by words that are asked for beyond the wanted hits."""
_MOST_FLOAT: Final = float(np.finfo(np.float32).max) / 1e3
_VECTOR_COLUMNS: Final = ("row", "document", "norm", "vector")
_WORD_COLUMNS: Final = ("row", "document", "words", "length")


@dataclass(frozen=True, slots=True)
class MilvusSearch:
    """A `Search` (aidre_rows.ranking) among the rows that an expression selects, of which there are `passing`, of
    `chunks` in all. `stored` is None where the collection has no space."""

    rows: MilvusRows
    where: str
    passing: int
    chunks: int
    words: QueryWords | None
    stored: StoredSpace | None
    vector: NDArray[np.float32] | None
    of_space: dict[int, Row] = field(default_factory=dict)
    of_words: dict[int, Row] = field(default_factory=dict)
    """The rows of the space and those of words that were found, by number."""

    # -- vectors -------------------------------------------------------------------------------------------------

    def nearest(self, n: int) -> tuple[Numbers, NDArray[Any]]:
        assert self.vector is not None
        table, server, found = self._space_table, self.rows.server, list[Row]()
        if 0 < self.passing <= _FEW_ROWS:
            found = server.rows(table, self.where, self._columns)
        elif self.passing and n + _SLACK <= _MOST_FOUND and float(np.abs(self.vector).max()) < _MOST_FLOAT:
            # The fewer pass, the more the graph has to look at.
            share = self.passing / max(self.chunks, 1)
            ef = int(min(max(_EF, 2 * (n + _SLACK)) / share, _MOST_EF))
            found = server.nearest(table, self.vector[0].tolist(), self.where, self._columns, n + _SLACK, ef=ef)
        if len(found) < min(n, self.passing):
            passing = sorted(row["row"] for row in self.rows.spans(table, self.where, ["row"]))
            found = list(self.rows.by_number(table, passing, self._columns))
        self.of_space.update({int(row["row"]): row for row in found})
        numbers = np.array(sorted({int(row["row"]) for row in found}), np.int64)
        return numbers, self.codes_of(numbers)

    def codes_of(self, numbers: Numbers) -> NDArray[Any]:
        missing = [number for number in numbers.tolist() if number not in self.of_space]
        rows = self.rows.by_number(self._space_table, missing, self._columns)
        self.of_space.update({int(row["row"]): row for row in rows})
        space = self._stored.space
        codes = [vector_of(space, self.of_space[number]).codes for number in numbers.tolist()]
        return np.stack(codes) if codes else np.empty((0, space.dimensions), np.float32)

    @property
    def _stored(self) -> StoredSpace:
        assert self.stored is not None
        return self.stored

    @property
    def _space_table(self) -> str:
        return self.rows.tables.space(self._stored.table)

    @property
    def _columns(self) -> tuple[str, ...]:
        return (*_VECTOR_COLUMNS, "blob") if self.rows.commit.state.format >= WITH_BLOBS else _VECTOR_COLUMNS

    # -- words ---------------------------------------------------------------------------------------------------

    def best_by_words(self, n: int, delta: float) -> Ranked:
        table, codes = self.rows.tables.words, [code_of(term) for term in self._words.terms]
        if not codes:
            return Ranked(np.empty(0, np.int64), np.empty(0))
        if n > _MOST_FOUND:
            where = f"{self.where} and {having_any(self._words.terms)}"
            found = list(self.rows.spans(table, where, _WORD_COLUMNS))
        else:
            most = min(_TIMES * n + _MORE, _MOST_FOUND)
            found = self.rows.server.nearest(table, " ".join(codes), self.where, _WORD_COLUMNS, most)
        self.of_words.update({row["row"]: row for row in found})
        numbers = np.array(sorted({row["row"] for row in found}), np.int64)
        scores = self.word_scores(numbers, delta)
        if n < len(scores):
            is_among = scores >= np.partition(scores, -n)[-n]
            numbers, scores = numbers[is_among], scores[is_among]
        return Ranked(numbers, scores)

    def word_scores(self, numbers: Numbers, delta: float) -> Scores:
        rows, codes = self._words_of(numbers), [code_of(term) for term in self._words.terms]
        counts = [[0 if row is None else row["words"].count(code) for code in codes] for row in rows]
        lengths = np.array([0 if row is None else row["length"] for row in rows])
        return self._words.scores(np.array(counts).reshape(len(rows), len(codes)), lengths, delta)

    def with_terms(self, groups: Sequence[tuple[str, ...]], most: int) -> tuple[int, Numbers]:
        if not all(any(self._words.find(terms).values()) for terms in groups):
            return 0, np.empty(0, np.int64)
        server, table, every = self.rows.server, self.rows.tables.words, " and ".join(map(having_any, groups))
        counted = server.count(table, f"{self.rows.commit.visible} and {every}")
        found = server.rows(table, f"{self.where} and {every}", ["row"], most=most)
        return min(counted, most + 1), np.array(sorted(row["row"] for row in found), np.int64)

    def headed_texts(self, numbers: Numbers) -> Mapping[int, tuple[str, ...]]:
        chunks = self.chunks_of(numbers).items()
        return {number: tuple(filter(None, (chunk.text, chunk.section, chunk.title))) for number, chunk in chunks}

    @property
    def _words(self) -> QueryWords:
        assert self.words is not None
        return self.words

    def _words_of(self, numbers: Numbers) -> list[Row | None]:
        missing = [number for number in numbers.tolist() if number not in self.of_words]
        rows = self.rows.by_number(self.rows.tables.words, missing, _WORD_COLUMNS)
        self.of_words.update({row["row"]: row for row in rows})
        return [self.of_words.get(number) for number in numbers.tolist()]

    # -- chunks --------------------------------------------------------------------------------------------------

    def chunks_of(self, numbers: Numbers) -> Mapping[int, RetrievedChunk]:
        if self.stored is None:
            words = zip(numbers.tolist(), self._words_of(numbers), strict=True)
            return self.rows.chunks({number: row["document"] for number, row in words if row}, {})
        self.codes_of(numbers)
        documents = {number: int(self.of_space[number]["document"]) for number in numbers.tolist()}
        return self.rows.chunks(documents, {self.stored.table: self.of_space})
