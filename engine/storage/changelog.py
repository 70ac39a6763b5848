"""The changelogs of a collection: what each commit did to each chunk, one Arrow file a commit. A merge, or a
commit that changes no chunk, writes none.

Each changelog names the one before it in the metadata of its schema, with size and checksum, and the manifest names the
newest. Only changelogs on this chain count: an interrupted commit may leave a file that no generation names.

The number of files stays small: older changelogs, byte for byte as they were, are the values of a pack, an Arrow file
that is made of several of them and later of several packs.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.storage import durable
from aidre.engine.storage.arrow import FileMissing, FileProblem, kernels, map_file, open_bytes, write_file
from aidre.engine.storage.format import BATCH_ROWS, CHANGES, CHANGES_SCHEMA, CHUNKS_SCHEMA
from aidre.engine.storage.manifest import ChangesEntry, Manifest

PROMISED_SECONDS = 30 * 24 * 3600
"""For at least this long a client that has read the newest changelog can continue from it, unless the history was
restarted."""
KEEP_SECONDS = PROMISED_SECONDS + 24 * 3600
"""One day longer, so that a client can finish the changelog it is reading."""
PREVIOUS_KEY = b"previous"
"""Key of the schema metadata that holds the ChangesEntry of the previous changelog, as JSON."""
PACKED = 64
"""So many changelogs go into a pack; as many younger ones stay files of their own."""
PACKS_MERGED = 8
"""So many packs of about one size become one."""
MAX_PACKED_BYTES = 1 << 18
"""A larger changelog stays a file of its own."""
MAX_PACK_BYTES = 1 << 26
"""A pack of at least this size is not merged any more."""
PACK_SCHEMA = pa.schema([("generation", pa.int64()), ("changelog", pa.large_binary())])
_PACK_NAME = re.compile(r"(\d{6,18})-(\d{6,18})\.arrow")
_MAX_READ_ATTEMPTS = 3
_MAX_PROBED_GENERATIONS = 1_000
"""Up to this many generations are probed file by file, which takes less time than listing the folder."""

CHUNK_STATE_SCHEMA = pa.schema([CHUNKS_SCHEMA.field(name) for name in ("id", "content_hash", "etag")])


class ChunkState(NamedTuple):
    """Distinguishes two versions of a chunk. `etag` covers everything that answers return of it."""

    content_hash: bytes
    etag: bytes


def changelog_path(folder: Path, generation: int) -> Path:
    return folder / CHANGES / f"{generation:06d}.arrow"


# -- content -----------------------------------------------------------------------------------------------------


def diff_states(after: Iterable[tuple[str, ChunkState]], before: Mapping[str, ChunkState]) -> pa.Table:
    """A changelog (op, chunk_id, content_hash) from chunk states by id; chunks with an equal state are left out."""
    rows = [(chunk_id, *state) for chunk_id, state in after]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(column, field.type) for column, field in zip(columns, CHUNK_STATE_SCHEMA, strict=True)]
    return diff_table(pa.Table.from_arrays(arrays, schema=CHUNK_STATE_SCHEMA), before)


def diff_table(after: pa.Table, before: Mapping[str, ChunkState]) -> pa.Table:
    """The same from a table with the columns of CHUNK_STATE_SCHEMA. Rows that are new are not copied."""
    deleted = dict(before)
    ops: list[str | None] = ["add"] * after.num_rows
    existed = kernels.is_in(after.column("id"), pa.array(list(before), pa.large_string())) if before else None
    for row in [] if existed is None else np.flatnonzero(existed.to_numpy()).tolist():
        chunk_id, *state = (column[row].as_py() for column in after.columns)
        ops[row] = None if deleted.pop(chunk_id) == ChunkState(*state) else "change"
    written = pa.Table.from_arrays([pa.array(ops, pa.string()), *after.columns[:2]], schema=CHANGES_SCHEMA)
    if written.column("op").null_count:
        written = written.filter(kernels.is_valid(written.column("op")))
    rows = [["delete"] * len(deleted), list(deleted), [state.content_hash for state in deleted.values()]]
    arrays = [pa.array(column, field.type) for column, field in zip(rows, CHANGES_SCHEMA, strict=True)]
    return pa.concat_tables([written, pa.Table.from_arrays(arrays, schema=CHANGES_SCHEMA)])


# -- write and remove --------------------------------------------------------------------------------------------


def write_changes(folder: Path, manifest: Manifest, generation: int, changes: pa.Table) -> Manifest:
    """Write a changelog durably and return the manifest that names it. No changes, no file. StorageFailed."""
    previous = manifest.changes
    # A commit whose last sync failed may have left a changelog in between, which readers must not take for the chain.
    with durable.write_errors(folder / CHANGES):
        for number in changelog_numbers(folder, previous.generation + 1, generation - 1):
            changelog_path(folder, number).unlink(missing_ok=True)
    if not changes.num_rows:
        return manifest
    path = changelog_path(folder, generation)
    durable.make_folder(path.parent)
    schema = CHANGES_SCHEMA.with_metadata({PREVIOUS_KEY: orjson.dumps(previous)})
    rows = changes.combine_chunks() if changes.num_rows <= BATCH_ROWS else changes
    batches = rows.replace_schema_metadata(schema.metadata).to_batches(BATCH_ROWS)
    file = write_file(path, batches, schema)
    durable.finalize_file(path)
    return replace(manifest, changes=ChangesEntry(generation, file.checksum[:16], file))


def restart_history(manifest: Manifest, generation: int) -> Manifest:
    """The manifest with a history that begins at `generation`: clients of older changelogs have to start over."""
    return replace(manifest, changes=ChangesEntry(generation, secrets.token_hex(8)))


def remove_orphans(folder: Path, newest: ChangesEntry) -> None:
    """Remove the changelogs that an interrupted writer left after the newest one. Requires the writer's lock."""
    for number in [number for number in _stored_numbers(folder) if number > newest.generation]:
        changelog_path(folder, number).unlink(missing_ok=True)


