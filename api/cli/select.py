"""Opens the store and resolves the collections that a command names; an error lists the available ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aidre.engine.errors import CollectionMissing, ConfigurationError, Missing

if TYPE_CHECKING:
    from aidre.api.config import Settings
    from aidre.engine.ports import Source

_SIMILARITY = 0.5
"""`difflib` ratio from which a name is suggested in place of a misspelled one."""

NOTHING_STORED = "there is no collection in {}: `aidre ingest` makes one"


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def open_store(path: Path, settings: Settings | None = None) -> Source:
    """An existing store, with the engine of the configuration. Missing, StorageFailed, ConfigurationError."""
    from aidre.engine import open_source

    store = open_source(path) if settings is None else settings.store.open(path)
    store.collections()
    return store


def has_collection(store: Source, name: str) -> bool:
    """Whether the store, which need not exist, has a collection of that name or alias."""
    try:
        return name in _names(store)
    except Missing:
        return False


def select_collection(store: Source, name: str | None) -> str:
    """The named collection, for an alias the one that it means, or the only one. Raises CollectionMissing,
    ConfigurationError."""
    names = store.collections()
    if name is not None:
        alias = store.aliases().get(name)
        name = name if alias is None else alias.collection
        if name not in names:
            raise CollectionMissing(f"--collection: {name} is not in the store; {_choices(names)}", collection=name)
        return name
    if len(names) != 1:
        raise ConfigurationError(f"--collection: say which one; {_choices(names)}")
    return names[0]


def select_collections(store: Source, name: str | None) -> list[str]:
    """The named collection, or all of them."""
    return [select_collection(store, name)] if name is not None else store.collections()


def check_granted_collections(store: Source, settings: Settings) -> None:
    """Raises ConfigurationError if an editorial domain or an intake opens a collection that is not in the store.

    An empty store passes: its collections are still to be ingested.
    """
    names = _names(store)
    granted = {
        f'intent.editorial_domains."{domain}"': grant.collection
        for domain, grant in settings.intent.editorial_domains.items()
    }
    granted |= {f"intake {intake.id!r}": intake.collection for intake in settings.intakes if intake.collection}
    for key, name in granted.items():
        if names and name not in names:
            raise ConfigurationError(
                f"{key} opens collection {name!r}, which is not in the store: {_suggestion(name, names)}"
            )


def missing_collections(store: Source, settings: Settings) -> Iterator[str]:
    """One line for each collection that the configuration names and the store, not being empty, lacks.

    No error, since an ingest may still bring it; but if the name is misspelled, a collection that was to be private is
    not.
    """
    names = _names(store)
    configured = [(f"collections.{name}", name) for name in settings.collections]
    if settings.server.default_collection is not None:
        configured.append(("server.default_collection", settings.server.default_collection))
    for number, key in enumerate(settings.keys):
        configured += [(f"keys[{number}].collections", name) for name in key.collections]
    for scope, grant in settings.oauth.grants.items() if settings.oauth is not None else ():
        configured += [(f'oauth.grants."{scope}".collections', name) for name in grant.collections]
    for key_path, name in configured:
        if names and name not in names:
            yield f"{key_path}: collection {name!r} is not in the store: {_suggestion(name, names)}"


def _names(store: Source) -> list[str]:
    """Collections and aliases."""
    return [*store.collections(), *store.aliases()]


def _suggestion(name: str, names: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=_SIMILARITY)
    return f"did you mean {nearest[0]!r}?" if nearest else _choices(names)


def _choices(names: Sequence[str]) -> str:
    return f"it has {', '.join(names)}" if names else "the store is empty; `aidre ingest` fills it"
