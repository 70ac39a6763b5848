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
from typing import TYPE_CHECKING, Any, overload

from aidre.engine.model import Document, EmbeddingSpace, FusionMethod, Group, HighlightLimits, Json, Mode
from aidre.engine.types import Facet
from aidre.library.collection import WAIT_SECONDS, Collection
from aidre.library.database import Database
from aidre.library.documents import Rows
from aidre.library.foreign import no_attribute, own_words
from aidre.library.view import CollectionView, OrderBy, Reranker
from aidre_client.values import Facets, Hits, SearchOrder, SearchResults, Weights

if TYPE_CHECKING:
    from aidre.engine.embedding import Endpoint
    from aidre.ingest import Summary

SCANNED = 256
"""Documents of a scan that are read in one go."""


class AsyncCollectionView:
    """As `CollectionView`, awaited; `view` is the one for threads."""

    def __init__(self, view: CollectionView) -> None:
        self.view = view

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.view!r}>"

    if not TYPE_CHECKING:  # to a type checker a name that is missing is a fault

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    @property
    def name(self) -> str:
        return self.view.name

    async def generation(self) -> int:
        """As `CollectionView.generation`."""
        return await asyncio.to_thread(lambda: self.view.generation)

    async def spaces(self) -> tuple[EmbeddingSpace, ...]:
        """As `CollectionView.spaces`."""
        return await asyncio.to_thread(lambda: self.view.spaces)

    @own_words
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
        order: SearchOrder | None = None,
        weights: Weights | None = None,
        fusion: FusionMethod | None = None,
        rerank: Reranker | None = None,
    ) -> Hits:
        """As `CollectionView.search`."""
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
            order=order,
            weights=weights,
            fusion=fusion,
            rerank=rerank,
        )

    @own_words
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
        fusion: FusionMethod | None = None,
    ) -> SearchResults:
        """As `CollectionView.search_many`."""
        return await asyncio.to_thread(
            self.view.search_many,
            queries,
            k=k,
            filter=filter,
            mode=mode,
            space=space,
            operators=operators,
            recall=recall,
            fusion=fusion,
        )

    @overload
    async def get(
        self, ids: Iterable[str], *, limit: int | None = None, offset: int = 0, vectors: bool = False
    ) -> list[Document | None]: ...

    @overload
    async def get(
        self,
        ids: None = None,
        *,
        filter: Json | None = None,
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
        vectors: bool = False,
    ) -> list[Document]: ...

    @own_words
    async def get(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: Json | None = None,
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
        vectors: bool = False,
    ) -> Any:
        """As `CollectionView.get`."""
        verb: Callable[..., Any] = self.view.get
        return await asyncio.to_thread(
            verb, ids, filter=filter, limit=limit, offset=offset, order_by=order_by, vectors=vectors
        )

    @own_words
    async def count(self, filter: Json | None = None) -> int:
        """As `CollectionView.count`."""
        return await asyncio.to_thread(self.view.count, filter)

    @own_words
    async def facets(self, *fields: str, filter: Json | None = None, limit: int | None = None) -> dict[str, Facet]:
        """As `CollectionView.facets`."""
        return await asyncio.to_thread(self.view.facets, *fields, filter=filter, limit=limit)

    @own_words
    async def suggest(self, text: str, *, limit: int = 8) -> list[str]:
        """As `CollectionView.suggest`."""
        return await asyncio.to_thread(self.view.suggest, text, limit=limit)

    async def corrected(self, text: str) -> str | None:
        """As `CollectionView.corrected`."""
        return await asyncio.to_thread(self.view.corrected, text)

    @overload
    def scan(
        self,
        filter: Json | None = None,
        *,
        vectors: bool = False,
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
    ) -> AsyncIterator[Document]: ...

    @overload
    def scan(
        self,
        filter: Json | None = None,
        *,
        fields: Sequence[str],
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
    ) -> AsyncIterator[dict[str, Any]]: ...

    @own_words
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
        """As `CollectionView.scan`."""
        verb: Callable[..., Any] = self.view.scan
        found = await asyncio.to_thread(
            verb, filter, fields=fields, vectors=vectors, limit=limit, offset=offset, order_by=order_by
        )
        while batch := await asyncio.to_thread(lambda: list(islice(found, SCANNED))):
            for one in batch:
                yield one


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
