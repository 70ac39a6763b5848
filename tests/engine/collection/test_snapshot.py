"""Readers beside a writer: reloads, old snapshots, sweeps, and whole commits only."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from aidre.engine.collection import garbage
from aidre.engine.collection.store import Store
from aidre.engine.errors import GenerationMissing
from aidre.engine.maintenance.verify import verify
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


def test_a_sweep_keeps_two_generations_and_removes_what_only_older_ones_name(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    for number in range(6):
        write(tmp_path, [record("a", [f"text {number}"]), f"b{number}"])
    newest = Store(tmp_path).open(NAME).manifest
    last = newest.generation
    garbage.collect(folder, newest)
    assert len(list((folder / "manifests").iterdir())) == last
    garbage.collect(folder, newest, keep_seconds=-60)
    kept = sorted(path.name for path in (folder / "manifests").iterdir())
    assert kept == [f"{last - 1:06d}.json", f"{last:06d}.json"]
    for generation in (last - 1, last):
        assert everything(Store(tmp_path).open(NAME, generation=generation))[0] == "a"
    with pytest.raises(GenerationMissing):
        Store(tmp_path).open(NAME, generation=last - 2)
    assert [report.problems for report in verify(Store(tmp_path))] == [()]
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
        writer.delete(["b0"])
        writer.commit()
        assert writer.snapshot is not None
        garbage.collect(folder, writer.snapshot.manifest, keep_seconds=-60)
    segments = [path.name for path in (folder / "segments").iterdir()]
    assert segments == [part.segment.id for part in Store(tmp_path).open(NAME).segments]
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b1", "b2", "b3", "b4", "b5"]


def test_readers_see_whole_commits_only_while_a_writer_writes_merges_and_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = partial(garbage.collect, keep_seconds=0)
    monkeypatch.setattr(garbage, "collect", hasty)
    write(tmp_path, [record(one, ["0"]) for one in names(20)])
    done: list[int] = []

    def read(_: int) -> set[int]:
        snapshot, seen = None, set()
        while not done:
            snapshot = Store(tmp_path).open(NAME, previous=snapshot)
            texts = {chunk.text for one in names(20) if (chunk := snapshot.get(f"{one}#chunk_1"))}
            assert len(texts) == 1, texts
            assert len(everything(snapshot)) == 20
            seen.add(snapshot.generation)
        return seen

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read, number) for number in range(3)]
        try:
            for number in range(1, 20):
                with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
                    put(writer, [record(one, [str(number)]) for one in names(20)], ROWS[:20])
                    writer.commit()
                    writer.finish()
        finally:
            done.append(1)
        assert all(len(reader.result()) > 1 for reader in readers)
