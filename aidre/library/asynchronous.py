"""The library for asynchronous programs: its verbs, awaited, with the parameters that they have there.

Each runs in a thread: the engine releases the interpreter's lock while it scans, so that an event loop stays free. A
task that is cancelled leaves a write to its end: it is whole or not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from aidre.engine.model import EmbeddingSpace
from aidre.library.collection import Collection
from aidre.library.collection_view import CollectionView
from aidre.library.database import Database
from aidre.library.foreign import no_attribute

if TYPE_CHECKING:
    from aidre.ingest import Summary

P = ParamSpec("P")
T = TypeVar("T")

SCANNED = 256
"""Documents of a scan that are read in one go."""


def _awaited(verb: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A verb of the class for threads as one of its asynchronous counterpart."""

    @wraps(verb)
    async def awaited(self: Any, /, *args: P.args, **named: P.kwargs) -> T:
        return await asyncio.to_thread(verb, self._verbs, *args, **named)

    awaited.__doc__ = f"As `{verb.__qualname__}`."
    return awaited


def _streamed(verb: Callable[Concatenate[Any, P], Iterator[T]]) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    """A verb whose results are read as they are asked for."""

    @wraps(verb)
    async def streamed(self: Any, /, *args: P.args, **named: P.kwargs) -> AsyncIterator[T]:
        found = await asyncio.to_thread(verb, self._verbs, *args, **named)
        while batch := await asyncio.to_thread(lambda: list(islice(found, SCANNED))):
            for item in batch:
                yield item

    streamed.__doc__ = f"As `{verb.__qualname__}`."
    return streamed


class _Awaited:
    """What the classes share; `_verbs` has the verbs for threads."""

    def __init__(self, verbs: Any) -> None:
        self._verbs = verbs

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._verbs!r}>"

    if not TYPE_CHECKING:  # to a type checker a name that is missing is a fault

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)


class AsyncCollectionView(_Awaited):
    """As `CollectionView`, awaited; `view` is the one for threads."""

    def __init__(self, view: CollectionView) -> None:
        super().__init__(view)
        self.view = view

    @property
    def name(self) -> str:
        return self.view.name

    async def generation(self) -> int:
        """As `CollectionView.generation`."""
        return await asyncio.to_thread(lambda: self.view.generation)

    async def spaces(self) -> tuple[EmbeddingSpace, ...]:
        """As `CollectionView.spaces`."""
        return await asyncio.to_thread(lambda: self.view.spaces)

    search = _awaited(CollectionView.search)
    search_many = _awaited(CollectionView.search_many)
    get = _awaited(CollectionView.get)
    count = _awaited(CollectionView.count)
    facets = _awaited(CollectionView.facets)
    suggest = _awaited(CollectionView.suggest)
    corrected = _awaited(CollectionView.corrected)
    scan = _streamed(CollectionView.scan)


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

    rename = _awaited(Collection.rename)
    add = _awaited(Collection.add)
    adopt = _awaited(Collection.adopt)
    upsert = _awaited(Collection.upsert)
    delete = _awaited(Collection.delete)
    patch = _awaited(Collection.patch)

    async def ingest(self, *sources: str | Path, mirror: bool = False, **options: Any) -> Summary:
        """As `Collection.ingest`."""
        return await asyncio.to_thread(self.collection.ingest, *sources, mirror=mirror, **options)


def _opened(
    collection: Callable[Concatenate[Database, P], Collection],
) -> Callable[Concatenate[AsyncDatabase, P], AsyncCollection]:
    """`Database.collection` for asynchronous programs: it reads nothing, so it is not awaited."""

    @wraps(collection)
    def opened(self: AsyncDatabase, /, *args: P.args, **named: P.kwargs) -> AsyncCollection:
        return AsyncCollection(collection(self.database, *args, **named))

    opened.__doc__ = "As `Database.collection`."
    return opened


class AsyncDatabase(_Awaited):
    """As `Database`, awaited; `database` is the one for threads."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.database = database

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

    collection = _opened(Database.collection)
    collections = _awaited(Database.collections)
    drop = _awaited(Database.drop)
    aliases = _awaited(Database.aliases)
    alias = _awaited(Database.alias)
    backup = _awaited(Database.backup)
