"""Backup of whole collections into one file, while writers continue.

The file is an uncompressed tar: `backup.json` first; then for each collection the manifest of one generation, every
file that it names, each compared with its checksum while it is copied, and the changelogs, which are not compared;
`backup.end` last, the checksum of all bytes before it. The files that a generation names and its newest changelog are
opened before the first one is copied, so they stay readable if a writer removes them meanwhile. The backup gets its
name when it is complete and synced.
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

from aidre.engine.collection import Store, local_store
from aidre.engine.errors import CollectionMissing, InvalidInput, StorageFailed, StoreDamaged
from aidre.engine.maintenance.verify import files_of
from aidre.engine.ports import Source
from aidre.engine.storage import (
    MANIFESTS,
    FileEntry,
    Manifest,
    changelog_files,
    changelog_path,
    durable,
    encode_manifest,
    manifest_name,
    now,
    read_manifest,
)

FORMAT = 1
HEADER, END = "backup.json", "backup.end"
"""Names of the first and the last member. The header has `aidre_backup` (the format), `created_at`, `collections`
(names), `aliases` if there are any (name to collection), and `sealed` if there is a last member, which backups of
earlier releases lack."""
END_BYTES = 32
"""Hexadecimal digits of the checksum."""

_ATTEMPTS = 5
"""Attempts to open all files of the newest generation; a writer may remove it meanwhile."""
_BLOCK = 1 << 20
"""Bytes copied at a time."""


@dataclass(frozen=True, slots=True)
class SavedCollection:
    """One collection of a backup."""

    collection: str
    generation: int
    documents: int
    chunks: int


def back_up(
    store: Source, collections: Sequence[str], target: Path, beside: Iterable[tuple[str, Path]] = ()
) -> list[SavedCollection]:
    """Write the newest generation of each collection into a new file, and the files `beside` under their labels.

    Raises StoreDamaged if a file differs from its manifest, InvalidInput if `target` exists or is inside the store, and
    StorageFailed; then no file remains.
    """
    store = local_store(store)
    if target.exists():
        raise InvalidInput(f"{target} exists already: name a new file for the backup")
    if store.path.resolve() in target.resolve().parents:
        raise InvalidInput(f"{target} is inside the store: name a file outside of it")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    for abandoned in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        _remove_unless_locked(abandoned)
    try:
        with durable.write_errors(target):
            temporary.touch(0o600, exist_ok=False)
            with temporary.open("wb") as file:
                _lock(file)
                output = _ChecksummedOutput(file)
                with tarfile.open(fileobj=output, mode="w", bufsize=_BLOCK) as tar:
                    saved = _write(tar, store, collections, beside)
                    tar.addfile(_member(END, END_BYTES), _Seal(output))
                file.flush()
                durable.sync_file(temporary)
                temporary.rename(target)  # mode 0600, because it may contain receipts
            durable.sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return saved


def _lock(file: IO[bytes]) -> None:
    """Mark the file as in use while it is open; some file systems do not support locks."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_unless_locked(abandoned: Path) -> None:
    """Remove the file of a killed run. Its pid would not help: another container may use the same number."""
    with suppress(OSError), abandoned.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        abandoned.unlink()


def _write(
    tar: tarfile.TarFile, store: Store, collections: Sequence[str], beside: Iterable[tuple[str, Path]]
) -> list[SavedCollection]:
    saved: list[SavedCollection] = []
    header = {"aidre_backup": FORMAT, "created_at": now(), "collections": list(collections), "sealed": True}
    aliases = {name: alias.collection for name, alias in store.aliases().items() if alias.collection in collections}
    if aliases:
        header["aliases"] = aliases
    _add(tar, HEADER, orjson.dumps(header))
    for name in collections:
        with ExitStack() as opened:
            manifest, files = open_generation(store, name, opened)
            _add(tar, f"{name}/{MANIFESTS}/{manifest_name(manifest.generation)}", encode_manifest(manifest))
            for path, entry, file in files:
                _copy(tar, path.relative_to(store.path).as_posix(), entry, file)
            # One by one: after a month there are more than a process can hold open, and no row depends on them.
            for path in changelog_files(store.path / name, manifest.changes.generation):
                with suppress(FileNotFoundError), path.open("rb") as listed:  # its retention may have ended meanwhile
                    _copy(tar, path.relative_to(store.path).as_posix(), None, listed)
        saved.append(SavedCollection(name, manifest.generation, manifest.documents, manifest.chunks))
    for label, path in beside:
        with path.open("rb") as file:
            _copy(tar, label, None, file)
    return saved


