"""Collections in PostgreSQL with pgvector: a `Source` (engine/ports.py). A store is one schema of a database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from psycopg import sql

from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import make_folder
from aidre_postgres.catalog import read_catalog, writer_lock
from aidre_postgres.connections import Server
from aidre_postgres.reader import PostgresReader
from aidre_postgres.tables import FORMAT, Tables
from aidre_postgres.writer import PostgresWriter
from aidre_rows import Declared, RowsSource, collection_missing, decode_state


class PostgresSource(RowsSource):
    """A `Source` of the collections in one schema of a database."""

    engine = "postgres"

    def __init__(self, path: Path, uri: str) -> None:
        super().__init__(path, uri)
        self._server = Server(uri)

    def collections(self) -> list[str]:
        return [name for (name,) in self._catalog(sql.SQL("name"), None)]

    def _token(self, collection: str) -> str | None:
        return next((str(token) for (token,) in self._catalog(sql.SQL("token"), collection)), None)

    def _newest(self, collection: str) -> PostgresReader | None:
        for number, encoded in self._catalog(sql.SQL("number, state"), collection):
            return PostgresReader(Tables(self._server, number), decode_state(collection, encoded, FORMAT))
        return None

    def _writer(
        self, collection: str, spaces: Sequence[EmbeddingSpace] | None, declared: Declared, wait: float
    ) -> PostgresWriter:
        make_folder(self.path)
        return PostgresWriter(self._server, collection, spaces, declared, wait)

    def drop(self, collection: str, *, wait: float = 0.0, purge: bool = False) -> None:
        with writer_lock(self._server, collection, wait) as connection, self._server.faults():
            found = self._catalog(sql.SQL("number, state"), collection)
            if not found:
                raise collection_missing(collection)
            [(number, encoded)] = found
            with connection.transaction():
                Tables(self._server, number).drop(connection, decode_state(collection, encoded, FORMAT))
                statement = sql.SQL("delete from {} where number = %s").format(self._server.name("collections"))
                connection.execute(statement, (number,))

    def _catalog(self, columns: sql.Composable, collection: str | None) -> list[tuple[Any, ...]]:
        """Columns of one collection or of all; none where nothing was ever written."""
        return self._server.read(lambda connection: read_catalog(connection, self._server, columns, collection))
