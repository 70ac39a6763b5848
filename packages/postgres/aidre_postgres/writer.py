"""The one writer of a collection in PostgreSQL: a `Sink` (engine/ports.py). A commit is one transaction.

It has a connection of its own, which holds an advisory lock of the database for its whole life. A commit that fails
leaves everything pending. Where the connection was lost, the next call makes another one, takes the lock again and
looks whether the commit took place after all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

import psycopg
from psycopg import sql

from aidre.engine.errors import StoreLocked
from aidre.engine.model import EmbeddingSpace
from aidre.engine.ports import Recompute
from aidre.engine.storage import to_utf8, upkeep
from aidre_postgres.catalog import make_catalog, publish, read_state, writer_lock
from aidre_postgres.columns import types_of, with_new_columns
from aidre_postgres.connections import PostgresDatabase, fetch
from aidre_postgres.migrations import migrated
from aidre_postgres.reader import PostgresReader
from aidre_postgres.stored import PostgresRows
from aidre_postgres.tables import (
    FORMAT,
    VECTOR_COLUMNS,
    PostgresTables,
    copy_documents,
    copy_rows,
    pack_vector,
    to_uuid,
)
from aidre_rows import CollectionState, Declared, PendingSink, StoredSpace, pending_vectors

_MIN_GRAPH_ROWS: Final = 5_000
"""Chunks from which a graph is built: to compare fewer takes no longer."""

_NEGLECTED_SHARE: Final = 0.2
"""Of the chunks: fewer that were written since PostgreSQL counted them change no plan. It counts by itself, later."""

_REEMBED_ROWS: Final = 256


class PostgresWriter(PendingSink):
    """A `Sink` and context manager, made by `PostgresSource.writer`."""

    format = FORMAT

    def __init__(
        self,
        server: PostgresDatabase,
        collection: str,
        spaces: Sequence[EmbeddingSpace] | None,
        declared: Declared,
        wait: float,
    ) -> None:
        self._server = server
        self._lock = writer_lock(server, collection, wait)
        self._connection = self._lock.__enter__()
        try:
            with server.faults():
                make_catalog(self._connection, server)
                found = read_state(self._connection, server, collection)
                if found is not None:
                    found = migrated(self._connection, server, *found)
            self._number = None if found is None else found[0]
            super().__init__(collection, None if found is None else found[1], spaces, declared)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        self._reader: PostgresReader | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._connection.closed:
                self._keep_up()
        finally:
            self._lock.__exit__(None, None, None)
            with suppress(psycopg.Error):
                self._connection.close()

    # -- what is stored ------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> PostgresReader | None:
        if self._number is None:
            return None
        if self._reader is None or self._reader.generation != self._state.generation:
            self._reader = PostgresReader(self._tables, self._state)
        return self._reader

    # -- commits -------------------------------------------------------------------------------------------------

    def compact(self) -> None:
        """Commit, and let PostgreSQL use the room of deleted rows again."""
        self.commit()
        self._vacuum("vacuum (analyze) {}")

    def purge(self) -> None:
        """Commit, and rewrite the tables without deleted rows. Backups and the log of PostgreSQL still have them."""
        self.commit()
        self._vacuum("vacuum (full, analyze) {}")

    def _reembed(self, recompute: Mapping[str, Recompute]) -> None:
        self._reconnect()
        renewed, state = self._renewed()
        with self._server.faults(), self._connection.transaction():
            self._lock_row()
            for old, new in renewed:
                self._tables.make_vectors(self._connection, new.space, new.table, state.columns)
                self._fill(new, recompute[new.space.id])
                self._tables.index_fields(self._connection, replace(state, spaces=(new,)), state.columns)
                self._connection.execute(sql.SQL("drop table {}").format(self._tables.vectors(old.table)))
            self._publish(state, self._tables.number)
        self._state, self._sent = state, None

    def _fill(self, made: StoredSpace, recompute: Recompute) -> None:
        """The vectors of all chunks in the table of a space, in batches."""
        numbered = iter(()) if self.snapshot is None else self.snapshot.numbered()
        while block := [pair for _, pair in zip(range(_REEMBED_ROWS), numbered, strict=False)]:
            encoded, keys = recompute([chunk for _, chunk in block])
            rows = (
                (number, chunk.document_key, pack_vector(vector.codes), vector.norm, vector.key)
                for (number, chunk), vector in zip(block, pending_vectors(encoded, keys), strict=True)
            )
            copy_rows(self._connection, self._tables.vectors(made.table), VECTOR_COLUMNS, rows)
        if self._state.columns:
            statement = self._tables.fill(
                "update {vectors} v set ({names}) = (select {names} from {documents} d where d.document = v.document)",
                names=sql.SQL(", ".join(types_of(self._state.columns))),
                vectors=self._tables.vectors(made.table),
            )
            self._connection.execute(statement)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _tables(self) -> PostgresTables:
        return PostgresTables(self._server, self._number or 0)

    @property
    def _committed(self) -> PostgresRows | None:
        return None if self._number is None else PostgresRows(self._tables, self._state.spaces, self._fetch)

    def _fetch(self, statement: sql.Composable, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        self._reconnect()
        with self._server.faults():
            return fetch(self._connection, statement, parameters)

    def _reconnect(self) -> None:
        """Take the lock again where the connection was lost."""
        if self._connection.closed:
            self._lock.__exit__(None, None, None)
            self._lock = writer_lock(self._server, self._name, 0.0)
            self._connection = self._lock.__enter__()

    def _was_committed(self) -> bool:
        if self._sent is None:
            return False
        self._reconnect()
        with self._server.faults():
            found = read_state(self._connection, self._server, self._name)
        if found is None or found[1].token != self._sent.token:
            return False
        self._number, self._state = found
        return True

    def _write(self) -> None:
        """In one transaction."""
        self._reconnect()
        with self._server.faults(), self._connection.transaction():
            state = self._state
            if self._number is None:
                number = self._insert()
                PostgresTables(self._server, number).make(self._connection, state)
            else:
                number = self._number
                self._lock_row()
                state = self._without_deleted(state)
            documents, tables = list(self._pending.documents.values()), PostgresTables(self._server, number)
            declared = replace(state, dates=self._declared.dates or state.dates)
            columns = with_new_columns(declared, [document.rows.fields for document in documents])
            if columns != state.columns:  # searches wait until the end of this commit: PostgreSQL locks the tables
                tables.add_columns(self._connection, state, columns[len(state.columns) :])
            state = copy_documents(self._connection, tables, replace(state, columns=columns), documents)
            state = self._succeeded_by_pending(state, state.next_row)
            self._publish(state, number)
        self._number, self._state = number, state

    def _insert(self) -> int:
        statement = sql.SQL(
            "insert into {} (name, format, lineage, generation, updated_at, token, state) "
            "values (%s, 0, '', 0, '', '', '') returning number"
        ).format(self._server.name("collections"))
        [(number,)] = self._connection.execute(statement, (self._name,)).fetchall()
        return int(number)

    def _lock_row(self) -> None:
        """Nobody else may have changed the collection: the lock was lost and taken again where somebody has."""
        statement = sql.SQL("select token from {} where number = %s for update").format(
            self._server.name("collections")
        )
        found = self._connection.execute(statement, (self._number,)).fetchall()
        if found != [(self._state.token,)]:
            raise StoreLocked(
                f"collection {self._name!r} was written by another process while the connection was lost: start again",
                collection=self._name,
            )

    def _without_deleted(self, state: CollectionState) -> CollectionState:
        """Delete the stored rows of replaced and deleted documents."""
        digests = [to_uuid(to_utf8(document_id)) for document_id in self._pending.deleted]
        spaces = [
            self._tables.fill(
                "v{number} as (delete from {vectors} where document in (select document from gone)), ",
                number=stored.table,
                vectors=self._tables.vectors(stored.table),
            )
            for stored in state.spaces
        ]
        statement = self._tables.fill(
            "with gone as (delete from {documents} where digest = any (%s) returning document, chunk_count, url), "
            "c as (delete from {chunks} where document in (select document from gone)), "
            "f as (delete from {fields} where document in (select document from gone)), {spaces}"
            "w as (delete from {words} where document in (select document from gone) "
            "returning length, language, words), "
            "n as (select lexeme, count(*) chunks from w, unnest(w.words) group by lexeme), "
            "t as (update {terms} old set chunks = old.chunks - n.chunks from n where old.term = n.lexeme), "
            "l as (select language, count(*) number from w group by language) "
            "select count(*), coalesce(sum(chunk_count), 0)::int8, count(*) - count(url), "
            "(select coalesce(sum(length), 0)::int8 from w), "
            "(select coalesce(jsonb_object_agg(language, number), '{{}}') from l) from gone",
            spaces=sql.SQL("").join(spaces),
        )
        rows = self._connection.execute(statement, (digests,)).fetchall()
        [(documents, chunks, without_url, terms, languages)] = rows
        left = {tag: number - languages.get(tag, 0) for tag, number in state.languages.items()}
        state = replace(state, languages={tag: number for tag, number in left.items() if number})
        return state.less(documents=documents, chunks=chunks, documents_without_url=without_url, terms=terms)

    def _publish(self, state: CollectionState, number: int) -> None:
        self._sent = state
        publish(self._connection, self._server, number, state)

    def _keep_up(self) -> None:
        """Build the graphs that are due, and count again where so much was written that the plans of searches would no
        longer fit. Errors are logged: what was written is stored."""
        if self._number is None or self._state.chunks < _MIN_GRAPH_ROWS:
            return
        with upkeep(f"{self._name} at {self._server.address}", "graphs were not built"), self._server.faults():
            for stored in self._state.spaces:
                self._tables.make_index(self._connection, stored.space, stored.table)
            counted = self._tables.counted_chunks(self._connection)
            if abs(self._state.chunks - counted) > _NEGLECTED_SHARE * self._state.chunks:
                self._connection.execute(sql.SQL("analyze {}").format(self._tables.all(self._state)))

    def _vacuum(self, statement: str) -> None:
        if self._number is None:
            return
        self._reconnect()
        with self._server.faults():
            self._connection.execute(sql.SQL(statement).format(self._tables.all(self._state)))
