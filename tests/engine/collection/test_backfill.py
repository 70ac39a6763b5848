"""How a space is filled: interruptions, kills, damage, other revisions; no file that a generation names changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.collection import backfill, garbage
from aidre.engine.collection.store import Store
from aidre.engine.errors import SpaceConflict, SpaceMissing
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import Distance, Query
from aidre.engine.segment.stored_chunk import StoredChunk
from aidre.engine.storage import format
from aidre.engine.storage.manifest import SpaceState, with_precision
from aidre.ingest.pipeline.space_backfill import drop_space
from tests import ROOT
from tests.support.backfills import MORE, Revised, check_complete, contents, embed, everything, interrupt, state_of
from tests.support.ingests import WORDS, Bench, CountingEmbedder
from tests.support.processes import is_readable
from tests.support.stores import (
    DISTANCES,
    NAME,
    SPACE,
    copied,
    delete,
    fill as fill_store,
    names,
    nearest,
    normal,
    recall,
    space_of,
    structured,
)


class Given:
    """Vectors that stand in a table, by document."""

    def __init__(self, vectors: dict[str, NDArray[np.float32]]) -> None:
        self._vectors = vectors

    def keys(self, chunks: Sequence[StoredChunk]) -> Sequence[bytes]:
        return [chunk.document_id.rjust(16).encode() for chunk in chunks]

    def vectors(self, chunks: Sequence[StoredChunk]) -> NDArray[np.float32]:
        return np.stack([self._vectors[chunk.document_id] for chunk in chunks])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,700 documents with vectors of few dimensions, of which every third is deleted."""
    path = tmp_path_factory.mktemp("large")
    fill_store(path, SPACE, normal(2700, SPACE.dimensions), commits=2, finish=True)
    delete(path, names(2700)[::3])
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_large_space_is_indexed_and_its_recall_is_calibrated(distance: Distance, large: Path, tmp_path: Path) -> None:
    rows, ids = structured(2700, 768), names(2700)
    space = space_of(distance, 768, model="hashing")
    with Store(copied(large, tmp_path / "store")).writer(NAME, spaces=None) as writer:
        given = Given(dict(zip(ids, rows, strict=True)))
        backfill.fill_space(writer.generations, SpaceState(with_precision(space)), given, lambda filled: None)
    snapshot = Store(tmp_path / "store").open(NAME)
    calibration = snapshot.space(space.id).calibration
    assert calibration is not None
    assert calibration.kind == "scan"
    live = np.flatnonzero(np.arange(2700) % 3)
    queries = structured(40, 768, 99)
    wanted = [[ids[live[row]] for row in best] for best in nearest(distance, rows[live], queries, 10).tolist()]
    found = [[hit.chunk.document_id for hit in snapshot.search(Query(query, space.id, 10))] for query in queries]
    assert recall(found, wanted) >= 0.97
    assert len(snapshot.search(Query(queries[0], space.id, 2700))) == 1800  # of the deleted, which are zero, none