OpenFile = tuple[Path, FileEntry | None, IO[bytes]]


def open_generation(store: Store, name: str, opened: ExitStack) -> tuple[Manifest, list[OpenFile]]:
    """The newest manifest and its open files; if a writer removes it meanwhile, a newer one is tried."""
    folder = store.path / name
    for _ in range(_ATTEMPTS):
        generation = store.current(name)
        try:
            manifest = read_manifest(folder / MANIFESTS, generation, name)
            if manifest.dropped:
                raise CollectionMissing(f"collection {name!r} was dropped meanwhile: begin again", collection=name)
            with ExitStack() as attempt:
                files: list[OpenFile] = [
                    (path, entry, attempt.enter_context(path.open("rb")))
                    for path, entry in _named_files(folder, manifest)
                ]
                opened.push(attempt.pop_all())
                return manifest, files
        except FileNotFoundError as error:
            if store.current(name) == generation:
                raise _damaged(Path(str(error.filename)).relative_to(store.path).as_posix(), "is missing") from None
    raise StorageFailed(f"collection {name!r} changes faster than it can be read", collection=name)


def _named_files(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, FileEntry | None]]:
    """Every file of a generation with its manifest entry; and the newest changelog, with None: it is not compared."""
    for path, entry, _ in files_of(folder, manifest):
        yield path, entry
    newest = changelog_path(folder, manifest.changes.generation)
    if newest.exists():
        yield newest, None


def _copy(tar: tarfile.TarFile, label: str, entry: FileEntry | None, file: IO[bytes]) -> None:
    """Add one file with its present size; raises StoreDamaged if it differs from its manifest entry."""
    size = os.fstat(file.fileno()).st_size
    if entry is not None and size != entry.size:
        raise _damaged(label, f"has {size} bytes instead of {entry.size}")
    source = _ChecksummedInput(file)
    tar.addfile(_member(label, size), source)
    if entry is not None and source.digest.hexdigest() != entry.checksum:
        raise _damaged(label, "does not have the checksum that was recorded")


class _ChecksummedInput(io.RawIOBase):
    """A file with the checksum of all bytes read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = xxhash.xxh3_128()

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self.digest.update(block)
        return block


class _ChecksummedOutput(io.RawIOBase):
    """A file with the checksum of all bytes written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = xxhash.xxh3_128()

    def write(self, content: Any) -> int:
        self.digest.update(content)
        return self._file.write(content)

    def tell(self) -> int:
        return self._file.tell()


class _Seal(io.RawIOBase):
    """A member of the archive that is made when it is read: the checksum of the bytes written until then."""

    def __init__(self, output: _ChecksummedOutput) -> None:
        self._output = output

    def read(self, size: int = -1) -> bytes:
        return self._output.digest.hexdigest().encode()


def _add(tar: tarfile.TarFile, label: str, content: bytes) -> None:
    tar.addfile(_member(label, len(content)), io.BytesIO(content))


def _member(label: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(label)
    member.size, member.mode = size, 0o600
    return member


def _damaged(file: str, problem: str) -> StoreDamaged:
    collection = file.partition("/")[0]
    return StoreDamaged(f"{file} {problem}: nothing was backed up", collection=collection, file=file, problem=problem)
