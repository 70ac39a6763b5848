"""Ingest: from sources to durable generations, without rewriting unchanged documents or embedding a string twice.

Memory is bounded by a batch and by the pending rows of the next commit. Knows no command line: events are
passed to a callable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic, time

from aidre.engine import ports
from aidre.engine.embedding import Embedder, reads_language
from aidre.engine.errors import ConfigurationError, StoreLocked
from aidre.engine.model import EmbeddingSpace
from aidre.engine.ports import Reader, Sink
from aidre.ingest.chunking import Chunker
from aidre.ingest.fetch import Fetcher
from aidre.ingest.pipeline.embedding import StoredChunkEncoder
from aidre.ingest.pipeline.fingerprint import settings_digest
from aidre.ingest.pipeline.last_read import load_readers, save_read_times
from aidre.ingest.pipeline.run import IngestOptions, Run
from aidre.ingest.pipeline.run_events import Event, Notice, RunProgress, Summary, Tally
from aidre.ingest.prefetch import prefetch
from aidre.ingest.records import Item, VectorRules
from aidre.ingest.sandbox import SHARED, TABLES, available, recogniser, set_rules
from aidre.ingest.sources import (
    READER_VERSION,
    READERS,
    FetchSession,
    ReadFiles,
    Source,
    StoredState,
    WebSource,
    check_mappings,
    explain_empty,
    load_stored_state,
    locate_sources,
    read_file,
    read_source,
    read_web_source,
    settle_ids,
    survey_sources,
)

PREFETCHED_ITEMS = 4
"""Fetched documents that wait to be stored. Each may be as large as a page is allowed to be."""

_MAX_LANGUAGES = 5
"""Languages that a notice names."""

_WEB_SUFFIXES = frozenset(READERS) - {".parquet", ".zip"}
"""Kinds that are read from the network. Arrow trusts the lengths that a Parquet file claims."""


def ingest(
    store: ports.Source,
    collection: str,
    sources: Sequence[str | Path],
    *,
    spaces: Sequence[EmbeddingSpace],
    embedders: Mapping[str, Embedder],
    options: IngestOptions,
    report: Callable[[Event], None],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Summary:
    """Bring a collection up to date with some sources. `clock` says which dates of publication are ahead.

    Raises ConfigurationError for a source that cannot be read at all, StoreLocked, SpaceConflict, StorageFailed. The
    failure of a single document is reported as a Problem and counted. The Summary is also the last event.
    """
    started = monotonic()
    set_rules(requires_walls=options.requires_walls, seconds=options.parse_seconds)
    if options.ocr is not None:
        recogniser(options.ocr)
    located = locate(sources, options, f"collections.{collection}.mapping")
    spaces = [embedders[space.id].space if space.id in embedders else space for space in spaces]
    rules = VectorRules(spaces, embedders.keys())
    as_of = None if options.include_drafts else clock()
    survey, files = survey_sources(located), ReadFiles()
    report = _with_files(report, files, survey.total)
    with open_writer(store, collection, spaces, embedders, options=options, report=report) as writer, SHARED, TABLES:
        report(RunProgress(0, 0))
        spaces = live_spaces(writer, spaces, report) if writer else spaces
        chunker = chunker_for(spaces, embedders, options.chunk_tokens)
        embedded = reembed(writer, spaces, embedders, chunker, report) if writer and not options.dry_run else 0
        ids, reread = settle_ids(survey, writer), list(explain_read_anew(store, collection, writer, located))
        run = Run(
            writer,
            sources=located,
            spaces=spaces,
            embedders=embedders,
            chunker=chunker,
            options=options,
            report=report,
            embedded=embedded,
            replaced=ids.replaced,
        )
        reads = (options.mappings, options.include_drafts, *[options.ocr] * (options.ocr is not None))
        settings = settings_digest(spaces, chunker) + repr(reads).encode()
        reading = _SourceReading(rules, options, as_of, files, ids.called_by_path)
        for source in located:
            notes: list[str] = []
            run.take(reading.items(source, _stored_state(writer, source, settings, as_of), notes.append))
            for note in notes:
                run.note(note)
        for note in (*ids.notices, *reread, *_explain_missing_walls()):
            run.note(note)
        report_empty(run.tally, located, files)
        run.finish()
        if run.tally.counts.updated and writer is not None and writer.snapshot is not None:
            unread = explain_unread(writer.snapshot)
            if unread is not None:
                run.note(unread)
        if writer is not None and not options.dry_run:
            read = {source.name for source in located} - run.unread_sources
            save_read_times(store.path, collection, read, writer.source_roots(), time())
    summary = run.summary(monotonic() - started)
    report(summary)
    return summary


def _explain_missing_walls() -> Iterator[str]:
    if not (offered := available()).are_whole:
        yield (
            f"this system has no {offered.missing}: a file that takes its parser over reads what you may read; "
            "ingest files that you do not trust as a user of its own, or where the kernel has both (`aidre doctor`)"
        )


def report_empty(tally: Tally, sources: Sequence[Source], files: ReadFiles) -> None:
    """Name the sources that have no document, of which `files` are those that were found."""
    for source in {source.name: source for source in sources}.values():
        if source.name not in tally.found_sources and source.name not in files.again:
            tally.note_empty(source.name, explain_empty(source, files))


def explain_read_anew(
    store: ports.Source, collection: str, writer: Sink | None, sources: Sequence[Source]
) -> Iterator[str]:
    """The sources whose stored documents were made by readers of an earlier release, and are made again."""
    stored = writer.source_roots() if writer is not None else {}
    versions = load_readers(store.path, collection) if stored else {}
    for name in dict.fromkeys(source.name for source in sources if source.name in stored):
        if versions.get(name) != READER_VERSION:
            yield (
                f"{name}: read by an earlier release of aidre before: all of it is read anew this once, and texts that "
                "are as they were keep their vectors"
            )


def explain_unread(reader: Reader) -> str | None:
    """If most of a collection is in languages that no model of its spaces knows: say so, and what to do."""
    spaces = [space for space in reader.collection.spaces if space.model is not None]
    chunks = reader.languages
    unread = {tag: count for tag, count in chunks.items() if not any(reads_language(space, tag) for space in spaces)}
    if not spaces or 2 * sum(unread.values()) <= sum(chunks.values()):
        return None
    tags = ", ".join([*list(unread)[:_MAX_LANGUAGES], *["..."] * (len(unread) > _MAX_LANGUAGES)])
    return (
        f"{sum(unread.values()):,} of {sum(chunks.values()):,} chunks are in languages that the model does not know "
        f"({tags}): they are found by words, hardly by meaning; "
        "`aidre model add multilingual` adds a model that knows them"
    )


def _stored_state(writer: Sink | None, source: Source, settings: bytes, as_of: datetime | None) -> StoredState:
    return load_stored_state(writer, source, settings, as_of) if isinstance(source, WebSource) else StoredState()


def _with_files(report: Callable[[Event], None], files: ReadFiles, total: int | None) -> Callable[[Event], None]:
    """The receiver, which gets with all progress the number of files processed and that of all files.

    Small files are read many at a time, before the first of their documents is embedded: no more files count as
    processed than documents are.
    """

    def report_with_files(event: Event) -> None:
        if isinstance(event, RunProgress):
            event = replace(event, files=min(len(files.names), event.documents), total_files=total)
        report(event)

    return report_with_files


def chunker_for(
    spaces: Sequence[EmbeddingSpace], embedders: Mapping[str, Embedder], target: int | None = None
) -> Chunker:
    """The chunker for the models of some spaces: the shortest token limit counts, so that a chunk fits every model."""
    used = [embedders[space.id] for space in spaces if space.id in embedders]
    if not used:
        return Chunker(target=target)
    shortest = min(used, key=lambda embedder: embedder.max_tokens)
    return Chunker(shortest.count_tokens, shortest.max_tokens, target)


def locate(sources: Sequence[str | Path], options: IngestOptions, mapping_key: str) -> list[Source]:
    """Everything that can be checked before the collection is locked; raises ConfigurationError."""
    if options.commit_every is not None and options.commit_every < 1:
        raise ConfigurationError("commit-every must be at least 1")
    located = locate_sources(
        sources, options.source, options.url_base, options.url_style, code=options.code, ocr=options.ocr
    )
    if options.mappings is not None:
        check_mappings(located, options.mappings, mapping_key)
    return located


def open_writer(
    store: ports.Source,
    collection: str,
    spaces: Sequence[EmbeddingSpace],
    embedders: Mapping[str, Embedder],
    *,
    options: IngestOptions,
    report: Callable[[Event], None],
) -> AbstractContextManager[Sink | None]:
    """None for a dry run into a collection that does not exist. A wait for another writer is reported."""
    if options.dry_run and not (store.path.is_dir() and collection in store.collections()):
        return nullcontext()
    open_writer = partial(
        store.writer,
        collection,
        spaces=spaces,
        description=options.description,
        visibility=options.visibility,
        dates=options.dates,
        runtimes={name: embedder.runtime for name, embedder in embedders.items()},
        models={name: embedder.embed_queries for name, embedder in embedders.items()},
    )
    try:
        return open_writer()
    except StoreLocked as error:
        if options.wait <= 0:
            raise
        report(Notice(f"{error.message.partition(':')[0]}: waiting for up to {options.wait:g} seconds"))
        return open_writer(wait=options.wait)


def live_spaces(
    writer: Sink, spaces: Sequence[EmbeddingSpace], report: Callable[[Event], None]
) -> list[EmbeddingSpace]:
    """The spaces that this run writes; a space that a backfill has not completed is reported and left out."""
    unfinished = writer.unfinished_spaces
    for space_id in unfinished:
        report(Notice(f"space {space_id} is not complete: this run goes on without it, `aidre embed --space` fills it"))
    return [space for space in spaces if space.id not in unfinished]


def reembed(
    writer: Sink,
    spaces: Sequence[EmbeddingSpace],
    embedders: Mapping[str, Embedder],
    chunker: Chunker,
    report: Callable[[Event], None],
) -> int:
    """Re-embed stored chunks whose model has a new revision; returns the number of texts embedded."""
    encoders = {
        space.id: StoredChunkEncoder(writer, space, embedders[space.id], chunker)
        for space in spaces
        if space.id in writer.stale_spaces
    }
    for space_id in encoders:
        report(Notice(f"space {space_id} has another model or revision now: its stored chunks are embedded again"))
    if encoders:
        writer.reembed(encoders)
    return sum(encoder.embedded for encoder in encoders.values())


@dataclass(frozen=True, slots=True)
class _SourceReading:
    """How the sources of a run are read: without the `files` that were read already, and without documents that are not
    published at `as_of`."""

    rules: VectorRules
    options: IngestOptions
    as_of: datetime | None
    files: ReadFiles
    called_by_path: Collection[str]

    def items(self, source: Source, stored: StoredState, note: Callable[[str], None]) -> Iterator[Item]:
        """The items of a source. The next pages of a web source are fetched while one is stored."""
        mappings = self.options.mappings
        if not isinstance(source, WebSource):
            return read_source(
                source,
                self.rules,
                note,
                mappings,
                files=self.files,
                as_of=self.as_of,
                called_by_path=self.called_by_path,
            )
        fetcher = Fetcher(self.options.fetching)
        session = FetchSession(
            source,
            fetcher,
            read_file=partial(read_file, rules=self.rules, mappings=mappings, as_of=self.as_of, ocr=self.options.ocr),
            suffixes=_WEB_SUFFIXES,
            stored=stored,
            read_all=self.options.mirror,
            as_of=self.as_of,
        )
        return prefetch(read_web_source(session, note), PREFETCHED_ITEMS, fetcher.stop)
