"""The same rows give the same answers however commits cut them into segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine.collection import generations
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.model import Distance, Query
from tests.support.fields import dated
from tests.support.stores import NAME, fill, names, normal, put, record, shuffled, space_of

MIXED: list[Any] = [5, "5", 5.0, True, None, ["a", ["b", 5]], {"a": 1}, {"a": "x"}, 2**60, 0.5, "", [], "2026-04-01"]
FILTERS: list[dict[str, Any]] = [
    {"mixed": 5},
    {"mixed": "5"},
    {"mixed": True},
    {"mixed": {"gte": 1}},
    {"mixed": {"lt": "6"}},
    {"mixed.a": 1},
    {"mixed.a": {"exists": True}},
    {"mixed": {"ne": 5}},
    {"mixed": {"in": ["a", 0.5, 2**60]}},
    {"mixed": {"exists": False}},
    {"or": [{"mixed": "a"}, {"not": {"number": {"lt": 40}}}]},
    {"when": {"gte": "2026-02-01"}},
]


@pytest.mark.slow
@pytest.mark.parametrize("distance", ["cosine", "dot"])
def test_one_commit_or_many_give_the_same_answers(
    distance: Distance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More segments than a collection may have are merged during the load, here from the seventh on."""
    monkeypatch.setattr(generations, "MAX_SEGMENTS", 6)
    monkeypatch.setattr(generations, "MAX_SEGMENTS", 6)
    count = 130
    rows = normal(count, 12, 13)
    ids = shuffled(names(count))
    metadata = [
        {"mixed": MIXED[row % len(MIXED)], "number": row % 50, "when": f"2026-0{row % 4 + 1}-15"}
        for row in range(count)
    ]
    space = space_of(distance, 12)
    layouts = [("one", 1, False), ("five", 5, False), ("thirteen", 13, False), ("merged", 13, True)]
    snapshots = [
        fill(tmp_path / name, space, rows, ids, commits=commits, finish=finish, metadata=metadata, dates=["when"])
        for name, commits, finish in layouts
    ]
    segments = [len(snapshot.segments) for snapshot in snapshots]
    assert segments == [1, 5, segments[2], 1]
    assert 1 < segments[2] < 13
    for only in [None, *(dated(written, ["when"]) for written in FILTERS)]:
        counts = {snapshot.count(only) for snapshot in snapshots}
        assert len(counts) == 1
        assert 0 < counts.pop() <= count
        for query in normal(3, 12, 14):
            one, *others = (
                [(hit.chunk.id, hit.score) for hit in snapshot.search(Query(query, space.id, 10, filter=only))]
                for snapshot in snapshots
            )
            assert others == [one] * 3


def test_a_chunk_is_found_with_its_own_document_whatever_the_number_of_chunks(tmp_path: Path) -> None:
    rng = np.random.default_rng(15)
    sizes = rng.integers(1, 6, 60).tolist()
    records = [
        record(one, [f"{one}:{n}" for n in range(size)], metadata={"size": size})
        for one, size in zip(names(60), sizes, strict=True)
    ]
    rows = normal(sum(sizes), 8, 16)
    space = space_of("cosine", 8)
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        for start in range(0, 60, 20):
            first = sum(sizes[:start])
            put(writer, records[start : start + 20], rows[first : first + sum(sizes[start : start + 20])])
            writer.commit()
        writer.delete(names(60)[::4])
        writer.commit()
        before = Store(tmp_path).open(NAME)
        writer.compact()
    for snapshot in (before, Store(tmp_path).open(NAME)):
        row = 0
        for record_, size in zip(records, sizes, strict=True):
            gone = int(record_.document.id[1:]) % 4 == 0
            for chunk in record_.chunks:
                hit = snapshot.search(Query(rows[row], space.id, 1))[0].chunk
                assert (hit.id == chunk.id) is not gone
                assert gone or (hit.document_id, hit.text) == (record_.document.id, chunk.text)
                row += 1
            assert gone or snapshot.count(parse_filter({"document_id": record_.document.id})) == size
