"""One query to PostgreSQL: the nearest chunks of a vector, the best ones of words, and the chunks of numbers.

Words are found by the GIN index over the terms of chunks, and scored in the statement. `ts_rank` of one term grows with
its count alone, so `width_bucket` gives that count back.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from aidre.engine.index.fields import Filter
from aidre.engine.search import bm25
from aidre.engine.types import RetrievedChunk
from aidre_postgres.connections import EF_SEARCH, Connection, fetch
from aidre_postgres.sql_filters import SqlConditions
from aidre_postgres.stored import ChunkRows
from aidre_postgres.tables import lexeme, type_of, unpack_vector
from aidre_rows import Numbers, QueryWords, Ranked, Scores, StoredSpace

_SLACK: Final = 8
"""Rows fetched beyond those that are asked for: distances of pgvector are rounded otherwise, and where a filter is far
from the query, the graph finds nearer ones later. Each of them takes time."""
_MOST_EF: Final = 1_000
_MOST_FLOAT16: Final = 65_504.0
_LITTLE: Final = 0.3
"""Of the weight of the rarest word: words that add less together are not looked for first."""
_RANKS: Final = np.cumsum(np.float32(1) / np.arange(1, 256, dtype=np.float32) ** 2, dtype=np.float32) / np.float32(
    1.64493406685
)
"""`ts_rank` of a term that a chunk has once, twice and so on."""
_STEPS: Final = ((_RANKS + np.concatenate([[0], _RANKS[:-1]])) / 2).tolist()


@dataclass(frozen=True, slots=True)
class PostgresSearch:
    """A `Search` (aidre_rows.ranking) among `chunks`; `lets_few_pass` is said of its filter."""

    rows: ChunkRows
    connection: Connection
    chunks: int
    filter: Filter | None
    lets_few_pass: bool
    vector: NDArray[np.float32] | None
    stored: StoredSpace | None
    words: QueryWords | None
    whole: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """Rows that a search without words has read together with the vectors, by chunk: one statement is all it takes."""

    # -- vectors -------------------------------------------------------------------------------------------------

    def nearest(self, n: int) -> tuple[Numbers, NDArray[Any]]:
        found = self._nearest(n, is_exact=self.lets_few_pass)
        if not self.lets_few_pass and len(found[0]) < min(n, self.chunks):
            found = self._nearest(n, is_exact=True)
        return found

    def _nearest(self, n: int, *, is_exact: bool) -> tuple[Numbers, NDArray[Any]]:
        """By way of the graph, or by comparing all rows that pass."""
        assert self.stored is not None and self.vector is not None
        conditions, tables, space = self.rows.conditions(), self.rows.tables, self.stored.space
        if self.filter is not None and is_exact and not conditions.finds_vectors(self.filter):
            passes: sql.Composable = tables.fill(
                "n.document in (select d.document from {documents} d where {passes})",
                passes=conditions.of(self.filter, "d"),
            )
        else:
            passes = conditions.of_any(self.filter, "n")
        is_exact = is_exact or bool(np.abs(self.vector).max() > _MOST_FLOAT16)
        # A sum cannot be answered by the graph, and the wider type does not round the query.
        form = "(n.vector::vector {operator} {query}) + 0" if is_exact else "n.vector {operator} {query}"
        distance = sql.SQL(form).format(
            operator=sql.SQL("<->" if space.distance == "euclidean" else "<#>"),
            query=conditions.parameter(str(self.vector[0].tolist()), "vector" if is_exact else type_of(space)),
        )
        vectors = tables.vectors(self.stored.table)
        statement = sql.SQL(
            "with kept as materialized "
            "(select n.chunk, {distance} distance from {vectors} n where {passes} order by distance limit {most}) "
        ).format(distance=distance, vectors=vectors, passes=passes, most=n + _SLACK)
        _set_candidates(self.connection, n)
        if self.words is not None:
            slim = sql.SQL("select n.chunk, n.vector from {} n join kept on kept.chunk = n.chunk").format(vectors)
            return self._unpacked(fetch(self.connection, statement + slim, conditions.parameters))
        whole = self.rows.select + sql.SQL(" join kept on kept.chunk = c.chunk")
        rows = fetch(self.connection, statement + whole, conditions.parameters)
        self.whole.update({row[-1]: row for row in rows})
        return self._unpacked([(row[-1], self.rows.packed_vector(row, self.stored)) for row in rows])

    def codes_of(self, numbers: Numbers) -> NDArray[Any]:
        assert self.stored is not None
        statement = sql.SQL("select chunk, vector from {} where chunk = any (%(numbers)s)")
        vectors = self.rows.tables.vectors(self.stored.table)
        found = dict(fetch(self.connection, statement.format(vectors), {"numbers": numbers.tolist()}))
        return self._unpacked([(number, found[number]) for number in numbers.tolist()])[1]

    def _unpacked(self, rows: Sequence[tuple[Any, ...]]) -> tuple[Numbers, NDArray[Any]]:
        assert self.stored is not None
        space = self.stored.space
        codes = np.empty((0, space.dimensions), np.float32)
        if rows:
            codes = np.stack([unpack_vector(space, packed) for _, packed in rows])
        return np.array([number for number, _ in rows], np.int64), codes

    # -- words ---------------------------------------------------------------------------------------------------

    def best_by_words(self, n: int, delta: float) -> Ranked:
        if not self._words.terms:
            return Ranked(np.empty(0, np.int64), np.empty(0))
        # A word that most chunks have adds little: where the others find chunks that it alone cannot reach, it is left
        # to the scores of these (MaxScore of Turtle and Flood, 1995). Each term of a word adds up to its weight.
        weights = [word.weight * len(word.terms) * (1 + delta) for word in self._words.words]
        word_count = next(m for m in range(1, len(weights) + 1) if sum(weights[m:]) <= _LITTLE * weights[0])
        found = self._having(self._words.words[:word_count], delta, n)
        if word_count == len(weights) or (
            len(found.scores) >= n and np.partition(found.scores, -n)[-n] > sum(weights[word_count:])
        ):
            return found
        return self._having(self._words.words, delta, n)

    def _having(self, words: Sequence[bm25.QueryWord], delta: float, n: int) -> Ranked:
        """The best n chunks that have one of the words."""
        conditions = self.rows.conditions()
        terms = conditions.parameter(_any_of([term for word in words for term in word.terms]), "tsquery")
        where = sql.SQL("w.words @@ {} and {}").format(terms, conditions.of_any(self.filter, "w"))
        return self._scored(conditions, where, delta, n)

    def word_scores(self, numbers: Numbers, delta: float) -> Scores:
        scores = np.zeros(len(numbers))
        if self._words.terms and len(numbers):
            conditions = self.rows.conditions()
            where = sql.SQL("w.chunk = any ({})").format(conditions.parameter(numbers.tolist(), "int8[]"))
            found = self._scored(conditions, where, delta, len(numbers))
            order = np.argsort(numbers)
            scores[order[np.searchsorted(numbers[order], found.numbers)]] = found.scores
        return scores

    def _scored(self, conditions: SqlConditions, where: sql.Composable, delta: float, n: int) -> Ranked:
        """The best n rows of a condition, with scores that are computed here: the statement rounds otherwise."""
        words, counts, sums = self._words, [], []
        steps = conditions.parameter(_STEPS, "float4[]")
        half = sql.SQL("({} * ({} + {} * w.length / {}))").format(
            *map(sql.Literal, (bm25.K1, 1 - bm25.B, bm25.B, max(words.mean_length, 1e-9)))
        )
        for place, (term, weight) in enumerate(zip(words.terms, words.weights, strict=True)):
            name, query = sql.Identifier(f"t{place}"), conditions.parameter(_quoted(term), "tsquery")
            rank = sql.SQL("width_bucket(ts_rank('{{1,1,1,1}}', w.words, {}), {})::float8 {}")
            counts.append(rank.format(query, steps, name))
            added = sql.SQL("(case when {t} > 0 then {weight} * ({t} / ({t} + {half}) + {delta}) else 0 end)")
            sums.append(added.format(t=name, weight=sql.Literal(weight), half=half, delta=sql.Literal(delta)))
        names = [sql.Identifier(f"t{place}") for place in range(len(counts))]
        # Without an offset the counts would be computed again wherever they are named.
        statement = self.rows.tables.fill(
            "select w.chunk, w.length, {names} from (select chunk, length, {counts} from {words} w "
            "where {where} offset 0) w order by {sum} desc fetch first {n} rows with ties",
            names=sql.SQL(", ").join(names),
            counts=sql.SQL(", ").join(counts),
            where=where,
            sum=sql.SQL(" + ").join(sums),
            n=n,
        )
        rows = fetch(self.connection, statement, conditions.parameters)
        table = np.array(rows, np.float64).reshape(len(rows), 2 + len(names))
        return Ranked(table[:, 0].astype(np.int64), words.scores(table[:, 2:], table[:, 1], delta))

    def with_terms(self, groups: Sequence[tuple[str, ...]], most: int) -> tuple[int, Numbers]:
        conditions, tables = self.rows.conditions(), self.rows.tables
        every = conditions.parameter(" & ".join(f"({_any_of(terms)})" for terms in groups), "tsquery")
        statement = tables.fill(
            "select 0, count(*) from (select {having} limit {most} + 1) counted union all "
            "select 1, chunk from (select w.chunk {having} and {passes} order by w.chunk limit {most}) found",
            having=tables.fill("from {words} w where w.words @@ {every}", every=every),
            passes=conditions.of_any(self.filter, "w"),
            most=most,
        )
        rows = fetch(self.connection, statement, conditions.parameters)
        counted = next(value for kind, value in rows if kind == 0)
        return counted, np.array(sorted(value for kind, value in rows if kind == 1), np.int64)

    def headed_texts(self, numbers: Numbers) -> Mapping[int, tuple[str, ...]]:
        statement = self.rows.tables.fill(
            "select c.chunk, c.text, c.section, d.title from {chunks} c join {documents} d on d.document = c.document "
            "where c.chunk = any (%(numbers)s)"
        )
        rows = fetch(self.connection, statement, {"numbers": numbers.tolist()})
        return {number: tuple(part.decode() for part in texts if part) for number, *texts in rows}

    @property
    def _words(self) -> QueryWords:
        assert self.words is not None
        return self.words

    # -- chunks --------------------------------------------------------------------------------------------------

    def chunks_of(self, numbers: Numbers) -> Mapping[int, RetrievedChunk]:
        missing = [number for number in numbers.tolist() if number not in self.whole]
        if missing:
            statement = self.rows.select + sql.SQL(" where c.chunk = any (%(numbers)s)")
            self.whole.update({row[-1]: row for row in fetch(self.connection, statement, {"numbers": missing})})
        found = ((number, self.whole.get(number)) for number in numbers.tolist())
        return {number: self.rows.chunk(row) for number, row in found if row is not None}


def matching_words(conditions: SqlConditions, words: QueryWords) -> sql.Composable:
    """The documents with a chunk that has one of the words."""
    if not words.terms:
        return sql.SQL("(select null::int8)")
    query = conditions.parameter(_any_of(words.terms), "tsquery")
    return conditions.tables.fill("(select document from {words} where words @@ {query})", query=query)


def _any_of(terms: Sequence[str]) -> str:
    return " | ".join(map(_quoted, terms))


def _quoted(term: str) -> str:
    """A term as a `tsquery` has it."""
    return "'{}'".format(lexeme(term).replace("\\", "\\\\").replace("'", "''"))


def _set_candidates(connection: Connection, k: int) -> None:
    """Let the graph keep more candidates for many results, for this connection until it is asked for others."""
    wanted = min(max(EF_SEARCH, 2 * k), _MOST_EF)
    if _candidates.get(connection, EF_SEARCH) != wanted:
        connection.execute("select set_config('hnsw.ef_search', %s, false)", (str(wanted),))
        _candidates[connection] = wanted


_candidates: Final[MutableMapping[Connection, int]] = WeakKeyDictionary()
"""What the graph keeps in the sessions of connections, where that is not EF_SEARCH."""
