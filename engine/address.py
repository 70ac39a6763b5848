"""Where a store is: local segments in a folder, or an engine at an address.

An engine elsewhere is what an installed package names under the entry point `aidre.engines`: called with a folder and a
URI, it returns a `Source`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aidre.engine.errors import ConfigurationError, not_installed

if TYPE_CHECKING:
    from aidre.engine.ports import Source

ENTRY_POINTS: Final = "aidre.engines"
_OURS: Final = {"postgres", "milvus"}


@dataclass(frozen=True, slots=True)
class Address:
    """The name of an engine and its URI, which may hold a password and is not shown."""

    backend: str
    uri: str = field(repr=False)


def open_source(path: Path, address: Address | None = None) -> Source:
    """What stands behind the store at `path`: local segments, or the engine at an address.

    The folder of an engine elsewhere holds what the application keeps on this host. Nothing is touched, and no
    connection made, before the first call. ConfigurationError for an address that is none, and where the package of the
    engine or its driver is not installed.
    """
    if address is None or address.backend == "local":
        from aidre.engine.collection import Store

        return Store(path)
    return _engine(address.backend)(path, address.uri)


def _engine(name: str) -> Callable[[Path, str], Source]:
    from importlib.metadata import entry_points

    found = list(entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        if name in _OURS:
            raise not_installed(f"the engine {name}", name, "rows")
        raise ConfigurationError(f"no installed package has an engine {name!r}: install the one that brings it")
    try:
        made: Callable[[Path, str], Source] = found[0].load()
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the engine {name} needs {error.name}, which is not installed: pip install {error.name}"
        ) from None
    return made
