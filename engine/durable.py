"""The only way to disk: write, fsync, rename, fsync the folder. Knows no Arrow and no manifest.

A rename is durable only once the folder that holds the name was synced, and a file only once it was synced
itself; kill -9 shows neither, a power cut shows both. After a failed fsync the same file is never retried.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from aidre.engine.errors import StorageFailed

READ_ONLY = 0o444
_SYNCED_AT_ONCE = 8


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn the disk's refusals (full, read-only, input/output error) into StorageFailed."""
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"cannot write {path.name}: {error.strerror or error}", file=path.name) from error


@contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """The same for reading; that there is no such file is for the caller to judge."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise StorageFailed(f"cannot read {path.name}: {error.strerror or error}", file=path.name) from error


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_files(paths: Sequence[Path]) -> None:
    """Sync several files at the same time: the disk is then told to flush once or twice instead of once a file."""
    with ThreadPoolExecutor(max(1, min(len(paths), _SYNCED_AT_ONCE)), thread_name_prefix="sync") as threads:
        for _ in threads.map(sync_file, paths):
            pass


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents so that they outlive a power cut."""
    if path.is_dir():
        return
    make_folder(path.parent)
    with storage_errors(path):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Write or replace one file atomically: readers see the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storage_errors(path):
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def reserve_file(path: Path, size: int) -> None:
    """Create a file with all its blocks: writing through a map into a full disk would end the process."""
    with storage_errors(path), path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def settle_file(path: Path) -> None:
    """Make a file that was just written under its final name durable and read-only."""
    with storage_errors(path):
        sync_file(path)
        path.chmod(READ_ONLY)
        sync_folder(path.parent)


def publish_file(temporary: Path, final: Path) -> None:
    """Sync a finished file, make it read-only, and give it its name."""
    with storage_errors(final):
        sync_file(temporary)
        temporary.chmod(READ_ONLY)
        temporary.replace(final)
        sync_folder(final.parent)


def publish_folder(temporary: Path, final: Path) -> None:
    """Sync every file of a finished folder, make the files read-only, and give the folder its name."""
    with storage_errors(final):
        files = sorted(temporary.iterdir())
        sync_files(files)
        for file in files:
            file.chmod(READ_ONLY)
        sync_folder(temporary)
        temporary.rename(final)
        sync_folder(final.parent)


def remove_temporaries(path: Path) -> None:
    """Remove what writers of one file left of it that were killed. Call it while nobody else can write the file."""
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        left.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove what no manifest names. Not synced: a power cut brings it back, the next sweep takes it away."""
    shutil.rmtree(path, ignore_errors=True)


def remove(path: Path) -> None:
    """Remove a file or a folder, of this as much as can go; StorageFailed names what stays. Not synced."""
    remove_folder(path)
    try:
        if path.is_dir():
            shutil.rmtree(path)  # it says why
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        stays = next(path.rglob(Path(error.filename or path).name), path)
        raise StorageFailed(f"cannot remove {stays}: {error.strerror or error}", file=stays.name) from error
