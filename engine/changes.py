"""The lists of changes: what each commit did to each chunk. A merge writes none.

Each list names the one before it in the metadata of its schema, with size and checksum, and the manifest names the
newest. Only what this chain reaches counts: an interrupted commit may leave a list that no generation names.
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
import pyarrow.compute as pc

from aidre.engine import durable
from aidre.engine.arrow import write_file
from aidre.engine.manifest import ChangesEntry, Manifest
from aidre.engine.schema import CHANGES, CHANGES_SCHEMA
from aidre.engine.schema import CHUNKS as CHUNKS_SCHEMA

PROMISED_SECONDS = 30 * 24 * 3600
"""So long after a client read the newest list it can go on from there."""
KEEP_SECONDS = PROMISED_SECONDS + 24 * 3600
"""A day more, in which a client can finish the list that it is in."""
PREVIOUS = b"previous"
_FEW = 1_000
"""So many generations are tried one by one, which takes less time than to look at the folder."""


STATES = pa.schema([CHUNKS_SCHEMA.field(name) for name in ("id", "content_hash", "etag")])


class State(NamedTuple):
    """What tells a chunk from an earlier one of the same id. `etag` covers all that answers show of it."""

    content_hash: bytes
    etag: bytes


def list_path(folder: Path, generation: int) -> Path:
    return folder / CHANGES / f"{generation:06d}.arrow"


def batch_of(now: Iterable[tuple[str, State]], before: Mapping[str, State]) -> pa.RecordBatch:
    """Rows (op, chunk id, content hash). A chunk that was written again as it was is not in the list."""
    rows = [(chunk_id, *state) for chunk_id, state in now]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(column, field.type) for column, field in zip(columns, STATES, strict=True)]
    return listed(pa.Table.from_arrays(arrays, schema=STATES), before)


def listed(now: pa.Table, before: Mapping[str, State]) -> pa.RecordBatch:
    """The same from the columns of STATES."""
    gone = dict(before)
    ops: list[str | None] = ["add"] * now.num_rows
    known = pc.is_in(now.column("id"), pa.array(list(before), pa.large_string()))
    for row in np.flatnonzero(known.to_numpy()).tolist():
        chunk_id, *state = (column[row].as_py() for column in now.columns)
        ops[row] = None if gone.pop(chunk_id) == State(*state) else "change"
    written = pa.Table.from_arrays([pa.array(ops, pa.string()), *now.columns[:2]], schema=CHANGES_SCHEMA)
    deleted = [["delete"] * len(gone), list(gone), [state.content_hash for state in gone.values()]]
    arrays = [pa.array(column, field.type) for column, field in zip(deleted, CHANGES_SCHEMA, strict=True)]
    both = pa.concat_tables([written, pa.Table.from_arrays(arrays, schema=CHANGES_SCHEMA)])
    columns = [column.combine_chunks() for column in both.filter(pc.is_valid(both.column("op"))).columns]
    return pa.RecordBatch.from_arrays(columns, schema=CHANGES_SCHEMA)


def with_changes(folder: Path, manifest: Manifest, generation: int, batch: pa.RecordBatch) -> Manifest:
    """Write the list durably; the manifest that names it. An empty one is not written."""
    previous = manifest.changes
    # A commit whose last sync failed may have left a list between the two, which readers must not meet in the chain.
    with durable.storage_errors(folder / CHANGES):
        for number in list_numbers(folder, previous.generation + 1, generation - 1):
            list_path(folder, number).unlink(missing_ok=True)
    if not batch.num_rows:
        return manifest
    path = list_path(folder, generation)
    durable.make_folder(path.parent)
    schema = CHANGES_SCHEMA.with_metadata({PREVIOUS: orjson.dumps(previous.to_json())})
    file = write_file(path, [batch.replace_schema_metadata(schema.metadata)], schema)
    durable.settle_file(path)
    return replace(manifest, changes=ChangesEntry(generation, file.checksum[:16], file))


def without_history(manifest: Manifest, generation: int) -> Manifest:
    """The manifest of a generation at which the history begins anew."""
    return replace(manifest, changes=ChangesEntry(generation, secrets.token_hex(8)))


def remove_unnamed(folder: Path, newest: ChangesEntry) -> None:
    """Remove the lists that an interrupted writer left behind the newest one. Call it under the lock only."""
    for number in [number for number in _stored(folder) if number > newest.generation]:
        list_path(folder, number).unlink(missing_ok=True)


class Retention:
    """Removes lists that nobody may go on from any more. For one writer, which looks over the folder once: of what is
    kept a commit costs nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: deque[int] | None = None

    def remove_old(self, newest: ChangesEntry, keep_seconds: float = KEEP_SECONDS) -> None:
        """The newest list stays. Call it under the lock only, after every generation."""
        if self._kept is None:
            self._kept = deque(sorted(number for number in _stored(self._folder) if number <= newest.generation))
        elif newest.file is not None and (not self._kept or self._kept[-1] < newest.generation):
            self._kept.append(newest.generation)
        limit = time.time() - keep_seconds
        while self._kept and self._kept[0] < newest.generation:
            path = list_path(self._folder, self._kept[0])
            with suppress(FileNotFoundError):
                if newest.file is not None and path.stat().st_mtime >= limit:
                    break  # those behind it are younger still
                path.unlink()
            self._kept.popleft()


def list_numbers(folder: Path, first: int, last: int) -> Sequence[int]:
    """The generations from `first` to `last` that may have a list, in order; all that have one are among them."""
    if last - first < _FEW:
        return range(first, last + 1)
    return sorted(number for number in _stored(folder) if first <= number <= last)


def _stored(folder: Path) -> Iterator[int]:
    """The generations that have a list, in any order."""
    with suppress(FileNotFoundError), os.scandir(folder / CHANGES) as files:
        for file in files:
            number, _, kind = file.name.partition(".")
            if kind == "arrow" and number.isdecimal() and number == f"{int(number):06d}":
                yield int(number)
