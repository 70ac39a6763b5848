"""The change feed: a client that follows it from empty ends with the chunks of a collection and their hashes.

First it is given all live chunks, page by page, each from the generation that is then the newest, in the order of the
hashes of their ids; afterwards the lists of changes since that began, oldest first. What changes meanwhile may come
twice, and what comes last is right. So no generation is kept for anybody, and a page costs what it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.arrow import FileEntry, FileProblem, check, open_file
from aidre.engine.changes import PREVIOUS, list_numbers, list_path
from aidre.engine.errors import HistoryMissing
from aidre.engine.manifest import ChangesEntry, Manifest
from aidre.engine.parts import Part
from aidre.engine.segment import Segment, StoredChunk

LISTS_A_PAGE = 256
_CHECKED_EACH_TIME = 1 << 20
Row = tuple[str, str, bytes]


class Point(NamedTuple):
    """A list of changes, told from another of the same number by its mark."""

    generation: int
    mark: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client stands: it has all that happened up to the list at `point`, with `row` only so many rows of it.

    With `listed` it is still being given all chunks, and has those whose id hashes to at most that; the list is then
    the newest one of when it began, and `seen` the newest one that any page reflects. A generation that was visible
    for a moment and never became durable must not leave chunks behind: the history has to lead through `seen` too.
    """

    point: Point
    row: int | None = None
    listed: int | None = None
    seen: Point | None = None


class Change(NamedTuple):
    """What happened to a chunk. `chunk` is the chunk where it still has this content, else None."""

    op: str
    id: str
    content_hash: bytes
    chunk: StoredChunk | None


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """`more` says that there is more already; otherwise the client has everything up to `place`."""

    changes: list[Change]
    place: Place
    more: bool


def read_changes(
    folder: Path, manifest: Manifest, parts: Sequence[Part], place: Place | None, limit: int
) -> ChangesPage:
    """The page behind `place`, from the beginning where that is None. HistoryMissing.

    It may hold fewer than `limit` changes though there are more.
    """
    if place is None or place.listed is not None:
        return _listed(folder, manifest.changes, parts, place, limit)
    rows, reached, more = _since(folder, manifest.changes, place, limit)
    chunks = _chunks(parts, [row[1].encode() for row in rows])
    changes = [
        Change(op, id_, digest, chunk if op != "delete" and chunk and chunk.digest == digest else None)
        for (op, id_, digest), chunk in zip(rows, chunks, strict=True)
    ]
    return ChangesPage(changes, reached, more)


# -- all chunks ------------------------------------------------------------------------------------------------


def _listed(folder: Path, newest: ChangesEntry, parts: Sequence[Part], place: Place | None, limit: int) -> ChangesPage:
    now = Point(newest.generation, newest.mark)
    began = now if place is None else place.point
    for point in {began, now if place is None else place.seen or began}:
        next(_chain(folder, newest, Place(point)), None)  # a listing whose changes are gone would end in vain
    chunks, last = _following(parts, None if place is None else place.listed, limit)
    changes = [Change("add", chunk.id, chunk.digest, chunk) for chunk in chunks]
    reached = Place(began, listed=last, seen=now if now != began else None)
    return ChangesPage(changes, reached, last is not None or began != now)


def _following(parts: Sequence[Part], after: int | None, limit: int) -> tuple[list[StoredChunk], int | None]:
    """Live chunks behind a hash, in order of hashes, and the hash of the last one, None where no more follow.

    Ids of one hash stay on one page, which grows for them beyond `limit` where it must.
    """
    found = [part.segment.ids.chunks.following(after, limit + 1, part.live.mask) for part in parts]
    hashes = np.concatenate([np.empty(0, np.uint64), *(pair[0] for pair in found)])
    rows = np.concatenate([np.empty(0, np.uint32), *(pair[1] for pair in found)])
    owners = np.repeat(np.arange(len(parts)), [len(pair[0]) for pair in found])
    order = np.argsort(hashes, kind="stable")
    last: int | None = None
    if len(order) > limit:
        ordered = hashes[order]
        cut = limit if ordered[limit] != ordered[limit - 1] else int(np.searchsorted(ordered, ordered[limit]))
        if cut == 0:
            return _following(parts, after, 2 * limit)
        order, last = order[:cut], int(ordered[cut - 1])
    places = zip(owners[order].tolist(), rows[order].tolist(), strict=True)
    return [StoredChunk(parts[part].segment, row) for part, row in places], last


