"""One run of an ingest: batches of documents into a writer, commits in time, counts of what happened.

Knows no file format; where the documents come from is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from time import monotonic

import orjson

from aidre.engine.embed import Embedder
from aidre.engine.errors import ConfigurationError, InvalidDocument
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Record, Visibility
from aidre.engine.writer import Writer
from aidre.ingest.chunk import Chunker
from aidre.ingest.embedding import Vectors, VectorStage
from aidre.ingest.fetch import PUBLIC_ONLY, FetchRules
from aidre.ingest.fingerprint import fingerprint, same_text, settings_digest
from aidre.ingest.found import Found, Listed, Rejected, Unchanged
from aidre.ingest.mapping import ColumnMapping
from aidre.ingest.members import printable
from aidre.ingest.mirror import Mirror, SeenIds
from aidre.ingest.progress import Committed, Event, Notice, Problem, Progress, Summary
from aidre.ingest.sources import AnySource
from aidre.ingest.vectors import VectorRules

COMMIT_DOCUMENTS = 50_000
COMMIT_BYTES = 256 << 20
COMMIT_SECONDS = 30.0

BATCH_DOCUMENTS = 8192
BATCH_BYTES = 64 << 20
EMBEDDED_DOCUMENTS = 1024
EMBEDDED_CHARACTERS = 1 << 20
"""Bounds of a batch; the lower ones are for documents that have to be embedded, so that commits come in time."""

BATCH_SECONDS = 30.0
"""Documents that come slowly, over the net, do not wait longer for others."""

LARGEST_REPEATED = 256 << 20
"""Bytes of what all chunks of a document repeat, in all of them: a few megabytes of metadata would fill a disk."""

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
class Counts:
    """What Summary says of them."""

    documents: int = 0
    chunks: int = 0
    embedded: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: int = 0
    skipped: int = 0
    new: int = 0


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
        self._writer, self._chunker, self._options, self._report = writer, chunker, options, report
        self._stage = VectorStage(writer, spaces, embedders, chunker) if writer and not options.dry_run else None
        self._rules = VectorRules(spaces, embedders.keys())
        self._models = frozenset(space.id for space in spaces if space.id in embedders)
        self._vector_bytes = 4 * sum(space.dimensions for space in spaces)
        self._settings = settings_digest(spaces, chunker)
        self._roots = {source.name: str(source.root) for source in sources}
        self._seen = SeenIds()
        self._mirror = Mirror(sources, whole=options.source is not None) if options.mirror else None
        self._counts = Counts(embedded=embedded)
        self._faulty: set[str] = set()
        self._repeated = 0
        self._pending = 0
        self._committed_at = monotonic()
        self._refused: str | None = None
        if writer is not None:
            self._check_roots(writer)
            if self._mirror is not None:
                self._mirror.begin(writer)

    def note(self, text: str) -> None:
        self._report(Notice(text))

    def summary(self, seconds: float) -> Summary:
        counts = {name: getattr(self._counts, name) for name in Counts.__slots__}
        return Summary(**counts, seconds=seconds, refused=self._refused, dry_run=self._options.dry_run)

    # -- documents in ----------------------------------------------------------------------------------------

    def take(self, found: Iterator[Found]) -> None:
        """Ingest documents in batches, committing as they pile up."""
        batch: list[tuple[str, Document]] = []
        fill, room, began = 0.0, self._room(), monotonic()
        for each in found:
            if isinstance(each, Rejected):
                self._reject(each)
            elif isinstance(each, Unchanged):
                self._pass_over(each)
            elif isinstance(each, Listed):
                self._take_batch(batch)
                batch, fill, room, began = [], 0.0, self._room(), monotonic()
                self._keep_state(each)
            elif self._is_fit(*each):
                batch.append(each)
                fill += self._share(each[1])
                if fill >= 1.0 or len(batch) >= room or monotonic() - began >= BATCH_SECONDS:
                    self._take_batch(batch)
                    batch, fill, room, began = [], 0.0, self._room(), monotonic()
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

    def _room(self) -> int:
        """How many documents the next batch may have, so that a commit comes exactly when it was asked for."""
        every = self._options.commit_every
        return BATCH_DOCUMENTS if every is None else min(BATCH_DOCUMENTS, max(1, every - self._pending))

    def _share(self, document: Document) -> float:
        """The part of a batch that a document takes."""
        characters = len(document.text)
        share = max(1 / BATCH_DOCUMENTS, (characters + self._vector_bytes) / BATCH_BYTES)
        if self._models and not (document.vectors and document.vectors.keys() >= self._models):
            share = max(share, 1 / EMBEDDED_DOCUMENTS, characters / EMBEDDED_CHARACTERS)
        return share

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
        self._report(Problem(rejected.where, printable(rejected.reason[:LONGEST_REASON])))
        if rejected.document_id is not None:
            self._seen.add([rejected.document_id])
        elif self._mirror is not None:
            self._mirror.keep(rejected)

    # -- one batch -------------------------------------------------------------------------------------------

    def _take_batch(self, batch: Sequence[tuple[str, Document]]) -> None:
        changed, records = self._records(self._changed(self._candidates(batch)))
        if changed:
            faults = self._store(records)
            for at, reason in sorted(faults.items()):
                self._fail(changed[at].where, changed[at].document, reason)
            self._count([each for at, each in enumerate(changed) if at not in faults])
            self._counts.chunks += sum(len(each.chunks) for at, each in enumerate(records) if at not in faults)
        self._report(Progress(self._counts.documents, self._counts.chunks))
        if self._is_time_to_commit():
            self._commit()

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
        self._counts.unchanged += len(candidates) - len(changed)
        self._counts.documents += len(candidates) - len(changed)
        return changed

    def _records(self, candidates: Sequence[_Candidate]) -> tuple[list[_Candidate], list[Record]]:
        """Those that can be stored, and their records."""
        changed, records = [], []
        for candidate in candidates:
            record = self._record(candidate)
            fault = _repeats_too_much(record)
            if fault is None:
                changed.append(candidate)
                records.append(record)
            else:
                self._fail(candidate.where, candidate.document, fault)
        return changed, records

    def _record(self, candidate: _Candidate) -> Record:
        document = candidate.document
        if not document.vectors:
            return Record(document, self._chunker.chunks(document), candidate.mark)
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
            self._upsert(fit, again)
        elif fit:
            self._upsert(fit, made)
        return made.faults

    def _upsert(self, records: Sequence[Record], made: Vectors) -> None:
        if self._writer is not None:
            self._writer.upsert(records, made.encoded, made.keys)
            self._pending += len(records)
            for name in {record.document.source for record in records}:
                self._writer.set_source_root(name, self._roots[name])

    def _count(self, written: Sequence[_Candidate]) -> None:
        self._counts.documents += len(written)
        self._counts.updated += len(written)
        self._counts.new += sum(each.known is None for each in written)

    # -- generations -----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Commit the rest, delete what a mirrored source no longer has, leave the store compact after a bulk load."""
        self._commit()
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
            self._commit()

    def _is_time_to_commit(self) -> bool:
        if self._writer is None or not self._pending:
            return False
        if self._options.commit_every is not None:
            return self._pending >= self._options.commit_every or self._writer.is_full
        return (
            self._pending >= COMMIT_DOCUMENTS
            or self._writer.pending_bytes >= COMMIT_BYTES
            or monotonic() - self._committed_at >= COMMIT_SECONDS
        )

    def _commit(self) -> None:
        result = None if self._writer is None or self._options.dry_run else self._writer.commit()
        if result is not None:
            self._report(Committed(result.generation, self._counts.documents, self._counts.chunks))
        self._pending, self._committed_at = 0, monotonic()

    def _check_roots(self, writer: Writer) -> None:
        """Refuse a source name that another folder has; a folder that is gone passes its name on."""
        known = writer.source_roots()
        for name, root in self._roots.items():
            other = known.get(name, root)
            if other != root and Path(other).exists():
                raise ConfigurationError(
                    f"source {name!r} is already {other}: give {root} a name of its own with --source NAME"
                )


def _repeats_too_much(record: Record) -> str | None:
    document, count = record.document, len(record.chunks)
    about = (document.title, document.url, document.section, document.metadata)
    size = len(orjson.dumps(about)) if count > 1 else 0
    if size * count <= LARGEST_REPEATED:
        return None
    return (
        f"its title, url, section and metadata have {size:,} bytes, which each of its {count:,} chunks repeats: "
        "shorten them, or move what nobody filters by into semantic_payload"
    )
