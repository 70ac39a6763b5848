"""Adds an embedding space to a collection: embeds the stored text while the other spaces go on answering queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Final

from aidre.engine.collection import BackfillProgress, fill_space, local_store, remove_space
from aidre.engine.embedding import Embedder
from aidre.engine.model import EmbeddingSpace
from aidre.engine.ports import Source
from aidre.engine.storage import SpaceState, with_precision
from aidre.ingest.pipeline.embedding import StoredChunkEmbedder, StoredChunkEncoder
from aidre.ingest.pipeline.ingest import chunker_for
from aidre.ingest.pipeline.run_events import Committed, EmbedSummary, Event, Notice, RunProgress

_CURE: Final = "ingest into a new collection that has the spaces, and drop this one"


def embed_space(
    store: Source,
    collection: str,
    space: EmbeddingSpace,
    *,
    stored: Sequence[EmbeddingSpace],
    embedders: Mapping[str, Embedder],
    report: Callable[[Event], None],
) -> EmbedSummary:
    """Make a space live that a collection lacks, has in part, or has from another revision of its model.

    `stored` are the live spaces. `embedders` are those of all of them and of `space`, since they decide the chunking:
    the strings that are embedded must be the ones that the next ingest would embed. An interrupted run is resumed. The
    summary is also the last event. Raises Unsupported, StoreLocked, SpaceConflict, InvalidVector, StorageFailed.
    """
    started = monotonic()
    embedder = embedders[space.id]
    space = embedder.space
    current_spaces = [space if other.id == space.id else other for other in stored]
    chunker = chunker_for([*stored, space], embedders)
    embedded = 0
    models = {name: other.embed_queries for name, other in embedders.items()}
    runtimes = {space.id: embedder.runtime}
    with local_store(store, _CURE).writer(
        collection, spaces=current_spaces, runtimes=runtimes, models=models
    ) as writer:
        if space.id in writer.stale_spaces:
            report(Notice(f"space {space.id} has another model or revision now: its stored chunks are embedded again"))
            encoder = StoredChunkEncoder(writer, space, embedder, chunker)
            writer.reembed({space.id: encoder})
            embedded = encoder.embedded
        elif space.id in writer.spaces:
            report(Notice(f"space {space.id} is complete already"))
        else:
            stored_embedder = StoredChunkEmbedder(space, embedder, chunker)
            state = SpaceState(with_precision(space), runtime=embedder.runtime)
            fill_space(writer.generations, state, stored_embedder, lambda filled: report(_event(filled)))
            embedded = stored_embedder.embedded
        manifest = writer.generations.manifest
    summary = EmbedSummary(space.id, manifest.generation, manifest.chunks, embedded, monotonic() - started)
    report(summary)
    return summary


def drop_space(store: Source, collection: str, space_id: str) -> int:
    """Remove a space from a collection; returns the new generation. Raises SpaceMissing, SpaceConflict."""
    with local_store(store, _CURE).writer(collection, spaces=None) as writer:
        remove_space(writer.generations, space_id)
        return writer.generations.manifest.generation


def _event(filled: BackfillProgress) -> Event:
    if filled.generation is None:
        return RunProgress(filled.documents, filled.chunks)
    return Committed(filled.generation, filled.documents, filled.chunks)
