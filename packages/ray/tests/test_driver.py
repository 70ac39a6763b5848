"""A distributed ingest in this process: the outcome is that of a local one, whatever the blocks are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aidre.engine.collection.generations import Generations
from aidre.engine.collection.store import Store
from aidre.engine.errors import ConfigurationError, StorageFailed
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import durable
from aidre.ingest.pipeline.ingest import ingest
from aidre.ingest.pipeline.run import IngestOptions
from aidre.ingest.pipeline.run_events import Committed, DocumentProblem, Event, Notice, Summary
from aidre_ray import blocks as blocks_module
from aidre_ray.blocks import Block
from aidre_ray.driver import InProcessRunner, ingest_distributed
from aidre_ray.job import Job, Runner
from tests.support.distributed import (
    SPACES,
    TIME,
    WORDS,
    contents,
    load_models,
    row,
    searches,
    write_corpus,
    write_pages,
    write_rows,
)

MANY = InProcessRunner(workers=8)


@dataclass
class Pair:
    """One folder of sources, ingested into one store locally and into another one by workers."""

    root: Path
    spaces: Sequence[EmbeddingSpace] = SPACES
    runner: Runner = MANY
    events: dict[str, list[Event]] = field(default_factory=dict)

    @property
    def docs(self) -> Path:
        return self.root / "docs"

    def store(self, name: str) -> Store:
        return Store(self.root / name)

    def local(self, **options: Any) -> Summary:
        self.events["local"] = []
        models = {space: model for space, model in load_models().items() if WORDS in self.spaces}
        return ingest(
            self.store("local"),
            "c",
            [self.docs],
            spaces=self.spaces,
            embedders=models,
            options=IngestOptions(**options),
            report=self.events["local"].append,
        )

    def distributed(self, *sources: Path, **options: Any) -> Summary:
        self.events["workers"] = []
        return ingest_distributed(
            self.store("workers"),
            "c",
            sources or [self.docs],
            spaces=self.spaces,
            embedders=load_models() if WORDS in self.spaces else {},
            load=load_models if WORDS in self.spaces else dict,
            options=IngestOptions(**options),
            report=self.events["workers"].append,
            runner=self.runner,
        )

    def problems(self, name: str) -> list[tuple[str, str]]:
        return sorted((one.where, one.reason) for one in self.events[name] if isinstance(one, DocumentProblem))

    def notices(self) -> list[str]:
        return [one.text for one in self.events["workers"] if isinstance(one, Notice)]

    def assert_equal(self) -> None:
        local, workers = self.store("local").open("c"), self.store("workers").open("c")
        assert contents(workers) == contents(local)
        for space in self.spaces:
            assert searches(workers, space) == searches(local, space)
        assert self.problems("workers") == self.problems("local")
        assert not [problem for report in verify(self.store("workers")) for problem in report.problems]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def counts(summary: Summary) -> tuple[int, ...]:
    return summary.documents, summary.failed, summary.skipped, summary.deleted, summary.exit_status


@pytest.mark.slow
def test_five_thousand_documents_are_those_of_a_local_ingest(pair: Pair) -> None:
    write_corpus(pair.docs)
    local, workers = pair.local(), pair.distributed()
    assert counts(workers) == counts(local) and workers.failed == 3
    assert (workers.new, workers.embedded >= 5_000) == (5_000, True)
    pair.assert_equal()
    assert [one.generation for one in pair.events["workers"] if isinstance(one, Committed)] == [1]


def test_pages_are_those_of_a_local_ingest(pair: Pair) -> None:
    pair.spaces = (WORDS,)
    write_pages(pair.docs, 120)
    local, workers = pair.local(), pair.distributed()
    assert counts(workers) == counts(local) and workers.failed == 1
    pair.assert_equal()


def test_a_second_run_writes_nothing(pair: Pair) -> None:
    write_corpus(pair.docs, 300)
    pair.distributed()
    before = {path for path in (pair.root / "workers").rglob("*") if path.name != ".checks.json"}
    generation = pair.store("workers").open("c").generation
    again = pair.distributed()
    # Ids that a later file has again differ from what is stored where they are read first.
    assert (again.updated, again.new, again.failed, again.deleted) == (0, 0, 3, 0)
    assert pair.store("workers").open("c").generation == generation
    assert {path for path in (pair.root / "workers").rglob("*") if path.name != ".checks.json"} == before


def test_a_changed_document_replaces_its_chunks_and_the_others_are_not_embedded(pair: Pair) -> None:
    write_corpus(pair.docs, 300)
    pair.local()
    pair.distributed()
    write_rows(pair.docs / "z.jsonl", row(299, text="altogether new"), row(300))
    local, workers = pair.local(), pair.distributed()
    assert (workers.new, workers.updated) == (local.new, 2) and workers.embedded < 20
    pair.assert_equal()
    assert workers.documents == local.documents


def test_the_stored_version_stays_where_it_comes_last(pair: Pair) -> None:
    write_rows(pair.docs / "b" / "b.jsonl", row(1), row(2))
    pair.distributed()
    write_rows(pair.docs / "a.jsonl", row(1, text="an older version"), row(3))
    pair.runner = OneFileEach()
    summary = pair.distributed()
    assert (summary.updated, summary.new, summary.documents) == (1, 1, 4)
    assert any("1 document repeats the id" in notice for notice in pair.notices())
    pair.local()
    pair.assert_equal()


@dataclass(frozen=True)
class OneFileEach:
    """Divides each block anew into blocks of one file, done in reverse."""

    workers: int = 1

    def run(self, job: Job, blocks: Sequence[Block]) -> Iterator[pa.Table]:
        return iter(list(InProcessRunner().run(job, blocks))[::-1])


@pytest.fixture(autouse=True)
def _one_file_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of tests are small: each is a block of its own, and large ones are several."""
    monkeypatch.setattr(blocks_module, "MIN_BLOCK_FILES", 1)
    monkeypatch.setattr(blocks_module, "MIN_BLOCK_BYTES", 20_000)


