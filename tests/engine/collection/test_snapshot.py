"""Readers beside a writer: reloads, old snapshots, sweeps, and whole commits only."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from aidre.engine.collection import garbage
from aidre.engine.collection.store import Store
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
    assert (chunk.text, chunk.json_id) == ("text of d000007", b'"d000007#chunk_1"')


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