# -- the lists -------------------------------------------------------------------------------------------------


def _since(folder: Path, newest: ChangesEntry, place: Place, limit: int) -> tuple[list[Row], Place, bool]:
    rows: list[Row] = []
    for number, entry in enumerate(_chain(folder, newest, place), 1):
        first = place.row or 0 if entry.generation == place.point.generation else 0
        taken, count = _rows(folder, entry, first, limit - len(rows))
        rows += taken
        reached = Place(Point(entry.generation, entry.mark), seen=place.seen)
        if first + len(taken) < count:
            return rows, replace(reached, row=first + len(taken)), True
        if len(rows) == limit or number == LISTS_A_PAGE:
            return rows, reached, entry is not newest
    return rows, Place(Point(newest.generation, newest.mark)), False


def _chain(folder: Path, newest: ChangesEntry, place: Place) -> Iterator[ChangesEntry]:
    """The lists behind a place, oldest first, beginning with its own where only a part of that was read.

    HistoryMissing where the chain does not lead from the place to the newest list. What tells whether a list is sound
    stands in the one behind it, so a list is given when that was found.
    """
    points = sorted({place.point, place.seen or place.point})
    if points[0] != place.point:
        points = points[1:]  # a list that was read long ago
    reached = place.point.generation
    for number in list_numbers(folder, reached + 1, newest.generation):
        previous = previous_list(list_path(folder, number))
        if previous is None:
            continue  # a merge, which writes no list
        if previous.generation != reached:
            raise _gone()
        _pass(points, previous)
        if reached > place.point.generation or place.row is not None:
            yield previous
        reached = number
    if reached != newest.generation:
        raise _gone()
    _pass(points, newest)
    if points:
        raise _gone()
    if reached > place.point.generation or place.row is not None:
        yield newest


def _pass(points: list[Point], entry: ChangesEntry) -> None:
    """Take the point away that a list is at; HistoryMissing where it passes one by."""
    if points and points[0].generation <= entry.generation and points.pop(0) != (entry.generation, entry.mark):
        raise _gone()


def previous_list(path: Path) -> ChangesEntry | None:
    """What a list says of the one before it; None where there is no list. Nothing has vouched for the file yet, but
    a wrong answer cannot pass: the file that it describes would not be as described."""
    try:
        with pa.memory_map(str(path)) as source:
            metadata = pa.ipc.open_file(source).schema.metadata
        return ChangesEntry.from_json(orjson.loads(metadata[PREVIOUS]))
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise _gone() from error


def _rows(folder: Path, entry: ChangesEntry, first: int, count: int) -> tuple[list[Row], int]:
    """Some rows of a list, and how many it has."""
    path, file = list_path(folder, entry.generation), entry.file
    if file is None:
        raise _gone()
    try:
        if file.size > _CHECKED_EACH_TIME:
            _check_once(path, file)
        opened = open_file(path, file, whole=file.size <= _CHECKED_EACH_TIME)
    except (FileProblem, OSError) as problem:
        raise _gone() from problem
    if first > opened.rows:
        raise _gone()
    taken = pa.Table.from_batches(opened.batches, opened.schema).slice(first, count)
    return list(zip(*(taken.column(name).to_pylist() for name in taken.column_names), strict=True)), opened.rows


@lru_cache(maxsize=64)
def _check_once(path: Path, file: FileEntry) -> None:
    """A long list is read in many pages, and to check it takes longer than to read one."""
    check(path, file, whole=True)


def _gone() -> HistoryMissing:
    return HistoryMissing("the changes since then are no longer kept: begin again from all chunks")


# -- the chunks as they are --------------------------------------------------------------------------------------


def _chunks(parts: Sequence[Part], ids: Sequence[bytes]) -> list[StoredChunk | None]:
    """The live chunks of these ids (UTF-8)."""
    found: list[StoredChunk | None] = [None] * len(ids)
    for part in parts:
        rows, live = _rows_in(part.segment, ids), part.live.mask
        for number in np.flatnonzero(rows >= 0).tolist():
            if live is None or live[rows[number]]:
                found[number] = StoredChunk(part.segment, int(rows[number]))
    return found


def _rows_in(segment: Segment, ids: Sequence[bytes]) -> NDArray[np.int64]:
    stored = segment.chunks.bytes("id")
    return segment.ids.chunks.find_all(ids, lambda number, row: stored[row] == ids[number])
