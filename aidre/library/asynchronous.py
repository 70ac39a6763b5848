"""The library for asynchronous programs: the same verbs, awaited; each runs in a thread.

The engine is synchronous and releases the interpreter's lock while it scans, so that an event loop stays free.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aidre.engine.model import EmbeddingSpace, Group, HighlightLimits, Json, Mode
from aidre.engine.types import Facet
from aidre.library.collection import WAIT_SECONDS, Collection, CollectionView, OrderBy, Reranker
from aidre.library.database import Database
from aidre.library.documents import Rows
from aidre_client.values import Facets, Hits, SearchResults

if TYPE_CHECKING:
    from aidre.engine.embedding import Endpoint
    from aidre.ingest import Summary

SCANNED = 256
"""Documents of a scan that are read in one go."""


class AsyncCollectionView:
    """One state of a collection, read-only. `view` is the same for threads."""

    def __init__(self, view: CollectionView) -> None:
        self.view = view

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.view!r}>"

    @property
    def name(self) -> str:
        return self.view.name

    async def search(
        self,
        text: str | None = None,
        *,
        vector: Any = None,
        k: int = 10,
        offset: int = 0,
        filter: Json | None = None,
        mode: Mode | None = None,
        space: str | None = None,
        min_score: float | None = None,
        facets: Facets | None = None,
        highlight: bool | HighlightLimits = False,
        correct: bool = False,
        operators: bool = True,
        group: Group = "chunk",
        collapse: bool = True,
        recall: float | None = None,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        rerank: Reranker | None = None,
    ) -> Hits:
        """As `Collection.search`."""
        return await asyncio.to_thread(
            self.view.search,
            text,
            vector=vector,
            k=k,
            offset=offset,
            filter=filter,
            mode=mode,
            space=space,
            min_score=min_score,
            facets=facets,
            highlight=highlight,
            correct=correct,
            operators=operators,
            group=group,
            collapse=collapse,
            recall=recall,
            weights=weights,
            rerank=rerank,
        )

    async def search_many(
        self,
        queries: Any,
        *,
        k: int = 10,
        filter: Json | None = None,
        mode: Mode | None = None,
        space: str | None = None,
        operators: bool = True,
        recall: float | None = None,
    ) -> SearchResults:
        """As `Collection.search_many`."""
        return await asyncio.to_thread(
            self.view.search_many,
            queries,
            k=k,
            filter=filter,
            mode=mode,
            space=space,
            operators=operators,
            recall=recall,
        )

    async def get(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: Json | None = None,
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
        vectors: bool = False,
    ) -> list[Any]:
        """As `Collection.get`."""
        get: Callable[..., list[Any]] = self.view.get
        return await asyncio.to_thread(
            get, ids, filter=filter, limit=limit, offset=offset, order_by=order_by, vectors=vectors
        )

    async def count(self, filter: Json | None = None) -> int:
        """As `Collection.count`; without a filter all documents."""
        return await asyncio.to_thread(self.view.count, filter)

    async def facets(self, *fields: str, filter: Json | None = None, limit: int | None = None) -> dict[str, Facet]:
        """As `Collection.facets`."""
        return await asyncio.to_thread(self.view.facets, *fields, filter=filter, limit=limit)

    async def suggest(self, text: str, *, limit: int = 8) -> list[str]:
        """As `Collection.suggest`."""
        return await asyncio.to_thread(self.view.suggest, text, limit=limit)

    async def corrected(self, text: str) -> str | None:
        """As `Collection.corrected`."""
        return await asyncio.to_thread(self.view.corrected, text)

    async def scan(
        self,
        filter: Json | None = None,
        *,
        fields: Sequence[str] | None = None,
        vectors: bool = False,
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
    ) -> AsyncIterator[Any]:
        """As `Collection.scan`, for `async for`."""
        scan: Callable[..., Iterator[Any]] = self.view.scan
        found = await asyncio.to_thread(
            scan, filter, fields=fields, vectors=vectors, limit=limit, offset=offset, order_by=order_by
        )
        while batch := await asyncio.to_thread(lambda: list(islice(found, SCANNED))):
            for one in batch:
                yield one


class AsyncCollection(AsyncCollectionView):
    """A collection of a store. `collection` is the same for threads, which also has a writer for many small writes."""

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

    async def add(self, rows: Rows, *, vectors: Any = None) -> list[str]:
        """As `Collection.add`. A task that is cancelled leaves the write to its end: it is whole or not there."""
        return await asyncio.to_thread(self.collection.add, rows, vectors=vectors)

    async def upsert(self, rows: Rows, *, vectors: Any = None) -> list[str]:
        """As `Collection.upsert`."""
        return await asyncio.to_thread(self.collection.upsert, rows, vectors=vectors)

    async def delete(
        self, ids: Iterable[str] | None = None, *, filter: Json | None = None, allow_unknown: bool = False
    ) -> int:
        """As `Collection.delete`."""
        return await asyncio.to_thread(self.collection.delete, ids, filter=filter, allow_unknown=allow_unknown)

    async def patch(self, changes: Mapping[str, Mapping[str, Any]]) -> int:
        """As `Collection.patch`."""
        return await asyncio.to_thread(self.collection.patch, changes)

    async def ingest(self, *sources: str | Path, mirror: bool = False, **options: Any) -> Summary:
        """As `Collection.ingest`."""
        return await asyncio.to_thread(self.collection.ingest, *sources, mirror=mirror, **options)


class AsyncDatabase:
    """A store; also an asynchronous context manager that closes it. `database` is the same for threads."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def __repr__(self) -> str:
        return f"<AsyncDatabase of {self.database!r}>"

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """As `Database.close`; it waits for nothing."""
        self.database.close()

    async def collections(self) -> list[str]:
        """As `Database.collections`."""
        return await asyncio.to_thread(self.database.collections)

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
        """As `Database.collection`; it reads nothing. `embed` is called in a thread."""
        collection = self.database.collection(name, space=space, embed=embed, endpoint=endpoint, dates=dates, wait=wait)
        return AsyncCollection(collection)

    async def drop(self, name: str, *, purge: bool = False, wait: float = WAIT_SECONDS) -> None:
        """As `Database.drop`."""
        await asyncio.to_thread(self.database.drop, name, purge=purge, wait=wait)

    async def backup(self, target: str | Path) -> None:
        """As `Database.backup`."""
        await asyncio.to_thread(self.database.backup, target)
