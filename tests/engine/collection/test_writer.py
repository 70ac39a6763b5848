"""What a writer replaces, deletes and lists, alone: the lock, interrupted runs, a disk that refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aidre.engine.collection import garbage
from aidre.engine.collection.store import Store
from aidre.engine.errors import InvalidDocument, SpaceConflict, StorageFailed, StoreLocked
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage import durable
from tests.support.stores import NAME, ROWS, SPACE, TIME, delete, everything, names, put, record, write

# -- replacing and deleting --------------------------------------------------------------------------------


def test_a_replaced_document_answers_with_its_new_chunks_alone(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [record("a", ["one ", "two ", "three"]), record("b")], ROWS[:4])
        writer.commit()
        put(writer, [record("a", ["four"])], ROWS[4:5])
        result = writer.commit()
    assert result is not None
    assert (result.documents, result.chunks) == (2, 2)
    snapshot = Store(tmp_path).open(NAME)
    assert everything(snapshot) == ["a", "b"]
    chunk = snapshot.get("a#chunk_1")
    assert chunk is not None
    assert chunk.text == "four"
    assert snapshot.get("a#chunk_2") is None


@pytest.mark.parametrize("separate", [True, False])
def test_of_two_documents_with_one_id_in_a_commit_the_later_wins_and_can_be_reached(
    separate: bool, tmp_path: Path
) -> None:
    both = [record("a", ["old"]), record("a", ["new"])]
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for part in [both[:1], both[1:]] if separate else [both]:
            put(writer, part, ROWS[: len(part)])
        result = writer.commit()
        assert result is not None
        assert (result.documents, result.chunks) == (1, 1)
        assert writer.fingerprints(["a"]) == [both[1].fingerprint]
    snapshot = Store(tmp_path).open(NAME)
    chunk = snapshot.get("a#chunk_1")
    assert chunk is not None
    assert chunk.text == "new"
    assert everything(snapshot) == ["a"]
    write(tmp_path, [record("a", ["newest"])])
    assert everything(Store(tmp_path).open(NAME)) == ["a"]
    assert delete(tmp_path, ["a"]) == 1
    assert Store(tmp_path).open(NAME).documents == 0


def test_a_document_that_was_deleted_and_brought_again_in_one_commit_is_there_once(tmp_path: Path) -> None:
    write(tmp_path, ["a", "b"])
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        assert writer.delete(["a"]) == 1
        assert writer.delete(["a"]) == 0
        put(writer, [record("a", ["again"]), "c"], ROWS[:2])
        assert writer.delete(["c", "b", "z"]) == 2
        put(writer, [record("a", ["once more"])], ROWS[3:4])
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert everything(snapshot) == ["a"]
    chunk = snapshot.get("a#chunk_1")
    assert chunk is not None
    assert chunk.text == "once more"


@pytest.mark.parametrize("rewrite", ["compact", "purge", "finish"])
def test_what_is_pending_is_committed_before_segments_are_rewritten(rewrite: str, tmp_path: Path) -> None:
    write(tmp_path, ["a", "b", "c"])
    delete(tmp_path, ["a"])
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(["b"])
        put(writer, ["d"], ROWS[:1])
        getattr(writer, rewrite)()
        assert writer.commit() is None
    assert everything(Store(tmp_path).open(NAME)) == ["c", "d"]


def test_a_document_without_chunks_is_refused_and_what_was_pending_stays(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        with pytest.raises(InvalidDocument, match="'empty' has no chunks"):
            put(writer, [record("a", ["x"]), record("empty")._replace(chunks=())], ROWS[:1])
        writer.commit()
    assert everything(Store(tmp_path).open(NAME)) == ["a"]


def test_a_collection_whose_documents_are_all_deleted_goes_on(tmp_path: Path) -> None:
    write(tmp_path, ["a", "b"])
    delete(tmp_path, ["a", "b"])
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
        writer.purge()
        assert writer.snapshot is not None
        assert everything(writer.snapshot) == []
        put(writer, ["a"], ROWS[:1])
        writer.commit()
        writer.finish()
    assert everything(Store(tmp_path).open(NAME)) == ["a"]


def test_a_deleted_document_is_gone_from_every_answer(tmp_path: Path) -> None:
    write(tmp_path, [record(one, metadata={"n": 1}) for one in names(10)])
    assert delete(tmp_path, [*names(10)[::2], "unknown"]) == 5
    snapshot = Store(tmp_path).open(NAME)
    assert everything(snapshot) == names(10)[1::2]
    assert (snapshot.documents, snapshot.count(), snapshot.count(parse_filter({"n": 1}))) == (5, 5, 5)
    assert snapshot.get("d000000#chunk_1") is None
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        assert writer.fingerprints(["d000000", "d000001"]) == [None, record("d000001", metadata={"n": 1}).fingerprint]
        assert writer.updated_at(["d000000", "d000001"]) == [None, TIME]


def test_random_runs_end_as_a_dictionary_would(tmp_path: Path) -> None:
    """Upserts, deletes, commits, merges and reopened writers in random order, against a plain dictionary."""
    rng = np.random.default_rng(1)
    model: dict[str, str] = {}
    for run in range(12):
        with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
            for step in range(int(rng.integers(1, 6))):
                for _ in range(int(rng.integers(1, 4))):
                    chosen = [f"d{number}" for number in rng.integers(0, 40, int(rng.integers(1, 12))).tolist()]
                    if rng.random() < 0.3:
                        assert writer.delete(sorted(set(chosen))) == len(set(chosen) & model.keys())
                        for one in chosen:
                            model.pop(one, None)
                    else:
                        texts = {one: f"{one} of {run}.{step}.{rng.random()}" for one in chosen}
                        put(writer, [record(one, [texts[one]]) for one in chosen], ROWS[: len(chosen)])
                        model.update(texts)
                writer.commit()
            writer.finish() if rng.random() < 0.7 else writer.compact()
        snapshot = Store(tmp_path).open(NAME)
        assert everything(snapshot) == sorted(model)
        assert snapshot.documents == snapshot.chunks == len(model)
        texts = {one: chunk.text for one in model if (chunk := snapshot.get(f"{one}#chunk_1"))}
        assert texts == model


# -- one writer --------------------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from aidre.engine.model import EmbeddingSpace
from aidre.engine.collection.store import Store
with Store(Path(sys.argv[1])).writer("docs", spaces=[EmbeddingSpace("test:cosine:8", 8, "cosine")]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_and_told_the_process_that_writes(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreLocked, match=str(holder.pid)) as caught:
            write(tmp_path, ["b"])
        assert caught.value.details["pid"] == holder.pid
        assert everything(Store(tmp_path).open(NAME)) == ["a"]
        holder.kill()
    assert write(tmp_path, ["b"]) == 2


def test_a_second_writer_of_the_same_process_is_refused_too(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]):
        with pytest.raises(StoreLocked, match=str(os.getpid())):
            Store(tmp_path).writer(NAME, spaces=[SPACE])
        with Store(tmp_path).writer("other", spaces=[SPACE]):
            pass
    with Store(tmp_path).writer(NAME, spaces=[SPACE]):
        pass


def test_a_writer_that_cannot_begin_frees_the_lock(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    with pytest.raises(SpaceConflict):
        Store(tmp_path).writer(NAME, spaces=[])
    assert write(tmp_path, ["b"]) == 2


def test_a_writer_begins_at_the_newest_generation(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(tmp_path, ["a"])
    stale = store.open(NAME)
    write(tmp_path, [record("a", ["new"]), "b"])
    with store.writer(NAME, spaces=[SPACE]) as writer:
        assert writer.fingerprints(["a", "b"]) == [record("a", ["new"]).fingerprint, record("b").fingerprint]
        assert writer.snapshot is not None
        assert writer.snapshot.generation == stale.generation + 1


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


def test_a_commit_does_not_write_into_files_that_an_interrupted_one_left(tmp_path: Path) -> None:
    """They are read-only: writing in place would fail for everyone but root."""
    write(tmp_path, ["a", "b"])
    left = [tmp_path / NAME / folder / "000002.arrow" for folder in ("changes", "deletes")]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left by a writer that was killed")
        path.chmod(0o444)
    with left[0].open("rb") as changes, left[1].open("rb") as deletes:
        with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
            writer.delete(["a"])
            writer.commit()
        assert changes.read() == deletes.read() == b"left by a writer that was killed"
    assert everything(Store(tmp_path).open(NAME)) == ["b"]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def test_a_disk_that_refuses_leaves_the_old_generation_and_the_next_try_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    real = os.fsync
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["b"], ROWS[:1])
        for failing in range(1, 30):
            calls = iter(range(1, 1000))

            def refuse(descriptor: int, calls: Any = calls, failing: int = failing) -> None:
                if next(calls) == failing:
                    raise OSError(28, "No space left on device")
                real(descriptor)

            monkeypatch.setattr(os, "fsync", refuse)
            try:
                writer.commit()
            except StorageFailed as error:
                assert "No space left" in str(error)
                assert everything(Store(tmp_path).open(NAME)) in (["a"], ["a", "b"])
            else:
                break
        monkeypatch.setattr(os, "fsync", real)
    assert failing > 8
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]
    assert all(report.ok for report in verify(Store(tmp_path)))


def test_a_try_after_an_unacknowledged_commit_touches_nothing_that_readers_may_have_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a", "b"])
    real = durable.replace_file

    def named_but_not_synced(path: Path, content: bytes) -> None:
        real(path, content)
        if path.name == "CURRENT":
            raise StorageFailed("cannot write CURRENT: Input/output error")

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(["a"])
        monkeypatch.setattr(durable, "replace_file", named_but_not_synced)
        with pytest.raises(StorageFailed):
            writer.commit()
        monkeypatch.setattr(durable, "replace_file", real)
        assert everything(Store(tmp_path).open(NAME)) == ["b"]
        writer.delete(["b"])
        put(writer, ["c"], ROWS[:1])
        writer.commit()
    store = Store(tmp_path)
    assert everything(store.open(NAME)) == ["c"]
    assert everything(store.open(NAME, generation=2)) == ["b"]


def test_a_sweep_that_fails_neither_fails_the_commit_nor_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        monkeypatch.setattr(garbage, "collect", refuse)
        put(writer, ["a"], ROWS[:1])
        assert writer.commit() is not None
        assert writer.commit() is None
        put(writer, ["b"], ROWS[:1])
        writer.commit()
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]


def test_a_full_disk_is_met_before_a_merge_writes_through_a_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    write(tmp_path, ["b"])

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(StorageFailed, match="No space left"):
            writer.compact()
        monkeypatch.undo()
        assert not list((tmp_path / NAME / "segments").glob(".*"))
        writer.compact()
        assert writer.snapshot is not None
        assert len(writer.snapshot.segments) == 1
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]


# -- changes -----------------------------------------------------------------------------------------------


def changes(path: Path, generation: int) -> set[tuple[str, str]]:
    with pa.memory_map(str(path / NAME / "changes" / f"{generation:06d}.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    return set(zip(table["op"].to_pylist(), table["chunk_id"].to_pylist(), strict=True))


def test_each_commit_lists_what_it_did_and_a_merge_lists_nothing(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [record("a", ["one ", "two"]), "b", "c"], ROWS[:4])
        writer.commit()
        put(writer, [record("a", ["three"]), "d"], ROWS[:2])
        writer.delete(["b"])
        writer.commit()
        writer.compact()
        writer.delete(["c"])
        writer.commit()
    assert changes(tmp_path, 1) == {("add", f"{one}#chunk_1") for one in "abc"} | {("add", "a#chunk_2")}
    assert changes(tmp_path, 2) == {
        ("change", "a#chunk_1"),
        ("delete", "a#chunk_2"),
        ("add", "d#chunk_1"),
        ("delete", "b#chunk_1"),
    }
    assert not (tmp_path / NAME / "changes" / "000003.arrow").exists()
    assert changes(tmp_path, 4) == {("delete", "c#chunk_1")}


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
