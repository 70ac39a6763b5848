"""The embedding spaces that a collection is written in, by the configuration and the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from aidre.api.config.settings import Settings
from aidre.engine.embedding import DEFAULT_SPACE
from aidre.engine.model import EmbeddingSpace


def spaces_for(
    settings: Settings, collection: str, stored: Sequence[EmbeddingSpace], supplied: Collection[str]
) -> tuple[EmbeddingSpace, ...]:
    """The spaces to ingest a collection into.

    Those that `collections.NAME.spaces` lists. Without that list: the `stored` spaces of the collection, or for a new
    one the default text space, and every declared space that rows bring vectors for (`supplied`, by id).
    """
    declared = declared_spaces(settings)
    listed = settings.collection(collection).spaces
    if listed is not None:
        return tuple(declared[name] for name in listed)
    spaces = {space.id: declared.get(space.id, space) for space in stored or (declared[DEFAULT_SPACE.id],)}
    spaces |= {name: space for name, space in declared.items() if name in supplied and name not in spaces}
    return tuple(spaces.values())


def declared_spaces(settings: Settings) -> dict[str, EmbeddingSpace]:
    """The default text space and those of `[[spaces]]`, by id."""
    return {space.id: space for space in (DEFAULT_SPACE, *settings.spaces)}
