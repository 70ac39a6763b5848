"""Where a store is: local segments in a folder, or an engine at an address."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from aidre.engine.errors import ConfigurationError

if TYPE_CHECKING:
    from aidre.engine.ports import Source

Backend: TypeAlias = Literal["local", "postgres", "milvus"]


@dataclass(frozen=True, slots=True)
class Address:
    """An engine and its URI, which may hold a password and is not shown."""

    backend: Backend
    uri: str = field(repr=False)


def open_source(path: Path, address: Address | None = None) -> Source:
    """What stands behind the store at `path`: local segments, or the engine at an address.

    The folder of an engine elsewhere holds what the application keeps on this host. Nothing is touched, and no
    connection made, before the first call. ConfigurationError for an address that is none, and where the driver is not
    installed.
    """
    if address is None or address.backend == "local":
        from aidre.engine.collection import Store

        return Store(path)
    if address.backend == "milvus":
        _require("pymilvus", "milvus")
        from aidre.engine.backends.milvus import MilvusSource

        return MilvusSource(path, address.uri)
    _require("psycopg", "postgres")
    from aidre.engine.backends.postgres import PostgresSource

    return PostgresSource(path, address.uri)


def _require(module: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise ConfigurationError(f"the engine {extra} needs {module}: pip install 'aidre[{extra}]'")
