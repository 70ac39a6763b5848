"""The kept generations of a collection, and roll-back to one of them.

A roll-back publishes a new generation with the content of an old one, so readers move forward as after any commit, and
the change feed lists the differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.collection import Generations, Snapshot, Store, local_store
from aidre.engine.errors import AidreError, CollectionMissing, GenerationMissing, InvalidInput, StoreDamaged
from aidre.engine.ports import Source
from aidre.engine.segment import SegmentView
from aidre.engine.storage import (
    MANIFESTS,
    MAX_KEPT_GENERATIONS,
    MIN_KEPT_GENERATIONS,
    Manifest,
    WriterLock,
    changelog,
    durable,
    manifest_numbers,
    now,
    read_manifest,
)

_FINGERPRINT = np.dtype([("id", np.uint64), ("etag", np.uint64)])


@dataclass(frozen=True, slots=True)
class KeptGeneration:
    """A generation that can be rolled back to, or the `current` one."""

    generation: int
    created_at: str
    documents: int
    chunks: int
    current: bool


def list_generations(store: Source, collection: str) -> list[KeptGeneration]:
    """The generations on disk, newest first, without those whose manifest is damaged. Raises CollectionMissing."""
    store = local_store(store)
    if store.is_dropped(collection):
        raise CollectionMissing(f"collection {collection!r} was dropped: it has no generations", collection=collection)
    folder = store.path / collection / MANIFESTS
    numbers = manifest_numbers(folder.parent)[::-1]
    try:
        current = store.current(collection)
    except StoreDamaged:  # without CURRENT any of them may have been acknowledged
        current = numbers[0] + 1 if numbers else 0
    generations = []
    for number in (number for number in numbers if number <= current):
        with suppress(AidreError, FileNotFoundError):  # a writer may remove it at any moment
            manifest = read_manifest(folder, number, collection)
            generations.append(
                KeptGeneration(
                    number, manifest.created_at, manifest.documents, manifest.chunks, current=number == current
                )
            )
    return generations


def roll_back(store: Source, collection: str, generation: int) -> int:
    """Publish the content of an older generation again; returns the number of the new generation.

    Raises GenerationMissing if it is no longer kept, StoreDamaged if it cannot be opened, InvalidInput for the newest
    one, and StoreLocked. A collection that became private since stays private. It works also if the newest generation
    is damaged.
    """
    store = local_store(store)
    try:
        with store.writer(collection, spaces=None) as writer:
            generations = writer.generations
            if generation == generations.manifest.generation:
                raise InvalidInput(f"generation {generation} of collection {collection!r} is the newest one already")
            _check_kept(store, collection, generation)
            return _publish(generations, store.open(collection, generation=generation, previous=writer.snapshot))
    except StoreDamaged:
        return _roll_back_past_damage(store, collection, generation)


def keep_generations(store: Source, collection: str, count: int, *, wait: float = 0.0) -> int:
    """Keep `count` generations from now on; returns the number of the newest generation, whose manifest records it.

    Raises InvalidInput for a number out of range, CollectionMissing and StoreLocked.
    """
    store = local_store(store)
    if not MIN_KEPT_GENERATIONS <= count <= MAX_KEPT_GENERATIONS:
        raise InvalidInput(
            f"from {MIN_KEPT_GENERATIONS} to {MAX_KEPT_GENERATIONS:,} generations can be kept, not {count}"
        )
    if store.open(collection).manifest.keep == count:
        return store.current(collection)
    with store.writer(collection, spaces=None, wait=wait) as writer:
        generations = writer.generations
        generations.publish(replace(generations.manifest, keep=count))
        return generations.manifest.generation


def _check_kept(store: Store, collection: str, generation: int) -> None:
    numbers = [old.generation for old in list_generations(store, collection) if not old.current]
    if generation not in numbers:
        available = ", ".join(map(str, numbers)) or "none"
        raise GenerationMissing(
            f"collection {collection!r} has no generation {generation} to go back to; kept are: {available}",
            collection=collection,
            generation=generation,
        )


def _roll_back_past_damage(store: Store, collection: str, generation: int) -> int:
    """Roll back past a damaged generation. The difference is unknown, so the change feed restarts. The collection stays
    private if any readable manifest since then made it private."""
    store.check_writable()
    folder = store.path / collection
    with WriterLock(folder, collection), durable.write_errors(folder):
        _check_kept(store, collection, generation)
        target = read_manifest(folder / MANIFESTS, generation, collection)
        numbers = manifest_numbers(folder)
        for number in (number for number in numbers if number > generation):
            with suppress(AidreError):
                if read_manifest(folder / MANIFESTS, number, collection).visibility == "private":
                    target = replace(target, visibility="private")
        newest = numbers[-1]
        with suppress(StoreDamaged):
            newest = max(newest, store.current(collection))
        snapshot = Snapshot(folder, target)
        generations = Generations(folder, replace(target, generation=newest), snapshot)
        manifest = changelog.restart_history(replace(target, updated_at=now()), generations.next_generation)
        generations.publish(_with_spaces(manifest))
        return generations.manifest.generation


def _publish(generations: Generations, wanted: Snapshot) -> int:
    newest = generations.manifest
    private = "private" in (newest.visibility, wanted.manifest.visibility)
    manifest = replace(
        wanted.manifest,
        lineage=newest.lineage,
        updated_at=now(),
        visibility="private" if private else "public",
        changes=newest.changes,
        keep=newest.keep,
    )
    listed = _differences(generations.segments, wanted.segments)
    manifest = changelog.write_changes(generations.folder, manifest, generations.next_generation, listed)
    generations.publish(_with_spaces(manifest))
    return generations.manifest.generation


def _with_spaces(manifest: Manifest) -> Manifest:
    """The manifest without the spaces that were building then, and without their files: a backfill begins again."""
    live = tuple(state for state in manifest.spaces if state.state == "live")
    return replace(manifest, spaces=live, segments=tuple(map(manifest.without_unfinished_spaces, manifest.segments)))


def _differences(before: Sequence[SegmentView], after: Sequence[SegmentView]) -> pa.RecordBatch:
    """The changes that turn the chunks of `before` into those of `after`.

    Segments with the same tombstones in both are skipped. Of the others only chunks whose id or etag differ become
    objects, since a merge in between rewrites every row and changes none.
    """
    removed = [view for view in before if not any(_is_same(view, other) for other in after)]
    added = [view for view in after if not any(_is_same(view, other) for other in before)]
    old, new = _fingerprints(removed), _fingerprints(added)
    return changelog.diff_states(_states(added, ~np.isin(new, old)), dict(_states(removed, ~np.isin(old, new))))


def _is_same(view: SegmentView, other: SegmentView) -> bool:
    if view.segment.id != other.segment.id:
        return False
    if view.deleted is None or other.deleted is None:
        return view.deleted is other.deleted
    return np.array_equal(view.deleted, other.deleted)


def _fingerprints(views: Sequence[SegmentView]) -> NDArray[np.void]:
    """Hash of the id, and etag, of every live chunk, segment by segment in row order."""
    return np.concatenate([np.empty(0, _FINGERPRINT), *map(_fingerprints_of, views)])


def _fingerprints_of(view: SegmentView) -> NDArray[np.void]:
    fingerprints = np.empty(view.segment.entry.chunks, _FINGERPRINT)
    fingerprints["id"] = view.segment.ids.chunks.by_row()
    etags = view.segment.chunks.chunked("etag").chunks
    fingerprints["etag"] = np.concatenate([np.frombuffer(etag.buffers()[1], np.uint64)[: len(etag)] for etag in etags])
    return fingerprints[view.live.rows()]


def _states(views: Sequence[SegmentView], selected: NDArray[np.bool_]) -> Iterator[tuple[str, changelog.ChunkState]]:
    """Id and state of the selected ones among all live chunks of the segments."""
    first = 0
    for view in views:
        rows = view.live.rows()
        chunks = view.segment.chunks
        for row in rows[selected[first : first + len(rows)]].tolist():
            state = changelog.ChunkState(chunks.fixed("content_hash")[row], chunks.fixed("etag")[row])
            yield chunks.bytes("id")[row].decode(), state
        first += len(rows)