class Retention:
    """Removes changelogs older than the retention period. Lists the folder once, so that later commits need not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers: deque[int] | None = None
        self._packs: list[tuple[Path, int]] = []

    def pack(self) -> None:
        """Pack old changelogs, and merge packs. Requires the writer's lock, and that `remove_old` was called."""
        if self._numbers is None or len(self._numbers) < 2 * PACKED:
            return
        pack_changelogs(self._folder, [self._numbers.popleft() for _ in range(PACKED)])
        merge_packs(self._folder)
        self._packs = _packs(self._folder)

    def remove_old(self, newest: ChangesEntry, keep_seconds: float = KEEP_SECONDS) -> None:
        """Remove old changelogs, never the newest one; where the history was restarted, all before it, of any age.

        Requires the writer's lock; call it after every generation.
        """
        if self._numbers is None:
            stored = (number for number in _stored_numbers(self._folder) if number <= newest.generation)
            self._numbers, self._packs = deque(sorted(stored)), _packs(self._folder)
        elif newest.file is not None and (not self._numbers or self._numbers[-1] < newest.generation):
            self._numbers.append(newest.generation)
        limit = time.time() - keep_seconds
        for path, last in self._packs:
            with suppress(FileNotFoundError):
                if last < newest.generation and (newest.file is None or path.stat().st_mtime < limit):
                    path.unlink()
        while self._numbers and self._numbers[0] < newest.generation:
            path = changelog_path(self._folder, self._numbers[0])
            with suppress(FileNotFoundError):
                if newest.file is not None and path.stat().st_mtime >= limit:
                    break  # the rest are younger
                path.unlink()
            self._numbers.popleft()


# -- list --------------------------------------------------------------------------------------------------------


def changelog_numbers(folder: Path, first: int, last: int) -> Sequence[int]:
    """A superset of the generations from `first` to `last` that have a changelog, in order."""
    if last - first < _MAX_PROBED_GENERATIONS:
        return range(first, last + 1)
    packed = (number for path, _ in _packs(folder) for number in _open_pack(path)[0].tolist())
    return sorted({number for number in (*_stored_numbers(folder), *packed) if first <= number <= last})


