"""Removes what no kept generation names: old manifests, segments and files in them, lists of deletes and of changes.

The newest two generations stay, or as many as the newest manifest says, and every one that was the newest within the
last ten minutes, so a reader that opened a manifest finds its files, and a cursor its generation.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

from aidre.engine import changes, durable
from aidre.engine.errors import FormatTooNew, StorageFailed, StoreDamaged, StoreLocked
from aidre.engine.lock import WriterLock
from aidre.engine.manifest import ChangesEntry, Manifest, read_manifest
from aidre.engine.schema import CHANGES, DELETES, FILLING, MANIFESTS, SEGMENTS, manifest_name

KEEP_SECONDS = 600
RESTORING = ".restore."
"""So the name of a folder in the store begins in which a restore works, which holds its lock; it ends with ".tmp"."""


def remove_unfinished(folder: Path, newest: ChangesEntry) -> None:
    """Remove what an interrupted writer left: temporary names, and lists of changes behind the newest one.

    Call it under the lock only.
    It may also have left folders whose names are not on the disk yet; from here on they are.
    """
    durable.sync_folder(folder.parent)
    durable.sync_folder(folder)
    remove_restores(folder.parent)
    for name in (SEGMENTS, f"{SEGMENTS}/*", MANIFESTS, "."):
        for path in folder.glob(f"{name}/.*.tmp"):
            if path.is_dir():
                durable.remove_folder(path)
            else:
                path.unlink(missing_ok=True)
    changes.remove_unnamed(folder, newest)


def remove_restores(store: Path) -> None:
    """Remove what restores left that were killed; what cannot go is tried again."""
    with suppress(StorageFailed):
        for path in _left_by_restores(store):
            durable.remove_folder(path)


def sweep(folder: Path, newest: Manifest, *, keep_seconds: float = KEEP_SECONDS) -> None:
    """Remove what neither the kept generations nor the newest one name. Call it under the lock only."""
    limit = time.time() - keep_seconds
    last = newest.generation - newest.keep
    doomed = set(_superseded(folder / MANIFESTS, limit, last))
    named = _names(folder, newest)
    places = [folder / SEGMENTS, folder / DELETES, *(folder / SEGMENTS / entry.id for entry in newest.segments)]
    unnamed = [path for place in places for path in _older(place, limit) if path not in named]
    if unnamed:
        kept = [path for path in (folder / MANIFESTS).glob("*.json") if path not in doomed]
        for path in kept:
            with suppress(StoreDamaged, FormatTooNew, FileNotFoundError):  # not one that cannot be read just now
                named |= _names(folder, read_manifest(folder / MANIFESTS, _generation(path.name), newest.name))
        unnamed = [path for path in unnamed if path not in named]
    for path in doomed:
        path.unlink(missing_ok=True)
    for path in map(Path, unnamed):
        if path.is_dir():
            durable.remove_folder(path)
        else:
            path.unlink(missing_ok=True)


def purge(folder: Path, newest: Manifest) -> None:
    """Remove all that the newest generation does not name, whatever its date, and what killed restores left.

    The history of changes begins with this generation. StorageFailed names what cannot be removed, after all else is.
    Call it under the lock only, with nothing under way.
    """
    named = _names(folder, newest) | {os.fspath(folder / MANIFESTS / manifest_name(newest.generation))}
    segments = (f"{SEGMENTS}/{entry.id}" for entry in newest.segments)
    found, failures = [folder / FILLING], list[StorageFailed]()
    with durable.storage_errors(folder):
        for name in (MANIFESTS, SEGMENTS, *segments, DELETES, CHANGES):
            with suppress(FileNotFoundError):
                found += (folder / name).iterdir()
        unnamed = [path for path in found if os.fspath(path) not in named]
        for path in itertools.chain(unnamed, _left_by_restores(folder.parent)):
            try:
                durable.remove(path)
            except StorageFailed as failure:
                failures.append(failure)
    if failures:
        raise failures[0]


def _left_by_restores(store: Path) -> Iterator[Path]:
    """A part of a backup, or the whole collection that was replaced by one; each is locked while it is looked at."""
    for path in sorted(store.iterdir()):
        if path.name.startswith(RESTORING) and path.name.endswith(".tmp"):
            with suppress(StoreLocked), WriterLock(path, path.name):  # a restore at work removes it itself
                yield path


def _superseded(folder: Path, limit: float, last: int) -> Iterator[Path]:
    """Manifests up to generation `last` whose successor is older than `limit`: until it came they were the newest."""
    with os.scandir(folder) as entries:
        manifests = [(_generation(entry.name), entry) for entry in entries if entry.name.endswith(".json")]
    manifests.sort(key=itemgetter(0))
    for (generation, entry), (_, successor) in itertools.pairwise(manifests):
        if generation <= last and successor.stat().st_mtime < limit:
            yield Path(entry.path)


def _names(folder: Path, manifest: Manifest) -> set[str]:
    """The paths of the segments of a generation, of the files in them, and of its lists of deletes."""
    segments = os.fspath(folder / SEGMENTS)
    deletes = os.fspath(folder / DELETES)
    return {
        *(f"{segments}/{entry.id}" for entry in manifest.segments),
        *(f"{segments}/{entry.id}/{name}" for entry in manifest.segments for name in entry.files),
        *(f"{deletes}/{name}" for name in manifest.deletes),
    }


def _older(folder: Path, limit: float) -> Iterator[str]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and entry.stat(follow_symlinks=False).st_mtime < limit:
                yield entry.path


def _generation(name: str) -> int:
    stem = name.removesuffix(".json")
    return int(stem) if stem.isdigit() else -1
