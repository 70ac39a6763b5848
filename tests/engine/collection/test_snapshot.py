"""Snapshots: reloads, old ones, whole commits only beside a writer, and what a snapshot tells of its collection."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection import garbage
from aidre.engine.collection.store import Store
from aidre.engine.errors import SpaceMissing
from tests.support.fields import dated
from tests.support.stores import NAME, ROWS, SPACE, ask, delete, everything, fill, names, put, record, write


def test_a_reload_uses_the_segments_again_that_are_open(tmp_path: Path) -> None:
    write(tmp_path, names(10))
    write(tmp_path, names(10, 10))
    old = Store(tmp_path).open(NAME)
    delete(tmp_path, ["d000000"])
    write(tmp_path, ["new"])
    new = Store(tmp_path).open(NAME, previous=old)
    assert len(new.segments) == 3
    assert [part.segment for part in new.segments[:2]] == [part.segment for part in old.segments]
    assert new.segments[1] is old.segments[1]
    assert "d000000" in everything(old)
    assert "d000000" not in everything(new)
    assert everything(new) == everything(Store(tmp_path).open(NAME))


@pytest.mark.slow
def test_an_open_snapshot_answers_after_later_commits_merges_and_sweeps(tmp_path: Path) -> None:
    fill(tmp_path, SPACE, ROWS, commits=5)
    old = Store(tmp_path).open(NAME)
    wanted = [ask(old, query, 50) for query in ROWS[:10]]
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(names(200)[:150])
        writer.commit()
        writer.compact()
        put(writer, ["z"], ROWS[:1])
        writer.commit()
        assert writer.snapshot is not None
        garbage.collect(tmp_path / NAME, writer.snapshot.manifest, keep_seconds=-60)
    assert len(list((tmp_path / NAME / "segments").iterdir())) == 2
    assert [ask(old, query, 50) for query in ROWS[:10]] == wanted
    chunk = old.get("d000007#chunk_1")
    assert chunk is not None
    assert (chunk.text, chunk.id) == ("text of d000007", "d000007#chunk_1")


@pytest.mark.slow
def test_readers_see_whole_commits_only_while_a_writer_writes_merges_and_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = partial(garbage.collect, keep_seconds=0)
    monkeypatch.setattr(garbage, "collect", hasty)
    write(tmp_path, [record(one, ["0"]) for one in names(20)])
    seen = [set[int](), set[int](), set[int]()]
    done = threading.Event()

    def read(generations: set[int]) -> None:
        snapshot = None
        while not done.is_set():
            snapshot = Store(tmp_path).open(NAME, previous=snapshot)
            texts = {chunk.text for one in names(20) if (chunk := snapshot.get(f"{one}#chunk_1"))}
            assert len(texts) == 1, texts
            assert len(everything(snapshot)) == 20
            generations.add(snapshot.generation)

    with ThreadPoolExecutor(len(seen)) as pool:
        readers = [pool.submit(read, generations) for generations in seen]
        try:
            for number in range(1, 1_000):
                with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
                    put(writer, [record(one, [str(number)]) for one in names(20)], ROWS[:20])
                    writer.commit()
                    writer.finish()
                if any(reader.done() for reader in readers) or min(map(len, seen)) >= 6:
                    break
        finally:
            done.set()
        for reader in readers:
            reader.result()
    assert min(map(len, seen)) >= 6


def test_the_lineage_tells_a_collection_from_one_that_took_its_name(tmp_path: Path) -> None:
    write(tmp_path / "a", ["a"])
    write(tmp_path / "b", ["a"])
    lineage = Store(tmp_path / "a").open(NAME).lineage
    assert Store(tmp_path / "b").open(NAME).lineage != lineage
    write(tmp_path / "a", ["b"])
    assert Store(tmp_path / "a").open(NAME).lineage == lineage


def test_fields_are_those_that_a_document_carries(tmp_path: Path) -> None:
    write(tmp_path, [record("a", metadata={"x": 1, "y": {"z": 2}}), record("b", metadata={"w": []})])
    assert {"x", "y.z"} <= Store(tmp_path).open(NAME).fields()


def test_declared_dates_stay_declared_when_a_writer_does_not_repeat_them(tmp_path: Path) -> None:
    day = {"day": "2026-04-01T12:00:00+02:00"}
    write(tmp_path, [record("a", metadata=day)], dates=["day"])
    write(tmp_path, [record("b", metadata=day)])
    only = dated({"day": {"gte": "2026-04-01T10:00:00Z", "lt": "2026-04-01T10:00:01Z"}}, ["day"])
    assert Store(tmp_path).open(NAME).count(only) == 2


def test_the_centroid_does_not_depend_on_segments(tmp_path: Path) -> None:
    write(tmp_path / "one", names(30))
    for first in (0, 10, 20):
        write(tmp_path / "three", names(10, first), first)
    one, three = (Store(tmp_path / name).open(NAME) for name in ("one", "three"))
    assert len(three.segments) > len(one.segments)
    rows = [chunk.vectors()[SPACE.id] for chunk in one.scan()]
    mean = np.mean([row / np.linalg.norm(row) for row in rows], axis=0)
    assert np.allclose(one.centroid(SPACE.id), mean, atol=1e-3)
    assert np.allclose(three.centroid(SPACE.id), one.centroid(SPACE.id), atol=1e-5)
    with pytest.raises(SpaceMissing):
        one.centroid("other")


def test_status_tells_languages_and_documents_without_a_url(tmp_path: Path) -> None:
    records = [
        record("a", ["one"], url="https://example.com/a"),
        record("b", ["der Hund und die Katze", "und nicht das Haus oder der Garten"]),
        record("c", ["two"]),
    ]
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for part in (records[:2], records[2:]):
            put(writer, part, ROWS[: sum(len(one.chunks) for one in part)])
            writer.commit()
    status = Store(tmp_path).open(NAME).status()
    assert (status["documents_without_url"], status["languages"]) == (2, {"de": 2, "en": 2})
    delete(tmp_path, ["b"])
    status = Store(tmp_path).open(NAME).status()
    assert (status["documents_without_url"], status["languages"]) == (1, {"en": 2})