@pytest.mark.slow
def test_segments_that_hold_too_many_rows_for_the_dimensions_are_cut(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.rows("many.jsonl", {"id": "many", "text": "\n\n".join(f"Sentence {n} of many. " * 200 for n in range(3))})
    bench.run()
    with bench.store.writer("c", spaces=None) as writer:
        writer.compact()
    monkeypatch.setattr(
        backfill, "max_segment_rows", lambda dimensions: 15 if dimensions == MORE.dimensions else 1 << 21
    )
    before = everything(bench)
    embed(bench)
    snapshot = bench.store.open("c")
    assert max(part.segment.entry.chunks for part in snapshot.segments) <= 15
    assert len(snapshot.segments) == 4
    assert everything(bench) == before
    assert snapshot.warnings == ()
    assert verify(bench.store)[0].problems == ()


@pytest.mark.slow
def test_an_interrupted_run_is_gone_on_with_inside_a_segment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench.store.writer("c", spaces=None) as writer:
        writer.compact()
    first = interrupt(bench, 22, monkeypatch)
    assert len(first.texts) == 20
    assert state_of(bench.store) == "building"
    second = CountingEmbedder(MORE)
    assert embed(bench, second).embedded == 19
    assert not set(first.texts) & set(second.texts)
    check_complete(bench)


@pytest.mark.slow
def test_another_revision_begins_anew_and_no_file_of_the_first_is_replaced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(bench, 30, monkeypatch)
    generation = bench.store.current("c")
    kept = contents(bench, generation)
    assert any("more" in path.name for path in kept)
    embed(bench, Revised(MORE))
    assert contents(bench, generation) == kept
    check_complete(bench, sign=-1)


@pytest.mark.slow
def test_a_damaged_file_of_a_building_space_is_told_as_derived_and_made_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(bench, 30, monkeypatch)
    path = next((bench.store.path / "c" / "segments").glob("*/more*.vectors.arrow"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    (report,) = verify(bench.store)
    assert report.ok
    assert [problem.file.endswith(path.name) for problem in report.problems] == [True]
    assert embed(bench).embedded == 9
    check_complete(bench)


@pytest.mark.slow
def test_purging_leaves_nothing_of_what_was_kept_for_an_interrupted_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(bench, 10, monkeypatch)
    with bench.store.writer("c", spaces=None) as writer:
        writer.purge()
    assert not (bench.store.path / "c" / format.BACKFILLS).exists()
    embed(bench)
    check_complete(bench)


def test_what_a_run_kept_and_could_not_remove_goes_with_the_next_writer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "remove_log", lambda folder, space_id: None)
    embed(bench)
    kept = bench.store.path / "c" / format.BACKFILLS
    assert kept.exists()
    with bench.store.writer("c", spaces=None):
        assert not kept.exists()


@pytest.mark.slow
def test_a_space_can_be_taken_away_and_filled_again(bench: Bench) -> None:
    embed(bench)
    generation = bench.store.current("c")
    kept = contents(bench, generation)
    drop_space(bench.store, "c", MORE.id)
    assert state_of(bench.store) is None
    with pytest.raises(SpaceMissing):
        bench.store.open("c").search(Query(np.ones(48, np.float32), MORE.id))
    assert bench.run().embedded == 0
    embed(bench)
    assert contents(bench, generation) == kept
    check_complete(bench)


@pytest.mark.slow
def test_files_that_no_kept_generation_names_are_swept(bench: Bench) -> None:
    embed(bench)
    segments = bench.store.path / "c" / "segments"
    [one, *_] = segments.glob("*/more*.vectors.arrow")
    torn = one.parent / ".words.index.arrow.0123.tmp"
    torn.write_bytes(b"torn")
    drop_space(bench.store, "c", MORE.id)
    assert not torn.exists()
    assert one.exists()  # the generation before names it, and may be open
    with bench.store.writer("c", spaces=None) as writer:
        garbage.collect(writer.generations.folder, writer.generations.manifest, keep_seconds=-60)
        assert one.exists()
        garbage.collect(writer.generations.folder, replace(writer.generations.manifest, keep=1), keep_seconds=-60)
    assert not list(segments.glob("*/more*"))
    assert verify(bench.store)[0].problems == ()
    assert bench.store.open("c").warnings == ()


def test_status_tells_how_far_a_space_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(bench, 30, monkeypatch)
    words, more = bench.store.open("c").status()["spaces"]
    assert (words["state"], words["chunks"]) == ("live", 39)
    assert (more["state"], more["chunks"]) == ("building", 18)


@pytest.mark.slow
def test_a_building_space_can_be_taken_away(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(bench, 30, monkeypatch)
    drop_space(bench.store, "c", MORE.id)
    assert state_of(bench.store) is None
    assert not backfill.log_path(bench.store.path / "c", MORE.id).exists()
    assert verify(bench.store)[0].problems == ()
    embed(bench)
    check_complete(bench)


def test_the_only_space_and_an_unknown_one_are_not_taken_away(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpaceConflict, match="only one"):
        drop_space(bench.store, "c", WORDS.id)
    interrupt(bench, 30, monkeypatch)
    with pytest.raises(SpaceConflict, match="only one"):
        drop_space(bench.store, "c", WORDS.id)
    with pytest.raises(SpaceMissing, match="nobody"):
        drop_space(bench.store, "c", "nobody")


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from aidre.engine.collection import backfill as filling
from tests.support.ingests import Bench
from tests.support.backfills import embed
filling.BATCH_CHUNKS, filling.COMMIT_SECONDS = 2, 0.0
def tell(event):
    print(type(event).__name__, flush=True)
embed(Bench(Path(sys.argv[1])), report=tell)
"""


@pytest.fixture
def killed_after(bench: Bench) -> Iterator[Callable[[int], None]]:
    """Runs the fill in a process of its own, killed after so many events."""

    def run(events: int) -> None:
        command = [sys.executable, "-c", KILLED, str(bench.root), str(ROOT)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdout is not None
            for _ in range(events):
                assert is_readable(process.stdout, 60)
                process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)

    yield run


@pytest.mark.process
@pytest.mark.parametrize("events", [1, 7, 23])
def test_a_run_that_was_killed_leaves_the_old_space_right_and_the_next_one_completes(
    events: int, bench: Bench, killed_after: Callable[[int], None]
) -> None:
    wanted = everything(bench)
    killed_after(events)
    assert everything(bench) == wanted
    assert all(report.problems == () for report in verify(bench.store))
    assert state_of(bench.store) in {"building", "live"}
    assert embed(bench).embedded <= 39 - 2 * (events // 2 - 1)
    assert everything(bench) == wanted
    check_complete(bench)
    assert not list((bench.store.path / "c" / "segments").glob(".*"))
