"""The lists of changes: what each commit did to each chunk. A merge writes none.

Each list names the one before it in the metadata of its schema, with size and checksum, and the manifest names the
newest. Only what this chain reaches counts: an interrupted commit may leave a list that no generation names.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import orjson
import pyarrow as pa

from aidre.engine import durable
from aidre.engine.arrow import write_file
from aidre.engine.manifest import ChangesEntry, Manifest
from aidre.engine.schema import CHANGES, CHANGES_SCHEMA

PROMISED_SECONDS = 30 * 24 * 3600
"""So long after a client read the newest list it can go on from there."""
KEEP_SECONDS = PROMISED_SECONDS + 24 * 3600
"""A day more, in which a client can finish the list that it is in."""
PREVIOUS = b"previous"
_FEW = 1_000
"""So many generations are tried one by one, which takes less time than to look at the folder."""


class State(NamedTuple):
    """What tells a chunk from an earlier one of the same id. `etag` covers all that answers show of it."""

    content_hash: bytes
    etag: bytes


def list_path(folder: Path, generation: int) -> Path:
    return folder / CHANGES / f"{generation:06d}.arrow"


def batch_of(now: Iterable[tuple[str, State]], before: Mapping[str, State]) -> pa.RecordBatch:
    """Rows (op, chunk id, content hash). A chunk that was written again as it was is not in the list."""
    gone = dict(before)
    rows: list[tuple[str, str, bytes]] = []
    for chunk_id, state in now:
        former = gone.pop(chunk_id, None)
        if former != state:
            rows.append(("add" if former is None else "change", chunk_id, state.content_hash))
    rows += [("delete", chunk_id, state.content_hash) for chunk_id, state in gone.items()]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(column, field.type) for column, field in zip(columns, CHANGES_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=CHANGES_SCHEMA)


def with_changes(folder: Path, manifest: Manifest, generation: int, batch: pa.RecordBatch) -> Manifest:
    """Write the list durably; the manifest that names it. An empty one is not written."""
    previous = manifest.changes
    # A commit whose last sync failed may have left a list between the two, which readers must not meet in the chain.
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


def remove_old(folder: Path, newest: ChangesEntry, keep_seconds: float = KEEP_SECONDS) -> None:
    """Remove the lists that nobody may go on from any more; the newest one stays. Call it under the lock only."""
    limit = time.time() - keep_seconds
    older = sorted(number for number in _stored(folder) if number < newest.generation)
    for path in (list_path(folder, number) for number in older):
        if newest.file is not None and path.stat().st_mtime >= limit:
            break  # those behind it are younger still
        path.unlink(missing_ok=True)


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
