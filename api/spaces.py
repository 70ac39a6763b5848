"""In which spaces a collection is embedded: what the configuration lists, what the store has, what the rows bring.

A space that joins a collection later is filled from the stored text (`embed`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from aidre.api.settings import Settings
from aidre.engine.embed import DEFAULT_SPACE, load_embedder
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import EmbeddingSpace
from aidre.engine.store import Store
from aidre.ingest.embed_space import embed_space
from aidre.ingest.progress import EmbedSummary, Event


def spaces_for(
    settings: Settings, collection: str, stored: Sequence[EmbeddingSpace], brought: Collection[str]
) -> tuple[EmbeddingSpace, ...]:
    """The spaces to ingest a collection into.

    Those that `collections.NAME.spaces` lists; else those the collection has (`stored`), or for a new one the
    default text space; and every declared space that rows bring vectors for (`brought`).
    """
    declared = _declared(settings)
    listed = settings.collection(collection).spaces
    if listed is not None:
        return tuple(declared[name] for name in listed)
    chosen = {space.id: declared.get(space.id, space) for space in stored or (declared[DEFAULT_SPACE.id],)}
    chosen |= {name: space for name, space in declared.items() if name in brought and name not in chosen}
    return tuple(chosen.values())


def space_to_fill(settings: Settings, collection: str, space_id: str) -> EmbeddingSpace:
    """The declaration of a space that a collection is to have from now on; ConfigurationError where it cannot."""
    declared = _declared(settings)
    space = declared.get(space_id)
    if space is None:
        raise ConfigurationError(f"--space: no [[spaces]] declares {space_id!r}: {', '.join(declared)}")
    if space.model is None:
        raise ConfigurationError(
            f"--space: {space_id!r} has no model, its vectors come with the rows: ingest them into a new collection"
        )
    listed = settings.collection(collection).spaces
    if listed is not None and space_id not in listed:
        raise ConfigurationError(f"--space: collections.{collection}.spaces does not name {space_id!r}: add it there")
    return space


def embed(
    store: Store, settings: Settings, collection: str, space_id: str, report: Callable[[Event], None]
) -> EmbedSummary:
    """Make a declared space of a collection live. CollectionMissing, and what `embed_space` raises."""
    space = space_to_fill(settings, collection, space_id)
    stored = store.open(collection).collection.spaces
    declared = {each.id: each for each in stored} | _declared(settings)
    models = {each.id for each in stored if declared[each.id].model is not None} | {space.id}
    embedders = {name: load_embedder(declared[name], runtime=settings.embedding.runtime) for name in models}
    return embed_space(store, collection, space, stored=stored, embedders=embedders, report=report)


def _declared(settings: Settings) -> dict[str, EmbeddingSpace]:
    return {space.id: space for space in (DEFAULT_SPACE, *settings.spaces)}
