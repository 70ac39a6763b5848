"""What a server takes by the number of its collections, in the smallest form."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.verify import verify
from benchmarks.serve import bench_collections


@pytest.mark.process
@pytest.mark.slow
def test_collections_are_counted_in_files_and_not_in_requests(results: Path, tmp_path: Path) -> None:
    small = ["--collections", "1", "12", "--rows", "240", "--dimensions", "8", "--idle-seconds", "0.1"]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert bench_collections.main([*small, "--folder", str(tmp_path)]) == 0
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    found = json.loads((results / "bench_collections.json").read_bytes())
    one, many = found["a server of one worker"].values()
    assert many["open files"] - one["open files"] >= 11 * 5
    assert many["memory maps"] > one["memory maps"]
    one, many = found["a replica"].values()
    assert many["first pull, requests"] > one["first pull, requests"]
    assert many["idle poll, requests"] == one["idle poll, requests"]


def test_each_copy_is_a_collection_of_its_own(tmp_path: Path) -> None:
    names = bench_collections.write(tmp_path, 3, 40, 8)
    store = Store(tmp_path)
    assert store.collections() == names
    assert len({store.open(name).lineage for name in names}) == 3
    assert {store.open(name).chunks for name in names} == {40}
    files = list(tmp_path.rglob("documents.arrow"))
    assert len({path.stat().st_ino for path in files}) == len(files) == 3
    assert not [problem for report in verify(store) for problem in report.problems]
