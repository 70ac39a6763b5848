"""Inventory of a collection of local segments: its files by kind, and the sources of its documents. Changes nothing.

Files are counted as they are on the disk, those that no manifest names too; sources by the newest generation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from aidre.engine.collection import Snapshot, Store, garbage, local_store
from aidre.engine.ports import Source
from aidre.engine.storage import BACKFILLS, CHANGES, DELETES, MANIFESTS, SEGMENTS, kernels

_FOLDERS = {MANIFESTS: "manifests", CHANGES: "changes", DELETES: "tombstones", BACKFILLS: "unfinished spaces"}
_SPACE_KINDS = ("vectors", "keys", "index")
TEMPORARY = "temporary"
OLDER = "older generations"


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A source that documents were read from: its folder or URL (None: not known), and its live documents.

    The name is None for documents without a source, which a program or a client wrote.
    """

    name: str | None
    root: str | None
    documents: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """`sizes` are bytes by kind of file; "older generations" are segments that the newest one does not name, and
    "temporary" what writers that were killed have left. `untitled` counts live documents without a title."""

    sizes: Mapping[str, int]
    sources: tuple[StoredSource, ...]
    untitled: int


def kept_for_readers(store: Source, collection: str) -> garbage.RetainedSpace | None:
    """What stays on the disk though the newest generation does not need it; None where nothing does, or where the
    engine has no generations. Raises what `Store.open` raises."""
    if not isinstance(store, Store):
        return None
    return garbage.kept_for_readers(store.path / collection, store.open(collection).manifest)


def take_inventory(store: Source, collection: str) -> Inventory:
    """Raises what `Store.open` raises, and Unsupported where there are no local segments."""
    local = local_store(store)
    snapshot = local.open(collection)
    named = {view.segment.id for view in snapshot.segments}
    sizes = Counter[str]()
    for path, size in _files(local.path / collection):
        sizes[_kind(path.relative_to(local.path / collection), named)] += size
    counts, untitled = _count_documents(snapshot)
    roots = snapshot.manifest.source_roots
    sources = (StoredSource(name, roots.get(name or ""), count) for name, count in counts.most_common())
    empty = (StoredSource(name, root, 0) for name, root in sorted(roots.items()) if name not in counts)
    return Inventory(dict(sizes.most_common()), (*sources, *empty), untitled)


def leftovers(store: Source) -> list[Path]:
    """Temporary files and folders, which a running writer uses or a killed one left, and folders of interrupted
    restores and drops. StorageFailed."""
    path = local_store(store).path
    found = [
        temporary
        for pattern in ("*/.*.tmp", f"*/{SEGMENTS}/.*.tmp", f"*/{SEGMENTS}/*/.*.tmp", "*/*/.*.tmp", ".*.tmp")
        for temporary in path.glob(pattern)
        if not temporary.parent.name.startswith(".")
    ]
    return sorted(set(found))


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Files with their sizes. A file that is removed meanwhile is left out."""
    for path in folder.rglob("*"):
        with suppress(OSError):
            if path.is_file():
                yield path, path.stat().st_size


def _kind(path: Path, named: set[str]) -> str:
    """What a file is for, by its path in the collection."""
    if any(part.startswith(".") and part.endswith(".tmp") for part in path.parts):
        return TEMPORARY
    if path.parts[0] != SEGMENTS:
        return _FOLDERS.get(path.parts[0], "other")
    if len(path.parts) < 3 or path.parts[1] not in named:
        return OLDER
    words = path.name.removesuffix(".arrow").split(".")
    return next((kind for kind in _SPACE_KINDS if kind in words[1:]), words[0])


def _count_documents(snapshot: Snapshot) -> tuple[Counter[str | None], int]:
    """Live documents by source, and how many have no title."""
    counts, untitled = Counter[str | None](), 0
    for view in snapshot.segments:
        sources, titles = (view.segment.documents.chunked(name) for name in ("source", "title"))
        if view.deleted is not None:
            live = pa.array(np.logical_not(view.deleted))
            sources, titles = sources.filter(live), titles.filter(live)
        for entry in kernels.value_counts(sources).to_pylist():
            counts[entry["values"] or None] += entry["counts"]
        is_empty = kernels.equal(kernels.fill_null(kernels.utf8_trim_whitespace(titles), ""), "")
        untitled += kernels.sum(is_empty).as_py() or 0
    return counts, untitled
