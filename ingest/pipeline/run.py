"""One run of an ingest: routes the items of its sources, batch by batch, into a collection or a dry run.

A batch of documents passes through change detection (`changes`), chunking (`prechunk`, `record_builder`) and the output
(`output`: embedding, upserts, commits); `tally` counts. A batch of columnar rows takes the same path without an object
per row. The caller opens the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from aidre.engine.embedding import Embedder
from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, EmbeddingSpace, Record, Visibility
from aidre.engine.ports import Sink
from aidre.ingest.chunking import Chunker
from aidre.ingest.fetch import PUBLIC_ONLY, FetchRules
from aidre.ingest.pipeline.batching import BatchPolicy, CommitPolicy
from aidre.ingest.pipeline.changes import Candidate, ChangeDetector
from aidre.ingest.pipeline.embedding import VectorStage
from aidre.ingest.pipeline.fingerprint import settings_digest
from aidre.ingest.pipeline.mirror import Mirror, SeenIds, find_stored_drafts
from aidre.ingest.pipeline.output import CollectionOutput, DryRunOutput, Output
from aidre.ingest.pipeline.prechunk import Prechunker
from aidre.ingest.pipeline.progress import Event, Summary, Tally
from aidre.ingest.pipeline.record_builder import RecordBuilder
from aidre.ingest.records import (
    Item,
    ListingEnd,
    Mappings,
    Noted,
    Rejected,
    RowBatch,
    Unchanged,
    Unpublished,
    VectorRules,
)
from aidre.ingest.sites import UrlStyle
from aidre.ingest.sources import Source, check_source_roots

_NO_TEXT_HINTS = {".pdf": ": scanned pages need text recognition (--ocr)"}
"""Why a document may have no text, by suffix."""

Batch = Sequence[tuple[str, Document]]


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of the command line and the configuration.

    `source` names the source; `url_style` is the form of the addresses of pages; `commit_every` is the largest number
    of documents in a commit and `chunk_tokens` the size of a chunk; `dates` are the metadata fields to compare as
    instants; `mappings` give columns their meaning; `fetching` are the rules for addresses; `wait` is how many seconds
    another writer is waited for; `include_drafts` takes documents that their authors have not published, `code` source
    code in folders; `ocr` are the languages ("eng", "deu+eng") in which tesseract reads images and pages of PDF without
    text, None leaves them out; `requires_walls` and `parse_seconds`, the longest time of a document, are those of the
    sandbox.
    """

    source: str | None = None
    url_base: str | None = None
    mirror: bool = False
    force: bool = False
    commit_every: int | None = None
    dry_run: bool = False
    description: str | None = None
    visibility: Visibility | None = None
    dates: Collection[str] = ()
    chunk_tokens: int | None = None
    mappings: Mappings | None = None
    fetching: FetchRules = PUBLIC_ONLY
    wait: float = 0.0
    include_drafts: bool = False
    requires_walls: bool = False
    parse_seconds: float = 30.0
    code: bool = False
    url_style: UrlStyle = "auto"
    ocr: str | None = None


class Witness(Protocol):
    """Learns the outcome of each document that is not written: whoever merges several runs has to know all of them."""

    def unchanged(self, document_ids: Sequence[str]) -> None: ...
    def rejected(self, rejected: Rejected) -> None: ...
    def left_out(self, unpublished: Unpublished) -> None: ...


