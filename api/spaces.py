"""In which spaces a collection is embedded: what the configuration lists, what the store has, what the rows bring."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from aidre.api.settings import Settings
from aidre.engine.embed import DEFAULT_SPACE
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import EmbeddingSpace


def spaces_for(
    settings: Settings, collection: str, stored: Sequence[EmbeddingSpace], brought: Collection[str]
) -> tuple[EmbeddingSpace, ...]:
    """The spaces to ingest a collection into.

    Those that `collections.NAME.spaces` lists; else those the collection has (`stored`), or for a new one the
    default text space; and every declared space that rows bring vectors for (`brought`).
    """
    declared = {space.id: space for space in (DEFAULT_SPACE, *settings.spaces)}
    listed = settings.collection(collection).spaces
    if listed is not None:
        return tuple(_declared(declared, name, collection) for name in listed)
    chosen = {space.id: declared.get(space.id, space) for space in stored or (declared[DEFAULT_SPACE.id],)}
    chosen |= {name: space for name, space in declared.items() if name in brought and name not in chosen}
    return tuple(chosen.values())


def _declared(declared: dict[str, EmbeddingSpace], name: str, collection: str) -> EmbeddingSpace:
    if name not in declared:
        known = ", ".join(declared)
        raise ConfigurationError(
            f"collections.{collection}.spaces names {name!r}, which no [[spaces]] declares: {known}"
        )
    return declared[name]
