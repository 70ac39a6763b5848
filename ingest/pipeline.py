"""Ingest: from sources to durable generations, skipping what is unchanged and embedding each string once.

Memory is bounded by a batch and by what the writer holds until the next commit. Knows no command line: events
go to a callable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from time import monotonic, time

from aidre.engine.embed import Embedder
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import EmbeddingSpace
from aidre.engine.store import Store
from aidre.engine.writer import Writer
from aidre.ingest import crawl, web
from aidre.ingest.ahead import ahead
from aidre.ingest.checks import note_checks
from aidre.ingest.chunk import Chunker
from aidre.ingest.embedding import Recomputation
from aidre.ingest.fetch import Fetcher
from aidre.ingest.fingerprint import settings_digest
from aidre.ingest.progress import Event, Notice, Summary
from aidre.ingest.run import IngestOptions, Run
from aidre.ingest.sandbox import SHARED, TABLES
from aidre.ingest.sources import PARSERS, check_mapping, locate, read, read_file
from aidre.ingest.vectors import VectorRules

AHEAD = 4
"""Fetched documents that wait to be stored; one may be as large as a page is allowed to be."""


def ingest(
    store: Store,
    collection: str,
    sources: Sequence[str | Path],
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
    if options.mapping is not None:
        check_mapping(located, options.mapping, f"collections.{collection}.mapping")
    spaces = [embedders[space.id].space if space.id in embedders else space for space in spaces]
    rules = VectorRules(spaces, embedders.keys())
    writing = not options.dry_run or (store.path.is_dir() and collection in store.collections())
    opened = _writer(store, collection, spaces, embedders, options) if writing else nullcontext()
    with opened as writer, SHARED, TABLES:
        spaces = _complete(writer, spaces, report) if writer else spaces
        chunker = chunker_of(spaces, embedders, options.chunk_tokens)
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
        settings = settings_digest(spaces, chunker) + repr(options.mapping).encode()
        for source in located:
            if isinstance(source, web.WebSource):
                _fetch(run, source, web.before(writer, source, settings), rules, options)
            else:
                notes: list[str] = []
                run.take(read(source, rules, notes.append, options.mapping))
                for note in notes:
                    run.note(note)
        run.finish()
        if writer is not None and not options.dry_run:
            looked_at = {source.name for source in located} - run.unread
            note_checks(store.path, collection, looked_at, writer.source_roots(), time())
    summary = run.summary(monotonic() - started)
    report(summary)
    return summary


def _fetch(run: Run, source: web.WebSource, known: web.Before, rules: VectorRules, options: IngestOptions) -> None:
    """Ingest what a source has that is fetched; the next page is on its way while one is stored."""
    fetcher = Fetcher(options.fetching)
    visit = web.Visit(
        source,
        fetcher,
        read_file=partial(read_file, rules=rules, mapping=options.mapping),
        suffixes=frozenset(PARSERS) - {".parquet"},  # its library trusts the lengths that a file claims
        known=known,
        whole=options.mirror,
    )
    notes: list[str] = []
    run.take(ahead(crawl.read(visit, notes.append), AHEAD, fetcher.stop))
    for note in notes:
        run.note(note)


def _complete(
    writer: Writer, spaces: Sequence[EmbeddingSpace], report: Callable[[Event], None]
) -> list[EmbeddingSpace]:
    """The spaces that are written; one that is being filled is told of and left out."""
    for space_id in writer.building:
        report(Notice(f"space {space_id} is not complete: this run goes on without it, `aidre embed --space` fills it"))
    return [space for space in spaces if space.id not in writer.building]


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
