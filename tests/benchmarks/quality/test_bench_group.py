"""The benchmark of hits by document: ten documents find what ten chunks of one do not leave room for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.quality import bench_group
from tests.benchmarks.judged_sets import judged


@pytest.mark.slow
def test_documents_find_what_the_chunks_of_one_leave_no_room_for(tmp_path: Path, results: Path) -> None:
    long = "\n\n".join(f"The heron of pond {part} waits for frogs and fish. " + "It waits. " * 80 for part in range(12))
    rows = [{"id": "long", "text": long}, {"id": "short", "text": "A heron waits."}, {"id": "far", "text": "Bread."}]
    corpus = [json.dumps(row) for row in rows]
    data = judged(tmp_path / "ponds", corpus, ['{"id": "q", "text": "The heron of the pond waits"}'], ["q\tshort\t1"])
    assert bench_group.main([str(data), "--keep", str(tmp_path / "keep")]) == 0
    table = json.loads((results / "bench_group.json").read_bytes())["chunks, documents, distinct documents"]
    found = table["ponds"]
    assert found["documents in ten chunks"] < 3
    assert found["recall@10 documents"] == found["recall@10 distinct"] == 1
    assert found["recall@10 documents"] >= found["recall@10 chunks"]
