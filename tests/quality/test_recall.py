"""Recall of scans on rows that look like embeddings: as committed, half deleted, merged; and the manifest's claim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.model import Distance, EmbeddingSpace
from tests.support.stores import (
    NAME,
    Vectors,
    ask,
    best,
    copied,
    fill,
    names,
    nearest,
    put,
    recall,
    space_of,
    structured,
    true_scores,
)

ROWS = 10_000
IDS = names(ROWS)
HELD_OUT = 200


@dataclass(frozen=True, slots=True)
class Case:
    """A store of structured rows, the live ones among them, and queries that it does not hold."""

    path: Path
    space: EmbeddingSpace
    rows: Vectors
    queries: Vectors
    alive: slice


CASES: list[tuple[Distance, int]] = [("cosine", 256), ("dot", 128), ("euclidean", 128), ("cosine", 384)]


@pytest.fixture(scope="module", params=CASES, ids="{0[0]}-{0[1]}".format)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """As committed: two segments."""
    distance, dimensions = request.param
    space = space_of(distance, dimensions)
    path = tmp_path_factory.mktemp("recall")
    rows = structured(ROWS, dimensions)
    fill(path, space, rows, commits=2, bulk=False)
    return Case(path, space, rows, structured(HELD_OUT, dimensions, 99), slice(None))


@pytest.fixture(scope="module")
def halved(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The same with every other row deleted."""
    path = copied(case.path, tmp_path_factory.mktemp("recall") / "halved")
    with Store(path).writer(NAME, spaces=[case.space]) as writer:
        writer.delete(IDS[::2])
        writer.commit()
    return replace(case, path=path, alive=slice(1, None, 2))


@pytest.fixture(scope="module")
def compacted(halved: Case, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The same in one segment without deleted rows."""
    path = copied(halved.path, tmp_path_factory.mktemp("recall") / "compacted")
    with Store(path).writer(NAME, spaces=[halved.space]) as writer:
        writer.compact()
    return replace(halved, path=path)


def measured(case: Case, snapshot: Snapshot, count: int) -> float:
    """Recall of `count` results over the held-out queries, against brute force over the live rows as given."""
    ids = np.array(IDS[case.alive])
    wanted = ids[nearest(case.space.distance, case.rows[case.alive], case.queries, count)].tolist()
    return recall([ask(snapshot, query, count) for query in case.queries], wanted)


def scans(snapshot: Snapshot) -> int:
    return sum(bool(part.segment.scans) for part in snapshot.segments)


def test_recall_of_ten_reaches_the_target(case: Case) -> None:
    snapshot = Store(case.path).open(NAME)
    assert scans(snapshot) == len(snapshot.segments) == 2
    assert measured(case, snapshot, 10) >= 0.99


@pytest.mark.parametrize("results", [10, 100])
def test_the_manifest_claims_the_recall_that_is_measured(results: int, case: Case) -> None:
    snapshot = Store(case.path).open(NAME)
    calibration = snapshot.manifest.spaces[0].calibration
    assert calibration is not None
    assert calibration.kind == "scan"
    claimed = {depth.results: depth.mean for depth in calibration.depths}
    assert 10 in claimed
    if results in claimed:
        assert claimed[results] == pytest.approx(measured(case, snapshot, results), abs=0.01)
    else:  # what no affordable depth can serve is searched exactly
        assert measured(case, snapshot, results) == pytest.approx(1.0, abs=0.002)


def test_recall_survives_that_half_of_the_rows_are_deleted(halved: Case) -> None:
    snapshot = Store(halved.path).open(NAME)
    assert snapshot.chunks == ROWS // 2
    assert scans(snapshot) == len(snapshot.segments)
    assert measured(halved, snapshot, 10) >= 0.99


def test_recall_survives_compaction(compacted: Case) -> None:
    snapshot = Store(compacted.path).open(NAME)
    assert scans(snapshot) == len(snapshot.segments) == 1
    assert snapshot.segments[0].segment.entry.chunks == ROWS // 2
    assert measured(compacted, snapshot, 10) >= 0.99


def test_recall_survives_many_commits_and_their_merging(tmp_path: Path) -> None:
    """Segments of all sizes, small ones exact and large ones with scans of codebooks that were learned on less."""
    space = space_of("cosine", 384)
    rows = structured(ROWS, 384)
    fill(tmp_path, space, rows[:4000])
    for first in range(4000, ROWS, 3000):
        with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
            for start in range(first, first + 3000, 750):
                put(writer, IDS[start : start + 750], rows[start : start + 750])
                writer.commit()
            writer.finish()
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        put(writer, IDS[-50:], rows[-50:])
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert 0 < scans(snapshot) < len(snapshot.segments)
    case = Case(tmp_path, space, rows, structured(HELD_OUT, 384, 99), slice(None))
    assert measured(case, snapshot, 10) >= 0.99
    assert measured(case, snapshot, 100) >= 0.985


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_a_row_that_is_asked_for_comes_first(distance: Distance, tmp_path: Path) -> None:
    rows = structured(4000, 384)
    snapshot = fill(tmp_path, space_of(distance, 384), rows)
    assert scans(snapshot) == 1
    for row in range(0, 4000, 200):
        assert ask(snapshot, rows[row], 1) == best(true_scores(distance, rows, rows[row]), names(4000), 1)
