"""Every engine finds the true neighbours among a few thousand rows, with and without filters, through its index."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.index.fields import parse_filter
from aidre.engine.model import Query
from aidre.engine.ports import Reader
from tests.support.engines import WRITABLE, store_of
from tests.support.stores import NAME, record, space_of

ROWS, DIMENSIONS, CLUSTERS, QUERIES, K = 6_000, 64, 60, 40, 10
SPACE = space_of("cosine", DIMENSIONS)
FILTERS = {
    "half": {"number": {"lt": ROWS // 2}},
    "a tenth": {"number": {"lt": ROWS // 10}},
    "a hundredth": {"number": {"lt": ROWS // 100}},
    "one in twenty, spread": {"shard": 3},
    "far from the query": {"not": {"cluster": {"lt": CLUSTERS - 5}}},
    "few": {"number": {"in": [1, 5_999, 77]}},
    "none": {"number": -1},
}


def rows_and_queries() -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
    """Rows around centres, as texts about some subjects are, and queries beside rows of the first clusters."""
    random = np.random.default_rng(7)
    centres = random.standard_normal((CLUSTERS, DIMENSIONS))
    clusters = random.integers(0, CLUSTERS, ROWS)
    rows = centres[clusters] + 0.6 * random.standard_normal((ROWS, DIMENSIONS))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    near = np.flatnonzero(clusters < CLUSTERS - 5)[:QUERIES]
    queries = rows[near] + 0.05 * random.standard_normal((QUERIES, DIMENSIONS))
    return rows.astype(np.float32), clusters, queries.astype(np.float32)


VECTORS, CLUSTER_OF, ASKED = rows_and_queries()


@pytest.fixture(scope="module", params=WRITABLE)
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with store_of(request.param, tmp_path_factory.mktemp("store")) as source, pytest.MonkeyPatch.context() as patched:
        if request.param == "postgres":  # so that filters of a few hundred rows go through the graph, too
            patched.setattr("aidre_postgres.reader._FEW_ROWS", 50)
            patched.setattr("aidre_postgres.reader._FEW_SQUARED", 0)
        if request.param == "milvus":
            patched.setattr(importlib.import_module("aidre_milvus.search"), "_FEW_ROWS", 50)
        with source.writer(NAME, spaces=[SPACE]) as writer:
            for first in range(0, ROWS, ROWS // 2):
                numbers = range(first, first + ROWS // 2)
                records = [record(f"d{number:05}", metadata=metadata_of(number)) for number in numbers]
                writer.upsert(records, {SPACE.id: writer.encode(SPACE.id, VECTORS[first : first + ROWS // 2])}, {})
                writer.commit()
            writer.finish()
        yield source.open(NAME)


def metadata_of(number: int) -> dict[str, Any]:
    return {"number": number, "shard": number % 20, "cluster": int(CLUSTER_OF[number])}


def allowed(name: str | None) -> NDArray[np.intp]:
    """The rows that a filter lets pass."""
    number, shard = np.arange(ROWS), np.arange(ROWS) % 20
    passing = {
        None: number >= 0,
        "half": number < ROWS // 2,
        "a tenth": number < ROWS // 10,
        "a hundredth": number < ROWS // 100,
        "one in twenty, spread": shard == 3,
        "far from the query": CLUSTER_OF >= CLUSTERS - 5,
        "few": np.isin(number, [1, 5_999, 77]),
        "none": number < 0,
    }
    return np.flatnonzero(passing[name])


@pytest.mark.parametrize("name", [None, *FILTERS])
def test_the_true_neighbours_are_found(reader: Reader, name: str | None) -> None:
    rows = allowed(name)
    filter_ = None if name is None else parse_filter(FILTERS[name])
    found, expected = 0, min(K, len(rows)) * QUERIES
    for query in ASKED:
        hits = reader.search(Query(query, SPACE.id, K, filter=filter_))
        assert len(hits) == min(K, len(rows))
        nearest = rows[np.argsort(-(VECTORS[rows] @ query))[:K]]
        found += len({f"d{row:05}" for row in nearest} & {hit.document_id for hit in hits})
    assert found >= (0.99 if name is None else 0.95) * expected


@pytest.mark.parametrize("k", [1, 50, 1_500, ROWS + 5])
def test_as_many_hits_are_found_as_are_asked_for(reader: Reader, k: int) -> None:
    hits = reader.search(Query(ASKED[0], SPACE.id, k))
    assert len(hits) == min(k, ROWS)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    later = reader.search(Query(ASKED[0], SPACE.id, 7, offset=5))
    first = reader.search(Query(ASKED[0], SPACE.id, 12))
    assert [hit.id for hit in later] == [hit.id for hit in first[5:]]


def test_the_index_is_shown(reader: Reader) -> None:
    [space] = reader.status()["spaces"]
    assert space["calibration"] is not None
    assert reader.can.recall or space["bytes"]["index"] > 0
