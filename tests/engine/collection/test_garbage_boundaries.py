"""Garbage collection: which generations are kept by number and by age, and that all of their files stay."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from aidre.engine.collection import garbage
from aidre.engine.collection.store import Store
from aidre.engine.storage.manifest import Manifest
from tests.support.stores import NAME, ROWS, SPACE, everything, put

NOW = 1_800_000_000.0
OLD = NOW - garbage.KEEP_SECONDS - 1


@pytest.fixture
def newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Six generations, each of which names files of its own, all of them old."""
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for number in range(3):
            put(writer, [f"a{number}", f"b{number}"], ROWS[:2])
            writer.commit()
        for number in range(3):
            writer.delete([f"a{number}"])
            writer.commit()
        assert writer.snapshot is not None
        manifest = writer.snapshot.manifest
    assert manifest.generation == 6
    set_times(tmp_path, OLD)
    monkeypatch.setattr(time, "time", lambda: NOW)
    return manifest


def set_times(store: Path, seconds: float) -> None:
    for path in store.rglob("*"):
        os.utime(path, (seconds, seconds))


def date(store: Path, moments: Mapping[int, float]) -> None:
    """Set when each generation was written; the files of its segments are as old as they are."""
    for number, moment in moments.items():
        os.utime(store / NAME / "manifests" / f"{number:06d}.json", (moment, moment))


def numbers(store: Path) -> list[int]:
    return [int(name.removesuffix(".json")) for name in left(store, "manifests")]


def left(store: Path, folder: str) -> list[str]:
    return sorted(path.name for path in (store / NAME / folder).iterdir())


def test_as_many_generations_are_kept_as_the_manifest_says(tmp_path: Path, newest: Manifest) -> None:
    garbage.collect(tmp_path / NAME, newest)
    kept = list(range(7 - newest.keep, 7))
    assert left(tmp_path, "manifests") == [f"{number:06d}.json" for number in kept]
    for generation in kept:
        assert "b0" in everything(Store(tmp_path).open(NAME, generation=generation))
    assert len(left(tmp_path, "segments")) == 3
    assert left(tmp_path, "deletes") == ["000004.arrow", "000005.arrow", "000006.arrow"]


def test_of_each_of_the_last_minutes_the_newest_generation_at_its_beginning_stays(
    tmp_path: Path, newest: Manifest
) -> None:
    assert NOW % 60 == 0
    date(tmp_path, {1: NOW - 300, 2: NOW - 299, 3: NOW - 130, 4: NOW - 121, 5: NOW - 2, 6: NOW - 1})
    garbage.collect(tmp_path / NAME, newest, at_least=0)
    assert numbers(tmp_path) == [1, 2, 4, 5, 6], "3 was superseded before a minute began"
    for number in numbers(tmp_path):
        assert "b0" in everything(Store(tmp_path).open(NAME, generation=number))


@pytest.mark.parametrize(("age", "is_kept"), [(garbage.KEEP_SECONDS, True), (garbage.KEEP_SECONDS + 1, False)])
def test_a_generation_stays_for_eleven_minutes_after_the_last_full_minute_that_it_was_the_newest(
    tmp_path: Path, newest: Manifest, age: float, is_kept: bool
) -> None:
    date(tmp_path, {1: NOW - age, 2: NOW - age + 1, 3: NOW - age + 2, 4: NOW - age + 3, 5: NOW - 2, 6: NOW - 1})
    garbage.collect(tmp_path / NAME, newest, at_least=0)
    assert (1 in numbers(tmp_path)) == is_kept


def test_a_pinned_generation_stays_as_long_as_its_pin(tmp_path: Path, newest: Manifest) -> None:
    for number in (2, 3):
        Store(tmp_path).pin(NAME, number)
    os.utime(tmp_path / NAME / "pins" / "000002", (OLD, OLD))
    os.utime(tmp_path / NAME / "pins" / "000003", (NOW, NOW))
    garbage.collect(tmp_path / NAME, newest)
    assert numbers(tmp_path) == [3, 5, 6]
    assert left(tmp_path, "pins") == ["000003"]
    assert "b0" in everything(Store(tmp_path).open(NAME, generation=3))


def test_a_pin_of_a_store_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    Store(tmp_path / "missing").pin(NAME, 1)
    assert not (tmp_path / "missing").exists()


def test_superseded_generations_are_removed_together(tmp_path: Path, newest: Manifest) -> None:
    date(tmp_path, {number: NOW - 7 + number for number in range(1, 7)})
    garbage.collect(tmp_path / NAME, newest, at_least=5)
    assert numbers(tmp_path) == [1, 2, 3, 4, 5, 6]
    garbage.collect(tmp_path / NAME, newest, at_least=4)
    assert numbers(tmp_path) == [5, 6]


def test_one_old_superseded_generation_is_enough_for_a_sweep(tmp_path: Path, newest: Manifest) -> None:
    garbage.collect(tmp_path / NAME, newest, at_least=99)
    assert numbers(tmp_path) == [5, 6]


