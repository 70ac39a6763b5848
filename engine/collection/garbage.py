"""Garbage collection: removes the files that no kept generation names.

These generations are kept: the newest two, or as many as the newest manifest says; of each of the last ten minutes the
one that was the newest when the minute began; and each one that is pinned. So their number has a bound, however many
commits there are, and a cursor finds its generation. A reader whose files are removed while it opens them begins again
from CURRENT.
"""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aidre.engine.errors import AidreError, FormatTooNew, StorageFailed, StoreDamaged, StoreLocked
from aidre.engine.storage import (
    BACKFILLS,
    CHANGES,
    CURRENT,
    DELETES,
    MANIFESTS,
    PINS,
    SEGMENTS,
    ChangesEntry,
    Manifest,
    WriterLock,
    changelog,
    durable,
    manifest_name,
    read_manifest,
)

CURSOR_SECONDS = 600
"""How long a cursor may find its generation."""
MINUTE = 60.0
KEEP_SECONDS = CURSOR_SECONDS + MINUTE
"""How long generations and pins are kept. A generation that was the newest at the full minute before a cursor was given
out is kept for that minute longer; one that came about later is pinned."""
SWEPT_TOGETHER = 16
"""So many superseded generations are removed in one sweep, which has to read all manifests that stay."""
RESTORE_PREFIX = ".restore."
"""Prefix of the folders in a store that a restore works in and holds the lock of; the names end with ".tmp"."""
DROPPED_PREFIX = ".dropped."
"""Prefix of the folders of collections that are being removed; the names end with ".tmp"."""


def pin(folder: Path, generation: int) -> None:
    """Keep a generation for KEEP_SECONDS from now. Needs no lock and survives no power cut. OSError."""
    path = folder / PINS / f"{generation:06d}"
    path.parent.mkdir(durable.FOLDER_MODE, exist_ok=True)
    path.touch()


def collect(
    folder: Path, newest: Manifest, *, keep_seconds: float = KEEP_SECONDS, at_least: int = SWEPT_TOGETHER
) -> None:
    """Remove the manifests, segments, their files and the tombstone files that no kept generation names.

    Every commit calls it, and every writer that ends. Does nothing as long as fewer than `at_least` manifests can be
    removed, unless one of them was superseded `keep_seconds` ago. Requires the writer's lock.
    """
    now = time.time()
    limit = now - keep_seconds
    written = _manifest_times(folder / MANIFESTS)
    superseded = {number: moment for (number, _), (_, moment) in itertools.pairwise(written)}
    in_use = _newest_of_minutes(written, now, limit) | _pinned(folder / PINS, limit)
    last = newest.generation - newest.keep
    obsolete = [number for number in superseded if number <= last and number not in in_use]
    if len(obsolete) >= at_least or any(superseded[number] < limit for number in obsolete):
        _sweep(folder, newest, obsolete, {number for number, _ in written}.difference(obsolete))


def _sweep(folder: Path, newest: Manifest, obsolete: Iterable[int], retained: Iterable[int]) -> None:
    named = named_paths(folder, newest)
    folders = [folder / SEGMENTS, folder / DELETES, *(folder / SEGMENTS / entry.id for entry in newest.segments)]
    unnamed = [path for searched in folders for path in _paths_in(searched) if path not in named]
    if unnamed:
        for number in retained:
            # A manifest that nobody can open keeps nothing. StorageFailed may be temporary and aborts instead.
            with suppress(StoreDamaged, FormatTooNew, FileNotFoundError):
                named |= named_paths(folder, read_manifest(folder / MANIFESTS, number, newest.name))
        unnamed = [path for path in unnamed if path not in named]
    for number in obsolete:
        path = folder / MANIFESTS / manifest_name(number)
        path.unlink(missing_ok=True)
    for path in map(Path, unnamed):
        if path.is_dir():
            durable.remove_folder(path)
        else:
            path.unlink(missing_ok=True)


def discard(folder: Path, newest: Manifest) -> bool:
    """Remove what a commit or a merge wrote that failed before CURRENT named its generation, as far as possible;
    whether nothing of it is left.

    `newest` is the generation before it. Where CURRENT names a later one, nothing is removed: readers have it. Without
    CURRENT a manifest that stayed would be taken for the newest one. Requires the writer's lock.
    """
    with suppress(OSError, ValueError, StorageFailed):
        if _current(folder) not in {None, newest.generation}:
            return True
        numbers = [number for number, _ in _manifest_times(folder / MANIFESTS)]
        later = [number for number in numbers if number > newest.generation]
        _sweep(folder, newest, later, set(numbers).difference(later))
        changelog.remove_orphans(folder, newest.changes)
        return True
    return False


def _current(folder: Path) -> int | None:
    with suppress(FileNotFoundError):
        return int((folder / CURRENT).read_bytes())
    return None


@dataclass(frozen=True, slots=True)
class RetainedSpace:
    """What only older generations need: bytes on disk, kept for readers until a Unix time.

    `generations` is the number of generations that the collection keeps, where one of these needs any of the bytes;
    else 0.
    """

    bytes: int
    until: float
    generations: int


