"""The generations of a collection that are kept, and the way back to one of them.

Nothing is undone: a roll-back makes a new generation with the content of an old one, so readers move forward as after
any commit, and the change feed is told what became different.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine import changes, durable
from aidre.engine.errors import AidreError, GenerationMissing, InvalidInput, StoreDamaged
from aidre.engine.generations import Generations
from aidre.engine.lock import WriterLock
from aidre.engine.manifest import FEWEST_KEPT, MOST_KEPT, Manifest, now, read_manifest
from aidre.engine.parts import Part
from aidre.engine.schema import MANIFESTS
from aidre.engine.snapshot import Snapshot
from aidre.engine.store import Store

_NAMED = np.dtype([("id", np.uint64), ("etag", np.uint64)])


@dataclass(frozen=True, slots=True)
class Kept:
    """A generation that can be gone back to, or the one that is `current`."""

    generation: int
    created_at: str
    documents: int
    chunks: int
    current: bool


def kept(store: Store, collection: str) -> list[Kept]:
    """The generations on the disk, newest first; one whose manifest is damaged is left out. CollectionMissing."""
    folder = store.path / collection / MANIFESTS
    numbers = _numbers(folder)
    try:
        current = store.current(collection)
    except StoreDamaged:  # all of them were acknowledged, or could have been
        current = numbers[0] + 1 if numbers else 0
    found = []
    for number in (number for number in numbers if number <= current):
        with suppress(AidreError, FileNotFoundError):  # a writer may sweep it in this moment
            manifest = read_manifest(folder, number, collection)
            found.append(
                Kept(number, manifest.created_at, manifest.documents, manifest.chunks, current=number == current)
            )
    return found


def roll_back(store: Store, collection: str, generation: int) -> int:
    """Make the content of an older generation the newest one; the number of the generation that has it now.

    GenerationMissing where it is not kept any more, StoreDamaged where it cannot be opened, InvalidInput for the
    newest itself, StoreLocked. A collection that was made private since stays private. Where the newest one is damaged
    this is the way past it.
    """
    try:
        with store.writer(collection, spaces=None) as writer:
            generations = writer.generations
            if generation == generations.manifest.generation:
                raise InvalidInput(f"generation {generation} of collection {collection!r} is the newest one already")
            _check_kept(store, collection, generation)
            return _publish(generations, store.open(collection, generation=generation, previous=writer.snapshot))
    except StoreDamaged:
        return _pass_damage(store, collection, generation)


def keep_generations(store: Store, collection: str, count: int) -> int:
    """From now on keep so many of the newest generations; the number of the newest one, which says so.

    InvalidInput for fewer than two, CollectionMissing, StoreLocked.
    """
    if not FEWEST_KEPT <= count <= MOST_KEPT:
        raise InvalidInput(f"from {FEWEST_KEPT} to {MOST_KEPT:,} generations can be kept, not {count}")
    if store.open(collection).manifest.keep == count:
        return store.current(collection)
    with store.writer(collection, spaces=None) as writer:
        generations = writer.generations
        generations.publish(replace(generations.manifest, keep=count))
        return generations.manifest.generation


def _check_kept(store: Store, collection: str, generation: int) -> None:
    numbers = [old.generation for old in kept(store, collection) if not old.current]
    if generation not in numbers:
        known = ", ".join(map(str, numbers)) or "none"
        raise GenerationMissing(
            f"collection {collection!r} has no generation {generation} to go back to; kept are: {known}",
            collection=collection,
            generation=generation,
        )


def _pass_damage(store: Store, collection: str, generation: int) -> int:
    """Make an older generation the newest one where that cannot be opened. How the two differ cannot be told, so the
    history begins anew; of what came since, what can be read says whether the collection was made private."""
    folder = store.path / collection
    with WriterLock(folder, collection), durable.storage_errors(folder):
        _check_kept(store, collection, generation)
        wanted = read_manifest(folder / MANIFESTS, generation, collection)
        numbers = _numbers(folder / MANIFESTS)
        for number in (number for number in numbers if number > generation):
            with suppress(AidreError):
                if read_manifest(folder / MANIFESTS, number, collection).visibility == "private":
                    wanted = replace(wanted, visibility="private")
        newest = numbers[0]
        with suppress(StoreDamaged):
            newest = max(newest, store.current(collection))
        snapshot = Snapshot(folder, wanted)
        generations = Generations(folder, replace(wanted, generation=newest), snapshot)
        manifest = changes.without_history(replace(wanted, updated_at=now()), generations.next)
        generations.publish(_with_spaces(manifest))
        return generations.manifest.generation


def _numbers(manifests: Path) -> list[int]:
    """Of the generations whose manifests are there, newest first."""
    return sorted((int(path.stem) for path in manifests.glob("*.json") if path.stem.isdecimal()), reverse=True)


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
    listed = _differences(generations.parts, wanted.parts)
    manifest = changes.with_changes(generations.folder, manifest, generations.next, listed)
    generations.publish(_with_spaces(manifest))
    return generations.manifest.generation


def _with_spaces(manifest: Manifest) -> Manifest:
    """Without the spaces that were being filled then: what they had so far was removed when they were complete."""
    live = tuple(state for state in manifest.spaces if state.state == "live")
    return replace(manifest, spaces=live, segments=tuple(map(manifest.searched, manifest.segments)))


def _differences(before: Sequence[Part], after: Sequence[Part]) -> pa.RecordBatch:
    """What a client that has the chunks of `before` must be told to have those of `after`.

    Segments that both have with the same deleted rows are not looked at. Of the others only chunks whose id or etag
    differ become objects: a merge in between rewrites every row and changes none.
    """
    gone = [part for part in before if not any(_is_same(part, other) for other in after)]
    come = [part for part in after if not any(_is_same(part, other) for other in before)]
    old, new = _names(gone), _names(come)
    return changes.batch_of(_states(come, ~np.isin(new, old)), dict(_states(gone, ~np.isin(old, new))))


def _is_same(one: Part, other: Part) -> bool:
    if one.segment.id != other.segment.id:
        return False
    if one.deleted is None or other.deleted is None:
        return one.deleted is other.deleted
    return np.array_equal(one.deleted, other.deleted)


def _names(parts: Sequence[Part]) -> NDArray[np.void]:
    """Hash of the id and etag of every live chunk, part by part, in the order of `_live`."""
    return np.concatenate([np.empty(0, _NAMED), *map(_names_of, parts)])


def _names_of(part: Part) -> NDArray[np.void]:
    names = np.empty(part.segment.entry.chunks, _NAMED)
    names["id"] = part.segment.ids.chunks.by_row()
    etags = part.segment.chunks.chunked("etag").chunks
    names["etag"] = np.concatenate([np.frombuffer(etag.buffers()[1], np.uint64)[: len(etag)] for etag in etags])
    return names[_live(part)]


def _live(part: Part) -> NDArray[np.int64]:
    return part.live.rows()


def _states(parts: Sequence[Part], chosen: NDArray[np.bool_]) -> Iterator[tuple[str, changes.State]]:
    """Id and state of the chosen ones of all live chunks of the parts."""
    first = 0
    for part in parts:
        rows = _live(part)
        chunks = part.segment.chunks
        for row in rows[chosen[first : first + len(rows)]].tolist():
            state = changes.State(chunks.fixed("content_hash")[row], chunks.fixed("etag")[row])
            yield chunks.bytes("id")[row].decode(), state
        first += len(rows)