def test_what_no_kept_generation_names_is_removed(tmp_path: Path, newest: Manifest) -> None:
    unnamed = [tmp_path / NAME / "segments" / "unnamed", tmp_path / NAME / "deletes" / "000001.arrow"]
    unnamed[0].mkdir()
    (unnamed[0] / "vectors").touch()
    unnamed[1].touch()
    of_segment = tmp_path / NAME / "segments" / newest.segments[0].id / "unnamed"
    of_segment.touch()
    garbage.collect(tmp_path / NAME, newest)
    assert [path.exists() for path in (*unnamed, of_segment)] == [False] * 3
    assert everything(Store(tmp_path).open(NAME)) == ["b0", "b1", "b2"]


def test_many_commits_leave_a_bounded_number_of_generations_and_segments(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for number in range(200):
            put(writer, [f"d{number % 50}"], ROWS[:1])
            writer.commit()
    assert len(left(tmp_path, "manifests")) <= 2 + 12 + garbage.SWEPT_TOGETHER
    assert len(left(tmp_path, "segments")) <= 24 + 12 + garbage.SWEPT_TOGETHER * 2
    assert len(everything(Store(tmp_path).open(NAME))) == 50


def test_files_that_only_an_older_kept_generation_names_stay(tmp_path: Path, newest: Manifest) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
        assert writer.snapshot is not None
        merged = writer.snapshot.manifest
    set_times(tmp_path, OLD)
    garbage.collect(tmp_path / NAME, merged)
    assert everything(Store(tmp_path).open(NAME, generation=6)) == ["b0", "b1", "b2"]
    assert len(left(tmp_path, "segments")) == 4


def test_a_kept_manifest_that_nobody_can_open_keeps_nothing(tmp_path: Path, newest: Manifest) -> None:
    unnamed = tmp_path / NAME / "deletes" / "000001.arrow"
    unnamed.touch()
    (tmp_path / NAME / "manifests" / "000005.json").write_bytes(b"damaged")
    set_times(tmp_path, OLD)
    garbage.collect(tmp_path / NAME, newest)
    assert not unnamed.exists()
    assert everything(Store(tmp_path).open(NAME)) == ["b0", "b1", "b2"]


def test_manifests_go_together_with_the_files_that_only_they_name(
    tmp_path: Path, newest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        patched.setattr(garbage, "collect", lambda *_: None)
        writer.compact()
        for number in range(newest.keep):
            writer.delete([f"b{number}"])
            writer.commit()
        assert writer.snapshot is not None
        manifest = writer.snapshot.manifest
    set_times(tmp_path, OLD)
    assert len(left(tmp_path, "segments")) == 4
    garbage.collect(tmp_path / NAME, manifest)
    assert left(tmp_path, "segments") == [entry.id for entry in manifest.segments]
    assert left(tmp_path, "deletes") == ["000008.arrow", "000009.arrow"]


# -- who sweeps ------------------------------------------------------------------------------------------------------


def stored_bytes(store: Path) -> int:
    folders = [store / NAME / name for name in ("segments", "deletes")]
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())


def emptied(store: Path) -> None:
    with Store(store).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a", "b"], ROWS[:2])
        writer.commit()
    with Store(store).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(["a", "b"])
        writer.finish()


def test_compact_frees_what_was_deleted_altogether_once_no_reader_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied(tmp_path)
    assert stored_bytes(tmp_path) > 0
    set_times(tmp_path, OLD)
    monkeypatch.setattr(time, "time", lambda: NOW)
    with Store(tmp_path).writer(NAME, spaces=None) as writer:
        writer.compact()
    assert stored_bytes(tmp_path) == 0
    assert everything(Store(tmp_path).open(NAME)) == []


def test_compact_keeps_what_readers_of_the_last_ten_minutes_need(tmp_path: Path) -> None:
    emptied(tmp_path)
    with Store(tmp_path).writer(NAME, spaces=None) as writer:
        writer.compact()
    assert everything(Store(tmp_path).open(NAME, generation=1)) == ["a", "b"]


def test_a_writer_that_has_nothing_to_write_sweeps(tmp_path: Path, newest: Manifest) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.finish()
    assert numbers(tmp_path) == [5, 6]
    assert Store(tmp_path).current(NAME) == newest.generation


def test_what_older_generations_keep_is_told_with_the_time_when_it_goes(
    tmp_path: Path, newest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / NAME
    before = stored_bytes(tmp_path)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
        assert writer.snapshot is not None
        compacted = writer.snapshot.manifest
    date(tmp_path, {6: NOW - 90, 7: NOW - 50})
    assert newest.generation == 6
    kept = garbage.kept_for_readers(folder, compacted)
    assert kept is not None
    assert kept.bytes == before
    assert kept.until == NOW - 50 + garbage.KEEP_SECONDS  # from when generation 6 was superseded
    assert kept.generations == 2
    garbage.pin(folder, 6)
    os.utime(folder / "pins" / "000006", (NOW + 50, NOW + 50))
    pinned = garbage.kept_for_readers(folder, compacted)
    assert pinned is not None and pinned.until == NOW + 50 + garbage.KEEP_SECONDS
    monkeypatch.undo()
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.purge()
        assert writer.snapshot is not None
        assert garbage.kept_for_readers(folder, writer.snapshot.manifest) is None
