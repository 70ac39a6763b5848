"""Durable writes: whole or not at all, read-only once published, and every error of the disk with the file's name."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from aidre.engine.errors import StorageFailed
from aidre.engine.storage import durable


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that were synced, in order."""
    real, paths = os.fsync, []

    def fsync(descriptor: int) -> None:
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def test_a_file_is_replaced_whole_and_synced_before_and_after_its_rename(tmp_path: Path, synced: list[Path]) -> None:
    for content in (b"first", b"second"):
        durable.replace_file(tmp_path / "CURRENT", content)
        assert (tmp_path / "CURRENT").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["CURRENT"]
    assert synced == [tmp_path / f".CURRENT.{os.getpid()}.tmp", tmp_path] * 2


@pytest.mark.parametrize("call", ["fsync", "write"])
def test_a_replacement_that_fails_leaves_the_old_file(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable.replace_file(tmp_path / "CURRENT", b"old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if call == "fsync":
        monkeypatch.setattr(os, "fsync", refuse)
    else:
        monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageFailed, match="cannot write CURRENT: No space left on device"):
        durable.replace_file(tmp_path / "CURRENT", b"new")
    monkeypatch.undo()
    assert (tmp_path / "CURRENT").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["CURRENT"]


def test_temporaries_of_killed_writers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (".CURRENT.1.tmp", ".CURRENT.22.tmp", ".OTHER.1.tmp", "CURRENT"):
        (tmp_path / name).touch()
    durable.remove_temporaries(tmp_path / "CURRENT")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".OTHER.1.tmp", "CURRENT"]


def test_folders_are_made_with_their_parents_and_each_name_is_synced(tmp_path: Path, synced: list[Path]) -> None:
    durable.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert synced == [tmp_path.parent, tmp_path, tmp_path / "a"]
    durable.make_folder(tmp_path / "a" / "b")
    assert len(synced) == 3
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="cannot write"):
        durable.make_folder(tmp_path / "file" / "c")


def test_a_published_folder_has_synced_files_that_are_read_only(tmp_path: Path, synced: list[Path]) -> None:
    temporary = tmp_path / ".new"
    temporary.mkdir()
    for name in "ab":
        (temporary / name).write_text(name)
    durable.publish_folder(temporary, tmp_path / "final")
    assert {path.name: path.read_text() for path in (tmp_path / "final").iterdir()} == {"a": "a", "b": "b"}
    assert all(path.stat().st_mode & 0o222 == 0 for path in (tmp_path / "final").iterdir())
    assert set(synced[:2]) == {temporary / "a", temporary / "b"}
    assert synced[2:] == [temporary, tmp_path]
    assert not temporary.exists()


def test_a_published_file_is_synced_and_read_only(tmp_path: Path, synced: list[Path]) -> None:
    for publish in ("publish", "finalize"):
        path = tmp_path / publish
        (tmp_path / ".new" if publish == "publish" else path).write_text("content")
        synced.clear()
        if publish == "publish":
            durable.publish_file(tmp_path / ".new", path)
        else:
            durable.finalize_file(path)
        assert path.read_text() == "content" and path.stat().st_mode & 0o222 == 0
        assert synced == [tmp_path / (".new" if publish == "publish" else publish), tmp_path]


def test_a_private_file_is_whole_synced_and_never_replaced(tmp_path: Path, synced: list[Path]) -> None:
    path = tmp_path / "key"
    durable.create_private_file(path, b"first")
    assert path.stat().st_mode & 0o777 == 0o600
    assert [folder.parent for folder in synced[:1]] + synced[1:] == [tmp_path, tmp_path]
    durable.create_private_file(path, b"second")
    assert path.read_bytes() == b"first"
    assert [left.name for left in tmp_path.iterdir()] == ["key"]


def test_a_private_file_is_synced_with_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    durable.create_private_file(tmp_path / "key", b"secret")
    assert sizes[0] == 6


def test_a_locked_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with durable.locked_folder(tmp_path):
        other = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


def test_a_reserved_file_has_its_size(tmp_path: Path) -> None:
    durable.reserve_file(tmp_path / "raw", 10_000)
    assert (tmp_path / "raw").stat().st_size == 10_000
    assert (tmp_path / "raw").stat().st_blocks * 512 >= 10_000


def test_a_file_that_is_missing_is_told_from_one_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), durable.read_errors(tmp_path / "gone"):
        (tmp_path / "gone").read_bytes()
    with pytest.raises(StorageFailed, match="cannot read folder"), durable.read_errors(tmp_path / "folder"):
        tmp_path.read_bytes()


def test_what_is_removed_is_gone_and_what_is_missing_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "inner" / "file").touch()
    (tmp_path / "file").touch()
    for name in ("folder", "file", "gone"):
        durable.remove(tmp_path / name)
    durable.remove_folder(tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()

    def refuse(path: Path, *, missing_ok: bool) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StorageFailed, match=r"cannot remove .*file: Operation not permitted"):
        durable.remove(tmp_path / "file")
