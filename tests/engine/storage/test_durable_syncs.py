"""Durable writes: what is synced, and before which rename, so that a power cut leaves the old content or the new."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import StorageFailed
from aidre.engine.storage import durable


class Steps(list[tuple[str, str]]):
    """The calls that reach the disk, in order: (call, name of the file or folder)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        super().__init__()
        self._root = root
        fsync = os.fsync

        def sync(descriptor: int) -> None:
            self._add("sync", Path(f"/proc/self/fd/{descriptor}").readlink())
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", sync)
        for call in ("replace", "rename", "chmod", "mkdir"):
            monkeypatch.setattr(Path, call, self._recorded(call, getattr(Path, call)))

    def _recorded(self, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(path: Path, *arguments: Any, **named: Any) -> Any:
            self._add(call, path)
            return real(path, *arguments, **named)

        return recorded

    def _add(self, call: str, path: Path) -> None:
        name = os.path.relpath(path, self._root)
        self.append((call, "temporary" if name.endswith(".tmp") else name))


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch, tmp_path)


def test_a_file_is_replaced_by_synced_content_and_its_name_is_synced(tmp_path: Path, steps: Steps) -> None:
    durable.replace_file(tmp_path / "CURRENT", b"7\n")
    assert steps == [("sync", "temporary"), ("replace", "temporary"), ("sync", ".")]
    assert [path.name for path in tmp_path.iterdir()] == ["CURRENT"]
    assert (tmp_path / "CURRENT").read_bytes() == b"7\n"


def test_what_is_synced_is_the_whole_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    durable.replace_file(tmp_path / "file", bytes(100))
    assert sizes[0] == 100


def test_a_file_written_under_its_name_becomes_durable_and_read_only(tmp_path: Path, steps: Steps) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    durable.finalize_file(path)
    assert steps == [("sync", "file"), ("chmod", "file"), ("sync", ".")]
    assert path.stat().st_mode & 0o777 == 0o440


def test_a_temporary_file_is_synced_before_it_has_its_name(tmp_path: Path, steps: Steps) -> None:
    temporary, final = tmp_path / "x.tmp", tmp_path / "file"
    temporary.write_bytes(b"content")
    durable.publish_file(temporary, final)
    assert steps == [("sync", "temporary"), ("chmod", "temporary"), ("replace", "temporary"), ("sync", ".")]
    assert final.read_bytes() == b"content" and final.stat().st_mode & 0o777 == 0o440


def test_a_folder_and_all_its_files_are_synced_before_it_has_its_name(tmp_path: Path, steps: Steps) -> None:
    temporary, final = tmp_path / "x.tmp", tmp_path / "segment"
    temporary.mkdir()
    for name in "ab":
        (temporary / name).write_bytes(name.encode())
    steps.clear()
    durable.publish_folder(temporary, final)
    assert sorted(steps[:2]) == [("sync", "x.tmp/a"), ("sync", "x.tmp/b")]
    assert steps[2:4] == [("chmod", "x.tmp/a"), ("chmod", "x.tmp/b")]
    assert steps[4:] == [("sync", "temporary"), ("rename", "temporary"), ("sync", ".")]
    assert [path.stat().st_mode & 0o777 for path in final.iterdir()] == [0o440, 0o440]


def test_each_new_folder_is_synced_into_its_parent_and_so_is_the_parent(tmp_path: Path, steps: Steps) -> None:
    durable.make_folder(tmp_path / "a" / "b")
    assert steps == [("sync", ".."), ("mkdir", "a"), ("sync", "."), ("mkdir", "a/b"), ("sync", "a")]
    steps.clear()
    durable.make_folder(tmp_path / "a" / "b")
    assert steps == []


def test_a_name_is_synced_unless_the_folder_around_it_may_not_be_read(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable.sync_name(tmp_path / "a")
    assert steps == [("sync", ".")]
    for error in (PermissionError(errno.EACCES, "Permission denied"), OSError(errno.EIO, "Input/output error")):

        def refuse(*_: object, error: OSError = error) -> None:
            raise error

        monkeypatch.setattr(os, "open", refuse)
        if error.errno == errno.EACCES:
            durable.sync_name(tmp_path / "a")
        else:
            with pytest.raises(StorageFailed, match="cannot write a: Input/output error"):
                durable.sync_name(tmp_path / "a")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        durable.sync_file(tmp_path / "file")
        durable.sync_folder(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_that_cannot_be_synced_keeps_its_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "CURRENT"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageFailed, match="cannot write CURRENT: Input/output error"):
        durable.replace_file(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["CURRENT"]
    assert path.read_bytes() == b"old"


def test_an_error_in_one_of_many_syncs_is_raised(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(FileNotFoundError):
        durable.sync_files([tmp_path / "a", tmp_path / "missing"])


def test_only_a_missing_file_keeps_its_error_where_one_reads(tmp_path: Path) -> None:
    for error in (FileNotFoundError, NotADirectoryError):
        with pytest.raises(error), durable.read_errors(tmp_path):
            raise error
    with pytest.raises(StorageFailed, match="cannot read"), durable.read_errors(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_what_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "folder" / "kept"
    kept.mkdir(parents=True)
    for name in ("file", *map(str, range(20))):
        (kept / name).touch()
    (tmp_path / "file").touch()
    real = os.unlink

    def refuse(path: Any, **named: Any) -> None:
        if os.fspath(path).endswith("file"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        real(path, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        with pytest.raises(StorageFailed, match=r"cannot remove .*kept/file: Permission denied"):
            durable.remove(tmp_path / "folder")
        assert [path.name for path in kept.iterdir()] == ["file"], "all that can be removed is"
        with pytest.raises(StorageFailed, match=r"cannot remove .*file: Permission denied"):
            durable.remove(tmp_path / "file")
    for name in ("folder", "file", "never"):
        durable.remove(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_blocks_of_a_reserved_file_are_allocated(tmp_path: Path) -> None:
    durable.reserve_file(tmp_path / "file", 1 << 20)
    status = (tmp_path / "file").stat()
    assert status.st_size == 1 << 20 and status.st_blocks * 512 >= 1 << 20
