"""Rows of Parquet as Documents, a record batch at a time; vectors stay in the batch's buffers.

The file itself is read in the sandbox (batches.py), which bounds what a batch may come to, whatever the file says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import EmbeddingSpace, Json
from aidre.ingest.ahead import ahead
from aidre.ingest.batches import REFUSED
from aidre.ingest.cells import Faults, as_rows, json_values
from aidre.ingest.found import File, Found, Rejected, opened
from aidre.ingest.mapping import KEPT, ColumnMapping
from aidre.ingest.plain_rows import plain_rows
from aidre.ingest.rows import documents, is_graph, read, rejected
from aidre.ingest.sandbox import TABLES
from aidre.ingest.vectors import Brought, VectorRules, wrong_length

T = TypeVar("T")
BATCH_ROWS = 8192

_Vectors = tuple[str, NDArray[np.int64], NDArray[np.float32]]
"""A space, the rows that bring a vector of it, and these vectors."""


def parquet(file: File, rules: VectorRules) -> Iterator[Found]:
    """The rows of a Parquet file; raises InvalidDocument, OSError, pyarrow.ArrowException."""
    first = 1
    for batch in ahead(_batches(file), 1):
        reason = (batch.schema.metadata or {}).get(REFUSED)
        if reason is None:
            yield from _rows(batch, first, file, rules)
        else:
            yield Rejected(f"{file.origin}:{first}", reason.decode(), file.source, file.origin)
        first += _count(batch)


def _batches(file: File) -> Iterator[pa.RecordBatch]:
    """The batches of a file as the sandbox gives them; smaller ones as long as they take more memory than it has."""
    place = _place(file)
    rows, done = BATCH_ROWS, 0
    while True:
        options = {"rows": rows, "skip": done, "wanted": _wanted(file.mapping)}
        try:
            for part in TABLES.stream("parquet", place, options):
                batch = pa.ipc.open_stream(pa.py_buffer(part)).read_next_batch()
                batch.validate()
                done += _count(batch)
                yield batch
        except InvalidDocument as error:
            if not error.details.get("memory"):
                raise
            if rows == 1:
                where = f"row {done + 1}: " if done else ""
                raise InvalidDocument(f"{where}{error.message}: write it with smaller row groups and pages") from None
            rows = max(1, rows // 128)
        else:
            return


def _count(batch: pa.RecordBatch) -> int:
    """The rows of the file that a batch stands for: a row that is refused has none in it."""
    return max(1, len(batch))


def _place(file: File) -> bytes:
    """What the child opens, which says less of what is wrong with a file that cannot be."""
    with opened(file):
        paths = ("" if file.within is None else file.within.absolute(), file.path.absolute())
        return b"\0".join(map(os.fsencode, paths))


def spaces_of(file: File) -> set[str]:
    """The embedding spaces that a file's column `vectors` names; raises InvalidDocument, OSError."""
    return set(map(str, _schema(file, "spaces", list)))


def columns_of(file: File) -> list[dict[str, Json]]:
    """One row that has every column of a file, of struct columns the fields; raises InvalidDocument, OSError."""
    return [_schema(file, "columns", dict)]


def _schema(file: File, member: str, kind: type[T]) -> T:
    answer = TABLES.parse("parquet schema", _place(file))
    value = answer.get(member) if type(answer) is dict else None
    if not isinstance(value, kind):
        raise InvalidDocument("cannot be read: its parser gave no answer that makes sense")
    return value


def _wanted(mapping: ColumnMapping | None) -> list[str] | None:
    """The columns to read where a mapping says which they are; None means all."""
    if mapping is None or mapping.metadata is None:
        return None
    return sorted({*KEPT, "metadata", *mapping.columns, *(column.partition(".")[0] for column in mapping.columns)})


def _rows(batch: pa.RecordBatch, first: int, file: File, rules: VectorRules) -> Iterator[Found]:
    faults: Faults = {}
    mapping = file.mapping
    columns = _columns(batch, mapping)
    names = [name for name, _ in columns]
    vectors = _vectors(batch, rules, faults, mapping)
    by_row = mapping if mapping is not None and not mapping.is_plain(batch.schema.names) else None
    if not faults and by_row is None and len(set(names)) == len(names) and _are_whole(vectors, len(batch)):
        matrices = {space: matrix for space, _, matrix in vectors}
        whole_batch = plain_rows(file, first, dict(columns), matrices) if rules.missing(matrices) is None else None
        if whole_batch is not None:
            yield whole_batch
            return
    cells = [json_values(column, name, faults) for name, column in columns]
    brought = _by_row(vectors, len(batch))
    prefix = f"{file.origin}:"
    for at, whole in enumerate(as_rows(names, cells, len(batch))):
        where = f"{prefix}{first + at}"
        row = whole
        if by_row is not None and at not in faults and not is_graph(whole):
            try:
                row = by_row.row(whole)
            except InvalidDocument as error:
                faults[at] = error.message
        if at in faults:
            yield rejected(row, where, file, faults[at])
        elif "@graph" in row or "@type" in row:
            yield from documents(row, where, file, brought[at], whole)
        else:
            yield read(row, where, file, brought[at])


