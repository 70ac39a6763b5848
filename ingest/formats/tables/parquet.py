"""Parquet: rows as documents, a record batch at a time; vectors stay in the batch's buffers.

The sandbox's child reads the file (parquet_child.py) and bounds the size of each batch, whatever the file declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import EmbeddingSpace, Json
from aidre.ingest.formats.tables.arrow_json import Faults, to_json_values, to_rows
from aidre.ingest.formats.tables.columnar import build_row_batch
from aidre.ingest.formats.tables.parquet_child import REJECTED
from aidre.ingest.formats.tables.row_documents import is_graph, read_linked_row, read_plain_row, read_row, reject_row
from aidre.ingest.formats.tables.unmapped import Unmapped
from aidre.ingest.prefetch import prefetch
from aidre.ingest.records import (
    ROW_MEMBERS,
    ColumnMapping,
    File,
    Item,
    Rejected,
    RowVectors,
    VectorRules,
    format_wrong_length,
    note,
    open_file,
)
from aidre.ingest.sandbox import TABLES, stream_file

T = TypeVar("T")
BATCH_ROWS = 8192
_SHRINK_FACTOR = 128
"""Factor by which batches shrink if the child runs out of memory: in two steps to one row."""


class _SpaceLists(NamedTuple):
    """The lists of one space that are not null, and the rows that they belong to."""

    space: str
    lists: pa.Array
    rows: NDArray[np.int64]


class _SpaceVectors(NamedTuple):
    """The vectors of one space, float32 of shape (rows, dimensions), and the rows that they belong to."""

    space: str
    rows: NDArray[np.int64]
    matrix: NDArray[np.float32]


def read_parquet(file: File, rules: VectorRules) -> Iterator[Item]:
    """The items of a Parquet file; raises InvalidDocument, OSError, pyarrow.ArrowException."""
    first, unmapped = 1, None
    for batch in prefetch(_stream_batches(file), 1):
        reason = (batch.schema.metadata or {}).get(REJECTED)
        if reason is None:
            if unmapped is None:
                unmapped = Unmapped(file, batch.schema.names)
                for field in filter(lambda field: _holds_bytes(field.type), batch.schema):
                    note(file, "columns of bytes are left out", field.name)
            yield from _read_batch(batch, first, file, rules, unmapped)
        else:
            yield Rejected(f"{file.origin}:{first}", reason.decode(), file.source, file.origin)
        first += _count_rows(batch)


def find_parquet_spaces(file: File) -> set[str]:
    """The embedding spaces that a file's column `vectors` names; raises InvalidDocument, OSError."""
    return set(map(str, _read_schema(file, "spaces", list)))


def find_parquet_columns(file: File) -> list[dict[str, Json]]:
    """One row with every column of a file, and of struct columns the fields; raises InvalidDocument, OSError."""
    return [_read_schema(file, "columns", dict)]


# -- the sandbox's child ---------------------------------------------------------------------------------------


