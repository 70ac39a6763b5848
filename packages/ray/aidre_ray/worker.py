"""A worker: reads, chunks and embeds the documents of a block, and writes them as segments. Knows no Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from aidre.engine.collection import Store
from aidre.engine.errors import AidreError
from aidre.ingest.pipeline import Event, Notice, Run, ingest
from aidre.ingest.records import Item, Rejected, Unpublished, VectorRules
from aidre.ingest.sandbox import SHARED, TABLES, set_rules
from aidre.ingest.sites import Sites
from aidre.ingest.sources import read_file, with_page
from aidre_ray.blocks import Block, block_from_json, items_of_part
from aidre_ray.job import ANSWER_SCHEMA, BlockResult, Job, to_table
from aidre_ray.segment_sink import SegmentSink


class Worker:
    """Holds the models and the generation that documents are compared with, for all blocks that it is given."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._models = job.load()
        self._found: dict[str, Sites] = {}
        self._snapshot = (
            None if job.generation is None else Store(job.store).open(job.collection, generation=job.generation)
        )

    def __call__(self, blocks: pa.Table) -> pa.Table:
        """The answers to some blocks, one row each in the column `block`."""
        answers = [to_table(self.answer(block_from_json(text))) for text in blocks.column("block").to_pylist()]
        return pa.concat_tables([ANSWER_SCHEMA.empty_table(), *answers])

    def answer(self, block: Block) -> BlockResult:
        """The outcome of a block; an error that ends the run is a part of it."""
        try:
            with SHARED, TABLES:
                return self._write(block)
        except AidreError as error:
            return BlockResult(block.number, fault=(error.code, error.message))

    def _write(self, block: Block) -> BlockResult:
        job = self._job
        answer = BlockResult(block.number)
        sink = SegmentSink(job, self._snapshot, block.number)
        witness = _OutcomeCollector(answer)
        spaces = list(job.configured)
        run = Run(
            sink,
            sources=job.sources,
            spaces=spaces,
            embedders=self._models,
            chunker=ingest.chunker_for(spaces, self._models, job.options.chunk_tokens),
            options=replace(job.options, mirror=False, dry_run=False, commit_every=None),
            report=witness.report,
            witness=witness,
        )
        rules = VectorRules(spaces, self._models.keys())
        run.take(items_of_part(self._items(block, rules), block))
        run.tally.note_rows_without_text()
        for document_id, (times, chunks) in sink.withdraw_stored().items():
            answer.unchanged.append(document_id)
            run.tally.counts.updated -= times
            run.tally.counts.chunks -= chunks
        sink.commit()
        answer.segments, answer.written, answer.sources = sink.segments, sink.written, sink.source_names
        answer.unchanged = [document_id for document_id in answer.unchanged if document_id not in sink.written]
        answer.found = sorted(run.tally.found_sources)
        answer.counts, answer.repeated_ids = run.tally.counts, run.tally.repeated_ids
        return answer

    def _items(self, block: Block, rules: VectorRules) -> Iterator[Item]:
        options = self._job.options
        as_of = None if options.include_drafts else datetime.fromisoformat(self._job.now)
        set_rules(requires_walls=options.requires_walls, seconds=options.parse_seconds)
        for file in block.files:
            yield from read_file(with_page(file, self._sites(file.source, as_of)), rules, options.mappings, as_of)

    def _sites(self, name: str, as_of: datetime | None) -> Sites:
        """The websites of a source of the job, which each worker finds by itself."""
        if name not in self._found:
            self._found[name] = next(source for source in self._job.sources if source.name == name).sites(as_of)
        return self._found[name]


class _OutcomeCollector:
    """Collects the outcomes and notices of a run in an answer."""

    def __init__(self, answer: BlockResult) -> None:
        self._answer = answer

    def unchanged(self, document_ids: Sequence[str]) -> None:
        self._answer.unchanged += document_ids

    def rejected(self, rejected: Rejected) -> None:
        self._answer.rejected.append(rejected)

    def left_out(self, unpublished: Unpublished) -> None:
        self._answer.left_out.append(unpublished)

    def report(self, event: Event) -> None:
        if isinstance(event, Notice):
            self._answer.notices.append(event.text)
