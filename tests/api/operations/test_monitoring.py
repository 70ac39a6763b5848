"""The text of /metrics, `api/operations/monitoring.py`: collections, processes, and who reads of what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aidre.api.operations import monitoring
from aidre.engine.collection.store import Store
from aidre.engine.native import kernel_name
from aidre.engine.storage.manifest import Calibration, Depth, SpaceState
from tests.api.counts import counting, samples
from tests.support.clients import COSINE, TEXT, a_document, delete, fill, serving


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    fill(path, "docs", [a_document(f"d{n}", f"text {n}") for n in range(5)], (TEXT, COSINE))
    delete(path, "docs", ["d0"], (TEXT, COSINE))
    fill(path, "news", [a_document("n", "news")])
    return path


def test_collections_are_told_of(store: Path) -> None:
    snapshots = [Store(store).open(name) for name in ("docs", "news")]
    found = samples(
        monitoring.collection_lines([one.status() for one in snapshots], {"docs": 0.0, "gone": 1.0}, damaged=2)
    )
    assert found["aidre_collections_damaged"] == 2
    assert found["aidre_collection_generation{collection=docs}"] == 2
    assert found["aidre_collection_generation{collection=news}"] == 1
    assert found["aidre_collection_segments{collection=docs}"] == 1
    assert found["aidre_collection_documents{collection=docs}"] == 4
    assert found["aidre_collection_chunks{collection=docs}"] == 4
    assert found["aidre_collection_deleted_chunks{collection=docs}"] == 1
    assert found["aidre_collection_warnings{collection=docs}"] == 0
    assert found["aidre_collection_updated_seconds{collection=docs}"] > 1.7e9
    assert found["aidre_collection_source_check_age_seconds{collection=docs}"] > 1.7e9
    assert "aidre_collection_source_check_age_seconds{collection=news}" not in found
    [segment] = snapshots[0].manifest.segments
    vectors = [entry.size for name, entry in segment.files.items() if name.endswith(".vectors.arrow")]
    told = [found[f"aidre_space_bytes{{collection=docs,file=vectors,space={space.id}}}"] for space in (TEXT, COSINE)]
    assert sorted(told) == sorted(vectors)
    assert found[f"aidre_space_bytes{{collection=docs,file=index,space={COSINE.id}}}"] == 0
    assert found[f"aidre_space_search{{collection=docs,kind=exact,space={COSINE.id}}}"] == 1
    assert not [name for name in found if name.startswith("aidre_space_recall")]


def test_recall_is_that_of_the_calibration(store: Path) -> None:
    snapshot = Store(store).open("news")
    depths = (Depth(10, 200, 0.996, 0.9), Depth(100, 900, 0.99, 0.97))
    [state] = snapshot.manifest.spaces
    other = 'an "odd"\\id\nof a space'
    states = (
        replace(state, calibration=Calibration("scan", 0.99, 1_000, depths=depths)),
        SpaceState(replace(state.space, id=other), "building"),
    )
    snapshot.manifest = replace(snapshot.manifest, spaces=states)
    found = samples(monitoring.collection_lines([snapshot.status()], {}, damaged=0))
    named = f"space={state.space.id}"
    assert found[f"aidre_space_recall{{collection=news,results=10,{named},statistic=mean}}"] == 0.996
    assert found[f"aidre_space_recall{{collection=news,results=100,{named},statistic=p5}}"] == 0.97
    assert found[f"aidre_space_search{{collection=news,kind=scan,{named}}}"] == 1
    assert found[f"aidre_space_search{{collection=news,kind=building,space={other}}}"] == 1


def test_strangers_read_of_no_collection_that_lists_itself_nowhere(tmp_path: Path) -> None:
    fill(tmp_path / "store", "docs", [a_document("d", "text")])
    fill(tmp_path / "store", "leads", [a_document("d", "text")])
    with serving(tmp_path / "store", '[collections.leads]\nprotocols = ["intake"]\n') as client:
        shown = client.get("/metrics").text
    assert 'collection="docs"' in shown
    assert "leads" not in shown


def test_a_caller_who_sees_no_collection_reads_of_none() -> None:
    assert samples(monitoring.collection_lines([], {"secret": 0.0}, damaged=0)) == {"aidre_collections_damaged": 0}


def test_processes_are_told_of(tmp_path: Path) -> None:
    with closing(counting(tmp_path)) as one:
        counting(tmp_path).close()
        found = samples(monitoring.process_lines(one.workers()))
        assert found["aidre_workers"] == 1
        assert found["aidre_worker_memory_bytes{kind=anonymous,worker=0}"] > 1e6
        assert found["aidre_worker_open_files{worker=0}"] > 3
        assert found["aidre_worker_threads{worker=0}"] >= 1
        [build] = [name for name, value in found.items() if name.startswith("aidre_build_info{") and value == 1]
        assert f"kernel={kernel_name()}" in build


def test_a_process_that_has_just_ended_is_left_out() -> None:
    def ended() -> Iterator[Any]:
        [worker] = counting().workers()
        yield replace(worker, pid=2**22 + 1)

    found = samples(monitoring.process_lines(ended()))
    assert found["aidre_workers"] == 1
    assert not [name for name in found if name.startswith("aidre_worker_")]
