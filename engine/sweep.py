"""Removes what no kept generation names: old manifests, segments, lists of deletes and of changes.

The newest two generations stay, and every one that was the newest within the last ten minutes, so a reader that
opened a manifest finds its files, and a cursor its generation.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

from aidre.engine import durable
from aidre.engine.errors import AidreError
from aidre.engine.manifest import Manifest, read_manifest
from aidre.engine.schema import CHANGES, DELETES, MANIFESTS, SEGMENTS

KEEP_SECONDS = 600
KEEP_GENERATIONS = 2
KEEP_CHANGES_SECONDS = 30 * 24 * 3600


def remove_unfinished(folder: Path) -> None:
    """Remove what an interrupted writer left under a temporary name. Call it under the lock only.

    It may also have left folders whose names are not on the disk yet; from here on they are.
    """
    durable.sync_folder(folder.parent)
    durable.sync_folder(folder)
    for name in (SEGMENTS, MANIFESTS, "."):
        for path in (folder / name).glob(".*.tmp"):
            if path.is_dir():
                durable.remove_folder(path)
            else:
                path.unlink(missing_ok=True)


def sweep(
    folder: Path,
    newest: Manifest,
    *,
    keep_seconds: float = KEEP_SECONDS,
    keep_generations: int = KEEP_GENERATIONS,
    keep_changes_seconds: float = KEEP_CHANGES_SECONDS,
) -> None:
    """Remove what neither the kept generations nor the newest one name. Call it under the lock only."""
    limit = time.time() - keep_seconds
    old_segments = {path for path in _older(folder / SEGMENTS, limit) if path.is_dir()}
    old_deletes = set(_older(folder / DELETES, limit))
    doomed = set(_superseded(folder / MANIFESTS, limit, newest.generation - keep_generations))
    segments = {entry.id for entry in newest.segments}
    unnamed = [path for path in old_segments if path.name not in segments]
    unnamed += [path for path in old_deletes if path.name not in newest.deletes]
    if unnamed:
        kept = [path for path in (folder / MANIFESTS).glob("*.json") if path not in doomed]
        named = segments | set(newest.deletes)
        for path in kept:
            named |= _names(folder, path, newest.name)
        unnamed = [path for path in unnamed if path.name not in named]
    for path in doomed:
        path.unlink(missing_ok=True)
    for path in unnamed:
        if path.is_dir():
            durable.remove_folder(path)
        else:
            path.unlink(missing_ok=True)
    for path in _older(folder / CHANGES, time.time() - keep_changes_seconds):
        path.unlink(missing_ok=True)


def _superseded(folder: Path, limit: float, last: int) -> Iterator[Path]:
    """Manifests up to generation `last` whose successor is older than `limit`: until it came they were the newest."""
    manifests = sorted(folder.glob("*.json"), key=_generation)
    for path, successor in itertools.pairwise(manifests):
        if _generation(path) <= last and successor.stat().st_mtime < limit:
            yield path


def _names(folder: Path, manifest: Path, collection: str) -> set[str]:
    try:
        kept = read_manifest(folder / MANIFESTS, _generation(manifest), collection)
    except (AidreError, FileNotFoundError):
        return set()
    return {entry.id for entry in kept.segments} | set(kept.deletes)


def _older(folder: Path, limit: float) -> Iterator[Path]:
    if folder.is_dir():
        for path in folder.iterdir():
            if path.stat().st_mtime < limit and not path.name.startswith("."):
                yield path


def _generation(path: Path) -> int:
    return int(path.stem) if path.stem.isdigit() else -1