def test_mirror_deletes_what_the_sources_no_longer_have(pair: Pair) -> None:
    pair.spaces = (WORDS,)
    write_pages(pair.docs, 60)
    pair.local()
    pair.distributed()
    for number in range(10):
        (pair.docs / f"{number % 13}" / f"{number}.md").unlink()
    local, workers = pair.local(mirror=True), pair.distributed(mirror=True)
    assert workers.deleted == local.deleted > 5
    pair.assert_equal()


def test_shared_ids_and_drafts_are_those_of_a_local_ingest(pair: Pair) -> None:
    pair.spaces = (WORDS,)
    write_pages(pair.docs, 30)
    (pair.docs / "bad.md").unlink()
    path = pair.docs / "b" / "intro.md"
    path.parent.mkdir()
    path.write_text(f"---\nid: intro\nupdated_at: {TIME}\n---\nbeta")
    pair.local()
    pair.distributed()
    (pair.docs / "intro.md").write_text(f"---\nid: intro\nupdated_at: {TIME}\n---\nalpha")
    (pair.docs / "0" / "13.md").write_text(f"---\ndraft: true\nupdated_at: {TIME}\n---\nx")
    local, workers = pair.local(), pair.distributed()
    assert counts(workers) == counts(local)
    assert (workers.deleted, workers.left_out, workers.drafts) == (1, 1, ("0/13.md (draft: true)",))
    assert workers.stored_drafts == local.stored_drafts == ("docs/0/13.md",)
    assert "docs: intro is the id of 2 files (intro.md, b/intro.md): they are called by their paths" in pair.notices()
    assert len([one for one in pair.events["workers"] if isinstance(one, Committed)]) == 1
    pair.assert_equal()
    assert pair.distributed(mirror=True).deleted == pair.local(mirror=True).deleted == 1
    assert pair.distributed(include_drafts=True).new == pair.local(include_drafts=True).new == 1
    pair.assert_equal()


def test_an_empty_source_is_that_of_a_local_ingest(pair: Pair) -> None:
    pair.spaces = (WORDS,)
    pair.docs.mkdir()
    (pair.docs / "a.doc").write_text("x")
    local, workers = pair.local(), pair.distributed()
    assert (workers.empty, workers.exit_status) == (local.empty, local.exit_status) == (("docs",), 1)
    assert pair.problems("workers") == pair.problems("local")
    (pair.docs / "a.md").write_text(f"---\nupdated_at: {TIME}\n---\nx")
    for _ in range(2):
        assert pair.distributed().exit_status == 0


