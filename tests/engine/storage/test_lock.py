"""The writer's lock: one process holds it at a time, others are told which one, and closing the writer frees it."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

import orjson
import pytest

from aidre.engine.errors import StorageFailed, StoreLocked
from aidre.engine.storage.format import LOCK
from aidre.engine.storage.lock import WriterLock


def test_a_second_holder_is_refused_and_told_the_first(tmp_path: Path) -> None:
    with WriterLock(tmp_path, "docs"):
        assert orjson.loads((tmp_path / LOCK).read_bytes()) == {"pid": os.getpid(), "host": socket.gethostname()}
        with pytest.raises(StoreLocked, match=f"'docs' is being written by process {os.getpid()}") as caught:
            WriterLock(tmp_path, "docs").__enter__()
    assert caught.value.details["host"] == socket.gethostname()
    with WriterLock(tmp_path, "docs"):
        pass


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), WriterLock(tmp_path, "docs"):
        raise ZeroDivisionError
    with WriterLock(tmp_path, "docs"):
        pass


def test_a_lock_that_was_never_entered_may_be_left(tmp_path: Path) -> None:
    WriterLock(tmp_path, "docs").__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not JSON", b"[1]", b"x" * 5_000])
def test_a_holder_that_left_no_name_is_a_refusal_too(content: bytes, tmp_path: Path) -> None:
    with WriterLock(tmp_path, "docs"):
        (tmp_path / LOCK).write_bytes(content)
        with pytest.raises(StoreLocked, match="by process None"):
            WriterLock(tmp_path, "docs").__enter__()


def test_a_longer_name_of_an_earlier_holder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_bytes(b"x" * 500)
    with WriterLock(tmp_path, "docs"):
        assert orjson.loads((tmp_path / LOCK).read_bytes())["pid"] == os.getpid()


def test_a_lock_whose_file_was_replaced_meanwhile_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = fcntl.flock, []

    def flock(descriptor: int, operation: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:  # a restore puts another folder in its place, with or without a lock file
            (tmp_path / LOCK).unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with WriterLock(tmp_path, "docs"):
        assert len(calls) == 2
        with pytest.raises(StoreLocked):
            WriterLock(tmp_path, "docs").__enter__()


def test_a_file_system_without_locks_is_named_as_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def refuse(descriptor: int, operation: int) -> None:
        opened.append(descriptor)
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StorageFailed, match="No locks available; a store needs a file system that can lock files"):
        WriterLock(tmp_path, "docs").__enter__()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_a_full_disk_does_not_keep_the_lock_from_its_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    with WriterLock(tmp_path, "docs"), pytest.raises(StoreLocked):
        WriterLock(tmp_path, "docs").__enter__()
