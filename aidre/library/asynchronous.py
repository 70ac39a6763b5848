"""The library for asynchronous programs: its verbs, awaited. `make twins` writes it.

Each runs in a thread: the engine releases the interpreter's lock while it scans, so that an event loop stays free. A
task that is cancelled leaves a write to its end: it is whole or not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aidre.engine.model import EmbeddingSpace, Json
from aidre.library.collection import WAIT_SECONDS, Collection
from aidre.library.database import Database
from aidre.library.documents import Rows
from aidre.library.foreign import no_attribute, own_words

if TYPE_CHECKING:
    from aidre.engine.embedding import Endpoint
    from aidre.ingest import Summary

SCANNED = 256
"""Documents of a scan that are read in one go."""


class AsyncCollection(AsyncCollectionView):
    """As `Collection`, awaited; `collection` is the one for threads."""

    def __init__(self, collection: Collection) -> None:
        super().__init__(collection)
        self.collection = collection

    async def at(self, generation: int) -> AsyncCollectionView:
        """As `Collection.at`."""
        return AsyncCollectionView(await asyncio.to_thread(self.collection.at, generation))

    async def copy(self, name: str) -> AsyncCollection:
        """As `Collection.copy`."""
        return AsyncCollection(await asyncio.to_thread(self.collection.copy, name))

    async def rename(self, name: str) -> None:
        """As `Collection.rename`."""
        await asyncio.to_thread(self.collection.rename, name)

    @own_words
    async def add(self, rows: Rows, *, vectors: Any = None) -> list[str]:
        """As `Collection.add`."""
        return await asyncio.to_thread(self.collection.add, rows, vectors=vectors)

    async def adopt(self, source: str | Path) -> list[str]:
        """As `Collection.adopt`."""
        return await asyncio.to_thread(self.collection.adopt, source)

    @own_words
    async def upsert(self, rows: Rows, *, vectors: Any = None) -> list[str]:
        """As `Collection.upsert`."""
        return await asyncio.to_thread(self.collection.upsert, rows, vectors=vectors)

    @own_words
    async def delete(
        self, ids: Iterable[str] | None = None, *, filter: Json | None = None, allow_unknown: bool = False
    ) -> int:
        """As `Collection.delete`."""
        return await asyncio.to_thread(self.collection.delete, ids, filter=filter, allow_unknown=allow_unknown)

    @own_words
    async def patch(self, changes: Mapping[str, Mapping[str, Any]]) -> int:
        """As `Collection.patch`."""
        return await asyncio.to_thread(self.collection.patch, changes)

    async def ingest(self, *sources: str | Path, mirror: bool = False, **options: Any) -> Summary:
        """As `Collection.ingest`."""
        return await asyncio.to_thread(self.collection.ingest, *sources, mirror=mirror, **options)


class AsyncDatabase:
    """As `Database`, awaited; `database` is the one for threads."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.database!r}>"

    if not TYPE_CHECKING:  # to a type checker a name that is missing is a fault

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """As `Database.path`."""
        return self.database.path

    def close(self) -> None:
        """As `Database.close`."""
        self.database.close()

    async def collections(self) -> list[str]:
        """As `Database.collections`."""
        return await asyncio.to_thread(self.database.collections)

    @own_words
    def collection(
        self,
        name: str,
        *,
        space: EmbeddingSpace | Sequence[EmbeddingSpace] | None = None,
        embed: Callable[[list[str]], Any] | None = None,
        endpoint: str | Endpoint | None = None,
        dates: Sequence[str] = (),
        wait: float = WAIT_SECONDS,
    ) -> AsyncCollection:
        """As `Database.collection`."""
        return AsyncCollection(
            self.database.collection(name, space=space, embed=embed, endpoint=endpoint, dates=dates, wait=wait)
        )

    async def drop(self, name: str, *, purge: bool = False, wait: float = WAIT_SECONDS) -> None:
        """As `Database.drop`."""
        await asyncio.to_thread(self.database.drop, name, purge=purge, wait=wait)

    async def aliases(self) -> dict[str, str]:
        """As `Database.aliases`."""
        return await asyncio.to_thread(self.database.aliases)

    async def alias(self, name: str, collection: str | None) -> None:
        """As `Database.alias`."""
        await asyncio.to_thread(self.database.alias, name, collection)

    async def backup(self, target: str | Path) -> None:
        """As `Database.backup`."""
        await asyncio.to_thread(self.database.backup, target)
