"""Durable writes: write, fsync, rename, fsync the folder. All files of a store become durable through this module.

A rename is durable only after an fsync of the folder that holds the name, and a file's content only after an fsync of
the file. `kill -9` does not reveal a missing fsync, a power cut does. A file whose fsync failed is not synced again:
the kernel may have dropped its data and would report success. Knows no Arrow and no manifest.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from aidre.engine.errors import StorageFailed

FOLDER_MODE = 0o750
READ_ONLY = 0o440
"""Modes of folders and of finished files. Documents may be private: only the owner and its group read them."""
UNFINISHED = 0o640
"""Mode of files that are being written, and of locks."""
_MAX_SYNC_THREADS = 8
_FULL = {errno.ENOSPC, errno.EDQUOT}


# -- errors of the disk ------------------------------------------------------------------------------------------


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of a write (disk full, read-only, input/output error) into StorageFailed."""
    try:
        yield
    except OSError as error:
        raise write_failure(path, error) from error


def write_failure(path: Path, error: OSError) -> StorageFailed:
    """What a failed write of a file is told as."""
    # Arrow's errors have a number, too, and a text that names neither file nor cause in one line.
    cause = os.strerror(error.errno) if error.errno else str(error)
    full = {"reason": "full"} if error.errno in _FULL else {}
    return StorageFailed(f"cannot write {path.name}: {cause}", file=path.name, **full)


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of a read into StorageFailed; a missing file stays FileNotFoundError or NotADirectoryError."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise StorageFailed(f"cannot read {path.name}: {error.strerror or error}", file=path.name) from error


# -- fsync -------------------------------------------------------------------------------------------------------


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_files(paths: Sequence[Path]) -> None:
    """Sync files concurrently, so that the disk flushes once or twice instead of once per file."""
    with ThreadPoolExecutor(max(1, min(len(paths), _MAX_SYNC_THREADS)), thread_name_prefix="sync") as threads:
        for _ in threads.map(sync_file, paths):
            pass


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- create and replace ------------------------------------------------------------------------------------------


def make_folder(path: Path, mode: int = FOLDER_MODE) -> None:
    """Create a folder and its missing parents, durably. StorageFailed."""
    if path.is_dir():
        return
    if path.parent.is_dir():
        sync_name(path.parent)
    else:
        make_folder(path.parent, mode)
    with write_errors(path):
        path.mkdir(mode, exist_ok=True)
        sync_folder(path.parent)


def sync_name(folder: Path) -> None:
    """Make the name of an existing folder durable: a process that was killed may have created it, and not synced it.

    Does nothing where this process may not read the folder that holds the name. StorageFailed.
    """
    with write_errors(folder), suppress(PermissionError):
        sync_folder(folder.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Write or replace a file atomically: readers see the old content or the new. Durable on return. StorageFailed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with write_errors(path):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, UNFINISHED)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(file.fileno(), READ_ONLY)
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def reserve_file(path: Path, size: int) -> None:
    """Create a file of `size` bytes with all blocks allocated: a mapped write to a full disk would be a SIGBUS."""
    with write_errors(path), path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def finalize_file(path: Path) -> None:
    """Make a file that was written under its final name durable and read-only."""
    with write_errors(path):
        sync_file(path)
        path.chmod(READ_ONLY)
        sync_folder(path.parent)


def publish_file(temporary: Path, final: Path) -> None:
    """Sync a finished temporary file, make it read-only, and rename it to its final name, durably."""
    with write_errors(final):
        sync_file(temporary)
        temporary.chmod(READ_ONLY)
        temporary.replace(final)
        sync_folder(final.parent)


def publish_folder(temporary: Path, final: Path) -> None:
    """Sync every file of a finished temporary folder, make the files read-only, and rename the folder, durably."""
    with write_errors(final):
        files = sorted(temporary.iterdir())
        sync_files(files)
        for file in files:
            file.chmod(READ_ONLY)
        sync_folder(temporary)
        temporary.rename(final)
        sync_folder(final.parent)


def close_to_others(folder: Path) -> None:
    """Take from everybody but owner and group what an older release let them read; an open folder says that it did.

    The folder itself comes last, so that an interrupted run is repeated. Files of another owner stay as they are.
    """
    if not folder.stat().st_mode & 0o007:
        return
    for path, _, files in os.walk(folder, topdown=False):
        for file in (Path(path, name) for name in files):
            with suppress(PermissionError, FileNotFoundError):
                file.chmod(file.stat().st_mode & UNFINISHED)
        with suppress(PermissionError):
            Path(path).chmod(Path(path).stat().st_mode & FOLDER_MODE)


def create_private_file(path: Path, content: bytes) -> None:
    """Create a file for its owner alone, atomically and durably; an existing one is never replaced. OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
    sync_folder(path.parent)


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Serialize the writers of a folder, in this process and others. OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# -- remove ------------------------------------------------------------------------------------------------------


def remove_temporaries(path: Path) -> None:
    """Remove the temporary files that killed writers of `path` left behind. Nothing may be writing `path` meanwhile."""
    for temporary in path.parent.glob(f".{path.name}.*.tmp"):
        temporary.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a folder that no manifest names, ignoring errors.

    Not synced: after a power cut the folder may be back, and the next garbage collection removes it.
    """
    shutil.rmtree(path, ignore_errors=True)


def remove(path: Path) -> None:
    """Remove a file or a folder as far as possible; StorageFailed names the first path that remains. Not synced."""
    remove_folder(path)
    try:
        if path.is_dir():
            shutil.rmtree(path)  # again, for the error
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        remaining = next(path.rglob(Path(error.filename or path).name), path)
        raise StorageFailed(f"cannot remove {remaining}: {error.strerror or error}", file=remaining.name) from error
