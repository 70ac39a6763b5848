"""Removes what no kept generation names: old manifests, segments and files in them, lists of deletes and of changes.

The newest two generations stay, and every one that was the newest within the last ten minutes, so a reader that
opened a manifest finds its files, and a cursor its generation.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

from aidre.engine import changes, durable
from aidre.engine.errors import AidreError
from aidre.engine.manifest import ChangesEntry, Manifest, read_manifest
from aidre.engine.schema import DELETES, MANIFESTS, SEGMENTS

KEEP_SECONDS = 600
KEEP_GENERATIONS = 2


def remove_unfinished(folder: Path, newest: ChangesEntry) -> None:
    """Remove what an interrupted writer left: temporary names, and lists of changes behind the newest one.

    Call it under the lock only.
    It may also have left folders whose names are not on the disk yet; from here on they are.
    """
    durable.sync_folder(folder.parent)
    durable.sync_folder(folder)
    for name in (SEGMENTS, f"{SEGMENTS}/*", MANIFESTS, "."):
        for path in folder.glob(f"{name}/.*.tmp"):
            if path.is_dir():
                durable.remove_folder(path)
            else:
                path.unlink(missing_ok=True)
    changes.remove_unnamed(folder, newest)


def sweep(
    folder: Path,
    newest: Manifest,
    *,
    keep_seconds: float = KEEP_SECONDS,
    keep_generations: int = KEEP_GENERATIONS,
) -> None:
    """Remove what neither the kept generations nor the newest one name. Call it under the lock only."""
    limit = time.time() - keep_seconds
    doomed = set(_superseded(folder / MANIFESTS, limit, newest.generation - keep_generations))
    named = _names(folder, newest)
    places = [folder / SEGMENTS, folder / DELETES, *(folder / SEGMENTS / entry.id for entry in newest.segments)]
    unnamed = [path for place in places for path in _older(place, limit, named)]
    if unnamed:
        kept = [path for path in (folder / MANIFESTS).glob("*.json") if path not in doomed]
        for path in kept:
            with suppress(AidreError, FileNotFoundError):
                named |= _names(folder, read_manifest(folder / MANIFESTS, _generation(path), newest.name))
        unnamed = [path for path in unnamed if path not in named]
    for path in doomed:
        path.unlink(missing_ok=True)
    for path in unnamed:
        if path.is_dir():
            durable.remove_folder(path)
        else:
            path.unlink(missing_ok=True)
    changes.remove_old(folder, newest.changes)


def _superseded(folder: Path, limit: float, last: int) -> Iterator[Path]:
    """Manifests up to generation `last` whose successor is older than `limit`: until it came they were the newest."""
    manifests = sorted(folder.glob("*.json"), key=_generation)
    for path, successor in itertools.pairwise(manifests):
        if _generation(path) <= last and successor.stat().st_mtime < limit:
            yield path


def _names(folder: Path, manifest: Manifest) -> set[Path]:
    """The segments of a generation, the files in them, and its lists of deletes."""
    places = [(folder / SEGMENTS / entry.id, entry.files) for entry in manifest.segments]
    files = {place / name for place, names in places for name in names}
    return {*files, *(place for place, _ in places), *(folder / DELETES / name for name in manifest.deletes)}


def _older(folder: Path, limit: float, named: Container[Path]) -> Iterator[Path]:
    if folder.is_dir():
        for path in folder.iterdir():
            if path not in named and not path.name.startswith(".") and path.stat().st_mtime < limit:
                yield path


def _generation(path: Path) -> int:
    return int(path.stem) if path.stem.isdigit() else -1
