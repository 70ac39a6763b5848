"""Opens a store for a program, with the configuration of its server where one is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from aidre.library.arguments import to_path, to_store_path
from aidre.library.asynchronous import AsyncDatabase
from aidre.library.database import Database
from aidre.library.spaces import Configured


def open(path: str | Path, *, uri: str | None = None, config: str | Path | None = None) -> Database:
    """Open the store in a folder, which need not exist yet; ":memory:" is a store that is gone when it is closed.

    With `uri` the collections are in another engine, such as "postgresql://user@host:5432/database", and the folder
    has what this host keeps. With `config`, the path of an `aidre.toml`, collections are searched as its server
    searches them: its order of spaces, fusion, words, runtime, endpoints, and its engine unless `uri` names one. What
    a server withholds from its callers is not withheld here. ConfigurationError.

    Parameters:
        path: The folder of the store; it need not exist yet.
        uri: The address of another engine that holds the collections.
        config: An `aidre.toml`, by which its server searches.

    Examples:
        >>> with aidre.open(folder) as store:
        ...     store.collections()
        ['kitchen']
    """
    return Database(to_store_path(path), uri, None if config is None else _configured(config))


def open_async(path: str | Path, *, uri: str | None = None, config: str | Path | None = None) -> AsyncDatabase:
    """Open the store in a folder, which need not exist yet, for an asynchronous program, as `open` does.

    Parameters:
        path: The folder of the store; it need not exist yet.
        uri: The address of another engine that holds the collections.
        config: An `aidre.toml`, by which its server searches.

    Examples:
        >>> async def names():
        ...     async with aidre.open_async(folder) as store:
        ...         return await store.collections()
        >>> asyncio.run(names())
        ['kitchen']
    """
    return AsyncDatabase(open(path, uri=uri, config=config))


def _configured(config: str | Path) -> Configured:
    from aidre.api.config import load_settings

    settings = load_settings(to_path(config, "config="))
    return Configured(
        address=settings.store.address,
        policies={
            name: replace(collection.policy, shows_text=True) for name, collection in settings.collections.items()
        },
        runtime=settings.embedding.runtime,
        endpoints=settings.endpoints,
    )
