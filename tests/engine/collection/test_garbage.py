"""What garbage collection, a purge and the next writer remove from the disk, and what they keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.collection import garbage
from aidre.engine.collection.store import Store
from aidre.engine.errors import GenerationMissing
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage import durable
from tests.support.stores import NAME, SPACE, everything, record, write


@pytest.mark.slow
def test_a_sweep_keeps_two_generations_and_removes_what_only_older_ones_name(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    for number in range(6):
        write(tmp_path, [record("a", [f"text {number}"]), f"b{number}"])
    newest = Store(tmp_path).open(NAME).manifest
    last = newest.generation
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


def test_what_a_failed_commit_wrote_is_discarded_unless_readers_have_it(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    folder, first = tmp_path / NAME, Store(tmp_path).open(NAME).manifest
    write(tmp_path, ["b"])
    written = sorted(folder.rglob("*"))
    garbage.discard(folder, first)
    assert sorted(folder.rglob("*")) == written
    (folder / "CURRENT").write_bytes(b"%06d\n" % first.generation)
    garbage.discard(folder, first)
    assert [path.name for path in (folder / "manifests").iterdir()] == [f"{first.generation:06d}.json"]
    assert [path.name for path in (folder / "segments").iterdir()] == [first.segments[0].id]
    assert everything(Store(tmp_path).open(NAME)) == ["a"]


def test_what_an_interrupted_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    folder = tmp_path / NAME
    (folder / "segments" / ".0123.tmp").mkdir()
    (folder / "segments" / ".0123.tmp" / "chunks.arrow").write_bytes(b"half")
    (folder / "manifests" / ".000002.json.77.tmp").write_bytes(b"half")
    (folder / ".CURRENT.77.tmp").write_bytes(b"0")
    write(tmp_path, ["b"])
    assert not list(folder.rglob("*.tmp"))
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]


def test_what_a_merge_could_not_remove_is_removed_by_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    write(tmp_path, ["b"])
    with monkeypatch.context() as refusing, Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        refusing.setattr(durable, "remove_folder", lambda path: None)
        writer.compact()
    segments = tmp_path / NAME / "segments"
    assert [path for path in segments.glob("*/.*") if any(path.iterdir())]
    write(tmp_path, ["c"])
    assert not list(segments.glob("*/.*"))


def test_what_a_purge_removed_is_gone_from_the_disk_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a", "b", "c"])
    sync, synced = durable.sync_folder, dict[Path, set[str]]()

    def recorded(path: Path) -> None:
        sync(path)
        synced[path] = {each.name for each in path.iterdir()}

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(["b"])
        writer.commit()
        monkeypatch.setattr(durable, "sync_folder", recorded)
        writer.purge()
        folder = tmp_path / NAME
        for path in (tmp_path, folder, *(folder / name for name in ("manifests", "segments", "changes", "deletes"))):
            assert not path.exists() or synced[path] == {each.name for each in path.iterdir()}
