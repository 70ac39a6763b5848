"""Rows of a program as columns: tables, and lists of texts or of plain mappings, without an object for each document.

What has no columns of usual types goes the general way (conversion.py); both ways make the same documents. In a table a
null is a missing member, as in a Parquet file that is ingested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records import MAX_INTEGER, File
from aidre.library.values import NOT_FINITE, TOO_LARGE, to_number

if TYPE_CHECKING:
    import pyarrow as pa

    from aidre.ingest.records import RowBatch

MIN_COLUMNAR_ROWS: Final = 64
"""Fewer rows are as fast the general way."""
BATCH_ROWS: Final = 1 << 14
"""Rows that are written together."""
_PLAIN: Final = frozenset([str, int, float, bool])
_OWN: Final = frozenset(["id", "vectors"])
"""Members of a table that are not metadata: an id may be of any size."""
_PARSED: Final = frozenset(["metadata", "semantic_payload"])
"""Members that are parsed where a column of a table has strings; a mapping that has strings there is refused."""


def is_table(rows: Any) -> bool:
    return hasattr(rows, "__arrow_c_stream__")


def to_batches(
    rows: Any, matrices: Mapping[str, NDArray[np.float32]], content_id: Any, nowhere: File
) -> list[RowBatch] | None:
    """The rows as batches of columns; None where they have to be read one by one.

    `matrices` holds by space a vector for each row. `content_id` makes an id of the content of a row that has none.
    """
    from aidre.ingest.formats.tables import build_row_batch

    count = len(rows) if isinstance(rows, list | tuple) else MIN_COLUMNAR_ROWS
    if not matrices or count < MIN_COLUMNAR_ROWS:
        return None
    table = _to_table(rows)
    if table is None or any(len(matrix) != table.num_rows for matrix in matrices.values()):
        return None
    if table.num_rows < MIN_COLUMNAR_ROWS or len(set(table.column_names)) < table.num_columns:
        return None
    batches = []
    for first, columns in _batches(table):
        if "id" not in columns:
            ids = _content_ids(columns, content_id, is_text=not is_table(rows) and isinstance(rows[0], str))
            if ids is None:
                return None
            columns["id"] = ids
        end = first + len(columns["id"])
        batch = build_row_batch(nowhere, first, columns, {name: matrix[first:end] for name, matrix in matrices.items()})
        if batch is None or any(map(str.isspace, batch.texts.to_pylist())):
            return None
        batches.append(batch)
    return batches


def table_rows(rows: Any) -> Iterator[dict[str, Any]]:
    """The rows of a table as mappings, without nulls. InvalidDocument with `details["row"]`."""
    from aidre.ingest.formats.tables import to_json_values, to_rows

    table, first = _arrow_table(rows), 0
    for batch in table.to_batches(BATCH_ROWS):
        faults: dict[int, str] = {}
        columns = [
            column.to_pylist() if name == "vectors" else to_json_values(column, name, faults)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        for index, row in enumerate(to_rows(batch.schema.names, columns, len(batch))):
            if index in faults:
                row_number = first + index
                raise InvalidDocument(f"document {row_number}: {faults[index]}", row=row_number)
            yield row
        first += len(batch)


def _arrow_table(rows: Any) -> pa.Table:
    """InvalidDocument for a table that cannot be read, or has a value that metadata cannot."""
    import pyarrow as pa

    try:
        table = pa.table(rows)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidDocument(f"the table cannot be read{_bad_column(rows)}: {_first_line(error)}") from None
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name not in _OWN and (fault := _find_fault(column)) is not None:
            raise InvalidDocument(f"document {fault.row}: {name} {fault.reason}", row=fault.row)
    return table


def _bad_column(rows: Any) -> str:
    """The column that is the fault, where one can be told."""
    import pyarrow as pa

    for name in list(getattr(rows, "columns", ())):
        try:
            pa.array(rows[name], from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, KeyError):
            return f" at column {str(name)[:64]!r}"
    return ""


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def _to_table(rows: Any) -> pa.Table | None:
    """A table of the same documents, None where there is no such one."""
    import pyarrow as pa

    if is_table(rows):
        return _arrow_table(rows)
    if not isinstance(rows, list | tuple):
        return None
    try:
        if set(map(type, rows)) == {str}:
            return pa.table({"text": pa.array(rows, pa.large_string())})
        columns = _plain_columns(rows)
        return None if columns is None else pa.table(columns)
    except (OverflowError, UnicodeEncodeError, pa.ArrowException):
        return None


def _plain_columns(rows: Sequence[Any]) -> dict[str, list[Any]] | None:
    """The values of mappings by member, where all have the same members in the same order, each of one type of
    `_PLAIN`; otherwise None."""
    if set(map(type, rows)) != {dict}:
        return None
    names = tuple(rows[0])
    if not names or not all(type(name) is str for name in names) or not _PARSED.isdisjoint(names):
        return None
    if any(tuple(row) != names for row in rows):
        return None
    columns = {name: [row[name] for row in rows] for name in names}
    return columns if all(map(_is_plain, columns.values())) else None


def _is_plain(values: Sequence[Any]) -> bool:
    kinds = set(map(type, values))
    if len(kinds) > 1 or not kinds <= _PLAIN:
        return False
    if kinds == {int}:
        return bool(min(values) >= -MAX_INTEGER - 1 and max(values) <= MAX_INTEGER)
    return kinds != {float} or bool(np.isfinite(np.array(values)).all())


def _batches(table: pa.Table) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of the first row of each batch, and its columns."""
    first = 0
    for batch in table.combine_chunks().to_batches(BATCH_ROWS):
        yield first, dict(zip(batch.schema.names, batch.columns, strict=True))
        first += len(batch)