class Run:
    """The state of one ingest. A dry run into a collection that does not exist has no `writer`.

    `embedded` is the number of texts that were embedded again before the first document; `replaced` are ids of stored
    documents by the id of the document that takes their place. Raises ConfigurationError for a source name that is
    stored with another folder.
    """

    def __init__(
        self,
        writer: Sink | None,
        *,
        sources: Sequence[Source],
        spaces: Sequence[EmbeddingSpace],
        embedders: Mapping[str, Embedder],
        chunker: Chunker,
        options: IngestOptions,
        report: Callable[[Event], None],
        embedded: int = 0,
        witness: Witness | None = None,
        replaced: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._writer, self._options, self._witness, self._replaced = writer, options, witness, replaced or {}
        self._tally = Tally(report, embedded)
        commits = CommitPolicy(options.commit_every)
        models = [space.id for space in spaces if space.id in embedders]
        self._batches = BatchPolicy(commits, models, 4 * sum(space.dimensions for space in spaces))
        roots = {source.name: str(source.root) for source in sources}
        self._output: Output = DryRunOutput()
        if writer is not None and not options.dry_run:
            stage = VectorStage(writer, spaces, embedders, chunker)
            self._output = CollectionOutput(writer, stage, commits, self._tally, roots)
        self._rules = VectorRules(spaces, embedders.keys())
        self._changes = ChangeDetector(writer, settings_digest(spaces, chunker))
        snapshot = writer.snapshot if writer is not None else None
        in_advance = bool(embedders) and writer is not None and not snapshot
        self._prechunker = Prechunker(chunker.chunks, in_advance=in_advance)
        known = snapshot.fields if snapshot is not None and snapshot.can.vocabulary else frozenset
        self._builder = RecordBuilder(self._prechunker.chunks, known)
        self._seen = SeenIds()
        self._mirror = Mirror(sources, whole=options.source is not None) if options.mirror else None
        self._refused: str | None = None
        self._left_out: dict[str, set[str]] = {}
        """Origins of documents that are not published, by source."""
        if writer is not None:
            check_source_roots(writer.source_roots(), roots)
            if self._mirror is not None:
                self._mirror.count_stored(writer)

    @property
    def unread_sources(self) -> set[str]:
        """Names of sources that could not be read at all."""
        return self._tally.unread_sources

    @property
    def tally(self) -> Tally:
        """The counts so far."""
        return self._tally

    def note(self, text: str) -> None:
        self._tally.note(text)

    def summary(self, seconds: float) -> Summary:
        return self._tally.summary(seconds, refused=self._refused, dry_run=self._options.dry_run)

    def take(self, items: Iterator[Item]) -> None:
        """Ingest the items of one source in batches; commits come in between."""
        batch: list[tuple[str, Document]] = []
        for item in self._prechunker.stream(self._columns_to_documents(items)):
            if isinstance(item, Rejected):
                self._reject(item)
            elif isinstance(item, Unpublished):
                self._leave_out(item)
            elif isinstance(item, Noted):
                self._tally.note_file(item)
            elif isinstance(item, Unchanged):
                self._keep_unchanged(item)
            elif isinstance(item, ListingEnd):
                self._write_documents(batch)
                batch = []
                self._output.save_listing(item)
            elif isinstance(item, RowBatch):
                self._write_documents(batch)
                batch = []
                self._tally.found_sources.add(item.file.source)
                self._write_rows(item)
            elif self._accept_content(*item):
                self._tally.found_sources.add(item[1].source)
                self._tally.see_change((item[1].state or {}).get("expires"))
                batch.append(item)
                if self._batches.is_full_with(item[1]):
                    self._write_documents(batch)
                    batch = []
        self._write_documents(batch)

    def finish(self) -> None:
        """Commit the rest, delete documents that mirrored sources no longer have, merge and index after a bulk load."""
        self._output.commit()
        self._tally.note_repeated_ids()
        self._tally.note_rows_without_text()
        self._tally.note_more_files()
        self._tally.note_left_out()
        if self._mirror is not None and self._writer is not None:
            self._delete_missing(self._mirror, self._writer)
        if self._writer is not None and (self._mirror is None or self._refused is not None):
            cure = "--mirror deletes them" if self._mirror is None else "--mirror --force deletes them"
            self._tally.note_stored_drafts(find_stored_drafts(self._writer, self._left_out), cure)
        self._output.finish()

    # -- items that are not written --------------------------------------------------------------------------

    def _keep_unchanged(self, unchanged: Unchanged) -> None:
        self._tally.add_unchanged(unchanged.documents)
        if unchanged.documents:
            self._tally.found_sources.add(unchanged.source)
        if self._mirror is not None:
            self._mirror.keep_unchanged(unchanged)
        self._tally.report_progress()

    def _accept_content(self, where: str, document: Document) -> bool:
        fault = self._rules.find_missing(document.vectors)
        if fault is not None:
            self._fail(where, document, fault)
            return False
        if not document.vectors and (not document.text or document.text.isspace()):
            hint = "" if self._options.ocr else _NO_TEXT_HINTS.get(PurePath(where).suffix.lower(), "")
            self._tally.skip(where, hint)
            return False
        return True

    def _fail(self, where: str, document: Document, reason: str) -> None:
        self._reject(Rejected(where, reason, document.source, document.origin, document.id))

    def _keep_stored(self, document_ids: Sequence[str], changed: Collection[str]) -> None:
        """Count the documents that are stored already."""
        self._tally.add_unchanged(len(document_ids) - len(changed))
        if self._witness is not None:
            self._witness.unchanged([document_id for document_id in document_ids if document_id not in changed])

    def _leave_out(self, unpublished: Unpublished) -> None:
        self._tally.leave_out(unpublished)
        self._left_out.setdefault(unpublished.source, set()).add(unpublished.origin)
        if self._witness is not None:
            self._witness.left_out(unpublished)

    def _reject(self, rejected: Rejected) -> None:
        self._tally.reject(rejected)
        if self._witness is not None:
            self._witness.rejected(rejected)
        if rejected.document_id is not None:
            self._seen.add([rejected.document_id])
        elif self._mirror is not None:
            self._mirror.keep_rejected(rejected)

    # -- documents -------------------------------------------------------------------------------------------

    def _write_documents(self, batch: Batch) -> None:
        candidates = self._candidates(batch)
        changed = self._changes.changed_documents(candidates)
        changed_ids = {one.document.id for one in changed}
        stored = [one.document.id for one in candidates if one.document.id not in changed_ids]
        self._keep_stored([one.document.id for one in candidates], changed_ids)
        changed, records = self._build_records(changed)
        if records:
            faults = self._output.write(records)
            for position, reason in sorted(faults.items()):
                self._fail(changed[position].where, changed[position].document, reason)
            written = [position for position in range(len(records)) if position not in faults]
            stored += [changed[position].document.id for position in written]
            self._tally.add_written(
                len(written),
                new=sum(changed[position].is_new for position in written),
                chunks=sum(len(records[position].chunks) for position in written),
            )
        self._prechunker.clear()
        self._replace_former(stored)
        self._end_batch()

    def _replace_former(self, document_ids: Sequence[str]) -> None:
        """Delete the documents that the files of these had under other ids, in the same commit."""
        former = [one for document_id in document_ids for one in self._replaced.get(document_id, ())]
        if former:
            seen = self._seen.contains(former).tolist()
            gone = [one for one, is_seen in zip(former, seen, strict=True) if not is_seen]
            self._tally.counts.deleted += self._output.replace(gone)

    def _candidates(self, batch: Batch) -> list[Candidate]:
        """The last document of each id, with its fingerprint."""
        candidates: dict[str, Candidate] = {}
        for where, document in batch:
            try:
                candidate = self._changes.candidate(where, document)
            except InvalidDocument as error:
                self._fail(where, document, error.message)
                continue
            if document.id in candidates:
                self._tally.add_superseded(document.id)
            candidates[document.id] = candidate
        self._add_repeated(list(candidates))
        return list(candidates.values())

    def _add_repeated(self, ids: Sequence[str]) -> None:
        again = self._seen.add(ids)
        if again.any():
            pairs = zip(ids, again.tolist(), strict=True)
            self._tally.add_repeated(int(again.sum()), (one for one, is_again in pairs if is_again))

    def _build_records(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], list[Record]]:
        """The candidates that can be stored, and their records."""
        admitted, records = [], []
        for candidate in candidates:
            record = self._builder.build(candidate)
            fault = self._builder.admit(record)
            if fault is None:
                admitted.append(candidate)
                records.append(record)
            else:
                self._fail(candidate.where, candidate.document, fault)
        return admitted, records

    def _end_batch(self) -> None:
        self._tally.report_progress()
        self._output.end_batch()
        self._batches.next_batch()

    # -- columnar rows ---------------------------------------------------------------------------------------

    def _columns_to_documents(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, with rows that need embedding, and all rows of a dry run, as single documents."""
        for item in items:
            if isinstance(item, RowBatch) and not self._output.accepts_columns(item):
                yield from item.documents()
            else:
                yield item

    def _write_rows(self, rows: RowBatch) -> None:
        """Write rows with the same outcome as their documents one by one, without an object per row."""
        start = 0
        while start < len(rows):
            end = min(len(rows), start + self._batches.room())
            self._write_row_batch(rows.take(range(start, end)))
            start = end

    def _write_row_batch(self, rows: RowBatch) -> None:
        vectors = self._output.encode_columns(rows)
        if vectors is None or len(set(rows.ids)) < len(rows):
            self._write_rows_as_documents(rows)
            return
        changes = self._changes.compare_rows(rows)
        changed = changes.changed
        if changed and self._builder.admit_rows(rows.take(changed)) is not None:
            self._write_rows_as_documents(rows)
            return
        self._add_repeated(rows.ids)
        if changed:
            dated = self._changes.with_first_dates(rows, changes).take(changed)
            fingerprints = [changes.fingerprints[row] for row in changed]
            self._output.write_columns(dated, fingerprints, vectors.take(changed))
        self._keep_stored(rows.ids, {rows.ids[row] for row in changed})
        self._tally.add_written(len(changed), new=changes.new, chunks=len(changed))
        self._end_batch()

    def _write_rows_as_documents(self, rows: RowBatch) -> None:
        self._write_documents([item for item in rows.documents() if self._accept_content(*item)])

    # -- mirroring -------------------------------------------------------------------------------------------

    def _delete_missing(self, mirror: Mirror, writer: Sink) -> None:
        missing = mirror.missing_ids(writer, self._seen)
        self._refused = None if self._options.force else mirror.refusal(missing)
        if self._refused is None:
            document_ids = [document_id for ids in missing.values() for document_id in ids]
            self._tally.counts.deleted += self._output.delete(document_ids)
