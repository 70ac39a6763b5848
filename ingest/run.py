"""One run of an ingest: batches of documents into a writer, commits in time, counts of what happened.

Knows no file format; where the documents come from is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath

from aidre.engine.commits import CommitResult
from aidre.engine.embed import Embedder
from aidre.engine.errors import InvalidDocument
from aidre.engine.field_rows import names_of
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Record, Visibility
from aidre.engine.records import Records, columns_of
from aidre.engine.writer import Writer
from aidre.ingest.chunk import Chunker, repeats_too_much
from aidre.ingest.cutting import Cutter
from aidre.ingest.embedding import Vectors, VectorStage
from aidre.ingest.fetch import PUBLIC_ONLY, FetchRules
from aidre.ingest.field_names import FieldNames
from aidre.ingest.fingerprint import fingerprint, fingerprints, same_text, settings_digest
from aidre.ingest.found import Found, Listed, Rejected, Unchanged
from aidre.ingest.mapping import ColumnMapping
from aidre.ingest.members import printable
from aidre.ingest.mirror import Mirror, SeenIds
from aidre.ingest.pacing import Pace
from aidre.ingest.plain_rows import PlainRows
from aidre.ingest.progress import Committed, Counts, Event, Notice, Problem, Progress, Summary
from aidre.ingest.sources import AnySource, check_roots
from aidre.ingest.vectors import VectorRules

LONGEST_REASON = 500
_WITHOUT_TEXT = {".pdf": ": of scanned pages it has to be recognised first"}


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What the command line and the configuration say. `source` names the source; `commit_every` fixes a commit's
    documents, `chunk_tokens` the size of a chunk; `dates` are the metadata fields to compare as instants, `mapping`
    says what columns mean, `fetching` are the rules for addresses."""

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
    mapping: ColumnMapping | None = None
    fetching: FetchRules = PUBLIC_ONLY


@dataclass(slots=True)
class _Candidate:
    """A document that may have to be written: where it was read, its fingerprint, and the one that is stored."""

    where: str
    document: Document
    mark: bytes
    known: bytes | None = None


