"""Garbage collection: which generations are kept by number and by age, and that all of their files stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from aidre.engine.collection import garbage
from aidre.engine.collection.store import Store
from aidre.engine.storage.manifest import Manifest
from tests.support.stores import NAME, ROWS, SPACE, everything, put

NOW = 1_800_000_000.0
OLD = NOW - garbage.KEEP_SECONDS - 1


def superseded(folder: Path, limit: float, last: int) -> list[str]:
    return sorted(path.name for path in garbage._superseded_manifests(folder, limit, last))


def test_a_manifest_is_superseded_since_its_successor_was_written(tmp_path: Path) -> None:
    for number in range(1, 6):
        path = tmp_path / f"{number:06d}.json"
        path.touch()
        os.utime(path, (number * 10, number * 10))
    (tmp_path / ".000006.json.1.tmp").touch()
    assert superseded(tmp_path, 31.0, 9) == ["000001.json", "000002.json"]
    assert superseded(tmp_path, 30.0, 9) == ["000001.json"]
    assert superseded(tmp_path, 999.0, 9) == [f"00000{number}.json" for number in range(1, 5)], "never the newest"
    assert superseded(tmp_path, 999.0, 3) == ["000001.json", "000002.json", "000003.json"]
    assert superseded(tmp_path, 999.0, 0) == []


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


@pytest.mark.parametrize(("age", "are_kept"), [(garbage.KEEP_SECONDS, True), (garbage.KEEP_SECONDS + 1, False)])
def test_what_was_in_use_in_the_last_minutes_is_kept(
    tmp_path: Path, newest: Manifest, age: float, are_kept: bool
) -> None:
    unnamed = [tmp_path / NAME / "segments" / "unnamed", tmp_path / NAME / "deletes" / "000001.arrow"]
    unnamed[0].mkdir()
    (unnamed[0] / "vectors").touch()
    unnamed[1].touch()
    of_segment = tmp_path / NAME / "segments" / newest.segments[0].id / "unnamed"
    of_segment.touch()
    set_times(tmp_path, NOW - age)
    garbage.collect(tmp_path / NAME, newest)
    assert [path.exists() for path in (*unnamed, of_segment)] == [are_kept] * 3
    assert len(left(tmp_path, "manifests")) == (6 if are_kept else newest.keep)
    assert everything(Store(tmp_path).open(NAME)) == ["b0", "b1", "b2"]


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
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer, monkeypatch.context() as patched:
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