def read_changelog(folder: Path, generation: int) -> NDArray[np.uint8] | None:
    """The bytes of a changelog, mapped; None where there is none. FileProblem."""
    for _ in range(_MAX_READ_ATTEMPTS):
        with suppress(FileMissing):
            return map_file(changelog_path(folder, generation))
        try:
            for pack, last in _packs(folder):
                first = int(pack.name.partition("-")[0])
                if first <= generation <= last and (found := _find_packed(pack, generation)) is not None:
                    return found
        except FileMissing:
            continue  # merged with others meanwhile
        return None
    return None


# -- packs -------------------------------------------------------------------------------------------------------


def pack_changelogs(folder: Path, generations: Sequence[int]) -> None:
    """Move changelogs into a pack: readers find each in the one place or in the other. StorageFailed."""
    paths = [changelog_path(folder, number) for number in generations]
    small = [path for path in paths if path.exists() and path.stat().st_size <= MAX_PACKED_BYTES]
    if small:
        _write_pack(folder, [(int(path.stem), path.read_bytes()) for path in small], small)


def merge_packs(folder: Path) -> None:
    """Merge packs of about one size where there are enough of them, the oldest first. StorageFailed."""
    by_size: dict[int, list[Path]] = {}
    for path, _ in _packs(folder):
        size = path.stat().st_size
        if size < MAX_PACK_BYTES:
            by_size.setdefault(int(math.log(size, PACKS_MERGED)), []).append(path)
    for paths in by_size.values():
        if len(paths) >= PACKS_MERGED:
            opened = map(_open_pack, paths)
            rows = [pair for numbers, found in opened for pair in zip(numbers.tolist(), found.to_pylist(), strict=True)]
            _write_pack(folder, sorted(rows), paths)


def _write_pack(folder: Path, rows: Sequence[tuple[int, bytes]], replaced: Sequence[Path]) -> None:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), PACK_SCHEMA, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, PACK_SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=PACK_SCHEMA))
    path = folder / CHANGES / f"{rows[0][0]:06d}-{rows[-1][0]:06d}.arrow"
    youngest = max(pack.stat().st_mtime for pack in replaced)
    durable.replace_file(path, sink.getvalue())
    os.utime(path, (youngest, youngest))  # the retention goes by it
    for pack in replaced:
        if pack != path:
            pack.unlink()


def _packs(folder: Path) -> list[tuple[Path, int]]:
    """The packs in order, each with its last generation."""
    with suppress(FileNotFoundError), os.scandir(folder / CHANGES) as files:
        named = [(match, Path(file.path)) for file in files if (match := _PACK_NAME.fullmatch(file.name))]
        return sorted((path, int(match[2])) for match, path in named)
    return []


def _open_pack(path: Path) -> tuple[NDArray[np.int64], pa.Array]:
    """The generations of a pack, in order, and their changelogs. FileProblem, FileMissing."""
    opened = open_bytes(map_file(path), whole=True)
    if opened.schema != PACK_SCHEMA or len(opened.batches) != 1:
        raise FileProblem("is not a pack of changelogs")
    generations, changelogs = opened.batches[0].columns
    return generations.to_numpy(), changelogs


def _find_packed(path: Path, generation: int) -> NDArray[np.uint8] | None:
    generations, changelogs = _open_pack(path)
    row = int(np.searchsorted(generations, generation))
    if row == len(generations) or generations[row] != generation:
        return None
    return np.frombuffer(changelogs[row].as_buffer(), np.uint8)


def changelog_files(folder: Path, before: int) -> list[Path]:
    """The packs and changelogs of earlier generations than `before`, the oldest first."""
    packs = [path for path, last in _packs(folder) if last < before]
    return packs + [changelog_path(folder, number) for number in sorted(_stored_numbers(folder)) if number < before]


def _stored_numbers(folder: Path) -> Iterator[int]:
    """The generations that have a changelog, in no order."""
    with suppress(FileNotFoundError), os.scandir(folder / CHANGES) as files:
        for file in files:
            number, _, kind = file.name.partition(".")
            if kind == "arrow" and number.isdecimal() and number == f"{int(number):06d}":
                yield int(number)