class Run:
    """The state of one ingest. Without a writer (a dry run into nothing) nothing is stored yet."""

    def __init__(
        self,
        writer: Writer | None,
        *,
        sources: Sequence[AnySource],
        spaces: Sequence[EmbeddingSpace],
        embedders: Mapping[str, Embedder],
        chunker: Chunker,
        options: IngestOptions,
        report: Callable[[Event], None],
        embedded: int = 0,
    ) -> None:
        self._writer, self._options, self._report = writer, options, report
        self._cutter = Cutter(chunker.chunks, in_advance=bool(embedders) and writer is not None and not writer.snapshot)
        self._stage = VectorStage(writer, spaces, embedders, chunker) if writer and not options.dry_run else None
        self._rules = VectorRules(spaces, embedders.keys())
        models = [space.id for space in spaces if space.id in embedders]
        self._pace = Pace(options.commit_every, models, 4 * sum(space.dimensions for space in spaces))
        self._settings = settings_digest(spaces, chunker)
        self._roots = {source.name: str(source.root) for source in sources}
        snapshot = writer.snapshot if writer is not None else None
        self._fields = FieldNames(frozenset if snapshot is None else snapshot.fields)
        self._seen = SeenIds()
        self._mirror = Mirror(sources, whole=options.source is not None) if options.mirror else None
        self._counts = Counts(embedded=embedded)
        self._faulty: set[str] = set()
        self.unread: set[str] = set()  # sources of which nothing at all could be read
        self._repeated = 0
        self._begun = (0, 0)
        self._refused: str | None = None
        if writer is not None:
            check_roots(writer.source_roots(), self._roots)
            if self._mirror is not None:
                self._mirror.begin(writer)

    def note(self, text: str) -> None:
        self._report(Notice(text))

    def summary(self, seconds: float) -> Summary:
        return Summary(**asdict(self._counts), seconds=seconds, refused=self._refused, dry_run=self._options.dry_run)

    # -- documents in ----------------------------------------------------------------------------------------

    def take(self, found: Iterator[Found]) -> None:
        """Ingest documents in batches, committing as they pile up."""
        batch: list[tuple[str, Document]] = []
        for each in self._cutter.stream(self._one_by_one(found)):
            if isinstance(each, Rejected):
                self._reject(each)
            elif isinstance(each, Unchanged):
                self._pass_over(each)
            elif isinstance(each, Listed | PlainRows):
                self._take_batch(batch)
                if isinstance(each, Listed):
                    self._keep_state(each)
                else:
                    self._take_rows(each)
                batch = []
            elif self._is_fit(*each):
                batch.append(each)
                if self._pace.is_full_with(each[1]):
                    self._take_batch(batch)
                    batch = []
        self._take_batch(batch)

    def _pass_over(self, unchanged: Unchanged) -> None:
        self._counts.documents += unchanged.documents
        self._counts.unchanged += unchanged.documents
        if self._mirror is not None:
            self._mirror.pass_over(unchanged)
        self._report(Progress(self._counts.documents, self._counts.chunks))

    def _keep_state(self, listed: Listed) -> None:
        """Remember the state of a listing when all of it is stored; a new state alone is no reason for a commit."""
        if self._writer is None or self._options.dry_run or not self._counts.documents:
            return
        is_faulty = listed.source in self._faulty
        if is_faulty or self._counts.updated or listed.origin not in self._writer.source_states():
            state = {} if is_faulty else listed.state
            self._writer.set_source_state(listed.origin, {**state, "kind": listed.kind})

    def _is_fit(self, where: str, document: Document) -> bool:
        fault = self._rules.missing(document.vectors)
        if fault is not None:
            self._fail(where, document, fault)
            return False
        if not document.vectors and (not document.text or document.text.isspace()):
            self._counts.skipped += 1
            hint = _WITHOUT_TEXT.get(PurePath(where).suffix.lower(), "")
            self.note(f"{where}: no text, skipped{hint}")
            return False
        return True

    def _fail(self, where: str, document: Document, reason: str) -> None:
        self._reject(Rejected(where, reason, document.source, document.origin, document.id))

    def _reject(self, rejected: Rejected) -> None:
        self._counts.failed += 1
        self._faulty.add(rejected.source)
        if rejected.folder and rejected.origin == ".":
            self.unread.add(rejected.source)
        self._report(Problem(rejected.where, printable(rejected.reason[:LONGEST_REASON])))
        if rejected.document_id is not None:
            self._seen.add([rejected.document_id])
        elif self._mirror is not None:
            self._mirror.keep(rejected)

    # -- rows that are columns -------------------------------------------------------------------------------

    def _one_by_one(self, found: Iterable[Found]) -> Iterator[Found]:
        """Rows of which something has to be embedded, and those of a dry run, as documents."""
        for each in found:
            if isinstance(each, PlainRows) and (self._stage is None or not self._stage.is_served_by(each.vectors)):
                yield from each.documents()
            else:
                yield each

    def _take_rows(self, rows: PlainRows) -> None:
        """What the same rows one by one would come to, without an object a row."""
        first = 0
        while first < len(rows):
            end = min(len(rows), first + self._pace.room())
            self._take_table(rows.chosen(range(first, end)))
            first = end

    def _take_table(self, rows: PlainRows) -> None:
        made = None if self._stage is None else self._stage.stored(rows.vectors)
        if self._writer is None or made is None or len(set(rows.ids)) < len(rows):
            self._take_documents(rows)
            return
        marks = fingerprints(rows, self._settings)
        known = self._writer.fingerprints(rows.ids)
        changed = [at for at, (mark, old) in enumerate(zip(marks, known, strict=True)) if mark != old]
        if changed and self._fields.take(rows.chosen(changed).field_names()) is not None:
            self._take_documents(rows)
            return
        self._repeated += int(self._seen.add(rows.ids).sum())
        again = [at for at in changed if known[at] is not None]
        undated = [at for at in again if not rows.updated_at[at].is_valid and same_text(marks[at], known[at] or b"")]
        if undated:
            rows = rows.dated(undated, self._writer.updated_at([rows.ids[at] for at in undated]))
        if changed:
            records = rows.chosen(changed).records([marks[at] for at in changed])
            self._upsert(records, made.chosen(changed), {rows.file.source})
        self._count(len(rows), len(changed), len(changed) - len(again))
        self._counts.chunks += len(changed)
        self._end_batch()

    def _take_documents(self, rows: PlainRows) -> None:
        self._take_batch([each for each in rows.documents() if self._is_fit(*each)])

    # -- one batch -------------------------------------------------------------------------------------------

    def _take_batch(self, batch: Sequence[tuple[str, Document]]) -> None:
        changed, records = self._records(self._changed(self._candidates(batch)))
        if changed:
            faults = self._store(records)
            for at, reason in sorted(faults.items()):
                self._fail(changed[at].where, changed[at].document, reason)
            written = [each for at, each in enumerate(changed) if at not in faults]
            self._count(len(written), len(written), sum(each.known is None for each in written))
            self._counts.chunks += sum(len(each.chunks) for at, each in enumerate(records) if at not in faults)
        self._cutter.forget()
        self._end_batch()

    def _end_batch(self) -> None:
        self._report(Progress(self._counts.documents, self._counts.chunks))
        if self._writer is not None and self._writer.is_settled:
            self._tell(self._writer.settle())
        if self._writer is not None and self._pace.is_commit_due(self._writer):
            self._commit()
        self._pace.next_batch()

    def _candidates(self, batch: Sequence[tuple[str, Document]]) -> dict[str, _Candidate]:
        """The last document of each id, with its fingerprint."""
        candidates: dict[str, _Candidate] = {}
        for where, document in batch:
            try:
                candidate = _Candidate(where, document, fingerprint(document, self._settings))
            except InvalidDocument as error:
                self._fail(where, document, error.message)
                continue
            if document.id in candidates:
                self._repeated += 1
                self._counts.documents += 1
            candidates[document.id] = candidate
        self._repeated += int(self._seen.add(list(candidates)).sum())
        return candidates

    def _changed(self, candidates: Mapping[str, _Candidate]) -> list[_Candidate]:
        """Those that the store has not, or has differently."""
        if self._writer is None:
            return list(candidates.values())
        changed, undated = [], []
        for candidate, known in zip(candidates.values(), self._writer.fingerprints(list(candidates)), strict=True):
            if candidate.mark == known:
                continue
            candidate.known = known
            changed.append(candidate)
            if known is not None and candidate.document.updated_at is None and same_text(candidate.mark, known):
                undated.append(candidate)
        if undated:
            # The time of the first ingest of a text stays with it while only what is around it changes.
            dates = self._writer.updated_at([each.document.id for each in undated])
            for candidate, date in zip(undated, dates, strict=True):
                candidate.document = replace(candidate.document, updated_at=date)
        self._count(len(candidates) - len(changed), 0, 0)
        return changed

    def _records(self, candidates: Sequence[_Candidate]) -> tuple[list[_Candidate], list[Record]]:
        """Those that can be stored, and their records."""
        changed, records = [], []
        for candidate in candidates:
            record = self._record(candidate)
            contents = candidate.document.metadata, candidate.document.schema_object
            fault = repeats_too_much(record) or self._fields.take(names_of(contents))
            if fault is None:
                changed.append(candidate)
                records.append(record)
            else:
                self._fail(candidate.where, candidate.document, fault)
        return changed, records

    def _record(self, candidate: _Candidate) -> Record:
        document = candidate.document
        if not document.vectors:
            return Record(document, self._cutter.chunks(document), candidate.mark)
        text = document.text
        chunk = Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text), document.section)
        return Record(document, (chunk,), candidate.mark)

    def _store(self, records: Sequence[Record]) -> dict[int, str]:
        """Hand records to the writer; returns those whose vectors cannot be stored, by place, with the reason."""
        if self._stage is None:
            return {}
        made = self._stage.vectors(records)
        self._counts.embedded += made.embedded
        fit = [record for at, record in enumerate(records) if at not in made.faults]
        if made.faults and fit:
            again = self._stage.vectors(fit)
            self._counts.embedded += again.embedded
            made, faults = again, made.faults
        else:
            faults = made.faults
        if fit:
            self._upsert(columns_of(fit), made, {record.document.source for record in fit})
        return faults

    def _upsert(self, records: Records, made: Vectors, sources: Iterable[str]) -> None:
        if self._writer is not None:
            self._writer.upsert(records, made.encoded, made.keys)
            self._pace.put(len(records.ids))
            for name in sources:
                self._writer.set_source_root(name, self._roots[name])

    def _count(self, read: int, written: int, new: int) -> None:
        self._counts.documents += read
        self._counts.unchanged += read - written
        self._counts.updated += written
        self._counts.new += new

    # -- generations -----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Commit the rest, delete what a mirrored source no longer has, leave the store compact after a bulk load."""
        self._commit(wait=True)
        if self._repeated:
            self.note(f"{self._repeated} documents had an id that came before: the last of each id was kept")
        if self._writer is None:
            return
        if self._mirror is not None:
            self._delete(self._mirror, self._writer)
        if not self._options.dry_run:
            self._writer.finish()

    def _delete(self, mirror: Mirror, writer: Writer) -> None:
        gone = mirror.gone(writer, self._seen)
        self._refused = None if self._options.force else mirror.refusal(gone)
        if self._refused is not None:
            return
        ids = [identity for each in gone.values() for identity in each]
        self._counts.deleted = len(ids)
        if ids and not self._options.dry_run:
            self._counts.deleted = writer.delete(ids)
            self._commit(wait=True)

    def _commit(self, *, wait: bool = False) -> None:
        """Begin a commit; it is told of when it is durable, after the one before it."""
        if self._writer is not None and not self._options.dry_run:
            self._tell(self._writer.settle())
            self._begun = self._counts.documents, self._counts.chunks
            self._tell(self._writer.commit() if wait else self._writer.begin_commit())
        self._pace.committed()

    def _tell(self, result: CommitResult | None) -> None:
        if result is not None:
            self._report(Committed(result.generation, *self._begun))