def test_mirror_keeps_the_documents_of_what_could_not_be_read_and_refuses_to_delete_most(pair: Pair) -> None:
    write_rows(pair.docs / "a.jsonl", *map(row, range(30)))
    write_rows(pair.docs / "b.jsonl", *map(row, range(30, 40)))
    pair.distributed()
    write_rows(pair.docs / "a.jsonl", b"{no json")
    assert pair.distributed(mirror=True).deleted == 0
    (pair.docs / "a.jsonl").unlink()
    refused = pair.distributed(mirror=True)
    assert refused.refused is not None and (refused.deleted, refused.exit_status) == (0, 1)
    assert pair.distributed(mirror=True, force=True).deleted == 30


@dataclass(frozen=True)
class Twice:
    """Every block is done by two workers, as after the death of the first one."""

    workers: int = 8

    def run(self, job: Job, blocks: Sequence[Block]) -> Iterator[pa.Table]:
        first, second = InProcessRunner(), InProcessRunner()
        tables = list(first.run(job, blocks))
        names = sorted(path.name for path in job.staging.iterdir())
        yield from second.run(job, blocks)
        assert sorted(path.name for path in job.staging.iterdir()) == names
        yield from tables


def test_a_run_is_stored_though_a_merge_fails(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Generations) -> None:
        raise StorageFailed("cannot write rows: No space left on device")

    write_corpus(pair.docs, 60)
    monkeypatch.setattr(Generations, "end_bulk_load", fail)
    monkeypatch.setattr(Generations, "merge_due", fail)
    summary = pair.distributed()
    assert pair.store("workers").open("c").documents == summary.updated > 50
    assert "the first load was not merged and calibrated" in caplog.text


def test_a_block_that_is_done_twice_has_the_same_segment_and_counts_once(pair: Pair) -> None:
    write_corpus(pair.docs, 300)
    pair.runner = Twice()
    local, workers = pair.local(), pair.distributed()
    assert counts(workers) == counts(local)
    pair.assert_equal()
    entries = pair.store("workers").open("c", generation=1).manifest.segments
    assert sum(entry.live_chunks for entry in entries) == 300


@dataclass(frozen=True)
class Lossy:
    """The answer to the last block never comes; or the workers end with an error."""

    fault: Exception | None = None
    workers: int = 8

    def run(self, job: Job, blocks: Sequence[Block]) -> Iterator[pa.Table]:
        yield from InProcessRunner().run(job, blocks[:-1])
        if self.fault is not None:
            raise self.fault


def test_a_run_that_fails_stores_nothing_and_leaves_nothing(pair: Pair) -> None:
    write_corpus(pair.docs, 300)
    pair.runner = Lossy()
    with pytest.raises(StorageFailed, match=r"1 of . blocks got no answer"):
        pair.distributed()
    pair.runner = Lossy(KeyboardInterrupt())  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        pair.distributed()
    assert pair.store("workers").collections() == []
    assert not list((pair.root / "workers" / "c" / "segments").iterdir())


@dataclass(frozen=True)
class Lying:
    """The workers that wrote segments give other answers than the true ones."""

    lie: Callable[[Job, pa.Table], pa.Table]
    workers: int = 8

    def run(self, job: Job, blocks: Sequence[Block]) -> Iterator[pa.Table]:
        for table in InProcessRunner().run(job, blocks):
            yield self.lie(job, table) if "segment" in table.column("kind").to_pylist() else table


def told(table: pa.Table, kind: str, name: str | None = None, value: str | None = None, block: int = 0) -> pa.Table:
    """The answer with one row more."""
    return pa.concat_tables([table, pa.table([[block], [kind], [name or ""], [value]], schema=table.schema)])


def with_entry(table: pa.Table, **members: Any) -> pa.Table:
    """The answer, whose segment has other members."""
    rows = table.to_pylist()
    for told_row in rows:
        if told_row["kind"] == "segment":
            told_row["value"] = json.dumps(json.loads(told_row["value"]) | members)
    return pa.Table.from_pylist(rows, table.schema)


