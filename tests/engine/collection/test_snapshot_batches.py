"""A snapshot's queries: batches that share a scan, bounds of a page, documents that are deleted, shared segments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aidre.engine.collection import snapshot as module
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import InvalidInput
from aidre.engine.index.fields import parse_filter
from aidre.engine.model import Query
from aidre.engine.search import search_dense_batch
from aidre.engine.segment import view
from tests.support.stores import NAME, ROWS, SPACE, names, put, record


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Two segments; d000003 is deleted, and d000005 of the first is in the second."""
    path = tmp_path_factory.mktemp("store")
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        records = [record(one, metadata={"odd": number % 2}) for number, one in enumerate(names(40))]
        put(writer, records[:20], ROWS[:20])
        writer.commit()
        put(writer, [*records[20:], record("d000005", ["new"], metadata={"odd": 1})], ROWS[20:41])
        writer.delete(["d000003"])
        writer.commit()
    return Store(path).open(NAME)


FIRST = Query(ROWS[50], SPACE.id, 5, filter=parse_filter({"odd": 1}))
ALIKE = replace(FIRST, vector=ROWS[51])
OTHERS = {
    "filter": replace(ALIKE, filter=parse_filter({"odd": 0})),
    "no filter": replace(ALIKE, filter=None),
    "count": replace(ALIKE, top_k=7),
    "offset": replace(ALIKE, offset=2),
    "mode": replace(ALIKE, mode="hybrid", text="text"),
}


def hits(found: list[Any]) -> list[tuple[str, float]]:
    return [(hit.chunk.id, round(hit.score, 5)) for hit in found]


@pytest.mark.parametrize("difference", OTHERS)
@pytest.mark.parametrize("is_first", [False, True])
def test_queries_that_differ_get_what_each_gets_alone(snapshot: Snapshot, difference: str, is_first: bool) -> None:
    queries = [FIRST, ALIKE, OTHERS[difference]]
    queries = queries[::-1] if is_first else queries
    alone = [hits(snapshot.search(query)) for query in queries]
    assert [hits(found) for found in snapshot.search_all(queries)] == alone
    assert [len(found) for found in alone] == [query.top_k for query in queries]


def test_queries_that_differ_in_their_vector_alone_share_one_scan(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[int] = []
    real = search_dense_batch

    def counted(segments: Any, space_id: str, vectors: Any, **options: Any) -> Any:
        scans.append(len(vectors))
        return real(segments, space_id, vectors, **options)

    monkeypatch.setattr(module, "search_dense_batch", counted)
    alone = [hits(snapshot.search(query)) for query in (FIRST, ALIKE)]
    assert scans == []
    assert [hits(found) for found in snapshot.search_all([FIRST, ALIKE])] == alone
    assert scans == [2]
    snapshot.search_all([FIRST, ALIKE, OTHERS["filter"]])
    snapshot.search_all([FIRST])
    assert scans == [2]


def test_a_page_has_at_least_one_hit_and_begins_nowhere_before_the_first(snapshot: Snapshot) -> None:
    [best] = snapshot.search(replace(FIRST, top_k=1))
    assert hits(snapshot.search(FIRST))[0] == hits([best])[0]
    assert hits(snapshot.search(replace(FIRST, top_k=2, offset=3))) == hits(snapshot.search(FIRST))[3:]
    for wrong in ({"top_k": 0}, {"top_k": -1}, {"offset": -1}, {"top_k": 0, "offset": -1}):
        with pytest.raises(InvalidInput, match="ask for at least one hit, after none or more"):
            snapshot.search(replace(FIRST, **wrong))  # type: ignore[arg-type]


def test_documents_are_found_where_they_live(snapshot: Snapshot) -> None:
    found = snapshot.find_documents(["d000000", "d000003", "d000005", "d000021", "missing"])
    assert found.tolist() == [[0, 0], [-1, -1], [1, 20], [1, 1], [-1, -1]]
    assert [len(snapshot.document(one)) for one in ("d000003", "d000005", "missing")] == [0, 1, 0]
    assert snapshot.document("d000005")[0].text == "new"
    assert snapshot.get("d000003#chunk_1") is None


def test_segments_are_shared_where_the_same_documents_are_deleted() -> None:
    some, same, other = np.array([True, False]), np.array([True, False]), np.array([True, True])
    assert view._is_same_mask(None, None) is True
    assert view._is_same_mask(some, same) is True
    for old, new in ((None, some), (some, None), (some, other)):
        assert view._is_same_mask(old, new) is False