def kept_for_readers(folder: Path, newest: Manifest) -> RetainedSpace | None:
    """What stays on the disk though the newest generation does not need it; None where nothing does, or where the disk
    does not say."""
    with suppress(OSError):
        return _kept_for_readers(folder, newest, _manifest_times(folder / MANIFESTS))
    return None


def _kept_for_readers(folder: Path, newest: Manifest, written: Sequence[tuple[int, float]]) -> RetainedSpace | None:
    superseded = {number: moment for (number, _), (_, moment) in itertools.pairwise(written)}
    needed, found, until, counted = named_paths(folder, newest), dict[str, int](), 0.0, 0
    for number, moment in superseded.items():
        with suppress(AidreError, FileNotFoundError):
            named = named_paths(folder, read_manifest(folder / MANIFESTS, number, newest.name)) - needed
            sizes = {path: status.st_size for path, status in _files(named)}
            found |= sizes
            if sizes:
                until = max(until, moment + KEEP_SECONDS, _pinned_until(folder, number))
                counted = newest.keep if number > newest.generation - newest.keep else counted
    return RetainedSpace(sum(found.values()), until, counted) if found else None


def _files(paths: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """The paths that are files, with their status."""
    for path in paths:
        with suppress(OSError):
            status = Path(path).stat()
            if stat.S_ISREG(status.st_mode):
                yield path, status


def _pinned_until(folder: Path, generation: int) -> float:
    with suppress(OSError):
        return (folder / PINS / f"{generation:06d}").stat().st_mtime + KEEP_SECONDS
    return 0.0


def purge(folder: Path, newest: Manifest) -> None:
    """Remove everything that the newest generation does not name, of any age, and the remains of killed restores.

    The history of changes begins with this generation. A path that cannot be removed does not stop the purge;
    StorageFailed names the first of them at the end. Requires the writer's lock and no commit running.
    """
    named = named_paths(folder, newest) | {os.fspath(folder / MANIFESTS / manifest_name(newest.generation))}
    segments = (f"{SEGMENTS}/{entry.id}" for entry in newest.segments)
    paths, failures = [folder / BACKFILLS], list[StorageFailed]()
    with durable.write_errors(folder):
        for name in (MANIFESTS, SEGMENTS, *segments, DELETES, CHANGES, PINS):
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


def remove_adopted(folder: Path, newest: Manifest) -> None:
    """Remove the segments that a killed writer moved to their place and named in no manifest, many in one commit.

    Such a writer leaves its staging folder, which `remove_unfinished` removes afterwards. Requires the writer's lock.
    """
    if any(folder.glob(f"{SEGMENTS}/.*.tmp")):
        _sweep(folder, newest, (), [number for number, _ in _manifest_times(folder / MANIFESTS)])


def remove_unfinished(folder: Path, newest: ChangesEntry) -> None:
    """Remove the remains of an interrupted writer: temporary files and folders, and changelogs after the newest one.

    Names in the folder that were not yet durable are made so. Requires the writer's lock.
    """
    durable.sync_folder(folder)
    remove_restores(folder.parent)
    for name in (SEGMENTS, f"{SEGMENTS}/*", MANIFESTS, CHANGES, "."):
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


def _manifest_times(folder: Path) -> list[tuple[int, float]]:
    """The stored generations in order, and when each was written."""
    found = list[tuple[int, float]]()
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        found += (
            (_generation_of(entry.name), entry.stat().st_mtime) for entry in entries if entry.name.endswith(".json")
        )
    return sorted(pair for pair in found if pair[0] > 0)


def _newest_of_minutes(written: Sequence[tuple[int, float]], now: float, limit: float) -> set[int]:
    """For each full minute from `limit` to `now`, the generation that was the newest then."""
    numbers, moment = set[int](), now - now % MINUTE
    while moment >= limit:
        numbers |= {max((number for number, written_at in written if written_at <= moment), default=-1)}
        moment -= MINUTE
    return numbers


def _pinned(folder: Path, limit: float) -> set[int]:
    """The generations that were pinned since `limit`; older pins are removed."""
    pinned = set[int]()
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.stat().st_mtime >= limit:
                pinned.add(_generation_of(entry.name))
            else:
                Path(entry.path).unlink()
    return pinned


def named_paths(folder: Path, manifest: Manifest) -> set[str]:
    """The paths of a generation's segment folders, of the files in them, and of its tombstone files."""
    segments = os.fspath(folder / SEGMENTS)
    deletes = os.fspath(folder / DELETES)
    return {
        *(f"{segments}/{entry.id}" for entry in manifest.segments),
        *(f"{segments}/{entry.id}/{name}" for entry in manifest.segments for name in entry.files),
        *(f"{deletes}/{name}" for name in manifest.deletes),
    }


def _paths_in(folder: Path) -> Iterator[str]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                yield entry.path


def _generation_of(name: str) -> int:
    """The generation in the file name of a manifest or a pin, -1 where it is not a number."""
    stem = name.removesuffix(".json")
    return int(stem) if stem.isdigit() else -1
