"""The change feed: a client that follows it from the start has the chunks of a collection and their hashes.

A feed has two phases. First the listing: all live chunks, page by page, ordered by the hash of their id, each page
from the generation that is then the newest. Then the changelogs written since the listing began, oldest first. A change
during the listing may be delivered twice, and the later delivery is right. So no generation is kept for a client, and
the cost of a page depends on its size alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.errors import HistoryMissing
from aidre.engine.segment import SegmentReader, SegmentView, StoredChunk
from aidre.engine.storage import (
    ChangesEntry,
    FileEntry,
    FileProblem,
    Manifest,
    changelog,
    check_arrived,
    check_bytes,
    open_bytes,
)
from aidre.engine.types import Change, ChangeCursor, ChangelogId, ChangesPage

MAX_CHANGELOGS_A_PAGE = 256
"""A page ends after this many changelogs, however few changes they hold."""
_CHECKED_EACH_TIME_BYTES = 1 << 20
"""A larger changelog is verified once, not for every page that is read from it."""
ChangeRow = tuple[str, str, bytes]
"""op ("add", "change" or "delete"), chunk id, content hash."""


def read_changes(
    folder: Path, manifest: Manifest, segments: Sequence[SegmentView], cursor: ChangeCursor | None, limit: int
) -> ChangesPage:
    """The page after `cursor`, the first page where that is None. HistoryMissing.

    A page may hold fewer than `limit` changes although more follow.
    """
    if cursor is None or cursor.listed_hash is not None:
        return _list_chunks(folder, manifest.changes, segments, cursor, limit)
    rows, reached, more = _read_changelogs(folder, manifest.changes, cursor, limit)
    chunks = _find_chunks(segments, [row[1].encode() for row in rows])
    changes = [
        Change(op, id_, digest, chunk if op != "delete" and chunk and chunk.digest == digest else None)
        for (op, id_, digest), chunk in zip(rows, chunks, strict=True)
    ]
    return ChangesPage(changes, reached, more)


# -- the listing -------------------------------------------------------------------------------------------------


def _list_chunks(
    folder: Path, newest: ChangesEntry, segments: Sequence[SegmentView], cursor: ChangeCursor | None, limit: int
) -> ChangesPage:
    now = ChangelogId(newest.generation, newest.mark)
    began = now if cursor is None else cursor.changelog
    for passed in {began, now if cursor is None else cursor.newest_seen or began}:
        next(_chain(folder, newest, ChangeCursor(passed)), None)  # fail now, not when the listing is complete
    chunks, last_hash = _chunks_after(segments, None if cursor is None else cursor.listed_hash, limit)
    changes = [Change("add", chunk.id, chunk.digest, chunk) for chunk in chunks]
    reached = ChangeCursor(began, listed_hash=last_hash, newest_seen=now if now != began else None)
    return ChangesPage(changes, reached, last_hash is not None or began != now)


def _chunks_after(
    segments: Sequence[SegmentView], after: int | None, limit: int
) -> tuple[list[StoredChunk], int | None]:
    """Live chunks after a hash, ordered by hash, and the hash of the last one, None where no more follow.

    Ids of equal hash stay on one page, which exceeds `limit` where it must.
    """
    found = [view.segment.ids.chunks.hashes_after(after, limit + 1, view.live.mask) for view in segments]
    hashes = np.concatenate([np.empty(0, np.uint64), *(pair[0] for pair in found)])
    rows = np.concatenate([np.empty(0, np.uint32), *(pair[1] for pair in found)])
    segment_ords = np.repeat(np.arange(len(segments)), [len(pair[0]) for pair in found])
    order = np.argsort(hashes, kind="stable")
    last_hash: int | None = None
    if len(order) > limit:
        ordered = hashes[order]
        cut = limit if ordered[limit] != ordered[limit - 1] else int(np.searchsorted(ordered, ordered[limit]))
        if cut == 0:
            return _chunks_after(segments, after, 2 * limit)
        order, last_hash = order[:cut], int(ordered[cut - 1])
    locations = zip(segment_ords[order].tolist(), rows[order].tolist(), strict=True)
    return [StoredChunk(segments[segment_ord].segment, row) for segment_ord, row in locations], last_hash


# -- the changelogs ----------------------------------------------------------------------------------------------


def _read_changelogs(
    folder: Path, newest: ChangesEntry, cursor: ChangeCursor, limit: int
) -> tuple[list[ChangeRow], ChangeCursor, bool]:
    """Up to `limit` rows after the cursor, the cursor after them, and whether more follow."""
    rows: list[ChangeRow] = []
    for number, entry in enumerate(_chain(folder, newest, cursor), 1):
        first = cursor.row or 0 if entry.generation == cursor.changelog.generation else 0
        read, total = _read_rows(folder, entry, first, limit - len(rows))
        rows += read
        reached = ChangeCursor(ChangelogId(entry.generation, entry.mark), newest_seen=cursor.newest_seen)
        if first + len(read) < total:
            return rows, replace(reached, row=first + len(read)), True
        if len(rows) == limit or number == MAX_CHANGELOGS_A_PAGE:
            return rows, reached, entry is not newest
    return rows, ChangeCursor(ChangelogId(newest.generation, newest.mark)), False


def _chain(folder: Path, newest: ChangesEntry, cursor: ChangeCursor) -> Iterator[ChangesEntry]:
    """The changelogs after a cursor, oldest first, beginning with its own where it has read only a part of that.

    HistoryMissing where the chain does not lead from the cursor to the newest changelog. The entry that verifies a
    changelog is stored in its successor, so each is yielded when the successor was read.
    """
    required = sorted({cursor.changelog, cursor.newest_seen or cursor.changelog})
    if required[0] != cursor.changelog:
        required = required[1:]  # `newest_seen` is behind the cursor by now
    reached = cursor.changelog.generation
    for number in changelog.changelog_numbers(folder, reached + 1, newest.generation):
        previous = read_previous(folder, number)
        if previous is None:
            continue  # a generation without changelog, such as a merge
        if previous.generation != reached:
            raise _history_missing()
        _pass_required(required, previous)
        if reached > cursor.changelog.generation or cursor.row is not None:
            yield previous
        reached = number
    if reached != newest.generation:
        raise _history_missing()
    _pass_required(required, newest)
    if required:
        raise _history_missing()
    if reached > cursor.changelog.generation or cursor.row is not None:
        yield newest


def continues_history(folder: Path, newest: ChangesEntry, since: ChangesEntry) -> bool:
    """Whether the chain of changelogs leads from `since` to the newest one: nothing was purged in between."""
    try:
        for _ in _chain(folder, newest, ChangeCursor(ChangelogId(since.generation, since.mark))):
            pass
    except HistoryMissing:
        return False
    return True


def diverges(folder: Path, newest: ChangesEntry, since: ChangesEntry) -> bool:
    """Whether the chain of changelogs leads from the newest one past `since`, to an older one: there was another
    history since then. False where nothing older is kept, as after a purge."""
    entry: ChangesEntry | None = newest
    with suppress(HistoryMissing):
        while entry is not None:
            if entry.generation <= since.generation:
                return (entry.generation, entry.mark) != (since.generation, since.mark)
            entry = read_previous(folder, entry.generation) if entry.file is not None else None
    return False


def _pass_required(required: list[ChangelogId], entry: ChangesEntry) -> None:
    """Remove the first required changelog if the entry is it; HistoryMissing if the chain has missed it."""
    is_due = required and required[0].generation <= entry.generation
    if is_due and required.pop(0) != (entry.generation, entry.mark):
        raise _history_missing()


def read_previous(folder: Path, generation: int) -> ChangesEntry | None:
    """The entry of the previous changelog that a changelog holds; None where there is none. HistoryMissing.

    The file itself is not verified yet. A wrong entry cannot pass: the file that it describes would fail its check.
    """
    try:
        data = changelog.read_changelog(folder, generation)
        if data is None:
            return None
        metadata = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(data))).schema.metadata
        return msgspec.json.decode(metadata[changelog.PREVIOUS_KEY], type=ChangesEntry)
    except (FileProblem, OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise _history_missing() from error


def _read_rows(folder: Path, entry: ChangesEntry, first: int, count: int) -> tuple[list[ChangeRow], int]:
    """Up to `count` rows of a changelog from row `first` on, and how many rows it has."""
    file = entry.file
    if file is None:
        raise _history_missing()
    try:
        data = changelog.read_changelog(folder, entry.generation)
        if data is None:
            raise _history_missing()
        if file.size > _CHECKED_EACH_TIME_BYTES:
            _check_once(changelog.changelog_path(folder, entry.generation), file)
        is_checked_each_time = file.size <= _CHECKED_EACH_TIME_BYTES
        check_bytes(data, file, whole=is_checked_each_time)
        opened = open_bytes(data, whole=is_checked_each_time)
    except (FileProblem, OSError) as problem:
        raise _history_missing() from problem
    if first > opened.rows:
        raise _history_missing()
    table = pa.Table.from_batches(opened.batches, opened.schema).slice(first, count)
    return list(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)), opened.rows


@lru_cache(maxsize=64)
def _check_once(path: Path, file: FileEntry) -> None:
    """Verify a large changelog, which is read in many pages: verifying takes longer than reading a page."""
    check_arrived(path, file)


def _history_missing() -> HistoryMissing:
    return HistoryMissing("the changes since then are no longer kept: begin again from all chunks")


# -- the current chunks ------------------------------------------------------------------------------------------


def _find_chunks(segments: Sequence[SegmentView], ids: Sequence[bytes]) -> list[StoredChunk | None]:
    """The live chunks with these ids (UTF-8), None where there is none."""
    chunks: list[StoredChunk | None] = [None] * len(ids)
    for view in segments:
        rows, live = _find_rows(view.segment, ids), view.live.mask
        for number in np.flatnonzero(rows >= 0).tolist():
            if live is None or live[rows[number]]:
                chunks[number] = StoredChunk(view.segment, int(rows[number]))
    return chunks


def _find_rows(segment: SegmentReader, ids: Sequence[bytes]) -> NDArray[np.int64]:
    stored_ids = segment.chunks.bytes("id")
    return segment.ids.chunks.find_all(ids, lambda number, row: stored_ids[row] == ids[number])
