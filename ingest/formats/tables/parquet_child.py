"""The sandbox's Parquet parser: the schema of a file, and its rows as record batches of bounded size.

The sizes that a file declares are not trusted: a few bytes can stand for any number of equal values. The child's limit
bounds the memory that decoding takes. Batches that leave the child are measured in decoded form, in which every value
has its own bytes and rows share none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.records import MAX_DOCUMENT_BYTES

TARGET_BATCH_BYTES = 8 << 20
"""Bytes that a batch is planned to have, by the sizes that the file declares."""

MAX_BATCH_BYTES = 32 << 20
MAX_BATCH_VALUES = 1 << 22
"""Decoded bytes and values of a batch; a batch of one row may have MAX_DOCUMENT_BYTES and MAX_ROW_VALUES."""

MAX_ROW_VALUES = 1 << 20
MAX_COLUMNS = 10_000

MIN_ROWS_LIMIT = 10_000
"""Rows that every file may have; a larger file may have as many rows as bytes."""

MIN_DECODED_LIMIT = 256 << 20
MAX_EXPANSION = 1000
"""Decoded bytes that every file may have; a larger file may have MAX_EXPANSION times its size. A file that repeats
itself more than that is no source, and would fill a disk."""

REJECTED = b"refused"
"""Key in the metadata of a batch without rows: the fault of the one row that the batch stands for."""

_BUFFER_BYTES = 1 << 20
_SPACE_ROWS = 1024
"""Rows at the beginning of a file whose map `vectors` names the spaces."""


def read_schema(content: bytes, options: Mapping[str, Any]) -> Json:
    """`columns`, for a struct column its fields, and `spaces`, by the type of the column `vectors` or first maps."""
    with _open_table(options["descriptor"]) as (table, _):
        fields = table.schema_arrow
        return {"columns": {field.name: _name_fields(field.type) for field in fields}, "spaces": _find_spaces(table)}


def read_batches(content: bytes, options: Mapping[str, Any]) -> Iterator[pa.Buffer]:
    """The rows of a file, each batch as an Arrow IPC stream of its own.

    `options`: the maximum of `rows` in a batch, how many rows of the file to `skip`, and the `columns` (null: all).
    """
    with _open_table(options["descriptor"]) as (table, size):
        rows, decoded_bytes = options["skip"], 0
        for batch in _read_from_row(table, options["skip"], options["rows"], options["columns"]):
            rows += len(batch)
            if rows > max(MIN_ROWS_LIMIT, size):
                raise InvalidDocument("has more rows than bytes: leave out those that say the same")
            for part in _split(_decode(batch)):
                decoded_bytes += part.nbytes
                if decoded_bytes > max(MIN_DECODED_LIMIT, MAX_EXPANSION * size):
                    raise InvalidDocument(
                        f"comes to more than {MAX_EXPANSION} times its size: leave out what it repeats"
                    )
                yield _to_ipc(part)


@contextmanager
def _open_table(descriptor: int) -> Iterator[tuple[pq.ParquetFile, int]]:
    """The table, and the size of its file in bytes."""
    with ExitStack() as stack:
        stream = stack.enter_context(open(descriptor, "rb", 0, closefd=False))
        try:
            table = stack.enter_context(pq.ParquetFile(stream, buffer_size=_BUFFER_BYTES, pre_buffer=False))
        except (pa.ArrowException, OSError) as error:
            raise _describe(error) from None
        if len(table.schema) > MAX_COLUMNS:
            raise InvalidDocument(f"has more than {MAX_COLUMNS:,} columns")
        yield table, os.fstat(descriptor).st_size


def _describe(error: Exception) -> Exception:
    if isinstance(error, MemoryError):  # pyarrow's own out-of-memory error is one
        return error
    first_line = (str(error).splitlines() or [type(error).__name__])[0]
    return InvalidDocument(f"not a readable Parquet file: {first_line}")


def _name_fields(kind: pa.DataType) -> Json:
    return {field.name: _name_fields(field.type) for field in kind} if pa.types.is_struct(kind) else True


def _find_spaces(table: pq.ParquetFile) -> list[str]:
    index = table.schema_arrow.get_field_index("vectors")
    kind = table.schema_arrow.field(index).type if index >= 0 else pa.null()
    if pa.types.is_struct(kind):
        return [field.name for field in kind]
    if not pa.types.is_map(kind):
        return []
    batch = next(_read_from_row(table, 0, _SPACE_ROWS, ["vectors"]), None)
    return [] if batch is None else [str(key) for key in pc.unique(batch.column(0).keys).to_pylist()]


def _read_from_row(
    table: pq.ParquetFile, skip: int, max_rows: int, columns: Collection[str] | None
) -> Iterator[pa.RecordBatch]:
    """Batches after the first `skip` rows; of a table of schema.org objects (with "@type") all columns are read."""
    names = table.schema_arrow.names
    selected = None if columns is None or "@type" in names else [name for name in names if name in columns]
    groups = list(range(table.num_row_groups))
    while groups and skip >= (size := table.metadata.row_group(groups[0]).num_rows):
        skip -= size
        del groups[0]
    batch_rows = min(max_rows, _plan_batch_rows(table.metadata))
    try:
        for batch in table.iter_batches(batch_rows, row_groups=groups, columns=selected, use_threads=False):
            if skip < len(batch):
                yield batch.slice(skip)
            skip = max(0, skip - len(batch))
    except (pa.ArrowException, OSError) as error:
        raise _describe(error) from None


def _plan_batch_rows(metadata: pq.FileMetaData) -> int:
    """Rows of about TARGET_BATCH_BYTES, by the declared size of the widest row group."""
    row_bytes = 1
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        row_bytes = max(row_bytes, group.total_byte_size // max(1, group.num_rows))
    return int(max(1, TARGET_BATCH_BYTES // row_bytes))


# -- batches that leave the child ------------------------------------------------------------------------------


def _decode(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch in which rows share no bytes; raises InvalidDocument for types that have no such form."""
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        kind = _decoded_type(field.type)
        try:
            columns.append(column if kind == field.type else column.cast(kind))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            raise InvalidDocument(f"column {field.name} has the type {field.type}, which is not read") from None
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _decoded_type(kind: pa.DataType) -> pa.DataType:
    """The type for the same values in which each has its own bytes."""
    for matches, decoded in _DECODED_TYPES.items():
        if matches(kind):
            return decoded(kind)
    if isinstance(kind, pa.BaseExtensionType):
        storage = _decoded_type(kind.storage_type)
        return kind if storage == kind.storage_type else storage
    return kind


