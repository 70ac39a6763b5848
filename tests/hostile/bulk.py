"""A first bulk load, killed: commits in a thread while the next rows are read, what is derived made by processes."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aidre.engine.collection import commit
from aidre.engine.collection.store import Store
from aidre.ingest.pipeline.ingest import ingest
from aidre.ingest.pipeline.run import IngestOptions
from aidre.ingest.pipeline.run_events import Committed, Event, Summary
from tests.hostile.examination import look
from tests.hostile.nursery import Say, asked, started
from tests.hostile.report import Report
from tests.hostile.steps import Shape, State, text_of, vectors_of
from tests.support.stores import NAME

SHAPE = Shape(2_500, 16, 0)
COMMIT = 500
"""Documents of a commit: enough that the load goes on meanwhile."""
LINGERING = 300.0
"""Seconds within which the processes of a dead writer have to be gone."""


def write_source(path: Path) -> None:
    """Rows of a table with ids, texts and vectors."""
    ids = SHAPE.ids()
    rows = vectors_of(SHAPE, [(one, 1) for one in ids])
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(rows)), SHAPE.dimensions)
    columns = {
        "id": ids,
        "text": [text_of(one, 1) for one in ids],
        "vectors": pa.StructArray.from_arrays([values], [SHAPE.space.id]),
        "metadata": [{"number": int(one[1:]), "version": 1} for one in ids],
    }
    pq.write_table(pa.table(columns), path)


def load(say: Say, store: Path, source: Path, with_processes: bool) -> None:
    """Load the rows, and say how many are durable after each commit; "done" and what was written at the end."""
    os.setsid()  # by which the processes that it starts are known
    commit.MIN_BACKGROUND_ROWS = COMMIT
    if with_processes:
        commit.MIN_WORKER_ROWS = COMMIT
    summary = loaded(store, source, say)
    say(f"done {summary.updated}")


def loaded(store: Path, source: Path, say: Say) -> Summary:
    def report(event: Event) -> None:
        if isinstance(event, Committed):
            say(str(event.documents))

    options = IngestOptions(commit_every=COMMIT)
    return ingest(Store(store), NAME, [source], spaces=[SHAPE.space], embedders={}, options=options, report=report)


def complete(store: Path, source: Path) -> int:
    """Run the interrupted load again; how many documents it wrote. All of them are there afterwards, each once."""
    written = loaded(store, source, lambda _: None).updated
    look(store, SHAPE, [_first(SHAPE.documents)])
    return written


def examined(store: Path, allowed: Sequence[State]) -> int:
    """How many documents a load that was killed has left."""
    return len(allowed[look(store, SHAPE, allowed).state])


def _first(count: int) -> State:
    return dict.fromkeys(SHAPE.ids()[:count], 1)


def check(store: Path, source: Path, said: Sequence[str], where: str) -> int:
    """How many documents had been acknowledged: they are there, perhaps with those of one commit more, no others.

    The same load completes, and writes nothing twice.
    """
    least = int(said[-1].removeprefix("done ")) if said else 0
    allowed = [_first(least), _first(min(SHAPE.documents, least + COMMIT))]
    try:
        left = asked(examined, store, allowed) if store.exists() else 0
        assert asked(complete, store, source) == SHAPE.documents - left
    except AssertionError as error:
        raise AssertionError(f"{where}, {least} documents acknowledged: {error}") from error
    return least


def run(report: Report, rounds: int, chance: random.Random) -> None:
    source = report.place("rows") / "rows.parquet"
    asked(write_source, source)
    kills = early = acknowledged = 0
    while kills < rounds:
        store = report.folder / f"bulk-{kills}-{early}"
        with started(load, store, source, chance.random() < 0.5) as loading:
            session = loading.pid
            said = loading.kill_after(chance.randint(0, SHAPE.documents // COMMIT), chance)
        _gone(session)
        if said and said[-1].startswith("done"):
            early += 1
            continue
        acknowledged += check(store, source, said, f"bulk load {kills}")
        kills += 1
        if kills % 20 == 0:
            report.say(f"bulk loads: {kills} kills")
    report.figure(
        "kills, bulk loads", f"{kills} kills, {acknowledged:,} documents acknowledged, lost 0, written twice 0"
    )


def _gone(session: int) -> None:
    """The processes that a writer had started end with it."""
    until = time.monotonic() + LINGERING
    while (left := _members(session)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not left, f"processes {left} outlive the writer that started them"


def _members(session: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):  # it has ended
            state, _, _, its_session = path.read_text(encoding="ascii").rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found.append(int(path.parent.name))
    return found
