"""Which store and which collections a command means; it says what there is to choose from."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aidre.engine.errors import CollectionMissing, ConfigurationError

if TYPE_CHECKING:
    from aidre.api.settings import Settings
    from aidre.engine.store import Store


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def named(store: Store, name: str | None) -> list[str]:
    return [chosen(store, name)] if name is not None else store.collections()


def existing(path: Path) -> Store:
    from aidre.engine.store import Store

    store = Store(path)
    store.require()
    return store


def chosen(store: Store, name: str | None) -> str:
    names = store.collections()
    if name is not None:
        if name not in names:
            raise CollectionMissing(f"--collection: {name} is not in the store; {_offer(names)}", collection=name)
        return name
    if len(names) != 1:
        raise ConfigurationError(f"--collection: say which one; {_offer(names)}")
    return names[0]


def check_granted(store: Store, settings: Settings) -> None:
    """Raises ConfigurationError where an editorial domain or an intake opens what a store that is not empty lacks."""
    names = store.collections()
    opened = {
        f'intent.editorial_domains."{domain}"': grant.collection
        for domain, grant in settings.intent.editorial_domains.items()
    }
    opened |= {f"intake {intake.id!r}": intake.collection for intake in settings.intakes if intake.collection}
    for where, name in opened.items():
        if names and name not in names:
            raise ConfigurationError(
                f"{where} opens collection {name!r}, which is not in the store: {_cure(name, names)}"
            )


def absent_names(store: Store, settings: Settings) -> Iterator[str]:
    """What the configuration says of collections that a store that is not empty lacks, a line each. An ingest may bring
    them yet; but where a name is misspelled, what was to be private is not."""
    names = store.collections()
    named = [(f"collections.{name}", name) for name in settings.collections]
    if settings.server.default_collection is not None:
        named.append(("server.default_collection", settings.server.default_collection))
    for number, key in enumerate(settings.keys):
        named += [(f"keys[{number}].collections", name) for name in key.collections]
    for word, grant in settings.oauth.grants.items() if settings.oauth is not None else ():
        named += [(f'oauth.grants."{word}".collections', name) for name in grant.collections]
    for where, name in named:
        if names and name not in names:
            yield f"{where}: collection {name!r} is not in the store: {_cure(name, names)}"


def _cure(name: str, names: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {nearest[0]!r}?" if nearest else _offer(names)


def _offer(names: Sequence[str]) -> str:
    return f"it has {', '.join(names)}" if names else "the store is empty; `aidre ingest` fills it"
