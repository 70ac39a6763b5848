"""Recall of scans on rows that look like embeddings: as committed, half deleted, merged; and the manifest's claim."""

from __future__ import annotations

from dataclasses import dataclass
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
    fill,
    names,
    nearest,
    put,
    recall,
    space_of,
    structured,
    true_scores,
)

ROWS = 20_000
IDS = names(ROWS)
HELD_OUT = 200


@dataclass(frozen=True, slots=True)
class Case:
    """A store of structured rows, the live ones among them, and queries that it does not hold."""

    path: Path
    space: EmbeddingSpace
    rows: Vectors
    queries: Vectors


CASES: list[tuple[Distance, int]] = [("cosine", 128), ("dot", 64), ("euclidean", 64), ("cosine", 384)]


@pytest.fixture(scope="module", params=CASES, ids="{0[0]}-{0[1]}".format)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    distance, dimensions = request.param
    space = space_of(distance, dimensions)
    path = tmp_path_factory.mktemp("recall")
    rows = structured(ROWS, dimensions)
    fill(path, space, rows, commits=2, bulk=False)
    return Case(path, space, rows, structured(HELD_OUT, dimensions, 99))


def measured(case: Case, snapshot: Snapshot, count: int, alive: slice) -> float:
    """Recall of `count` results over the held-out queries, against brute force over the rows as given."""
    ids = np.array(IDS[alive])
    wanted = ids[nearest(case.space.distance, case.rows[alive], case.queries, count)].tolist()
    return recall([ask(snapshot, query, count) for query in case.queries], wanted)


def scans(snapshot: Snapshot) -> int:
    return sum(bool(part.segment.scans) for part in snapshot.segments)


# These tests build on each other's store, in this order: as committed, grown, half deleted, compacted.


def test_recall_of_ten_reaches_the_target(case: Case) -> None:
    snapshot = Store(case.path).open(NAME)
    assert scans(snapshot) == len(snapshot.segments) == 2
    assert measured(case, snapshot, 10, slice(None)) >= 0.99


@pytest.mark.parametrize("results", [10, 100])
def test_the_manifest_claims_the_recall_that_is_measured(results: int, case: Case) -> None:
    snapshot = Store(case.path).open(NAME)
    calibration = snapshot.manifest.spaces[0].calibration
    assert calibration is not None
    assert calibration.kind == "scan"
    claimed = {depth.results: depth.mean for depth in calibration.depths}
    if results in claimed:  # what no affordable depth can serve is searched exactly
        assert claimed[results] == pytest.approx(measured(case, snapshot, results, slice(None)), abs=0.01)
    else:
        assert measured(case, snapshot, results, slice(None)) == pytest.approx(1.0, abs=0.002)


def test_recall_survives_that_half_of_the_rows_are_deleted(case: Case) -> None:
    with Store(case.path).writer(NAME, spaces=[case.space]) as writer:
        writer.delete(IDS[::2])
        writer.commit()
    snapshot = Store(case.path).open(NAME)
    assert snapshot.chunks == ROWS // 2
    assert scans(snapshot) == len(snapshot.segments)
    assert measured(case, snapshot, 10, slice(1, None, 2)) >= 0.99


def test_recall_survives_compaction(case: Case) -> None:
    with Store(case.path).writer(NAME, spaces=[case.space]) as writer:
        writer.compact()
    snapshot = Store(case.path).open(NAME)
    assert len(snapshot.segments) == 1
    assert snapshot.segments[0].segment.entry.chunks == ROWS // 2
    assert measured(case, snapshot, 10, slice(1, None, 2)) >= 0.99


def test_recall_survives_many_commits_and_their_merging(tmp_path: Path) -> None:
    """Segments of all sizes, small ones exact and large ones with scans of codebooks that were learned on less."""
    space = space_of("cosine", 384)
    rows = structured(ROWS, 384)
    fill(tmp_path, space, rows[:3000])
    for first in range(3000, ROWS, 4250):
        with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
            for start in range(first, first + 4250, 850):
                put(writer, IDS[start : start + 850], rows[start : start + 850])
                writer.commit()
            writer.finish()
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        put(writer, IDS[-50:], rows[-50:])
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert 0 < scans(snapshot) < len(snapshot.segments)
    case = Case(tmp_path, space, rows, structured(HELD_OUT, 384, 99))
    assert measured(case, snapshot, 10, slice(None)) >= 0.99
    assert measured(case, snapshot, 100, slice(None)) >= 0.985


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_a_row_that_is_asked_for_comes_first(distance: Distance, tmp_path: Path) -> None:
    rows = structured(6000, 384)
    snapshot = fill(tmp_path, space_of(distance, 384), rows)
    assert scans(snapshot) == 1
    for row in range(0, 6000, 300):
        assert ask(snapshot, rows[row], 1) == best(true_scores(distance, rows, rows[row]), names(6000), 1)
