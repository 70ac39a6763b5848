"""Embeds what a collection holds in one more space, from the stored text, while the others go on answering."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from aidre.engine.embed import Embedder
from aidre.engine.filling import Filled, drop, fill
from aidre.engine.manifest import SpaceState, settled
from aidre.engine.model import EmbeddingSpace
from aidre.engine.store import Store
from aidre.ingest.embedding import Recomputation, StoredEmbedding
from aidre.ingest.pipeline import chunker_of
from aidre.ingest.progress import Committed, EmbedSummary, Event, Notice, Progress


def embed_space(
    store: Store,
    collection: str,
    space: EmbeddingSpace,
    *,
    stored: Sequence[EmbeddingSpace],
    embedders: Mapping[str, Embedder],
    report: Callable[[Event], None],
) -> EmbedSummary:
    """Make a space live that the collection has not, or not completely, or of another revision of its model.

    `stored` are the spaces that answer now; `embedders` are those of all of them and of `space`: the strings that
    are embedded must be the ones that the next ingest would embed. An interrupted run is gone on with. The
    summary is also the last event. StoreLocked, SpaceConflict, InvalidVector, StorageFailed.
    """
    started = monotonic()
    embedder = embedders[space.id]
    space = embedder.space
    agreed = [space if each.id == space.id else each for each in stored]
    chunker = chunker_of([*stored, space], embedders)
    embedded = 0
    with store.writer(collection, spaces=agreed, runtimes={space.id: embedder.runtime}) as writer:
        if space.id in writer.stale:
            report(Notice(f"space {space.id} has another model or revision now: its stored chunks are embedded anew"))
            recomputation = Recomputation(writer, space, embedder, chunker)
            writer.reembed({space.id: recomputation})
            embedded = recomputation.embedded
        elif space.id in writer.spaces:
            report(Notice(f"space {space.id} is complete already"))
        else:
            embedding = StoredEmbedding(space, embedder, chunker)
            state = SpaceState(settled(space), runtime=embedder.runtime)
            fill(writer.generations, state, embedding, lambda filled: report(_event(filled)))
            embedded = embedding.embedded
        manifest = writer.generations.manifest
    summary = EmbedSummary(space.id, manifest.generation, manifest.chunks, embedded, monotonic() - started)
    report(summary)
    return summary


def drop_space(store: Store, collection: str, space_id: str) -> int:
    """Take a space away from a collection; the generation without it. SpaceMissing, SpaceConflict."""
    with store.writer(collection, spaces=None) as writer:
        drop(writer.generations, space_id)
        return writer.generations.manifest.generation


def _event(filled: Filled) -> Event:
    if filled.generation is None:
        return Progress(filled.documents, filled.chunks)
    return Committed(filled.generation, filled.documents, filled.chunks)
