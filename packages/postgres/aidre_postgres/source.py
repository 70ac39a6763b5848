"""Collections in PostgreSQL with pgvector: a `Source` (engine/ports.py). A store is one schema of a database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from psycopg import sql

from aidre.engine.errors import BackendUnavailable
from aidre.engine.model import EmbeddingSpace, Visibility
from aidre.engine.ports import EmbedQueries, Reader
from aidre.engine.storage import check_collection_name, make_folder
from aidre_postgres.catalog import read_catalog, writer_lock
from aidre_postgres.connections import Server
from aidre_postgres.reader import PostgresReader
from aidre_postgres.tables import Tables
from aidre_postgres.writer import PostgresWriter
from aidre_rows import Declared, collection_missing, decode_state, unsupported


class PostgresSource:
    """A `Source` of the collections in one schema of a database."""

    def __init__(self, path: Path, uri: str) -> None:
        self.path = path.absolute()
        self._uri = uri
        self._server = Server(uri)

    def __reduce__(self) -> tuple[Any, ...]:
        return PostgresSource, (self.path, self._uri)

    def collections(self) -> list[str]:
        return [name for (name,) in self._catalog(sql.SQL("name"), None)]

    def mark(self, collection: str) -> str | None:
        try:
            return next((str(token) for (token,) in self._catalog(sql.SQL("token"), collection)), None)
        except BackendUnavailable:
            return None

    def open(self, collection: str, *, previous: Reader | None = None, generation: int | None = None) -> PostgresReader:
        if generation is not None:
            raise unsupported("postgres", "generations")
        for number, encoded in self._catalog(sql.SQL("number, state"), collection):
            return PostgresReader(Tables(self._server, number), decode_state(collection, encoded))
        raise collection_missing(collection)

    def pin(self, collection: str, generation: int) -> None:
        pass

    def writer(
        self,
        collection: str,
        *,
        spaces: Sequence[EmbeddingSpace] | None,
        description: str | None = None,
        visibility: Visibility | None = None,
        dates: Collection[str] = (),
        runtimes: dict[str, str] | None = None,
        models: Mapping[str, EmbedQueries] | None = None,
        previous: Reader | None = None,
        wait: float = 0.0,
    ) -> PostgresWriter:
        """The writer of a collection, as `Store.writer` describes it. BackendUnavailable."""
        check_collection_name(collection)
        make_folder(self.path)
        if spaces is None and not self._catalog(sql.SQL("name"), collection):
            raise collection_missing(collection)
        declared = Declared(description, visibility, tuple(sorted(dates)), runtimes or {})
        return PostgresWriter(self._server, collection, spaces, declared, wait)

    def drop(self, collection: str, *, wait: float = 0.0, purge: bool = False) -> None:
        with writer_lock(self._server, collection, wait) as connection, self._server.faults():
            found = self._catalog(sql.SQL("number, state"), collection)
            if not found:
                raise collection_missing(collection)
            [(number, encoded)] = found
            with connection.transaction():
                Tables(self._server, number).drop(connection, decode_state(collection, encoded))
                statement = sql.SQL("delete from {} where number = %s").format(self._server.name("collections"))
                connection.execute(statement, (number,))

    def _catalog(self, columns: sql.Composable, collection: str | None) -> list[tuple[Any, ...]]:
        """Columns of one collection or of all; none where nothing was ever written."""
        return self._server.read(lambda connection: read_catalog(connection, self._server, columns, collection))
