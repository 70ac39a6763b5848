"""What the sources of engines elsewhere share: no generations, and a writer that is given what its caller declares."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from aidre.engine.errors import BackendUnavailable
from aidre.engine.model import Alias, EmbeddingSpace, Visibility
from aidre.engine.ports import EmbedQueries, Reader
from aidre.engine.storage import check_collection_name
from aidre_rows.lacking import unsupported
from aidre_rows.sink import Declared, PendingSink, collection_missing


class RowsSource:
    """The members of a `Source` that do not depend on the engine."""

    engine: str

    def __init__(self, path: Path, uri: str) -> None:
        self.path, self._uri = path.absolute(), uri

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self._uri)

    def _token(self, collection: str) -> str | None:
        """A value that differs after every commit; None where there is no collection. BackendUnavailable."""
        raise NotImplementedError

    def _newest(self, collection: str) -> Reader | None:
        raise NotImplementedError

    def _writer(
        self, collection: str, spaces: Sequence[EmbeddingSpace] | None, declared: Declared, wait: float
    ) -> PendingSink:
        raise NotImplementedError

    def aliases(self) -> Mapping[str, Alias]:
        return {}

    def point_alias(self, name: str, collection: str) -> None:
        raise unsupported(self.engine, "aliases")

    def remove_alias(self, name: str) -> None:
        raise unsupported(self.engine, "aliases")

    def mark(self, collection: str) -> str | None:
        try:
            return self._token(collection)
        except BackendUnavailable:
            return None

    def open(self, collection: str, *, previous: Reader | None = None, generation: int | None = None) -> Reader:
        if generation is not None:
            raise unsupported(self.engine, "generations")
        reader = self._newest(collection)
        if reader is None:
            raise collection_missing(collection)
        return reader

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
    ) -> PendingSink:
        """The writer of a collection, as `Store.writer` describes it. BackendUnavailable."""
        check_collection_name(collection)
        if spaces is None and self._token(collection) is None:
            raise collection_missing(collection)
        declared = Declared(description, visibility, tuple(sorted(dates)), runtimes or {})
        return self._writer(collection, spaces, declared, wait)
