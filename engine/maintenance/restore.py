"""Restore of collections from a backup: unpacked inside the store, verified as a whole, and only then published.

An existing collection is exchanged atomically for a generation with a higher number, so that servers switch to it as
after any commit.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import xxhash

from aidre.engine.collection import Store, garbage, local_store
from aidre.engine.errors import (
    AidreError,
    CollectionMissing,
    Conflict,
    FormatTooNew,
    InvalidInput,
    Missing,
    StorageFailed,
    StoreDamaged,
)
from aidre.engine.maintenance.backup import END, END_BYTES, FORMAT, HEADER, SavedCollection
from aidre.engine.maintenance.verify import verify_collection
from aidre.engine.ports import Source
from aidre.engine.storage import (
    CHANGES,
    CURRENT,
    DELETES,
    MANIFESTS,
    SEGMENTS,
    WriterLock,
    check_collection_name,
    durable,
    encode_manifest,
    manifest_name,
    manifest_numbers,
    read_manifest,
)

_BLOCK = 1 << 20
_MAX_HEADER_BYTES = 1 << 24
_NAME = re.compile(r"[^/\0.][^/\0]{0,254}")
_DEPTHS = {MANIFESTS: 3, DELETES: 3, CHANGES: 3, SEGMENTS: 4}
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
"""Constants of renameat2(2)."""


def restore_archive(
    store: Source, source: Path, *, replace_stored: bool = False, beside: str | None = None
) -> list[SavedCollection]:
    """Restore every collection of a backup, those of its aliases whose names are free, and its folder `beside` if the
    store has none of that name.

    Raises Unsupported for a replica; Missing if there is no such file; Conflict if a collection exists and
    `replace_stored` is false; InvalidInput if the file is not a complete backup; FormatTooNew; StoreDamaged if it
    differs from its manifests; StoreLocked; StorageFailed. The store is unchanged then, unless StorageFailed came while
    collections were being published.
    """
    store = local_store(store)
    store.check_writable()
    if not source.is_file():
        raise Missing(f"there is no backup at {source}")
    with _temporary(store.path) as folder:
        unpacked, (names, aliases) = Store(folder), _unpack(source, folder, beside)
        _check_absent(store, names, replace_stored=replace_stored)
        restored = [_verify_unpacked(unpacked, name) for name in names]
        with ExitStack() as locks:
            for name in names:
                if (store.path / name).exists():
                    locks.enter_context(WriterLock(store.path / name, name))
            _check_absent(store, names, replace_stored=replace_stored)  # a first ingest may have created one meanwhile
            for name in names:  # steps that need disk space come first
                _renumber(store.path / name, folder / name)
                _sync_and_protect(folder / name)
            for name in names:
                _publish(store.path / name, folder / name)
        taken = {*store.collections(), *store.aliases()}
        for alias, collection in aliases.items():
            if alias not in taken and collection in names:
                store.point_alias(alias, collection)
        if beside is not None and (folder / beside).is_dir() and not (store.path / beside).exists():
            _sync_and_protect(folder / beside)
            _move(folder / beside, store.path / beside)
    return restored


def _check_absent(store: Store, names: Sequence[str], *, replace_stored: bool) -> None:
    existing = set() if replace_stored else {*store.collections(), *store.collections_without_current()}
    aliases = store.aliases()
    for name in names:
        if name in aliases:
            raise Conflict(
                f"{name!r} is an alias of {aliases[name].collection!r} in the store, which would hide the collection "
                "of the backup: nothing was restored; remove the alias",
                collection=name,
            )
        if name in existing:
            raise Conflict(
                f"collection {name!r} is in the store already: nothing was restored; "
                "--replace overwrites it with the one of the backup",
                collection=name,
            )


@contextmanager
def _temporary(store: Path) -> Iterator[Path]:
    """A temporary folder inside the store, on the same file system; folders of killed runs are removed too.

    Its lock marks it as in use; a pid would not, because another container may use the same number.
    """
    durable.make_folder(store)
    durable.sync_name(store)
    garbage.remove_restores(store)
    with durable.write_errors(store):
        folder = Path(tempfile.mkdtemp(".tmp", garbage.RESTORE_PREFIX, store))
    with WriterLock(folder, folder.name):
        try:
            yield folder
        finally:
            durable.remove_folder(folder)


# -- reading the backup ---------------------------------------------------------------------------------------------


def _unpack(source: Path, folder: Path, beside: str | None) -> tuple[list[str], dict[str, str]]:
    """Write the members of a backup under `folder`; returns the names of its collections, and its aliases."""
    try:
        with tarfile.open(source, mode="r:", bufsize=_BLOCK) as tar:
            names, aliases, is_sealed = _collections(tar, source)
            if is_sealed:
                _check_seal(source)
            while (member := tar.next()) is not None:
                if not (is_sealed and member.name == END):
                    _unpack_member(tar, member, folder, {*names, beside})
    except (tarfile.TarError, EOFError) as error:
        raise InvalidInput(f"{source} is not a whole backup of aidre: {error}") from error
    return names, aliases


def _check_seal(source: Path) -> None:
    """Raise InvalidInput unless the checksum at the end matches all bytes before it and only zeros follow it."""
    with tarfile.open(source, mode="r:", bufsize=_BLOCK) as tar:
        last = tar.getmembers()[-1]
    if last.name != END or last.size != END_BYTES:
        raise InvalidInput(f"{source} is not a whole backup of aidre: its end is missing")
    digest, end = xxhash.xxh3_128(), last.offset_data + 3 * tarfile.BLOCKSIZE
    with source.open("rb") as file:
        for start in range(0, last.offset_data, _BLOCK):
            digest.update(file.read(min(_BLOCK, last.offset_data - start)))
        seal, rest = file.read(END_BYTES), file.read(2 * tarfile.RECORDSIZE)
    is_whole = source.stat().st_size == -(-end // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
    if seal != digest.hexdigest().encode() or rest.strip(b"\0") or not is_whole:
        raise InvalidInput(f"{source} is not a whole backup of aidre: it was altered since it was written")


def _collections(tar: tarfile.TarFile, source: Path) -> tuple[list[str], dict[str, str], bool]:
    """The names of the collections, their aliases, and whether the backup has a checksum at its end."""
    first = tar.next()
    is_header = first is not None and first.name == HEADER and first.size <= _MAX_HEADER_BYTES and _is_plain(first)
    file = tar.extractfile(first) if first is not None and is_header else None
    try:
        header: dict[str, Any] = orjson.loads(file.read()) if file is not None else {}
        version, names = header["aidre_backup"], [check_collection_name(name) for name in header["collections"]]
        aliases = {check_collection_name(name): str(target) for name, target in header.get("aliases", {}).items()}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, InvalidInput) as error:
        raise InvalidInput(f"{source} is not a backup of aidre") from error
    if len(set(names)) < len(names):
        raise InvalidInput(f"{source} is not a backup of aidre: it names a collection twice")
    if version != FORMAT:
        raise FormatTooNew(f"{source} is a backup in format {version}, this release reads {FORMAT}: upgrade aidre")
    if header.keys() - {"aliases", "sealed"} != {"aidre_backup", "created_at", "collections"}:
        raise InvalidInput(f"{source} is not a whole backup of aidre: it was altered since it was written")
    return names, aliases, "sealed" in header


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, tops: Container[str | None]) -> None:
    """Write one file. The names and types of members are untrusted."""
    parts = member.name.split("/")
    if not _is_plain(member) or not _is_ours(parts, tops):
        raise InvalidInput(
            f"the backup holds {member.name!r:.200}, which no backup of aidre does: nothing was restored"
        )
    content = tar.extractfile(member)
    path = folder.joinpath(*parts)
    if content is None or path.exists():
        raise InvalidInput(f"the backup holds {member.name!r:.200} twice: nothing was restored")
    with durable.write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            shutil.copyfileobj(content, file, _BLOCK)
            file.flush()
            os.fsync(file.fileno())


def _is_plain(member: tarfile.TarInfo) -> bool:
    """Whether a member is a regular file, not sparse: a sparse one may expand to any number of zeros."""
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()


def _is_ours(parts: Sequence[str], tops: Container[str | None]) -> bool:
    if parts[0] not in tops or len(parts) < 2 or not all(_NAME.fullmatch(part) for part in parts[1:]):
        return False
    return len(parts) in (2, 3) if parts[0].startswith(".") else len(parts) == _DEPTHS.get(parts[1])


# -- publishing ----------------------------------------------------------------------------------------------


def _verify_unpacked(unpacked: Store, name: str) -> SavedCollection:
    """Write CURRENT of an unpacked collection, and verify every byte of it."""
    folder = unpacked.path / name
    manifests = [path.stem for path in (folder / MANIFESTS).glob("*.json")]
    if len(manifests) != 1 or not manifests[0].isdecimal():
        raise InvalidInput(f"the backup does not hold one generation of collection {name!r}: nothing was restored")
    durable.replace_file(folder / CURRENT, f"{int(manifests[0]):06d}\n".encode())
    report = verify_collection(unpacked, name)
    if not report.ok:
        problem = next(problem for problem in report.problems if not problem.derived)
        raise StoreDamaged(
            f"{problem.file} {problem.what} in the backup: nothing was restored",
            collection=name,
            file=problem.file,
            problem=problem.what,
        )
    return SavedCollection(name, report.generation, report.documents, report.chunks)


def _publish(final: Path, unpacked: Path) -> None:
    """Move an unpacked collection to its name, in exchange for the existing one, which is locked."""
    if final.exists():
        _exchange(unpacked, final)
    else:
        _move(unpacked, final)


def _renumber(final: Path, unpacked: Path) -> None:
    """Give the unpacked generation a higher number than any that it replaces, so that servers switch to it, and keep
    it private if the replaced one is."""
    name = final.name
    stored = manifest_numbers(final)
    with suppress(CollectionMissing, StoreDamaged):  # without CURRENT the manifests decide
        stored.append(Store(final.parent).current(name))
    if not stored:
        return
    generation = Store(unpacked.parent).current(name)
    number = max(*stored, generation) + 1
    manifest = replace(read_manifest(unpacked / MANIFESTS, generation, name), generation=number)
    if _is_private(final, max(stored)):
        manifest = replace(manifest, visibility="private")
    durable.replace_file(unpacked / MANIFESTS / manifest_name(number), encode_manifest(manifest))
    durable.replace_file(unpacked / CURRENT, f"{number:06d}\n".encode())


def _is_private(final: Path, newest: int) -> bool:
    """Whether the collection that is replaced is private: by its newest manifest, else by any that can be read."""
    with suppress(AidreError, OSError):
        return read_manifest(final / MANIFESTS, newest, final.name).visibility == "private"
    for number in manifest_numbers(final):
        with suppress(AidreError, OSError):
            if read_manifest(final / MANIFESTS, number, final.name).visibility == "private":
                return True
    return False


def _move(folder: Path, final: Path) -> None:
    with durable.write_errors(final):
        folder.rename(final)
        durable.sync_folder(final.parent)


def _sync_and_protect(folder: Path) -> None:
    """Sync every folder (files were synced when written). Files of collections become read-only, and their folders
    closed to others; folders beside them are private to the owner."""
    with durable.write_errors(folder):
        for path, _, files in os.walk(folder, topdown=False):
            if folder.name.startswith("."):
                Path(path).chmod(0o700)
            else:
                for file in files:
                    Path(path, file).chmod(durable.READ_ONLY)
                Path(path).chmod(durable.FOLDER_MODE)
            durable.sync_folder(Path(path))


def _exchange(folder: Path, other: Path) -> None:
    """Swap the names of two folders atomically (Linux, renameat2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(folder), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        problem = os.strerror(ctypes.get_errno())
        raise StorageFailed(f"cannot exchange {other.name}: {problem}; restore into a new folder", file=other.name)
    with durable.write_errors(other):
        durable.sync_folder(other.parent)
