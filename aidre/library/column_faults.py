"""Values of Arrow columns that metadata cannot have, found without a Python object for each: as `values.py` refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records import MAX_INTEGER
from aidre.library.values import NOT_FINITE, TOO_LARGE, to_number

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnFault(NamedTuple):
    """The first row with a value that cannot be stored, and the reason."""

    row: int
    reason: str


def find_fault(column: pa.ChunkedArray) -> ColumnFault | None:
    """None where all values of a column can be stored, at every depth."""
    first = 0
    for chunk in column.chunks:
        fault = _find(chunk)
        if fault is not None:
            return ColumnFault(first + fault.row, fault.reason)
        first += len(chunk)
    return None


def _find(array: Any) -> ColumnFault | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if pa.types.is_struct(kind):
        faults = [fault for child in array.flatten() if (fault := _find(child)) is not None]
        return min(faults, default=None)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        fault = _find(array.flatten())
        return None if fault is None else ColumnFault(pc.list_parent_indices(array)[fault.row].as_py(), fault.reason)
    if pa.types.is_floating(kind):
        wide = array.cast(pa.float32()) if pa.types.is_float16(kind) else array
        return _first(pc.invert(pc.is_finite(wide)), NOT_FINITE)
    if pa.types.is_uint64(kind):
        return _first(pc.greater(array, pa.scalar(MAX_INTEGER, pa.uint64())), TOO_LARGE)
    return _find_decimal(array) if pa.types.is_decimal(kind) else None


def _first(wrong: Any, reason: str) -> ColumnFault | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    row = pc.index(wrong, pa.scalar(True)).as_py()
    return None if row < 0 else ColumnFault(row, reason)


def _find_decimal(array: Any) -> ColumnFault | None:
    for row, value in enumerate(array.to_pylist()):
        try:
            _ = value is None or to_number(value, "")
        except InvalidDocument as error:
            return ColumnFault(row, error.message.strip())
    return None