_DECODED_TYPES: dict[Callable[[pa.DataType], bool], Callable[[Any], pa.DataType]] = {
    pa.types.is_dictionary: lambda kind: _decoded_type(kind.value_type),
    pa.types.is_string_view: lambda _: pa.large_string(),
    pa.types.is_binary_view: lambda _: pa.large_binary(),
    pa.types.is_struct: lambda kind: pa.struct([_decoded_field(field) for field in kind]),
    pa.types.is_map: lambda kind: pa.map_(
        _decoded_field(kind.key_field), _decoded_field(kind.item_field), kind.keys_sorted
    ),
    pa.types.is_fixed_size_list: lambda kind: pa.list_(_decoded_field(kind.value_field), kind.list_size),
    pa.types.is_list: lambda kind: pa.list_(_decoded_field(kind.value_field)),
    pa.types.is_list_view: lambda kind: pa.list_(_decoded_field(kind.value_field)),
    pa.types.is_large_list: lambda kind: pa.large_list(_decoded_field(kind.value_field)),
    pa.types.is_large_list_view: lambda kind: pa.large_list(_decoded_field(kind.value_field)),
}


def _decoded_field(field: pa.Field) -> pa.Field:
    return field.with_type(_decoded_type(field.type))


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows in batches within the bounds; a row beyond its own bounds as a rejection."""
    if not len(batch):
        return
    size, values = batch.nbytes, sum(map(_count_values, batch.columns))
    if len(batch) > 1 and (size > MAX_BATCH_BYTES or values > MAX_BATCH_VALUES):
        half = len(batch) // 2
        yield from _split(batch.slice(0, half))
        yield from _split(batch.slice(half))
    elif size > MAX_DOCUMENT_BYTES:
        yield _reject(f"larger than {MAX_DOCUMENT_BYTES >> 20} MiB: split it")
    elif values > MAX_ROW_VALUES and len(batch) == 1:
        yield _reject(f"has more than {MAX_ROW_VALUES:,} values: split it")
    else:
        yield batch


def _count_values(column: pa.Array) -> int:
    """All values of a column, also nested ones and nulls, which take no bytes but time and Python objects."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _count_values(column.storage)
    if pa.types.is_struct(kind):
        return len(column) + sum(_count_values(column.field(index)) for index in range(kind.num_fields))
    if pa.types.is_fixed_size_list(kind):
        values = column.values.slice(column.offset * kind.list_size, len(column) * kind.list_size)
        return len(column) + _count_values(values)
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        offsets = column.offsets
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        children = (column.keys, column.items) if pa.types.is_map(kind) else (column.values,)
        return len(column) + sum(_count_values(child.slice(first, last - first)) for child in children)
    return len(column)


def _reject(reason: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([], schema=pa.schema([], metadata={REJECTED: reason}))


def _to_ipc(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()
