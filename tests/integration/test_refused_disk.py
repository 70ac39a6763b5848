"""What the disk refuses while it is read or written is one kind of error, and costs no generation its files."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aidre.engine.collection import garbage
from aidre.engine.collection.store import Store
from aidre.engine.errors import StorageFailed
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage.manifest import read_manifest
from aidre.ingest.pipeline.last_read import FILE_NAME, load_read_times, save_read_times
from tests.support.stores import NAME, ROWS, SPACE, delete, everything, names, put, write


def broken(real: Callable[..., Any], part: str) -> Callable[..., Any]:
    """The same function on a disk that cannot read what has this in its path."""

    def call(path: Any, *arguments: Any, **named: Any) -> Any:
        if part in os.fspath(path):
            raise OSError(errno.EIO, "Input/output error", os.fspath(path))
        return real(path, *arguments, **named)

    return call


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write(tmp_path, names(20))
    delete(tmp_path, names(5))
    return tmp_path


@pytest.mark.parametrize("file", ["CURRENT", "manifests/000002.json"])
def test_a_file_of_a_generation_that_cannot_be_read_is_no_damage(
    file: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_bytes", broken(Path.read_bytes, file))
    for attempt in (lambda: Store(store).open(NAME), lambda: Store(store).writer(NAME, spaces=[SPACE])):
        with pytest.raises(StorageFailed, match=r"cannot read \w+.*: Input/output error"):
            attempt()
    monkeypatch.undo()
    assert everything(Store(store).open(NAME)) == names(15, 5)


@pytest.mark.parametrize("file", ["documents.arrow", "chunks.arrow", "vectors.arrow", "deletes/000002.arrow"])
def test_truth_that_cannot_be_read_needs_no_backup(file: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", broken(Path.open, file))
    with pytest.raises(StorageFailed, match=r"cannot be read: .*Input/output error") as caught:
        Store(store).open(NAME)
    assert "backup" not in str(caught.value)
    assert [problem.derived for report in verify(Store(store)) for problem in report.problems] == [False]


@pytest.mark.parametrize("file", ["ids.arrow", "fields.arrow", "lexicon.arrow", "words.arrow"])
def test_what_is_derived_and_cannot_be_read_is_rebuilt(file: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", broken(Path.open, file))
    snapshot = Store(store).open(NAME)
    assert [file in warning for warning in snapshot.warnings] == [True]
    assert everything(snapshot) == names(15, 5)


def test_a_store_that_cannot_be_listed_is_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", broken(os.listdir, str(store)))
    monkeypatch.setattr(os, "scandir", broken(os.scandir, str(store)))
    with pytest.raises(StorageFailed, match="Input/output error"):
        Store(store).collections()
    with pytest.raises(StorageFailed, match="Input/output error"):
        Store(store).writer(NAME, spaces=[SPACE])


def test_a_lock_is_held_though_a_full_disk_does_not_take_its_note(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with Store(store).writer(NAME, spaces=[SPACE]) as writer:
        assert writer.delete(names(1, 5)) == 1
        writer.commit()
    assert everything(Store(store).open(NAME)) == names(14, 6)


def open_files(store: Path) -> list[Path]:
    """The files of a store that this process has open; other tests may have left others, until they are collected."""
    paths = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sorted(path for path in paths if path.is_relative_to(store))


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_a_lock_that_the_file_system_refuses_is_nobody_elses(
    number: int, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    opened = open_files(store)
    with pytest.raises(StorageFailed, match=f"cannot lock collection 'docs': {os.strerror(number)}"):
        Store(store).writer(NAME, spaces=[SPACE])
    assert open_files(store) == opened
    monkeypatch.undo()
    assert delete(store, names(1, 5)) == 1


def test_a_commit_that_cannot_read_what_it_wrote_is_pending_still(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(store).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(5), ROWS[:5])
        monkeypatch.setattr(pa, "memory_map", broken(pa.memory_map, ".tmp"))
        with pytest.raises(StorageFailed, match="Input/output error"):
            writer.commit()
        monkeypatch.undo()
        assert everything(Store(store).open(NAME)) == names(15, 5)
        writer.commit()
    assert everything(Store(store).open(NAME)) == names(20)
    assert list(store.rglob("*.tmp")) == []


@pytest.mark.parametrize("file", ["000002.json", "chunks.arrow", "000001.arrow", "more.vectors.log"])
def test_a_purge_that_cannot_remove_names_what_stays_after_all_else_is_gone(
    file: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(store).writer(NAME, spaces=[SPACE]) as writer:
        (store / NAME / "filling").mkdir()
        (store / NAME / "filling" / "more.vectors.log").write_bytes(b"vectors")
        before = list(store.rglob("*.*"))
        unlink, refuse = os.unlink, broken(os.unlink, file)

        def refuse_what_stands(path: Any, **named: Any) -> None:
            (unlink if ".tmp" in os.fspath(path) else refuse)(path, **named)

        monkeypatch.setattr(os, "unlink", refuse_what_stands)
        with pytest.raises(StorageFailed, match=rf"cannot remove {store}/docs/.*/{file}: Input/output error"):
            writer.purge()
        monkeypatch.undo()
        assert {path.name for path in before if path.exists()} == {file}
        writer.purge()
    assert not any(path.exists() for path in before)
    assert everything(Store(store).open(NAME)) == names(15, 5)


def test_a_kept_generation_whose_manifest_cannot_be_read_just_now_keeps_its_files(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(store).writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
    newest = read_manifest(store / NAME / "manifests", 3, NAME)
    an_hour_ago = time.time() - 3600
    for path in (store / NAME).rglob("*"):
        os.utime(path, (an_hour_ago, an_hour_ago))
    monkeypatch.setattr(Path, "read_bytes", broken(Path.read_bytes, "000002.json"))
    with pytest.raises(StorageFailed):
        garbage.collect(store / NAME, newest)
    monkeypatch.undo()
    assert everything(Store(store).open(NAME, generation=2)) == names(15, 5)


def test_what_a_killed_run_left_of_the_checks_goes_with_the_next_one(store: Path) -> None:
    left = store / f".{FILE_NAME}.4711.tmp"
    left.write_bytes(b"half of it")
    save_read_times(store, NAME, ["texts"], ["texts"], 1_000.0)
    assert not left.exists()
    assert load_read_times(store) == {NAME: {"texts": 1_000.0}}
