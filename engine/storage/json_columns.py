"""JSON made column by column with Arrow's compute functions, without a Python object per row.

The bytes equal those that orjson makes of the same values. A null stands for an absent member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.storage.arrow import kernels

Column: TypeAlias = "pa.Array[Any]"
"""An Arrow array of large binary, large string or a scalar type, as each function says."""

_BINARY: Final = pa.large_binary()


def encode_strings(column: Column) -> Column:
    """Large strings as JSON strings (large binary)."""
    encoded = join_columns([_scalar(b'"'), column.cast(_BINARY), _scalar(b'"')])
    rows = _rows_to_escape(column)
    if not len(rows):
        return encoded
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = True
    values = [None if text is None else orjson.dumps(text) for text in column.take(pa.array(rows)).to_pylist()]
    return kernels.replace_with_mask(encoded, pa.array(mask), pa.array(values, _BINARY))


def encode_scalars(column: Column) -> Column:
    """Integers and booleans as JSON (large binary)."""
    return column.cast(pa.large_string()).cast(_BINARY)


def join_members(columns: Mapping[str, Column]) -> Column:
    """`"name":value` of every non-null JSON value, comma-separated, row by row, without the braces."""
    members = [join_columns([_scalar(orjson.dumps(name) + b":"), column]) for name, column in columns.items()]
    return join_present(members)


def join_present(columns: Sequence[Column], separator: bytes = b",") -> Column:
    """The non-null values of each row joined by the separator; empty where every column is null."""
    first, *others = columns
    if all(column.null_count for column in columns):
        is_empty = reduce(kernels.and_, map(kernels.is_null, columns))
        first = kernels.if_else(is_empty, _scalar(b""), first)  # Arrow makes a row null where all columns are null
    return kernels.binary_join_element_wise(first, *others, _scalar(separator), null_handling="skip")


def add_braces(content: Column) -> Column:
    return join_columns([_scalar(b"{"), content, _scalar(b"}")])


def strip_braces(objects: Column) -> Column:
    return kernels.binary_slice(objects, 1, -1)


def join_columns(columns: Sequence[Any], separator: bytes = b"", null: bytes | None = None) -> Column:
    """Large binary columns and scalars joined row by row. A null is replaced by `null`, or makes the row null."""
    handling = "emit_null" if null is None else "replace"
    return kernels.binary_join_element_wise(
        *columns, _scalar(separator), null_handling=handling, null_replacement=null or b""
    )


def fixed_binary(values: bytes | NDArray[Any], width: int) -> Column:
    """A fixed-size binary column over a contiguous buffer, `width` bytes a row."""
    buffer: Any = pa.py_buffer(values)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), buffer.size // width, [None, buffer])


def split_binary(content: bytes, width: int) -> Column:
    """A large binary column over a contiguous buffer, `width` bytes a row."""
    offsets: Any = pa.py_buffer(np.arange(0, len(content) + 1, width, dtype=np.int64))
    body: Any = pa.py_buffer(content)
    return pa.LargeBinaryArray.from_buffers(_BINARY, len(content) // width, [None, offsets, body])


def _scalar(value: bytes) -> Any:
    return pa.scalar(value, _BINARY)


def _rows_to_escape(column: Column) -> NDArray[np.intp]:
    """The rows whose string holds a character that JSON escapes."""
    _, offsets, content = column.buffers()
    if content is None or not len(column):
        return np.empty(0, np.intp)
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    characters = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    is_escaped = (characters < 0x20) | (characters == ord('"')) | (characters == ord("\\"))
    if not is_escaped.any():
        return np.empty(0, np.intp)
    return np.unique(np.searchsorted(ends - ends[0], np.flatnonzero(is_escaped), side="right") - 1)