LIES: Mapping[str, Callable[[Job, pa.Table], pa.Table]] = {
    "a folder of another collection": lambda _, table: with_entry(table, id="../../../other/segments/s"),
    "a folder elsewhere": lambda _, table: with_entry(table, id="/tmp"),
    "the folder itself": lambda _, table: with_entry(table, id=".."),
    "a file elsewhere": lambda _, table: with_entry(table, files={"../../x": {"bytes": 1, "checksum": "0" * 32}}),
    "no files": lambda _, table: with_entry(table, files={}),
    "more documents than there are": lambda _, table: with_entry(table, documents=10**9),
    "fewer chunks than there are": lambda _, table: with_entry(table, chunks=1),
    "tombstones": lambda _, table: with_entry(table, deletes="../CURRENT"),
    "deleted documents": lambda _, table: with_entry(table, deleted_documents=5),
    "a negative count": lambda _, table: with_entry(table, documents=-1),
    "the segment twice": lambda _, table: pa.concat_tables([table, with_entry(table)]),
    "no JSON": lambda _, table: told(table, "segment", value="{"),
    "nothing": lambda _, table: table.slice(0, 0),
    "another block": lambda _, table: pa.Table.from_pylist(
        [{**row, "block": 10**6} for row in table.to_pylist()], table.schema
    ),
    "counts of others": lambda _, table: told(table, "counts", value='{"repeated_ids": 0, "__class__": 1}'),
    "a rejection of another kind": lambda _, table: told(table, "rejected", value='{"a": 1}'),
    "a table of another kind": lambda _, table: pa.table({"a": [1]}),
}


@pytest.mark.slow
def test_a_worker_that_lies_publishes_nothing_and_harms_no_other_collection(pair: Pair) -> None:
    """It may write any text into its own collection; names and numbers of its answer lead nowhere else."""
    write_corpus(pair.docs, 30)
    pair.distributed()
    before = contents(pair.store("workers").open("c"))
    write_rows(pair.docs / "z.jsonl", *map(row, range(300, 310)))
    for name, lie in LIES.items():
        pair.runner = Lying(lie)
        with pytest.raises(StorageFailed):
            print(name, pair.distributed())  # noqa: T201 - which lie was believed
        assert contents(pair.store("workers").open("c")) == before, name
    assert not [problem for report in verify(pair.store("workers")) for problem in report.problems]
    pair.runner = MANY
    assert pair.distributed().new == 10


def test_the_next_writer_removes_what_a_killed_driver_left(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(pair.docs, 300)
    pair.distributed()
    before = contents(pair.store("workers").open("c"))
    write_rows(pair.docs / "z.jsonl", *map(row, range(300, 400)))
    with monkeypatch.context() as killed:
        killed.setattr(durable, "remove_folder", lambda path: None)
        pair.runner = Lossy(RuntimeError("killed"))
        with pytest.raises(RuntimeError):
            pair.distributed()
    segments = pair.root / "workers" / "c" / "segments"
    assert [path for path in segments.iterdir() if path.name.endswith(".tmp")]
    assert contents(pair.store("workers").open("c")) == before
    pair.runner = MANY
    assert pair.distributed().new == 100
    assert not [path for path in segments.iterdir() if path.name.endswith(".tmp")]


def test_a_worker_of_an_older_run_cannot_write_any_more(pair: Pair) -> None:
    write_corpus(pair.docs, 300)
    jobs: list[tuple[Job, Sequence[Block]]] = []

    class Remembering(InProcessRunner):
        def run(self, job: Job, blocks: Sequence[Block]) -> Iterator[pa.Table]:
            jobs.append((job, blocks))
            return super().run(job, blocks)

    pair.runner = Remembering()
    pair.distributed()
    files = sorted((pair.root / "workers" / "c" / "segments").rglob("*"))
    (late,) = InProcessRunner().run(jobs[0][0], jobs[0][1][:1])
    assert "storage_failed" in late.column("name").to_pylist()
    assert sorted((pair.root / "workers" / "c" / "segments").rglob("*")) == files


@pytest.mark.parametrize(
    ("options", "cure"),
    [({"dry_run": True}, "leave out --on"), ({"commit_every": 5}, "commits once: leave out one of them")],
)
def test_options_that_do_not_apply_are_refused(pair: Pair, options: dict[str, Any], cure: str) -> None:
    write_corpus(pair.docs, 30)
    with pytest.raises(ConfigurationError, match=cure):
        pair.distributed(**options)


def test_addresses_are_refused_by_name(pair: Pair) -> None:
    with pytest.raises(ConfigurationError, match=r"https://example.org is read by one process"):
        pair.distributed("https://example.org/feed.xml")  # type: ignore[arg-type]