def _columns(batch: pa.RecordBatch, mapping: ColumnMapping | None) -> list[tuple[str, pa.Array]]:
    """The columns of a batch without those of vectors, under the names of a mapping that needs only other names."""
    pairs = list(zip(batch.schema.names, batch.columns, strict=True))
    if mapping is None:
        return [(name, column) for name, column in pairs if name != "vectors"]
    pairs = [(name, column) for name, column in pairs if name not in ("vectors", *mapping.vectors.values())]
    if not mapping.is_plain(batch.schema.names):
        return pairs
    members = {column: member for member, column in mapping.members.items() if isinstance(column, str)}
    stay = set(KEPT if mapping.metadata is not None else batch.schema.names) - mapping.taken
    stay.update(mapping.metadata or ())
    return [(members.get(name, name), column) for name, column in pairs if name in members or name in stay]


def _vectors(
    batch: pa.RecordBatch, rules: VectorRules, faults: Faults, mapping: ColumnMapping | None
) -> list[_Vectors]:
    """The vectors of each space that rows bring."""
    found: list[_Vectors] = []
    own = _spaces(batch.column("vectors")) if "vectors" in batch.schema.names else ()
    for name, present, at in chain(own, _mapped_spaces(batch, mapping)):
        lists, rows = present, at
        if not len(lists):
            continue
        try:
            lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
            fits = lengths == rules.space(name).dimensions
            if not fits.all():
                _name_lengths(faults, rules.space(name), rows[~fits], lengths[~fits])
                lists, rows = lists.filter(pa.array(fits)), rows[fits]
            matrix = _matrix(lists, rules.space(name))
        except InvalidDocument as error:
            faults.update(dict.fromkeys(rows.tolist(), error.message))
            continue
        faults.update({int(rows[at]): fault for at, fault in rules.faults(name, matrix).items()})
        found.append((name, rows, matrix))
    return found


def _are_whole(vectors: Sequence[_Vectors], count: int) -> bool:
    """Whether all rows bring a vector of each space that any brings, which is one at least, and of each only one."""
    return (
        bool(vectors)
        and all(len(rows) == count for _, rows, _ in vectors)
        and len({space for space, _, _ in vectors}) == len(vectors)
    )


def _by_row(vectors: Sequence[_Vectors], count: int) -> list[Brought | None]:
    """For each row what it brings, as views of the matrices."""
    brought: list[Brought | None] = [None] * count
    for name, rows, matrix in vectors:
        _hand_out(brought, name, rows, matrix)
    return brought


def _name_lengths(faults: Faults, space: EmbeddingSpace, rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    for row, length in zip(rows.tolist(), lengths.tolist(), strict=True):
        faults[row] = wrong_length(space, length)


def _hand_out(brought: list[Brought | None], name: str, rows: NDArray[np.int64], matrix: NDArray[np.float32]) -> None:
    for row, vector in zip(rows.tolist(), matrix, strict=True):
        bag = brought[row]
        if bag is None:
            brought[row] = {name: vector}
        else:
            bag[name] = vector


def _spaces(column: pa.Array) -> Iterator[tuple[str, pa.Array, NDArray[np.int64]]]:
    """Space by space the lists that are there and the rows that they belong to."""
    kind = column.type
    if pa.types.is_struct(kind):
        # flatten() carries the nulls of the struct into its children; field() does not.
        for field, lists in zip(kind, column.flatten(), strict=True):
            yield field.name, *_present(lists, np.arange(len(lists)))
    elif pa.types.is_map(kind):
        yield from _map_spaces(*_present(column, np.arange(len(column))))
    elif not pa.types.is_null(kind):
        raise pa.ArrowTypeError("column vectors must be a struct or a map of number lists")


def _mapped_spaces(
    batch: pa.RecordBatch, mapping: ColumnMapping | None
) -> Iterator[tuple[str, pa.Array, NDArray[np.int64]]]:
    for space, name in mapping.vectors.items() if mapping is not None else ():
        lists = _reached(batch, name)
        if lists is None or pa.types.is_null(lists.type):
            continue
        if not _is_list(lists.type):
            raise InvalidDocument(f"column {name}, which the mapping names for vectors.{space}, holds no lists")
        yield space, *_present(lists, np.arange(len(lists)))


def _reached(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """A column, or under a dotted name a field of a struct column; None where there is none."""
    if name in batch.schema.names:
        return batch.column(name)
    first, *path = name.split(".")
    column = batch.column(first) if first in batch.schema.names else None
    for step in path:
        if column is None or not pa.types.is_struct(column.type) or column.type.get_field_index(step) < 0:
            return None
        column = column.flatten()[column.type.get_field_index(step)]
    return column


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _map_spaces(maps: pa.Array, rows: NDArray[np.int64]) -> Iterator[tuple[str, pa.Array, NDArray[np.int64]]]:
    offsets = maps.offsets.to_numpy()
    first, entries = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = maps.keys.slice(first, entries), maps.items.slice(first, entries)
    rows = np.repeat(rows, np.diff(offsets))
    for key in pc.unique(keys).to_pylist():
        mask = pc.equal(keys, key)
        yield str(key), *_present(items.filter(mask), rows[mask.to_numpy(zero_copy_only=False)])


def _present(lists: pa.Array, rows: NDArray[np.int64]) -> tuple[pa.Array, NDArray[np.int64]]:
    if lists.null_count == 0:
        return lists, rows
    return lists.drop_null(), rows[lists.is_valid().to_numpy(zero_copy_only=False)]


def _matrix(lists: pa.Array, space: EmbeddingSpace) -> NDArray[np.float32]:
    """Lists of one length as a matrix, without a copy where they hold float32 and no nulls."""
    values = lists.flatten()
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise InvalidDocument(f"vectors.{space.id} must be lists of numbers")
    with np.errstate(over="ignore"):
        numbers: NDArray[np.float32] = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return numbers.reshape(-1, space.dimensions)
