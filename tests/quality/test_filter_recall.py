"""Filtered searches against exact ones: recall and numbers of results, for random filters and for correlated ones.

A correlated filter lets through what lies together in vector space, and is asked from inside and from outside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from tests.support.stores import NAME, Vectors, ask, fill, names, nearest, recall, space_of, structured

ROWS, DIMENSIONS, ASKED = 12_000, 384, 40
SPACE = space_of("cosine", DIMENSIONS)
VECTORS = structured(ROWS, DIMENSIONS)
IDS = np.array(names(ROWS))
POINT = VECTORS[7]
LUCK: NDArray[np.float64] = np.random.default_rng(1).permutation(ROWS) / ROWS
DISTANCE: NDArray[np.float64] = np.argsort(np.argsort(np.linalg.norm(VECTORS - POINT, axis=1))) / ROWS
"""The place of each row in the order of distance to one point, from 0 to 1."""

POOL = structured(8 * ASKED, DIMENSIONS, 99)
BY_DISTANCE = POOL[np.argsort(np.linalg.norm(POOL - POINT, axis=1))]


@dataclass(frozen=True, slots=True)
class Kind:
    """A field whose range is the filter, what each row has in it, and the queries."""

    field: str
    values: NDArray[np.float64]
    queries: Vectors


KINDS = {
    "random": Kind("luck", LUCK, POOL[:ASKED]),
    "correlated, from inside": Kind("distance", DISTANCE, BY_DISTANCE[:ASKED]),
    "correlated, from outside": Kind("distance", DISTANCE, BY_DISTANCE[-ASKED:]),
}


@dataclass(frozen=True, slots=True)
class Case:
    snapshot: Snapshot
    live: NDArray[np.bool_]

    def matches(self, kind: Kind, share: float) -> NDArray[np.intp]:
        return np.flatnonzero(self.live & (kind.values < share))


def metadata() -> list[dict[str, Any]]:
    return [{"luck": luck, "distance": far} for luck, far in zip(LUCK.tolist(), DISTANCE.tolist(), strict=True)]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    every = np.ones(ROWS, np.bool_)
    odd = np.arange(ROWS) % 2 == 1
    stores = []
    for commits in (1, 3):
        path = tmp_path_factory.mktemp("filtered")
        snapshot = fill(path, SPACE, VECTORS, IDS.tolist(), commits=commits, bulk=False, metadata=metadata())
        assert len(snapshot.segments) == commits
        assert all(SPACE.id in part.segment.scans for part in snapshot.segments)
        stores.append(snapshot)
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(IDS[~odd].tolist())
        writer.commit()
    one, three = stores
    deleted = Store(path).open(NAME)
    return {"one segment": Case(one, every), "three": Case(three, every), "half deleted": Case(deleted, odd)}


@pytest.fixture(params=["one segment", "three", "half deleted"])
def case(request: pytest.FixtureRequest, cases: dict[str, Case]) -> Case:
    return cases[request.param]


def answers(case: Case, kind: Kind, share: float, top_k: int = 10, asked: int = ASKED) -> Sequence[Sequence[str]]:
    wanted = parse_filter({kind.field: {"lt": share}})
    return [ask(case.snapshot, query, top_k, filter=wanted) for query in kind.queries[:asked]]


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("name", KINDS)
def test_filtered_recall_of_ten_reaches_the_target(case: Case, name: str, share: float) -> None:
    kind = KINDS[name]
    matches = case.matches(kind, share)
    count = min(10, len(matches))
    assert count
    best = nearest("cosine", VECTORS[matches], kind.queries, count)
    assert recall(answers(case, kind, share), IDS[matches][best].tolist()) >= 0.98


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001, 0.0005, 0.0])
@pytest.mark.parametrize("name", KINDS)
def test_there_are_always_as_many_results_as_match_and_all_match(case: Case, name: str, share: float) -> None:
    kind = KINDS[name]
    matches = set(IDS[case.matches(kind, share)].tolist())
    assert bool(matches) == (share > 0)
    for top_k in (1, 10, 300):
        for found in answers(case, kind, share, top_k, 5):
            assert len(found) == len(set(found)) == min(top_k, len(matches))
            assert matches.issuperset(found)


def test_few_allowed_rows_are_found_exactly(case: Case) -> None:
    kind = KINDS["correlated, from outside"]
    matches = case.matches(kind, 0.005)
    best = nearest("cosine", VECTORS[matches], kind.queries, 10)
    assert recall(answers(case, kind, 0.005), IDS[matches][best].tolist()) == 1.0
