"""Collections back from a backup: unpacked beside the store's own, checked whole, and only then given their names.

A collection that is there already is exchanged in one step, in a generation of its own, so that servers which have
it open move on to it as after any commit.
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

from aidre.engine import durable, sweep
from aidre.engine.backup import END, END_BYTES, FORMAT, HEADER, Saved
from aidre.engine.errors import (
    CollectionMissing,
    Conflict,
    FormatTooNew,
    InvalidInput,
    Missing,
    StorageFailed,
    StoreDamaged,
)
from aidre.engine.lock import WriterLock
from aidre.engine.manifest import read_manifest, to_bytes
from aidre.engine.schema import CHANGES, CURRENT, DELETES, MANIFESTS, SEGMENTS, check_collection_name, manifest_name
from aidre.engine.store import Store
from aidre.engine.verify import verify_collection

_BLOCK = 1 << 20
_MOST_HEADER = 1 << 24
_NAME = re.compile(r"[^/\0.][^/\0]{0,254}")
_DEPTHS = {MANIFESTS: 3, DELETES: 3, CHANGES: 3, SEGMENTS: 4}
_HERE, _EXCHANGE = -100, 2


def restore(store: Store, source: Path, *, replace_stored: bool = False, beside: str | None = None) -> list[Saved]:
    """Bring back every collection of a backup, and the folder `beside` of it where the store has none of that name.

    Conflict where a collection is there already and `replace_stored` is not given; InvalidInput where the file is no
    backup, or a part of one; StoreDamaged where it is not as its manifests say; StoreLocked; StorageFailed. The
    store is as it was in all of these cases.
    """
    if not source.is_file():
        raise Missing(f"there is no backup at {source}")
    with _temporary(store.path) as folder:
        unpacked, names = Store(folder), _unpack(source, folder, beside)
        _check_absent(store, () if replace_stored else names)
        found = [_sound(unpacked, name) for name in names]
        with ExitStack() as held:
            for name in names:
                if (store.path / name).exists():
                    held.enter_context(WriterLock(store.path / name, name))
            _check_absent(store, () if replace_stored else names)  # a first ingest may have ended meanwhile
            for name in names:  # all that may need room comes first
                _follow(store.path / name, folder / name)
                _settle(folder / name)
            for name in names:
                _put_in_place(store.path / name, folder / name)
        if beside is not None and (folder / beside).is_dir() and not (store.path / beside).exists():
            _settle(folder / beside)
            _move(folder / beside, store.path / beside)
    return found


def _check_absent(store: Store, names: Sequence[str]) -> None:
    there = {*store.collections(), *store.nameless()}
    for name in names:
        if name in there:
            raise Conflict(
                f"collection {name!r} is in the store already: nothing was restored; "
                "--replace puts the one of the backup in its place",
                collection=name,
            )


@contextmanager
def _temporary(store: Path) -> Iterator[Path]:
    """A folder in the store, on the same file system, that is gone afterwards, as is what killed runs left.

    Its lock tells writers that it is in use: a process may have the same number in another container.
    """
    durable.make_folder(store)
    sweep.remove_restores(store)
    with durable.storage_errors(store):
        folder = Path(tempfile.mkdtemp(".tmp", sweep.RESTORING, store))
    with WriterLock(folder, folder.name):
        try:
            yield folder
        finally:
            durable.remove_folder(folder)


# -- out of the file ---------------------------------------------------------------------------------------------


def _unpack(source: Path, folder: Path, beside: str | None) -> list[str]:
    """Write the members of a backup under `folder`; the names of its collections."""
    try:
        with tarfile.open(source, mode="r:", bufsize=_BLOCK) as tar:
            names, is_sealed = _collections(tar, source)
            if is_sealed:
                _check_seal(source)
            while (member := tar.next()) is not None:
                if not (is_sealed and member.name == END):
                    _unpack_member(tar, member, folder, {*names, beside})
    except (tarfile.TarError, EOFError) as error:
        raise InvalidInput(f"{source} is not a whole backup of aidre: {error}") from error
    return names


def _check_seal(source: Path) -> None:
    """Raise InvalidInput unless every byte is as it was written, those between and behind the members too."""
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


def _collections(tar: tarfile.TarFile, source: Path) -> tuple[list[str], bool]:
    """The names of the collections, and whether the file is sealed."""
    first = tar.next()
    is_header = first is not None and first.name == HEADER and first.size <= _MOST_HEADER and _is_plain(first)
    file = tar.extractfile(first) if first is not None and is_header else None
    try:
        header: dict[str, Any] = orjson.loads(file.read()) if file is not None else {}
        written, names = header["aidre_backup"], [check_collection_name(name) for name in header["collections"]]
    except (orjson.JSONDecodeError, KeyError, TypeError, InvalidInput) as error:
        raise InvalidInput(f"{source} is not a backup of aidre") from error
    if len(set(names)) < len(names):
        raise InvalidInput(f"{source} is not a backup of aidre: it names a collection twice")
    if written != FORMAT:
        raise FormatTooNew(f"{source} is a backup in format {written}, this release reads {FORMAT}: upgrade aidre")
    if header.keys() - {"sealed"} != {"aidre_backup", "created_at", "collections"}:
        raise InvalidInput(f"{source} is not a whole backup of aidre: it was altered since it was written")
    return names, "sealed" in header


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, tops: Container[str | None]) -> None:
    """Write one file. A backup may come from anywhere: its names and kinds are not trusted."""
    parts = member.name.split("/")
    if not _is_plain(member) or not _is_ours(parts, tops):
        raise InvalidInput(
            f"the backup holds {member.name!r:.200}, which no backup of aidre does: nothing was restored"
        )
    content = tar.extractfile(member)
    path = folder.joinpath(*parts)
    if content is None or path.exists():
        raise InvalidInput(f"the backup holds {member.name!r:.200} twice: nothing was restored")
    with durable.storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            shutil.copyfileobj(content, file, _BLOCK)
            file.flush()
            os.fsync(file.fileno())


def _is_plain(member: tarfile.TarInfo) -> bool:
    """Whether it is a file, and its size what the backup holds of it: a sparse one may be any number of zeros."""
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()


def _is_ours(parts: Sequence[str], tops: Container[str | None]) -> bool:
    if parts[0] not in tops or len(parts) < 2 or not all(_NAME.fullmatch(part) for part in parts[1:]):
        return False
    return len(parts) in (2, 3) if parts[0].startswith(".") else len(parts) == _DEPTHS.get(parts[1])


# -- into the store ----------------------------------------------------------------------------------------------


def _sound(unpacked: Store, name: str) -> Saved:
    """Name the generation of an unpacked collection, and check every byte of it."""
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
    return Saved(name, report.generation, report.documents, report.chunks)


def _put_in_place(final: Path, unpacked: Path) -> None:
    """Give an unpacked collection its name, in exchange for what has it, which is locked."""
    if final.exists():
        _exchange(unpacked, final)
    else:
        _move(unpacked, final)


def _follow(final: Path, unpacked: Path) -> None:
    """Number the unpacked generation behind all that it replaces: a server takes what has a new number."""
    name = final.name
    stored = [int(path.stem) for path in (final / MANIFESTS).glob("*.json") if path.stem.isdecimal()]
    with suppress(CollectionMissing, StoreDamaged):  # what CURRENT does not tell, the manifests do
        stored.append(Store(final.parent).current(name))
    if not stored:
        return
    brought = Store(unpacked.parent).current(name)
    number = max(*stored, brought) + 1
    manifest = read_manifest(unpacked / MANIFESTS, brought, name)
    durable.replace_file(unpacked / MANIFESTS / manifest_name(number), to_bytes(replace(manifest, generation=number)))
    durable.replace_file(unpacked / CURRENT, f"{number:06d}\n".encode())


def _move(folder: Path, final: Path) -> None:
    with durable.storage_errors(final):
        folder.rename(final)
        durable.sync_folder(final.parent)


def _settle(folder: Path) -> None:
    """Sync every folder, the files were synced as they were written; what is a collection's becomes read-only, what
    lies beside them stays for its owner alone."""
    with durable.storage_errors(folder):
        for path, _, files in os.walk(folder, topdown=False):
            if not folder.name.startswith(".") and path != str(folder):
                for file in files:
                    Path(path, file).chmod(durable.READ_ONLY)
            elif folder.name.startswith("."):
                Path(path).chmod(0o700)
            durable.sync_folder(Path(path))


def _exchange(one: Path, other: Path) -> None:
    """Swap the names of two folders in one step (Linux, renameat2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        problem = os.strerror(ctypes.get_errno())
        raise StorageFailed(f"cannot exchange {other.name}: {problem}; restore into a new folder", file=other.name)
    with durable.storage_errors(other):
        durable.sync_folder(other.parent)
