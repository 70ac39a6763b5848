"""Collections in PostgreSQL with pgvector: a `Source` (engine/ports.py). A store is one schema of a database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from psycopg import sql

from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import make_folder
from aidre_postgres.catalog import read_catalog, read_state, writer_lock
from aidre_postgres.connections import PostgresDatabase
from aidre_postgres.reader import PostgresReader
from aidre_postgres.tables import PostgresTables
from aidre_postgres.writer import PostgresWriter
from aidre_rows import Declared, RowsSource, collection_missing


class PostgresSource(RowsSource):
    """A `Source` of the collections in one schema of a database."""

    engine = "postgres"

    def __init__(self, path: Path, uri: str) -> None:
        super().__init__(path, uri)
        self._server = PostgresDatabase(uri)

    def collections(self) -> list[str]:
        return [
            name for (name,) in self._server.read(lambda connection: read_catalog(connection, self._server, "name"))
        ]

    def _token(self, collection: str) -> str | None:
        found = self._server.read(lambda connection: read_catalog(connection, self._server, "token", collection))
        return next((str(token) for (token,) in found), None)

    def _newest(self, collection: str) -> PostgresReader | None:
        found = self._server.read(lambda connection: read_state(connection, self._server, collection))
        return None if found is None else PostgresReader(PostgresTables(self._server, found[0]), found[1])

    def _writer(
        self, collection: str, spaces: Sequence[EmbeddingSpace] | None, declared: Declared, wait: float
    ) -> PostgresWriter:
        make_folder(self.path)
        return PostgresWriter(self._server, collection, spaces, declared, wait)

    def drop(self, collection: str, *, wait: float = 0.0, purge: bool = False) -> None:
        with writer_lock(self._server, collection, wait) as connection, self._server.faults():
            found = read_state(connection, self._server, collection)
            if found is None:
                raise collection_missing(collection)
            number, state = found
            with connection.transaction():
                PostgresTables(self._server, number).drop(connection, state)
                statement = sql.SQL("delete from {} where number = %s").format(self._server.name("collections"))
                connection.execute(statement, (number,))
