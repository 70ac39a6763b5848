"""Backup of whole collections into one file while writing goes on, and the way back.

The file is an uncompressed tar: `backup.json` first, then for each collection the manifest of one generation and every
file that it names, each checked against its checksum while it is copied; `backup.end` last, the checksum of every byte
before its own. What was opened before the first byte is copied stays readable though a writer sweeps it meanwhile. The
file has its name only once it is complete and synced.
"""

from __future__ import annotations

import fcntl
import glob
import io
import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson
import xxhash

from aidre.engine import durable
from aidre.engine.arrow import FileEntry
from aidre.engine.changes import list_path
from aidre.engine.errors import InvalidInput, StorageFailed, StoreDamaged
from aidre.engine.manifest import Manifest, now, read_manifest, to_bytes
from aidre.engine.schema import CHANGES, DELETES, MANIFESTS, SEGMENTS, manifest_name
from aidre.engine.store import Store

FORMAT = 1
HEADER, END = "backup.json", "backup.end"
"""The first member: `aidre_backup` (the format), `created_at`, `collections` (their names), `sealed` (whether there is
a last member, which those of earlier releases lack)."""
END_BYTES = 32

_ATTEMPTS = 5
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Saved:
    """What a backup holds of one collection."""

    collection: str
    generation: int
    documents: int
    chunks: int


def back_up(
    store: Store, collections: Sequence[str], target: Path, beside: Iterable[tuple[str, Path]] = ()
) -> list[Saved]:
    """Write the newest generation of each collection into a new file, and the files `beside` under their names.

    StoreDamaged where a file is not as its manifest says, StorageFailed, InvalidInput where `target` exists or lies
    in the store: nothing is left of the backup then.
    """
    if target.exists():
        raise InvalidInput(f"{target} exists already: name a new file for the backup")
    if store.path.resolve() in target.resolve().parents:
        raise InvalidInput(f"{target} lies in the store itself: name a file outside of it")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        _remove_unless_held(left)
    with durable.storage_errors(target):
        temporary.touch(0o600, exist_ok=False)
    try:
        with durable.storage_errors(target):
            with temporary.open("wb") as file:
                _hold(file)
                written = _Written(file)
                with tarfile.open(fileobj=written, mode="w", bufsize=_BLOCK) as tar:
                    saved = _write(tar, store, collections, beside)
                    tar.addfile(_member(END, END_BYTES), _Seal(written))
                file.flush()
                durable.sync_file(temporary)
                temporary.rename(target)  # readable by its owner only, as the receipts are that may be in it
            durable.sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return saved


def _hold(file: IO[bytes]) -> None:
    """Tells others that the file is in use, as long as it is open; some file systems cannot."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_unless_held(left: Path) -> None:
    """Remove what a killed run left. A number of a process says little: in another container another one has it."""
    with suppress(OSError), left.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        left.unlink()


def _write(
    tar: tarfile.TarFile, store: Store, collections: Sequence[str], beside: Iterable[tuple[str, Path]]
) -> list[Saved]:
    saved: list[Saved] = []
    header = {"aidre_backup": FORMAT, "created_at": now(), "collections": list(collections), "sealed": True}
    _add(tar, HEADER, orjson.dumps(header))
    for name in collections:
        with ExitStack() as opened:
            manifest, files = _opened(store, name, opened)
            _add(tar, f"{name}/{MANIFESTS}/{manifest_name(manifest.generation)}", to_bytes(manifest))
            for path, entry, file in files:
                _copy(tar, path.relative_to(store.path).as_posix(), entry, file)
            for path in _older_lists(store.path / name, manifest):
                with suppress(FileNotFoundError), path.open("rb") as list_file:  # it may have grown too old meanwhile
                    _copy(tar, path.relative_to(store.path).as_posix(), None, list_file)
        saved.append(Saved(name, manifest.generation, manifest.documents, manifest.chunks))
    for label, path in beside:
        with path.open("rb") as file:
            _copy(tar, label, None, file)
    return saved


_Opened = tuple[Path, FileEntry | None, IO[bytes]]


def _opened(store: Store, name: str, opened: ExitStack) -> tuple[Manifest, list[_Opened]]:
    """The newest manifest and its files, all open; one that is swept in the meantime is given up for a newer one."""
    folder = store.path / name
    for _ in range(_ATTEMPTS):
        generation = store.current(name)
        try:
            manifest = read_manifest(folder / MANIFESTS, generation, name)
            with ExitStack() as attempt:
                files: list[_Opened] = [
                    (path, entry, attempt.enter_context(path.open("rb"))) for path, entry in _files(folder, manifest)
                ]
                opened.push(attempt.pop_all())
                return manifest, files
        except FileNotFoundError as error:
            if store.current(name) == generation:
                raise _damaged(Path(str(error.filename)).relative_to(store.path).as_posix(), "is missing") from None
    raise StorageFailed(f"collection {name!r} changes faster than it can be read", collection=name)


def _files(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, FileEntry | None]]:
    """Every file of a generation with what the manifest knows of it: of lists of changes it names the newest only."""
    for segment in manifest.segments:
        for file, entry in segment.files.items():
            yield folder / SEGMENTS / segment.id / file, entry
    for file, entry in manifest.deletes.items():
        yield folder / DELETES / file, entry
    newest = list_path(folder, manifest.changes.generation)
    if newest.exists():
        yield newest, None


def _older_lists(folder: Path, manifest: Manifest) -> list[Path]:
    """The lists of changes before the newest, oldest first. After a month of commits they are more than can be open at
    once, and none is needed by what is stored."""
    numbers = {int(path.stem) for path in (folder / CHANGES).glob("*.arrow") if path.stem.isdecimal()}
    return [list_path(folder, number) for number in sorted(numbers) if number < manifest.changes.generation]


def _copy(tar: tarfile.TarFile, label: str, entry: FileEntry | None, file: IO[bytes]) -> None:
    """Add one file as long as it is now; StoreDamaged where a manifest knows it otherwise."""
    size = os.fstat(file.fileno()).st_size
    if entry is not None and size != entry.size:
        raise _damaged(label, f"has {size} bytes instead of {entry.size}")
    checked = _Checked(file)
    tar.addfile(_member(label, size), checked)
    if entry is not None and checked.digest.hexdigest() != entry.checksum:
        raise _damaged(label, "does not have the checksum that was recorded")


class _Checked(io.RawIOBase):
    """A file that knows the checksum of what was read of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = xxhash.xxh3_128()

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self.digest.update(block)
        return block


class _Written(io.RawIOBase):
    """A file that knows the checksum of what was written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = xxhash.xxh3_128()

    def write(self, content: Any) -> int:
        self.digest.update(content)
        return self._file.write(content)

    def tell(self) -> int:
        return self._file.tell()


class _Seal(io.RawIOBase):
    """The checksum of what has been written when it is read."""

    def __init__(self, written: _Written) -> None:
        self._written = written

    def read(self, size: int = -1) -> bytes:
        return self._written.digest.hexdigest().encode()


def _add(tar: tarfile.TarFile, label: str, content: bytes) -> None:
    tar.addfile(_member(label, len(content)), io.BytesIO(content))


def _member(label: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(label)
    member.size, member.mode = size, 0o600
    return member


def _damaged(file: str, problem: str) -> StoreDamaged:
    collection = file.partition("/")[0]
    return StoreDamaged(f"{file} {problem}: nothing was backed up", collection=collection, file=file, problem=problem)
