"""Where a run writes: `CollectionOutput` embeds, upserts and commits; `DryRunOutput` does nothing in its place.

Both have the same methods, so that the run itself does not know whether it is a dry run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from aidre.engine.model import Record
from aidre.engine.ports import Sink
from aidre.engine.segment import RecordColumns, to_columns
from aidre.engine.types import CommitResult
from aidre.ingest.pipeline.batching import CommitPolicy
from aidre.ingest.pipeline.embedding import ChunkVectors, VectorStage
from aidre.ingest.pipeline.run_events import Committed, Tally
from aidre.ingest.records import ListingEnd, RowBatch


class CollectionOutput:
    """Writes to one collection. `roots` are the folders or sites of the sources, by source name."""

    def __init__(
        self, writer: Sink, stage: VectorStage, policy: CommitPolicy, tally: Tally, roots: Mapping[str, str]
    ) -> None:
        self._writer, self._stage, self._policy, self._tally, self._roots = writer, stage, policy, tally, roots
        self._counts_at_commit = (0, 0)

    # -- documents -------------------------------------------------------------------------------------------

    def accepts_columns(self, rows: RowBatch) -> bool:
        """Whether rows can be written without embedding anything."""
        return self._stage.is_covered_by(rows.vectors)

    def encode_columns(self, rows: RowBatch) -> ChunkVectors | None:
        """The vectors of rows in stored form; None if one of them cannot be stored."""
        return self._stage.encode_columns(rows.vectors)

    def write(self, records: Sequence[Record]) -> dict[int, str]:
        """Embed and upsert records. Returns the reason for each one whose vectors cannot be stored, by its position."""
        vectors = self._embed(records)
        faults = vectors.faults
        valid = [record for position, record in enumerate(records) if position not in faults]
        if faults and valid:
            vectors = self._embed(valid)
        if valid:
            self._upsert(to_columns(valid), vectors, {record.document.source for record in valid})
        return faults

    def write_columns(self, rows: RowBatch, fingerprints: Sequence[bytes], vectors: ChunkVectors) -> None:
        self._upsert(rows.to_records(fingerprints), vectors, {rows.file.source})

    def save_listing(self, listed: ListingEnd) -> None:
        """Remember the state of a listing whose documents are all written.

        A new state alone is no reason for a commit. After a failure the state is empty: the listing is read again. A
        stored state that does not hold any more, as after a run that took drafts, goes in any case.
        """
        counts, stored = self._tally.counts, self._writer.source_states().get(listed.origin)
        has_failures = listed.source in self._tally.failed_sources
        is_void = not listed.state and stored is not None and stored.keys() > {"kind"}
        if is_void or (counts.documents and (has_failures or counts.updated or stored is None)):
            state = {} if has_failures else listed.state
            self._writer.set_source_state(listed.origin, {**state, "kind": listed.kind})

    def replace(self, document_ids: Sequence[str]) -> int:
        """Delete documents with the commit of those that were written last; returns the number deleted."""
        return self._writer.delete(document_ids)

    def delete(self, document_ids: Sequence[str]) -> int:
        """Delete documents and commit; returns the number of documents deleted."""
        if not document_ids:
            return 0
        deleted = self._writer.delete(document_ids)
        self.commit()
        return deleted

    def _embed(self, records: Sequence[Record]) -> ChunkVectors:
        vectors = self._stage.encode_records(records)
        self._tally.counts.embedded += vectors.embedded
        return vectors

    def _upsert(self, records: RecordColumns, vectors: ChunkVectors, sources: Iterable[str]) -> None:
        self._writer.upsert(records, vectors.encoded, vectors.keys)
        self._policy.add(len(records.ids))
        for name in sources:
            self._writer.set_source_root(name, self._roots[name])

    # -- commits ---------------------------------------------------------------------------------------------

    def end_batch(self) -> None:
        """Report a commit that has become durable meanwhile, and start the next one if it is due."""
        if self._writer.is_commit_done:
            self._report(self._writer.wait_for_commit())
        if self._policy.is_due(self._writer):
            self._start_commit()
            self._report(self._writer.begin_commit())
            self._policy.committed()

    def commit(self) -> None:
        """Commit everything pending and wait until it is durable."""
        self._start_commit()
        self._report(self._writer.commit())
        self._policy.committed()

    def finish(self) -> None:
        """Leave the collection merged and indexed after a first bulk load."""
        self._writer.finish()

    def _start_commit(self) -> None:
        """Commits are reported when durable, in order, each with the counts at its start."""
        self._report(self._writer.wait_for_commit())
        self._counts_at_commit = self._tally.counts.documents, self._tally.counts.chunks

    def _report(self, result: CommitResult | None) -> None:
        if result is not None:
            self._tally.report(Committed(result.generation, *self._counts_at_commit))


class DryRunOutput:
    """Accepts everything and writes nothing: a run into it counts what would be written and deleted."""

    def accepts_columns(self, rows: RowBatch) -> bool:
        return False

    def encode_columns(self, rows: RowBatch) -> ChunkVectors | None:
        return None

    def write(self, records: Sequence[Record]) -> dict[int, str]:
        return {}

    def write_columns(self, rows: RowBatch, fingerprints: Sequence[bytes], vectors: ChunkVectors) -> None: ...

    def save_listing(self, listed: ListingEnd) -> None: ...

    def replace(self, document_ids: Sequence[str]) -> int:
        return len(document_ids)

    def delete(self, document_ids: Sequence[str]) -> int:
        return len(document_ids)

    def end_batch(self) -> None: ...

    def commit(self) -> None: ...

    def finish(self) -> None: ...


Output: TypeAlias = CollectionOutput | DryRunOutput
