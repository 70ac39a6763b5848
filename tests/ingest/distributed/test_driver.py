"""A distributed ingest in this process: the outcome is that of a local one, whatever the blocks are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import ConfigurationError, StorageFailed
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import EmbeddingSpace
from aidre.ingest.distributed import driver
from aidre.ingest.distributed.blocks import Block
from aidre.ingest.distributed.driver import InProcess, ingest_distributed
from aidre.ingest.distributed.job import Job, Runner
from aidre.ingest.pipeline.ingest import ingest
from aidre.ingest.pipeline.progress import Committed, Event, Notice, Problem, Summary
from aidre.ingest.pipeline.run import IngestOptions
from tests.support.distributed import (
    BROUGHT,
    SPACES,
    WORDS,
    contents,
    load_models,
    row,
    searches,
    write_corpus,
    write_pages,
    write_rows,
)

MANY = InProcess(workers=8)


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
        return sorted((one.where, one.reason) for one in self.events[name] if isinstance(one, Problem))

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
