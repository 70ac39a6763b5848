"""Collections in Milvus: a `Source` (engine/ports.py). A store is what begins with its name in a database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aidre.engine.model import EmbeddingSpace
from aidre_milvus.catalog import MilvusCatalog
from aidre_milvus.reader import MilvusReader
from aidre_milvus.server import MilvusDatabase
from aidre_milvus.tables import MilvusTables
from aidre_milvus.writer import MilvusWriter, writer_lock
from aidre_rows import Declared, RowsSource, collection_missing


class MilvusSource(RowsSource):
    """A `Source` of the collections of one store on a server."""

    engine = "milvus"

    def __init__(self, path: Path, uri: str) -> None:
        super().__init__(path, uri)
        self._server = MilvusDatabase(uri)
        self._catalog = MilvusCatalog(self._server)

    def collections(self) -> list[str]:
        return self._catalog.names()

    def _token(self, collection: str) -> str | None:
        return self._catalog.token(collection)

    def _newest(self, collection: str) -> MilvusReader | None:
        commit = self._catalog.newest(collection)
        return None if commit is None else MilvusReader(self._server, commit)

    def _writer(
        self, collection: str, spaces: Sequence[EmbeddingSpace] | None, declared: Declared, wait: float
    ) -> MilvusWriter:
        return MilvusWriter(self._server, writer_lock(self.path, collection, wait), collection, spaces, declared)

    def drop(self, collection: str, *, wait: float = 0.0, purge: bool = False) -> None:
        with writer_lock(self.path, collection, wait):
            commit = self._catalog.newest(collection, strong=True)
            if commit is None:
                raise collection_missing(collection)
            self._catalog.remove(collection)
            for name in MilvusTables(self._server, collection, commit.state.lineage).all():
                self._server.call("drop_collection", name)
