"""The changelogs of a collection: what each commit did to each chunk, one Arrow file a commit. A merge, or a
commit that changes no chunk, writes none.

Each changelog names the one before it in the metadata of its schema, with size and checksum, and the manifest names the
newest. Only changelogs on this chain count: an interrupted commit may leave a file that no generation names.
"""

from __future__ import annotations

import os
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

from aidre.engine.storage import durable
from aidre.engine.storage.arrow import write_file
from aidre.engine.storage.format import CHANGES, CHANGES_SCHEMA, CHUNKS_SCHEMA
from aidre.engine.storage.kernels import kernels
from aidre.engine.storage.manifest import ChangesEntry, Manifest

PROMISED_SECONDS = 30 * 24 * 3600
"""For at least this long a client that has read the newest changelog can continue from it, unless the history was
restarted."""
KEEP_SECONDS = PROMISED_SECONDS + 24 * 3600
"""One day longer, so that a client can finish the changelog it is reading."""
PREVIOUS_KEY = b"previous"
"""Key of the schema metadata that holds the ChangesEntry of the previous changelog, as JSON."""
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


def diff_states(after: Iterable[tuple[str, ChunkState]], before: Mapping[str, ChunkState]) -> pa.RecordBatch:
    """A changelog (op, chunk_id, content_hash) from chunk states by id; chunks with an equal state are left out."""
    rows = [(chunk_id, *state) for chunk_id, state in after]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(column, field.type) for column, field in zip(columns, CHUNK_STATE_SCHEMA, strict=True)]
    return diff_table(pa.Table.from_arrays(arrays, schema=CHUNK_STATE_SCHEMA), before)


def diff_table(after: pa.Table, before: Mapping[str, ChunkState]) -> pa.RecordBatch:
    """The same from a table with the columns of CHUNK_STATE_SCHEMA."""
    deleted = dict(before)
    ops: list[str | None] = ["add"] * after.num_rows
    existed = kernels.is_in(after.column("id"), pa.array(list(before), pa.large_string()))
    for row in np.flatnonzero(existed.to_numpy()).tolist():
        chunk_id, *state = (column[row].as_py() for column in after.columns)
        ops[row] = None if deleted.pop(chunk_id) == ChunkState(*state) else "change"
    written = pa.Table.from_arrays([pa.array(ops, pa.string()), *after.columns[:2]], schema=CHANGES_SCHEMA)
    rows = [["delete"] * len(deleted), list(deleted), [state.content_hash for state in deleted.values()]]
    arrays = [pa.array(column, field.type) for column, field in zip(rows, CHANGES_SCHEMA, strict=True)]
    both = pa.concat_tables([written, pa.Table.from_arrays(arrays, schema=CHANGES_SCHEMA)])
    columns = [column.combine_chunks() for column in both.filter(kernels.is_valid(both.column("op"))).columns]
    return pa.RecordBatch.from_arrays(columns, schema=CHANGES_SCHEMA)


# -- write and remove --------------------------------------------------------------------------------------------


def write_changes(folder: Path, manifest: Manifest, generation: int, changes: pa.RecordBatch) -> Manifest:
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
    file = write_file(path, [changes.replace_schema_metadata(schema.metadata)], schema)
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

    def remove_old(self, newest: ChangesEntry, keep_seconds: float = KEEP_SECONDS) -> None:
        """Remove old changelogs, never the newest one; where the history was restarted, all before it, of any age.

        Requires the writer's lock; call it after every generation.
        """
        if self._numbers is None:
            stored = (number for number in _stored_numbers(self._folder) if number <= newest.generation)
            self._numbers = deque(sorted(stored))
        elif newest.file is not None and (not self._numbers or self._numbers[-1] < newest.generation):
            self._numbers.append(newest.generation)
        limit = time.time() - keep_seconds
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
    return sorted(number for number in _stored_numbers(folder) if first <= number <= last)


def _stored_numbers(folder: Path) -> Iterator[int]:
    """The generations that have a changelog, in no order."""
    with suppress(FileNotFoundError), os.scandir(folder / CHANGES) as files:
        for file in files:
            number, _, kind = file.name.partition(".")
            if kind == "arrow" and number.isdecimal() and number == f"{int(number):06d}":
                yield int(number)