def _stream_batches(file: File) -> Iterator[pa.RecordBatch]:
    """The child's batches of a file; in smaller ones from where it runs out of memory."""
    rows, done = BATCH_ROWS, 0
    while True:
        options = {"rows": rows, "skip": done, "columns": _find_used_columns(file.mapping)}
        try:
            for part in stream_file(TABLES, "parquet", file, options):
                batch = pa.ipc.open_stream(pa.py_buffer(part)).read_next_batch()
                batch.validate()
                done += _count_rows(batch)
                yield batch
        except InvalidDocument as error:
            if not error.details.get("memory"):
                raise
            if rows == 1:
                where = f"row {done + 1}: " if done else ""
                raise InvalidDocument(f"{where}{error.message}: write it with smaller row groups and pages") from None
            rows = max(1, rows // _SHRINK_FACTOR)
        else:
            return


def _count_rows(batch: pa.RecordBatch) -> int:
    """The number of the file's rows in a batch; a batch without rows stands for one rejected row."""
    return max(1, len(batch))


def _read_schema(file: File, member: str, kind: type[T]) -> T:
    with open_file(file, 0) as stream:
        answer = TABLES.parse("parquet schema", b"", file=stream.fileno())
    value = answer.get(member) if type(answer) is dict else None
    if not isinstance(value, kind):
        raise InvalidDocument("cannot be read: its parser gave an invalid answer")
    return value


def _find_used_columns(mapping: ColumnMapping | None) -> list[str] | None:
    """The columns to read if a mapping limits them; None means all, also to make a text of them."""
    if mapping is None or mapping.metadata is None or not ("text" in mapping.members or mapping.vectors):
        return None
    columns = (column.partition(".")[0] for column in mapping.columns)
    return sorted({*ROW_MEMBERS, "metadata", *mapping.columns, *columns})


# -- rows ------------------------------------------------------------------------------------------------------


def _read_batch(
    batch: pa.RecordBatch, first: int, file: File, rules: VectorRules, unmapped: Unmapped
) -> Iterator[Item]:
    """The items of a record batch, whose first row has the number `first`: one RowBatch, else an item for each row."""
    faults: Faults = {}
    vectors = _read_vectors(batch, rules, faults, file.mapping)
    mapping = file.mapping
    if mapping is not None and vectors and mapping.only_renames(batch.schema.names):
        columns, mapping = _rename_columns(batch, mapping), None
    else:
        columns = _without_vectors(batch, mapping)
    names = [name for name, _ in columns]
    if not faults and mapping is None and len(set(names)) == len(names):
        matrices = _to_complete_matrices(vectors, len(batch))
        if matrices is not None and rules.required <= matrices.keys():
            row_batch = build_row_batch(file, first, dict(columns), matrices)
            if row_batch is not None:
                yield row_batch
                return
    rows = to_rows(names, [to_json_values(column, name, faults) for name, column in columns], len(batch))
    by_row = _split_by_row(vectors, len(batch))
    prefix = f"{file.origin}:"
    for index, original in enumerate(rows):
        where = f"{prefix}{first + index}"
        row = original if mapping is None else _apply_mapping(mapping, original, index, faults)
        if index in faults:
            yield reject_row(row, where, file, faults[index])
        elif "@graph" in row or "@type" in row:
            yield from read_linked_row(row, where, file, by_row[index], original)
        elif by_row[index] is None:
            yield read_plain_row(row, where, file, unmapped, original)
        else:
            yield read_row(row, where, file, by_row[index])


def _apply_mapping(mapping: ColumnMapping, row: dict[str, Json], index: int, faults: Faults) -> dict[str, Json]:
    """The mapped row; the row itself if it is a graph or has a fault."""
    if index in faults or is_graph(row):
        return row
    try:
        return mapping.apply(row)
    except InvalidDocument as error:
        faults[index] = error.message
        return row


def _without_vectors(batch: pa.RecordBatch, mapping: ColumnMapping | None) -> list[tuple[str, pa.Array]]:
    """Names and columns, without those that hold vectors or bytes."""
    excluded = {"vectors", *(() if mapping is None else mapping.vectors.values())}
    pairs = zip(batch.schema.names, batch.columns, strict=True)
    return [(name, column) for name, column in pairs if name not in excluded and not _holds_bytes(column.type)]


def _holds_bytes(kind: pa.DataType) -> bool:
    """Whether values are bytes, such as pictures, of which JSON and a search know nothing."""
    if pa.types.is_struct(kind):
        return any(_holds_bytes(field.type) for field in kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _rename_columns(batch: pa.RecordBatch, mapping: ColumnMapping) -> list[tuple[str, pa.Array]]:
    """The columns without vectors, under the names of a mapping that only renames."""
    members = {column: member for member, column in mapping.members.items() if isinstance(column, str)}
    used = set(ROW_MEMBERS if mapping.metadata is not None else batch.schema.names) - mapping.consumed
    used.update(mapping.metadata or ())
    pairs = _without_vectors(batch, mapping)
    return [(members.get(name, name), column) for name, column in pairs if name in members or name in used]


# -- vectors ---------------------------------------------------------------------------------------------------


def _read_vectors(
    batch: pa.RecordBatch, rules: VectorRules, faults: Faults, mapping: ColumnMapping | None
) -> list[_SpaceVectors]:
    """The vectors of the column `vectors` and of mapped columns, space by space; adds the faults of rows."""
    vectors: list[_SpaceVectors] = []
    own = _split_spaces(batch.column("vectors")) if "vectors" in batch.schema.names else ()
    for name, present, owners in chain(own, _find_mapped_spaces(batch, mapping)):
        lists, rows = present, owners
        if not len(lists):
            continue
        try:
            lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
            fits = lengths == rules.space(name).dimensions
            if not fits.all():
                _add_wrong_lengths(faults, rules.space(name), rows[~fits], lengths[~fits])
                lists, rows = lists.filter(pa.array(fits)), rows[fits]
            matrix = _to_matrix(lists, rules.space(name))
        except InvalidDocument as error:
            faults.update(dict.fromkeys(rows.tolist(), error.message))
            continue
        faults.update({int(rows[index]): fault for index, fault in rules.find_faults(name, matrix).items()})
        vectors.append(_SpaceVectors(name, rows, matrix))
    return vectors


def _to_complete_matrices(vectors: Sequence[_SpaceVectors], count: int) -> dict[str, NDArray[np.float32]] | None:
    """The matrix of each space; None without a space, or unless each has exactly one vector a row."""
    matrices = {space: matrix for space, _, matrix in vectors}
    is_complete = len(matrices) == len(vectors) > 0 and all(len(rows) == count for _, rows, _ in vectors)
    return matrices if is_complete else None


def _split_by_row(vectors: Sequence[_SpaceVectors], count: int) -> list[RowVectors | None]:
    """The vectors of each row, as views of the matrices."""
    by_row: list[RowVectors | None] = [None] * count
    for space, rows, matrix in vectors:
        for row, vector in zip(rows.tolist(), matrix, strict=True):
            row_vectors = by_row[row]
            if row_vectors is None:
                by_row[row] = {space: vector}
            else:
                row_vectors[space] = vector
    return by_row


def _add_wrong_lengths(
    faults: Faults, space: EmbeddingSpace, rows: NDArray[np.int64], lengths: NDArray[np.int64]
) -> None:
    for row, length in zip(rows.tolist(), lengths.tolist(), strict=True):
        faults[row] = format_wrong_length(space, length)


def _split_spaces(column: pa.Array) -> Iterator[_SpaceLists]:
    """The lists of each space in the column `vectors`, a struct or a map of lists."""
    kind = column.type
    if pa.types.is_struct(kind):
        # Unlike field(), flatten() carries the nulls of the struct into its children.
        for field, lists in zip(kind, column.flatten(), strict=True):
            yield _SpaceLists(field.name, *_drop_nulls(lists, np.arange(len(lists))))
    elif pa.types.is_map(kind):
        yield from _split_map(*_drop_nulls(column, np.arange(len(column))))
    elif not pa.types.is_null(kind):
        raise pa.ArrowTypeError("column vectors must be a struct or a map of number lists")


def _split_map(maps: pa.Array, rows: NDArray[np.int64]) -> Iterator[_SpaceLists]:
    offsets = maps.offsets.to_numpy()
    first, entries = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = maps.keys.slice(first, entries), maps.items.slice(first, entries)
    rows = np.repeat(rows, np.diff(offsets))
    for key in pc.unique(keys).to_pylist():
        mask = pc.equal(keys, key)
        yield _SpaceLists(str(key), *_drop_nulls(items.filter(mask), rows[mask.to_numpy(zero_copy_only=False)]))


def _find_mapped_spaces(batch: pa.RecordBatch, mapping: ColumnMapping | None) -> Iterator[_SpaceLists]:
    for space, name in mapping.vectors.items() if mapping is not None else ():
        lists = _get_column(batch, name)
        if lists is None or pa.types.is_null(lists.type):
            continue
        if not _is_list(lists.type):
            raise InvalidDocument(f"column {name}, which the mapping names for vectors.{space}, holds no lists")
        yield _SpaceLists(space, *_drop_nulls(lists, np.arange(len(lists))))


def _get_column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """A column, or at a dotted path a field of a struct column; None if there is none."""
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


def _drop_nulls(lists: pa.Array, rows: NDArray[np.int64]) -> tuple[pa.Array, NDArray[np.int64]]:
    if lists.null_count == 0:
        return lists, rows
    return lists.drop_null(), rows[lists.is_valid().to_numpy(zero_copy_only=False)]


def _to_matrix(lists: pa.Array, space: EmbeddingSpace) -> NDArray[np.float32]:
    """Lists of the space's dimensions as a matrix, without a copy if they are float32 and without nulls."""
    values = lists.flatten()
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise InvalidDocument(f"vectors.{space.id} must be lists of numbers")
    with np.errstate(over="ignore"):
        numbers: NDArray[np.float32] = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return numbers.reshape(-1, space.dimensions)