def _all_have_text(columns: Mapping[str, Any]) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = columns.get("text")
    if (
        texts is None
        or texts.null_count
        or not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type))
    ):
        return False
    has_empty: bool = pc.any(pc.equal(texts, "")).as_py()
    return not has_empty


def _content_ids(columns: Mapping[str, Any], content_id: Any, *, is_text: bool) -> Any:
    """Ids made of the JSON of each row with sorted names, or of a text alone; None where a row has a fault or no text:
    its id is made of its vectors, too."""
    import pyarrow as pa

    from aidre.ingest.formats.tables import Faults, write_json, write_objects

    faults: Faults = {}
    if "vectors" in columns or not _all_have_text(columns):
        return None
    if is_text:
        contents = columns["text"].cast(pa.large_binary())
    else:
        try:
            contents = write_objects(
                {name: write_json(column, name, faults) for name, column in columns.items()}
            ).sorted_json
        except (InvalidDocument, ValueError):  # of JSON
            return None
    return None if faults else pa.array(map(content_id, contents.to_pylist()), pa.large_string())


# -- values that metadata cannot have, as `values.py` refuses them ---------------------------------------------


class _ColumnFault(NamedTuple):
    """The first row with a value that cannot be stored, and the reason."""

    row: int
    reason: str


def _find_fault(column: pa.ChunkedArray) -> _ColumnFault | None:
    """None where all values of a column can be stored, at every depth."""
    first = 0
    for chunk in column.chunks:
        fault = _find(chunk)
        if fault is not None:
            return _ColumnFault(first + fault.row, fault.reason)
        first += len(chunk)
    return None


def _find(array: Any) -> _ColumnFault | None:
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
        return None if fault is None else _ColumnFault(pc.list_parent_indices(array)[fault.row].as_py(), fault.reason)
    if pa.types.is_floating(kind):
        wide = array.cast(pa.float32()) if pa.types.is_float16(kind) else array
        return _first(pc.invert(pc.is_finite(wide)), NOT_FINITE)
    if pa.types.is_uint64(kind):
        return _first(pc.greater(array, pa.scalar(MAX_INTEGER, pa.uint64())), TOO_LARGE)
    return _find_decimal(array) if pa.types.is_decimal(kind) else None


def _first(wrong: Any, reason: str) -> _ColumnFault | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    row = pc.index(wrong, pa.scalar(True)).as_py()
    return None if row < 0 else _ColumnFault(row, reason)


def _find_decimal(array: Any) -> _ColumnFault | None:
    for row, value in enumerate(array.to_pylist()):
        try:
            _ = value is None or to_number(value, "")
        except InvalidDocument as error:
            return _ColumnFault(row, error.message.strip())
    return None
