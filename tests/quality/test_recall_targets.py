"""A recall that is asked for is found by queries that no calibration saw, with filters, in batches and on every page; a
lower one compares fewer rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aidre
from aidre.api.cli.console import status_lines
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields import parse_filter
from aidre.engine.index.vectors import search_depth
from aidre.engine.model import RECALLS, Query
from aidre.engine.storage.manifest import Calibration
from tests.support.stores import NAME, Vectors, ask, fill, names, nearest, recall, space_of, structured

ROWS, ASKED = 20_000, 300
IDS = np.array(names(ROWS))
SPACE = space_of("cosine", 384)

pytestmark = pytest.mark.slow


def between(rows: Vectors, count: int) -> Vectors:
    """Queries that are like questions: off the rows, and harder than they."""
    rng = np.random.default_rng(17)
    pairs = rows[rng.integers(0, len(rows), (2, count))]
    queries = 0.7 * pairs[0] + 0.3 * pairs[1]
    noise = rng.standard_normal(queries.shape) / np.sqrt(queries.shape[1])
    return np.asarray(queries + 0.5 * np.linalg.norm(queries, axis=1, keepdims=True) * noise, np.float32)


@pytest.fixture(scope="module")
def rows() -> Vectors:
    return structured(ROWS, 384)


@pytest.fixture(scope="module")
def folder(rows: Vectors, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("targets")
    fill(path, SPACE, rows, metadata=[{"half": number % 2} for number in range(ROWS)])
    return path


@pytest.fixture(scope="module")
def snapshot(folder: Path) -> Snapshot:
    return Store(folder).open(NAME)


def calibration_of(snapshot: Snapshot) -> Calibration:
    found = snapshot.manifest.spaces[0].calibration
    assert found is not None
    return found


@pytest.mark.parametrize("k", [10, 100])
@pytest.mark.parametrize("target", RECALLS)
@pytest.mark.parametrize("kind", ["rows", "questions"])
def test_unseen_queries_find_the_recall_that_is_asked_for(
    kind: str, target: float, k: int, snapshot: Snapshot, rows: Vectors
) -> None:
    queries = structured(ASKED, 384, 99) if kind == "rows" else between(rows, ASKED)
    wanted = IDS[nearest("cosine", rows, queries, k)].tolist()
    found = recall([ask(snapshot, query, k, recall=target) for query in queries], wanted)
    assert found >= target
    promised = [depth.mean for depth in calibration_of(snapshot).depths_for(target) if depth.results == k]
    assert not promised or found >= promised[0] - 0.01


def test_recall_of_one_is_exact_and_a_lower_one_compares_fewer_rows(snapshot: Snapshot, rows: Vectors) -> None:
    calibration, queries = calibration_of(snapshot), between(rows, ASKED)
    candidates = [depth.candidates for one in RECALLS if (depth := search_depth(calibration, 10, one)) is not None]
    assert candidates == sorted(set(candidates))
    assert len(candidates) == len(RECALLS)
    wanted = IDS[nearest("cosine", rows, queries, 10)].tolist()
    assert recall([ask(snapshot, query, recall=1.0) for query in queries], wanted) >= 0.9995  # float16 rows
    assert recall([ask(snapshot, query, recall=0.9) for query in queries], wanted) < 1


def test_the_status_says_what_each_recall_costs(snapshot: Snapshot) -> None:
    status = {**snapshot.status(), "disk_bytes": 1}
    costs = status["spaces"][0]["costs"]  # type: ignore[index]
    assert [cost["recall"] for cost in costs] == [*RECALLS, 1.0]
    times = [cost["milliseconds"] for cost in costs]
    assert times == sorted(times)
    assert times[0] < times[-1]
    assert all(cost["promised"] >= min(cost["recall"], 0.99) for cost in costs)
    [line] = [line for line in status_lines(status) if "by recall" in line]
    assert f"0.9: {times[0]:g} ms" in line


@pytest.mark.parametrize("target", [0.9, 0.95])
def test_a_filter_and_a_batch_keep_the_recall(target: float, snapshot: Snapshot, rows: Vectors) -> None:
    queries, only = between(rows, ASKED), parse_filter({"half": 1})
    wanted = IDS[1::2][nearest("cosine", rows[1::2], queries, 10)].tolist()
    assert recall([ask(snapshot, query, filter=only, recall=target) for query in queries], wanted) >= target
    space = snapshot.collection.spaces[0].id
    one_by_one = [ask(snapshot, query, recall=target) for query in queries[:20]]
    together = snapshot.search_all([Query(query, space, recall=target) for query in queries[:20]])
    assert [[hit.chunk.document_id for hit in hits] for hits in together] == one_by_one


def test_queries_of_different_recall_do_not_share_a_depth(snapshot: Snapshot, rows: Vectors) -> None:
    space, queries = snapshot.collection.spaces[0].id, between(rows, ASKED)
    mixed = [Query(query, space, 100, recall=1.0 if number % 2 else 0.9) for number, query in enumerate(queries)]
    together = snapshot.search_all(mixed)
    exact = [[hit.chunk.id for hit in hits] for hits in together[1::2]]
    assert exact == [[hit.chunk.id for hit in snapshot.search(query)] for query in mixed[1::2]]


def test_the_library_finds_what_is_asked_for_on_every_page(folder: Path, rows: Vectors) -> None:
    queries = between(rows, 100)
    wanted = IDS[nearest("cosine", rows, queries, 20)].tolist()
    with aidre.open(folder) as db:
        docs = db.collection(NAME)
        for target in (0.9, 1.0):
            pages = [
                [hit.document_id for offset in (0, 10) for hit in docs.search(vector=one, offset=offset, recall=target)]
                for one in queries
            ]
            assert recall(pages, wanted) >= min(target, 0.9995)
        hybrid = docs.search("text of d000007", vector=queries[0], mode="hybrid", recall=0.9, group="document")
        assert len(hybrid) == 10
        matrix = docs.search_many(queries[:5], k=20, recall=1.0)
        assert [[hit.document_id for hit in hits] for hits in matrix] == [
            [hit.document_id for hit in docs.search(vector=one, k=20, recall=1.0)] for one in queries[:5]
        ]
