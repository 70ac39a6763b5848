"""Collections in Milvus: a `Source` (engine/ports.py). A store is what begins with its name in a database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from aidre.engine.errors import BackendUnavailable
from aidre.engine.model import EmbeddingSpace, Visibility
from aidre.engine.ports import EmbedQueries, Reader
from aidre.engine.storage import check_collection_name
from aidre_milvus.catalog import Catalog
from aidre_milvus.reader import MilvusReader
from aidre_milvus.server import Server
from aidre_milvus.tables import Tables
from aidre_milvus.writer import MilvusWriter, writer_lock
from aidre_rows import Declared, collection_missing, unsupported


class MilvusSource:
    """A `Source` of the collections of one store on a server."""

    def __init__(self, path: Path, uri: str) -> None:
        self.path = path.absolute()
        self._uri = uri
        self._server = Server(uri)
        self._catalog = Catalog(self._server)

    def __reduce__(self) -> tuple[Any, ...]:
        return MilvusSource, (self.path, self._uri)

    def collections(self) -> list[str]:
        return self._catalog.names()

    def mark(self, collection: str) -> str | None:
        try:
            return self._catalog.token(collection)
        except BackendUnavailable:
            return None

    def open(self, collection: str, *, previous: Reader | None = None, generation: int | None = None) -> MilvusReader:
        if generation is not None:
            raise unsupported("milvus", "generations")
        commit = self._catalog.newest(collection)
        if commit is None:
            raise collection_missing(collection)
        return MilvusReader(self._server, commit)

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
    ) -> MilvusWriter:
        """The writer of a collection, as `Store.writer` describes it. BackendUnavailable."""
        check_collection_name(collection)
        if spaces is None and self._catalog.newest(collection) is None:
            raise collection_missing(collection)
        declared = Declared(description, visibility, tuple(sorted(dates)), runtimes or {})
        return MilvusWriter(self._server, writer_lock(self.path, collection, wait), collection, spaces, declared)

    def drop(self, collection: str, *, wait: float = 0.0, purge: bool = False) -> None:
        with writer_lock(self.path, collection, wait):
            commit = self._catalog.newest(collection, strong=True)
            if commit is None:
                raise collection_missing(collection)
            self._catalog.remove(collection)
            for name in Tables(self._server, collection, commit.state.lineage).all():
                self._server.call("drop_collection", name)
