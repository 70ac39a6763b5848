"""The driver of a distributed ingest: it alone holds the lock, adopts the segments of the workers and commits.

Everything becomes one generation at the end; a run that is interrupted stores nothing. Events, summary and the rules
for documents are those of `ingest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import monotonic, time

import pyarrow as pa

from aidre.engine import errors, ports
from aidre.engine.collection import Writer, local_store
from aidre.engine.embedding import Embedder
from aidre.engine.errors import AidreError, ConfigurationError, StorageFailed
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import durable, now
from aidre.ingest.pipeline import (
    Committed,
    Event,
    IngestOptions,
    Mirror,
    RunCounters,
    RunProgress,
    SeenIds,
    Summary,
    Tally,
    find_stored_drafts,
    ingest,
    save_read_times,
)
from aidre.ingest.records import File, Rejected
from aidre.ingest.sources import (
    FileIds,
    FileSource,
    ReadFiles,
    Source,
    check_source_roots,
    settle_ids,
    source_files,
    survey_sources,
)
from aidre_ray.blocks import Block, block_table, divide
from aidre_ray.job import BlockResult, Job, LoadModels, Runner, from_table
from aidre_ray.worker import Worker


def ingest_distributed(
    store: ports.Source,
    collection: str,
    sources: Sequence[str | Path],
    *,
    spaces: Sequence[EmbeddingSpace],
    embedders: Mapping[str, Embedder],
    load: LoadModels,
    options: IngestOptions,
    report: Callable[[Event], None],
    runner: Runner,
) -> Summary:
    """Bring a collection up to date with some files and folders, by the workers of `runner`.

    Workers `load` the models of their own; `embedders` are the driver's. The errors are those of `ingest`;
    ConfigurationError also for an address and for options that a distributed run does not have.
    """
    started = monotonic()
    local_store(store, "ingest without --on")
    located = _only_files(ingest.locate(sources, options, f"collections.{collection}.mapping"), options)
    spaces = [embedders[space.id].space if space.id in embedders else space for space in spaces]
    with ingest.open_writer(store, collection, spaces, embedders, options=options, report=report) as writer:
        assert isinstance(writer, Writer)
        report(RunProgress(0, 0))
        live = ingest.live_spaces(writer, spaces, report)
        chunker = ingest.chunker_for(live, embedders, options.chunk_tokens)
        tally = Tally(report, ingest.reembed(writer, spaces, embedders, chunker, report))
        merged = _Merged(writer, tally, located, options, settle_ids(survey_sources(located), writer))
        staging = writer.stage()  # the writer removes it, also after an error
        job = _job(writer, collection, staging, sources=located, spaces=live, options=options, load=load)
        merged.run(job, runner)
        merged.adopt(staging)
        durable.remove_folder(staging)
        refused = merged.delete_missing(force=options.force)
        writer.finish()
        read = {source.name for source in located} - tally.unread_sources
        save_read_times(store.path, collection, read, writer.source_roots(), time())
    summary = tally.summary(monotonic() - started, refused=refused, dry_run=False)
    report(summary)
    return summary


def _only_files(sources: Sequence[Source], options: IngestOptions) -> list[FileSource]:
    if options.dry_run:
        raise ConfigurationError("--dry-run writes nothing that workers could help with: leave out --on")
    if options.commit_every is not None:
        raise ConfigurationError("--commit-every does not apply with --on, which commits once: leave out one of them")
    found = [source for source in sources if isinstance(source, FileSource)]
    if len(found) < len(sources):
        address = next(source for source in sources if not isinstance(source, FileSource))
        raise ConfigurationError(f"{address.root} is read by one process: ingest it without --on")
    return found


def _job(
    writer: Writer,
    collection: str,
    staging: Path,
    *,
    sources: Sequence[FileSource],
    spaces: Sequence[EmbeddingSpace],
    options: IngestOptions,
    load: LoadModels,
) -> Job:
    snapshot, generations = writer.snapshot, writer.generations
    return Job(
        store=generations.folder.parent.resolve(),
        collection=collection,
        generation=snapshot.generation if snapshot is not None else None,
        staging=staging.resolve(),
        now=now(),
        sources=tuple(replace(source, root=source.root.absolute()) for source in sources),
        spaces=tuple(writer.spaces.values()),
        configured=tuple(spaces),
        dates=tuple(sorted(options.dates)) or generations.manifest.dates,
        max_segment_rows=generations.max_segment_rows,
        options=options,
        load=load,
    )


class _Merged:
    """The answers of all blocks, as one run. Requires the lock of `writer`."""

    def __init__(
        self, writer: Writer, tally: Tally, sources: Sequence[FileSource], options: IngestOptions, ids: FileIds
    ) -> None:
        self._writer, self._tally, self._sources, self._ids = writer, tally, sources, ids
        self._roots = {source.name: str(source.root) for source in sources}
        check_source_roots(writer.source_roots(), self._roots)
        self._mirror = Mirror(sources, whole=options.source is not None) if options.mirror else None
        if self._mirror is not None:
            self._mirror.count_stored(writer)
        self._seen = SeenIds()
        self._left_out: dict[str, set[str]] = {}
        self._answers: dict[int, BlockResult] = {}

    # -- the blocks --------------------------------------------------------------------------------------------

    def run(self, job: Job, runner: Runner) -> None:
        """Have all blocks done, and take their answers as they come."""
        read_files = ReadFiles()
        files = list(self._files(read_files))
        blocks = divide(files, runner.workers)
        sizes = {block.number: len(block.files) if block.part == 0 else 0 for block in blocks}
        read = 0
        for table in runner.run(job, blocks):
            answer = from_table(table)
            if answer.block not in sizes:
                raise StorageFailed(f"a worker answered for block {answer.block}, which there is not")
            self._take(answer)
            read += sizes[answer.block]
            counts = self._tally.counts
            self._tally.report(RunProgress(counts.documents, counts.chunks, read, len(files)))
        lost = sizes.keys() - self._answers.keys()
        if lost:
            raise StorageFailed(f"{len(lost)} of {len(blocks)} blocks got no answer: run the ingest again")
        for text in self._ids.notices:
            self._tally.note(text)
        ingest.report_empty(self._tally, self._sources, read_files)

    def _files(self, files: ReadFiles) -> Iterator[File]:
        """The files of all sources; what cannot be read is reported."""
        for source in self._sources:
            notes: list[str] = []
            sites = source.sites()
            for found in sites.in_order(source_files(source, notes.append, files)):
                if isinstance(found, Rejected):
                    self._reject(found)
                else:
                    yield replace(
                        found,
                        path=found.path.absolute(),
                        within=found.within and found.within.absolute(),
                        is_called_by_path=found.id in self._ids.called_by_path,
                    )
            for note in (*notes, *sites.notices()):
                self._tally.note(note)

    def _take(self, answer: BlockResult) -> None:
        if answer.fault is not None:
            raise _error_of(*answer.fault)
        if answer.block in self._answers:
            return  # done twice: the first answer counts
        self._answers[answer.block] = answer
        for rejected in answer.rejected:
            self._reject(rejected)
        for unpublished in answer.left_out:
            self._tally.leave_out(unpublished)
            self._left_out.setdefault(unpublished.source, set()).add(unpublished.origin)
        self._tally.found_sources.update(answer.found)
        for text in answer.notices:
            self._tally.note(text)
        counts = self._tally.counts
        for name in (counter.name for counter in fields(RunCounters) if counter.name not in ("failed", "left_out")):
            setattr(counts, name, getattr(counts, name) + getattr(answer.counts, name))
        self._tally.add_repeated(answer.repeated_ids)

    def _reject(self, rejected: Rejected) -> None:
        self._tally.reject(rejected)
        if rejected.document_id is not None:
            self._seen.add([rejected.document_id])
        elif self._mirror is not None:
            self._mirror.keep_rejected(rejected)

    # -- one generation ----------------------------------------------------------------------------------------

    def adopt(self, staging: Path) -> None:
        """Commit what the workers wrote: of documents with one id the last one in the order of the sources."""
        answers = [self._answers[number] for number in sorted(self._answers)]
        last = {document_id: answer.block for answer in answers for document_id in (*answer.written, *answer.unchanged)}
        self._seen.add(list(last))
        self._count_once(answers, last)
        answers = [
            answer for answer in answers if any(last[document_id] == answer.block for document_id in answer.written)
        ]
        adopted = {
            document_id for answer in answers for document_id in answer.written if last[document_id] == answer.block
        }
        # What is left of these is stored already in the version that comes last.
        withdrawn = {document_id for answer in answers for document_id in answer.written} - adopted
        for name in dict.fromkeys(name for answer in answers for name in answer.sources):
            self._writer.set_source_root(name, self._roots[name])
        former = [
            former_id for new_id in last for former_id in self._ids.replaced.get(new_id, ()) if former_id not in last
        ]
        self._tally.counts.deleted += self._writer.delete(former)
        result = self._writer.adopt(staging, [entry for answer in answers for entry in answer.segments], withdrawn)
        if result is not None:
            self._tally.report(Committed(result.generation, self._tally.counts.documents, self._tally.counts.chunks))
        self._tally.note_repeated_ids()
        self._tally.note_left_out()

    def _count_once(self, answers: Sequence[BlockResult], last: Mapping[str, int]) -> None:
        """Count a document as written in its last block alone."""
        counts = self._tally.counts
        for answer in answers:
            again = [document_id for document_id in answer.written if last[document_id] != answer.block]
            counts.updated -= len(again)
            counts.chunks -= sum(answer.written[document_id].chunks for document_id in again)
            counts.new -= sum(answer.written[document_id].is_new for document_id in again)
            self._tally.add_repeated(
                len(again) + sum(last[document_id] != answer.block for document_id in answer.unchanged)
            )

    def delete_missing(self, *, force: bool) -> str | None:
        """Delete the documents that mirrored sources no longer have; the reason where they are too many."""
        if self._mirror is None:
            self._note_stored_drafts("--mirror deletes them")
            return None
        missing = self._mirror.missing_ids(self._writer, self._seen)
        refused = None if force else self._mirror.refusal(missing)
        document_ids = [document_id for ids in missing.values() for document_id in ids]
        if refused is None and document_ids:
            counts = self._tally.counts
            counts.deleted += self._writer.delete(document_ids)
            result = self._writer.commit()
            if result is not None:
                self._tally.report(Committed(result.generation, counts.documents, counts.chunks))
        if refused is not None:
            self._note_stored_drafts("--mirror --force deletes them")
        return refused

    def _note_stored_drafts(self, cure: str) -> None:
        self._tally.note_stored_drafts(find_stored_drafts(self._writer, self._left_out), cure)


def _error_of(code: str, message: str) -> AidreError:
    """The error of a worker, with its code, raised again by the driver."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AidreError)]
    return next((kind for kind in kinds if kind.code == code), AidreError)(message)


# -- without a cluster -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InProcessRunner:
    """A runner that does all blocks in this process, one after the other."""

    workers: int = 1

    def run(self, job: Job, blocks: Sequence[Block]) -> Iterator[pa.Table]:
        worker = Worker(job)
        for block in blocks:
            yield worker(block_table(block))
