"""Fills a space that joins a collection later from the stored text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aidre.api.config import Settings, declared_spaces
from aidre.engine.embedding import load_embedder
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import EmbeddingSpace
from aidre.engine.ports import Source
from aidre.ingest.pipeline import EmbedSummary, Event, embed_space


def space_to_fill(settings: Settings, collection: str, space_id: str) -> EmbeddingSpace:
    """The declared space that `--space` names. Raises ConfigurationError if it cannot be filled from text."""
    declared = declared_spaces(settings)
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
    store: Source, settings: Settings, collection: str, space_id: str, report: Callable[[Event], None]
) -> EmbedSummary:
    """Make a declared space of a collection live. Raises CollectionMissing, and what `embed_space` raises."""
    space = space_to_fill(settings, collection, space_id)
    stored = store.open(collection).collection.spaces
    declared = {space.id: space for space in stored} | declared_spaces(settings)
    with_model = {stored_space.id for stored_space in stored if declared[stored_space.id].model is not None}
    load = partial(load_embedder, runtime=settings.embedding.runtime, endpoints=settings.endpoints)
    embedders = {name: load(declared[name]) for name in with_model | {space.id}}
    return embed_space(store, collection, space, stored=stored, embedders=embedders, report=report)
