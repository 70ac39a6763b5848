"""Ingest: from sources to durable generations, skipping what is unchanged and embedding each string once.

Memory is bounded by a batch and by what the writer holds until the next commit. Knows no command line: events
go to a callable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import monotonic

from aidre.engine.embed import Embedder
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import EmbeddingSpace
from aidre.engine.store import Store
from aidre.engine.writer import Writer
from aidre.ingest.chunk import Chunker
from aidre.ingest.embedding import Recomputation
from aidre.ingest.progress import Event, Notice, Summary
from aidre.ingest.run import IngestOptions, Run
from aidre.ingest.sources import locate, read
from aidre.ingest.vectors import VectorRules


def ingest(
    store: Store,
    collection: str,
    sources: Sequence[Path],
    *,
    spaces: Sequence[EmbeddingSpace],
    embedders: Mapping[str, Embedder],
    options: IngestOptions,
    report: Callable[[Event], None],
) -> Summary:
    """Bring a collection up to date with some sources.

    ConfigurationError for a source that cannot be read at all, StoreLocked, SpaceConflict, StorageFailed; what
    is wrong with single documents is reported as a Problem and counted. The Summary is also the last event.
    """
    started = monotonic()
    if options.commit_every is not None and options.commit_every < 1:
        raise ConfigurationError("commit-every must be at least 1")
    located = locate(sources, options.source, options.url_base)
    spaces = [embedders[space.id].space if space.id in embedders else space for space in spaces]
    chunker = chunker_of(spaces, embedders, options.chunk_tokens)
    writing = not options.dry_run or (store.path.is_dir() and collection in store.collections())
    with _writer(store, collection, spaces, embedders, options) if writing else nullcontext() as writer:
        embedded = _reembed(writer, spaces, embedders, chunker, report) if writer and not options.dry_run else 0
        run = Run(
            writer,
            sources=located,
            spaces=spaces,
            embedders=embedders,
            chunker=chunker,
            options=options,
            report=report,
            embedded=embedded,
        )
        rules = VectorRules(spaces, embedders.keys())
        for source in located:
            run.take(read(source, rules, run.note))
        run.finish()
    summary = run.summary(monotonic() - started)
    report(summary)
    return summary


def _reembed(
    writer: Writer,
    spaces: Sequence[EmbeddingSpace],
    embedders: Mapping[str, Embedder],
    chunker: Chunker,
    report: Callable[[Event], None],
) -> int:
    """Embed what is stored anew where a model has another revision than the stored vectors; how many texts."""
    anew = {
        space.id: Recomputation(writer, space, embedders[space.id], chunker)
        for space in spaces
        if space.id in writer.stale
    }
    for space_id in anew:
        report(Notice(f"space {space_id} has another model or revision now: its stored chunks are embedded anew"))
    if anew:
        writer.reembed(anew)
    return sum(recomputation.embedded for recomputation in anew.values())


def chunker_of(
    spaces: Sequence[EmbeddingSpace], embedders: Mapping[str, Embedder], target: int | None = None
) -> Chunker:
    """The chunker for some models: every chunk fits each of them, as the one with the shortest limit counts."""
    used = [embedders[space.id] for space in spaces if space.id in embedders]
    if not used:
        return Chunker(target=target)
    shortest = min(used, key=lambda embedder: embedder.max_tokens)
    return Chunker(shortest.count_tokens, shortest.max_tokens, target)


def _writer(
    store: Store,
    collection: str,
    spaces: Sequence[EmbeddingSpace],
    embedders: Mapping[str, Embedder],
    options: IngestOptions,
) -> Writer:
    return store.writer(
        collection,
        spaces=spaces,
        description=options.description,
        visibility=options.visibility,
        dates=options.dates,
        runtimes={name: embedder.runtime for name, embedder in embedders.items()},
    )
