"""Garbage collection: removes the files that no kept generation names.

These generations are kept: the newest two, or as many as the newest manifest says, and every one that was the newest
within the last ten minutes. So a reader that has read a manifest finds its files, and a cursor its generation.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

from aidre.engine.errors import FormatTooNew, StorageFailed, StoreDamaged, StoreLocked
from aidre.engine.storage import (
    BACKFILLS,
    CHANGES,
    DELETES,
    MANIFESTS,
    SEGMENTS,
    ChangesEntry,
    Manifest,
    WriterLock,
    changelog,
    durable,
    manifest_name,
    read_manifest,
)

KEEP_SECONDS = 600
RESTORE_PREFIX = ".restore."
"""Prefix of the folders in a store that a restore works in and holds the lock of; the names end with ".tmp"."""
DROPPED_PREFIX = ".dropped."
"""Prefix of the folders of collections that are being removed; the names end with ".tmp"."""


def collect(folder: Path, newest: Manifest, *, keep_seconds: float = KEEP_SECONDS) -> None:
    """Remove the manifests, segments, their files and the tombstone files that no kept generation names.

    Requires the writer's lock.
    """
    limit = time.time() - keep_seconds
    obsolete = set(_superseded_manifests(folder / MANIFESTS, limit, newest.generation - newest.keep))
    named = _named_paths(folder, newest)
    folders = [folder / SEGMENTS, folder / DELETES, *(folder / SEGMENTS / entry.id for entry in newest.segments)]
    unnamed = [path for searched in folders for path in _older_than(searched, limit) if path not in named]
    if unnamed:
        kept = [path for path in (folder / MANIFESTS).glob("*.json") if path not in obsolete]
        for path in kept:
            # A manifest that nobody can open keeps nothing. StorageFailed may be temporary and aborts instead.
            with suppress(StoreDamaged, FormatTooNew, FileNotFoundError):
                named |= _named_paths(folder, read_manifest(folder / MANIFESTS, _generation_of(path.name), newest.name))
        unnamed = [path for path in unnamed if path not in named]
    for path in obsolete:
        path.unlink(missing_ok=True)
    for path in map(Path, unnamed):
        if path.is_dir():
            durable.remove_folder(path)
        else:
            path.unlink(missing_ok=True)


def purge(folder: Path, newest: Manifest) -> None:
    """Remove everything that the newest generation does not name, of any age, and the remains of killed restores.

    The history of changes begins with this generation. A path that cannot be removed does not stop the purge;
    StorageFailed names the first of them at the end. Requires the writer's lock and no commit running.
    """
    named = _named_paths(folder, newest) | {os.fspath(folder / MANIFESTS / manifest_name(newest.generation))}
    segments = (f"{SEGMENTS}/{entry.id}" for entry in newest.segments)
    paths, failures = [folder / BACKFILLS], list[StorageFailed]()
    with durable.write_errors(folder):
        for name in (MANIFESTS, SEGMENTS, *segments, DELETES, CHANGES):
            with suppress(FileNotFoundError):
                paths += (folder / name).iterdir()
        unnamed = [path for path in paths if os.fspath(path) not in named]
        for path in itertools.chain(unnamed, _abandoned_restores(folder.parent)):
            try:
                durable.remove(path)
            except StorageFailed as failure:
                failures.append(failure)
    if failures:
        raise failures[0]


def remove_unfinished(folder: Path, newest: ChangesEntry) -> None:
    """Remove the remains of an interrupted writer: temporary files and folders, and changelogs after the newest one.

    Names in the folder that were not yet durable are made so. Requires the writer's lock.
    """
    durable.sync_folder(folder)
    remove_restores(folder.parent)
    for name in (SEGMENTS, f"{SEGMENTS}/*", MANIFESTS, "."):
        for path in folder.glob(f"{name}/.*.tmp"):
            if path.is_dir():
                durable.remove_folder(path)
            else:
                path.unlink(missing_ok=True)
    changelog.remove_orphans(folder, newest)


def remove_restores(store: Path) -> None:
    """Remove the remains of killed restores and drops. What cannot be removed is left to a later call."""
    with suppress(StorageFailed):
        for path in _abandoned_restores(store):
            durable.remove_folder(path)


def _abandoned_restores(store: Path) -> Iterator[Path]:
    """Folders of killed restores (a partial restore, or the collection that it replaced) and of drops. Locked while
    yielded."""
    for path in sorted(store.iterdir()):
        if path.name.startswith((RESTORE_PREFIX, DROPPED_PREFIX)) and path.name.endswith(".tmp"):
            with suppress(StoreLocked), WriterLock(path, path.name):  # a running restore holds the lock
                yield path


def _superseded_manifests(folder: Path, limit: float, last: int) -> Iterator[Path]:
    """Manifests up to generation `last` that ceased to be the newest before `limit`: their successor is older."""
    with os.scandir(folder) as entries:
        manifests = [(_generation_of(entry.name), entry) for entry in entries if entry.name.endswith(".json")]
    manifests.sort(key=itemgetter(0))
    for (generation, entry), (_, successor) in itertools.pairwise(manifests):
        if generation <= last and successor.stat().st_mtime < limit:
            yield Path(entry.path)


def _named_paths(folder: Path, manifest: Manifest) -> set[str]:
    """The paths of a generation's segment folders, of the files in them, and of its tombstone files."""
    segments = os.fspath(folder / SEGMENTS)
    deletes = os.fspath(folder / DELETES)
    return {
        *(f"{segments}/{entry.id}" for entry in manifest.segments),
        *(f"{segments}/{entry.id}/{name}" for entry in manifest.segments for name in entry.files),
        *(f"{deletes}/{name}" for name in manifest.deletes),
    }


def _older_than(folder: Path, limit: float) -> Iterator[str]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and entry.stat(follow_symlinks=False).st_mtime < limit:
                yield entry.path


def _generation_of(name: str) -> int:
    """The generation in the file name of a manifest, -1 where it is no number."""
    stem = name.removesuffix(".json")
    return int(stem) if stem.isdigit() else -1
