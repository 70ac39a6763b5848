"""One run of an ingest: a line of stages from the items of its sources into a collection, or a dry run.

An item is read, checked, and on a first run split into chunks (`record_builder`): another thread does this ahead then,
and a bounded queue lies between. Documents come in batches (`batching`). A batch is compared with what is stored
(`change_detection`), becomes records (`record_builder`), and is embedded, written and committed (`output`); `tally`
counts it. A batch of columnar rows takes the same way without an object per row. The caller opens the sources.
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
from aidre.ingest.pipeline.batching import BatchPolicy, Checked, CommitPolicy, Located, PassedOver, Textless
from aidre.ingest.pipeline.change_detection import ChangeCandidate, ChangeDetector
from aidre.ingest.pipeline.embedding import VectorStage
from aidre.ingest.pipeline.fingerprint import settings_digest
from aidre.ingest.pipeline.mirror import Mirror, SeenIds, find_stored_drafts
from aidre.ingest.pipeline.output import CollectionOutput, DryRunOutput, Output
from aidre.ingest.pipeline.record_builder import RecordBuilder, split_ahead
from aidre.ingest.pipeline.run_events import Event, Summary, Tally
from aidre.ingest.records import (
    Item,
    ListingEnd,
    Mappings,
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
        models = [space.id for space in spaces if space.id in embedders]
        vector_bytes = 4 * sum(space.dimensions for space in spaces)
        roots = {source.name: str(source.root) for source in sources}
        self._tally = Tally(report, embedded)
        commits = CommitPolicy(options.commit_every)
        self._batches = BatchPolicy(commits, models, vector_bytes)
        self._output: Output = DryRunOutput()
        if writer is not None and not options.dry_run:
            stage = VectorStage(writer, spaces, embedders, chunker)
            self._output = CollectionOutput(writer, stage, commits, self._tally, roots)
        self._rules = VectorRules(spaces, embedders.keys())
        self._changes = ChangeDetector(writer, settings_digest(spaces, chunker))
        snapshot = writer.snapshot if writer is not None else None
        self._split = chunker.chunks
        self._splits_ahead = bool(embedders) and writer is not None and not snapshot
        known = snapshot.fields if snapshot is not None and snapshot.can.vocabulary else frozenset
        self._builder = RecordBuilder(chunker.chunks, known)
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

    def take(self, items: Iterable[Item]) -> None:
        """Ingest the items of one source in batches; commits come in between."""
        checked = self._checked(items)
        for item in self._batches.batches(split_ahead(checked, self._split) if self._splits_ahead else checked):
            if isinstance(item, list):
                self._write_documents(item)
            elif isinstance(item, RowBatch):
                self._tally.found_sources.add(item.file.source)
                self._write_rows(item)
            elif isinstance(item, ListingEnd):
                self._output.save_listing(item)
            else:
                self._pass_over(item)

    def finish(self) -> None:
        """Commit the rest, delete documents that mirrored sources no longer have, merge and index after a bulk load."""
        self._output.commit()
        self._tally.note_repeated_ids()
        self._tally.note_rows_without_text()
        self._tally.note_more_files()
        self._tally.note_left_out()
        if self._mirror is not None and self._writer is not None:
            self._delete_missing(self._mirror, self._writer)
        if self._left_out and self._writer is not None and (self._mirror is None or self._refused is not None):
            cure = "--mirror deletes them" if self._mirror is None else "--mirror --force deletes them"
            self._tally.note_stored_drafts(find_stored_drafts(self._writer, self._left_out), cure)
        self._output.finish()

    # -- items that are not written --------------------------------------------------------------------------

    def _checked(self, items: Iterable[Item]) -> Iterator[Checked]:
        """The items, with documents that can be written. Rows that need embedding, and all rows of a dry run, become
        single documents. Reads the settings of the run alone: another thread goes through it."""
        for item in items:
            if isinstance(item, RowBatch) and not self._output.accepts_columns(item):
                yield from map(self._check, item.documents())
            else:
                yield self._check(item) if isinstance(item, tuple) else item

    def _check(self, item: tuple[str, Document]) -> Located | Textless | Rejected:
        where, document = item
        if not self._rules.required <= (document.vectors or {}).keys():
            return _rejected(where, document, self._rules.explain_missing(document.vectors))
        if not document.vectors and (not document.text or document.text.isspace()):
            hint = "" if self._options.ocr else _NO_TEXT_HINTS.get(PurePath(where).suffix.lower(), "")
            return Textless(where, hint)
        return Located(where, document)

    def _pass_over(self, item: PassedOver) -> None:
        if isinstance(item, Textless):
            self._tally.skip(item.where, item.hint)
        elif isinstance(item, Rejected):
            self._reject(item)
        elif isinstance(item, Unchanged):
            self._keep_unchanged(item)
        elif isinstance(item, Unpublished):
            self._leave_out(item)
        else:
            self._tally.note_file(item)

    def _keep_unchanged(self, unchanged: Unchanged) -> None:
        self._tally.add_unchanged(unchanged.documents)
        if unchanged.documents:
            self._tally.found_sources.add(unchanged.source)
        if self._mirror is not None:
            self._mirror.keep_unchanged(unchanged)
        self._tally.report_progress()

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

    def _write_documents(self, batch: Sequence[Located]) -> None:
        candidates = self._candidates(batch)
        changed = self._changes.changed_documents(candidates)
        unchanged = _ids_beside(candidates, changed)
        written, records = self._write_records(changed)
        self._tally.add_batch(
            unchanged=len(unchanged),
            written=len(written),
            new=sum(candidate.stored_fingerprint is None for candidate in written),
            chunks=sum(len(record.chunks) for record in records),
        )
        if self._witness is not None:
            self._witness.unchanged(unchanged)
        self._replace_former([*unchanged, *(candidate.document.id for candidate in written)])
        self._output.end_batch()

    def _write_records(self, changed: Sequence[ChangeCandidate]) -> tuple[list[ChangeCandidate], list[Record]]:
        """Write what can be stored of the changed documents: these, and their records."""
        admitted: list[ChangeCandidate] = []
        records: list[Record] = []
        for candidate, built in zip(changed, self._builder.build(changed), strict=True):
            if isinstance(built, str):
                self._reject(_rejected(candidate.where, candidate.document, built))
            else:
                admitted.append(candidate)
                records.append(built)
        faults = self._output.write(records) if records else {}
        for position, reason in sorted(faults.items()):
            self._reject(_rejected(admitted[position].where, admitted[position].document, reason))
        stored = [position for position in range(len(records)) if position not in faults]
        return [admitted[position] for position in stored], [records[position] for position in stored]

    def _replace_former(self, document_ids: Sequence[str]) -> None:
        """Delete the documents that the files of these had under other ids, in the same commit."""
        former = [former_id for document_id in document_ids for former_id in self._replaced.get(document_id, ())]
        if former:
            seen = self._seen.contains(former).tolist()
            gone = [former_id for former_id, is_seen in zip(former, seen, strict=True) if not is_seen]
            self._tally.counts.deleted += self._output.replace(gone)

    def _candidates(self, batch: Sequence[Located]) -> list[ChangeCandidate]:
        """The last document of each id, with its fingerprint."""
        candidates: dict[str, ChangeCandidate] = {}
        for (where, document, _), candidate in zip(batch, self._changes.candidates(batch), strict=True):
            self._tally.found_sources.add(document.source)
            if document.state is not None and (expires := document.state.get("expires")) is not None:
                self._tally.see_change(expires)
            if isinstance(candidate, InvalidDocument):
                self._reject(_rejected(where, document, candidate.message))
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
            self._tally.add_repeated(int(again.sum()), (document_id for document_id, is_again in pairs if is_again))

    # -- columnar rows ---------------------------------------------------------------------------------------

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
        self._tally.add_batch(
            unchanged=len(rows) - len(changed), written=len(changed), new=changes.new, chunks=len(changed)
        )
        if self._witness is not None:
            written = set(changed)
            self._witness.unchanged([document_id for row, document_id in enumerate(rows.ids) if row not in written])
        self._output.end_batch()

    def _write_rows_as_documents(self, rows: RowBatch) -> None:
        documents = []
        for item in map(self._check, rows.documents()):
            if isinstance(item, Located):
                documents.append(item)
            else:
                self._pass_over(item)
        self._write_documents(documents)

    # -- mirroring -------------------------------------------------------------------------------------------

    def _delete_missing(self, mirror: Mirror, writer: Sink) -> None:
        missing = mirror.missing_ids(writer, self._seen)
        self._refused = None if self._options.force else mirror.refusal(missing)
        if self._refused is None:
            document_ids = [document_id for ids in missing.values() for document_id in ids]
            self._tally.counts.deleted += self._output.delete(document_ids)


def _rejected(where: str, document: Document, reason: str) -> Rejected:
    return Rejected(where, reason, document.source, document.origin, document.id)


def _ids_beside(candidates: Sequence[ChangeCandidate], changed: Sequence[ChangeCandidate]) -> list[str]:
    """The ids of the candidates that are not changed."""
    changed_ids = {candidate.document.id for candidate in changed}
    return [candidate.document.id for candidate in candidates if candidate.document.id not in changed_ids]
