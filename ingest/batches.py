"""The reader of Parquet, for the sandbox: its columns and spaces, and its rows as record batches of bounded size.

What a file says of its own size is not believed: a few bytes can stand for any number of equal values. How much memory
that takes is bounded by the child's limit, and what leaves the child by what it comes to when it is written out: every
value in full, none shared between rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.beneath import open_beneath
from aidre.ingest.found import LARGEST

BATCH_BYTES = 8 << 20
"""What a batch is meant to come to, by what the file says."""

MOST_BYTES = 32 << 20
MOST_VALUES = 1 << 22
"""What a batch comes to at most, unless it is one row, which may be as large as a line of text."""

MOST_VALUES_OF_ROW = 1 << 20
MOST_COLUMNS = 10_000
MOST_ROWS = 10_000
MOST_OF_FILE = 256 << 20
MOST_TIMES = 1000
"""Rows of a file that has fewer bytes than rows, and bytes of one that comes to more than so many times its size: what
says the same so often is no source, and would fill a disk."""

REFUSED = b"refused"
"""In the metadata of a batch without rows: what is wrong with the row that it stands for."""

_BUFFER = 1 << 20


def schema(content: bytes, options: Mapping[str, Any]) -> Json:
    """`columns`, of struct columns the fields, and `spaces`, by the type of the column `vectors` or (a map) its first
    batch. The content are two paths: the folder that the file must be in, or nothing, and the file."""
    with _opened(content) as (table, _):
        fields = table.schema_arrow
        return {"columns": {field.name: _fields(field.type) for field in fields}, "spaces": _spaces(table)}


def batches(content: bytes, options: Mapping[str, Any]) -> Iterator[pa.Buffer]:
    """The rows of the file that the content names, each batch as a stream of Arrow of its own.

    `options`: the `rows` of a batch at most, how many rows to `skip`, and the `wanted` columns (null: all).
    """
    with _opened(content) as (table, size):
        rows, bytes_ = options["skip"], 0
        for batch in _from_row(table, options["skip"], options["rows"], options["wanted"]):
            rows += len(batch)
            if rows > max(MOST_ROWS, size):
                raise InvalidDocument("has more rows than bytes: leave out those that say the same")
            for part in _parts(_written_out(batch)):
                bytes_ += part.nbytes
                if bytes_ > max(MOST_OF_FILE, MOST_TIMES * size):
                    raise InvalidDocument(f"comes to more than {MOST_TIMES} times its size: leave out what it repeats")
                yield _stream(part)


@contextmanager
def _opened(content: bytes) -> Iterator[tuple[pq.ParquetFile, int]]:
    """The table and the size of its file."""
    folder, _, path = os.fsdecode(content).rpartition("\0")
    with ExitStack() as stack:
        try:
            file = os.open(path, os.O_RDONLY) if not folder else open_beneath(Path(folder), Path(path))
            stack.callback(os.close, file)
            table = stack.enter_context(pq.ParquetFile(f"/dev/fd/{file}", buffer_size=_BUFFER, pre_buffer=False))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(error) from None
        if len(table.schema) > MOST_COLUMNS:
            raise InvalidDocument(f"has more than {MOST_COLUMNS:,} columns")
        yield table, os.fstat(file).st_size


def _unreadable(error: Exception) -> Exception:
    if isinstance(error, MemoryError):  # of which pyarrow has one of its own
        return error
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return InvalidDocument(f"not a readable Parquet file: {first}")


def _fields(kind: pa.DataType) -> Json:
    return {field.name: _fields(field.type) for field in kind} if pa.types.is_struct(kind) else True


def _spaces(table: pq.ParquetFile) -> list[str]:
    index = table.schema_arrow.get_field_index("vectors")
    kind = table.schema_arrow.field(index).type if index >= 0 else pa.null()
    if pa.types.is_struct(kind):
        return [field.name for field in kind]
    if not pa.types.is_map(kind):
        return []
    batch = next(_from_row(table, 0, 1024, ["vectors"]), None)
    return [] if batch is None else [str(key) for key in pc.unique(batch.column(0).keys).to_pylist()]


def _from_row(table: pq.ParquetFile, skip: int, rows: int, wanted: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    """Batches of the columns that are wanted, without so many rows at the beginning."""
    names = table.schema_arrow.names
    columns = None if wanted is None or "@type" in names else [name for name in names if name in wanted]
    groups = list(range(table.num_row_groups))
    while groups and skip >= (size := table.metadata.row_group(groups[0]).num_rows):
        skip -= size
        del groups[0]
    size = min(rows, _batch_rows(table.metadata))
    try:
        for batch in table.iter_batches(size, row_groups=groups, columns=columns, use_threads=False):
            if skip < len(batch):
                yield batch.slice(skip)
            skip = max(0, skip - len(batch))
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(error) from None


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """So many rows that a batch stays near BATCH_BYTES, by what the file says of its widest row group."""
    widest = 1
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        widest = max(widest, group.total_byte_size // max(1, group.num_rows))
    return int(max(1, BATCH_BYTES // widest))


# -- what leaves the child ---------------------------------------------------------------------------------------


def _written_out(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch in which no two rows share a value; raises InvalidDocument for types that cannot be had so."""
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        kind = _own(field.type)
        try:
            columns.append(column if kind == field.type else column.cast(kind))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            raise InvalidDocument(f"column {field.name} has the type {field.type}, which is not read") from None
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _own(kind: pa.DataType) -> pa.DataType:
    """The type of the same values where each has its own bytes."""
    for is_such, own in _OWN.items():
        if is_such(kind):
            return own(kind)
    if isinstance(kind, pa.BaseExtensionType):
        storage = _own(kind.storage_type)
        return kind if storage == kind.storage_type else storage
    return kind


