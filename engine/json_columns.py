"""JSON made column by column: strings are quoted and members joined by Arrow, without an object a row.

The bytes are those that orjson makes of the same values. A null stands for a member that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Column: TypeAlias = "pa.Array[Any]"
"""Of large binary, large strings or one of the simple kinds, as each function says."""

_BINARY: Final = pa.large_binary()
_kernels: Final[Any] = pc
"""Arrow's functions, whose published types know no arrays of unknown type."""
_join: Final[Any] = pc.binary_join_element_wise


def quoted(column: Column) -> Column:
    """Large strings as JSON."""
    made = joined([_scalar(b'"'), column.cast(_BINARY), _scalar(b'"')])
    rows = _escaped(column)
    if not len(rows):
        return made
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = True
    values = [None if text is None else orjson.dumps(text) for text in column.take(pa.array(rows)).to_pylist()]
    return _kernels.replace_with_mask(made, pa.array(mask), pa.array(values, _BINARY))


def written(column: Column) -> Column:
    """Whole numbers and truth values as JSON."""
    return column.cast(pa.large_string()).cast(_BINARY)


def members(columns: Mapping[str, Column]) -> Column:
    """From values in JSON the members of one object a row, those that are there, without the braces."""
    named = [joined([_scalar(orjson.dumps(name) + b":"), column]) for name, column in columns.items()]
    return listed(named)


def listed(columns: Sequence[Column], separator: bytes = b",") -> Column:
    """What is there of each row, with a separator between; nothing at all where every column is null."""
    first, *others = columns
    if all(column.null_count for column in columns):
        empty = reduce(_kernels.and_, map(_kernels.is_null, columns))
        first = _kernels.if_else(empty, _scalar(b""), first)  # Arrow leaves rows out of which all is null
    return _join(first, *others, _scalar(separator), null_handling="skip")


def braced(content: Column) -> Column:
    return joined([_scalar(b"{"), content, _scalar(b"}")])


def inner(objects: Column) -> Column:
    """Objects in JSON without their braces."""
    return _kernels.binary_slice(objects, 1, -1)


def joined(columns: Sequence[Any], separator: bytes = b"", null: bytes | None = None) -> Column:
    """Large binary columns and scalars joined row by row. With a null that is not replaced by `null` a row is null."""
    handling = "emit_null" if null is None else "replace"
    return _join(*columns, _scalar(separator), null_handling=handling, null_replacement=null or b"")


def constant(value: bytes, size: int) -> Column:
    """The same bytes in every row."""
    return pa.repeat(_scalar(value), size)


def fixed(values: bytes | NDArray[Any], width: int) -> Column:
    """Binary values of one width from their bytes."""
    buffer: Any = pa.py_buffer(values)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), buffer.size // width, [None, buffer])


def cut(content: bytes, width: int) -> Column:
    """Large binary values of one width from their bytes."""
    offsets: Any = pa.py_buffer(np.arange(0, len(content) + 1, width, dtype=np.int64))
    body: Any = pa.py_buffer(content)
    return pa.LargeBinaryArray.from_buffers(_BINARY, len(content) // width, [None, offsets, body])


def _scalar(value: bytes) -> Any:
    return pa.scalar(value, _BINARY)


def _escaped(column: Column) -> NDArray[np.intp]:
    """The rows of strings that hold a character which JSON writes in another way."""
    _, offsets, content = column.buffers()
    if content is None or not len(column):
        return np.empty(0, np.intp)
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    characters = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    found = (characters < 0x20) | (characters == ord('"')) | (characters == ord("\\"))
    if not found.any():
        return np.empty(0, np.intp)
    return np.unique(np.searchsorted(ends - ends[0], np.flatnonzero(found), side="right") - 1)