_OWN: dict[Callable[[pa.DataType], bool], Callable[[Any], pa.DataType]] = {
    pa.types.is_dictionary: lambda kind: _own(kind.value_type),
    pa.types.is_string_view: lambda _: pa.large_string(),
    pa.types.is_binary_view: lambda _: pa.large_binary(),
    pa.types.is_struct: lambda kind: pa.struct([_field(field) for field in kind]),
    pa.types.is_map: lambda kind: pa.map_(_field(kind.key_field), _field(kind.item_field), kind.keys_sorted),
    pa.types.is_fixed_size_list: lambda kind: pa.list_(_field(kind.value_field), kind.list_size),
    pa.types.is_list: lambda kind: pa.list_(_field(kind.value_field)),
    pa.types.is_list_view: lambda kind: pa.list_(_field(kind.value_field)),
    pa.types.is_large_list: lambda kind: pa.large_list(_field(kind.value_field)),
    pa.types.is_large_list_view: lambda kind: pa.large_list(_field(kind.value_field)),
}


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_own(field.type))


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows in batches within the bounds; a row that is beyond its own as what is wrong with it."""
    if not len(batch):
        return
    size, values = batch.nbytes, sum(map(_values, batch.columns))
    if len(batch) > 1 and (size > MOST_BYTES or values > MOST_VALUES):
        half = len(batch) // 2
        yield from _parts(batch.slice(0, half))
        yield from _parts(batch.slice(half))
    elif size > LARGEST:
        yield _refused(f"larger than {LARGEST >> 20} MiB: split it")
    elif values > MOST_VALUES_OF_ROW and len(batch) == 1:
        yield _refused(f"has more than {MOST_VALUES_OF_ROW:,} values: split it")
    else:
        yield batch


def _values(column: pa.Array) -> int:
    """How many values a column holds, those inside of others too: null ones take no bytes, but time and objects."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _values(column.storage)
    if pa.types.is_struct(kind):
        return len(column) + sum(_values(column.field(i)) for i in range(kind.num_fields))
    if pa.types.is_fixed_size_list(kind):
        return len(column) + _values(column.values.slice(column.offset * kind.list_size, len(column) * kind.list_size))
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        offsets = column.offsets
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        inner = (column.keys, column.items) if pa.types.is_map(kind) else (column.values,)
        return len(column) + sum(_values(each.slice(first, last - first)) for each in inner)
    return len(column)


def _refused(reason: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([], schema=pa.schema([], metadata={REFUSED: reason}))


def _stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()
