"""Columns of Arrow as JSON: as values in Python, or already written, where no object a value is made.

What Python or JSON cannot have is a fault of its row. Knows no document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from aidre.engine.errors import InvalidDocument
from aidre.engine.json_columns import Column, braced, members, quoted, written
from aidre.engine.model import Json
from aidre.ingest.json_text import read_json
from aidre.ingest.plain import plain

Faults = dict[int, str]
"""What is wrong with the rows of a batch, by row."""

PARSED = ("metadata", "semantic_payload")
"""Columns whose strings may be JSON."""


class Written(NamedTuple):
    """JSON of each row, null where there is none: as it came, and with the names of objects in order."""

    stored: Column
    ordered: Column


def json_written(column: pa.Array, name: str, faults: Faults) -> Written:
    """A column as JSON: what `json_values` would give, written."""
    column = decoded(column)
    kind = column.type
    if has_fields(kind):
        children = zip(kind, column.flatten(), strict=True)  # flatten(), unlike field(), has the nulls of the struct
        made = objects_written({field.name: json_written(child, field.name, faults) for field, child in children})
        if not column.null_count:
            return made
        there = column.is_valid()
        return Written(*(pc.if_else(there, each, pa.scalar(None, each.type)) for each in made))
    if is_text(kind) and name not in PARSED and (strings := sound_strings(column)) is not None:
        return Written(*[quoted(strings)] * 2)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return Written(*[written(column)] * 2)
    return values_written(json_values(column, name, faults))


def objects_written(columns: Mapping[str, Written]) -> Written:
    """One object a row of these members."""
    stored = braced(members({name: each.stored for name, each in columns.items()}))
    if list(columns) == sorted(columns) and all(each.stored is each.ordered for each in columns.values()):
        return Written(stored, stored)
    return Written(stored, braced(members({name: columns[name].ordered for name in sorted(columns)})))


def values_written(values: Sequence[Json]) -> Written:
    """Raises orjson.JSONEncodeError."""

    def dumped(option: int) -> Column:
        found = [None if value is None else orjson.dumps(value, option=option) for value in values]
        return pa.array(found, pa.large_binary())

    return Written(dumped(0), dumped(orjson.OPT_SORT_KEYS))


def decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def sound_strings(column: pa.Array) -> Column | None:
    """A column of text as large strings; None where one of them is not UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return column.cast(pa.large_string())


def has_fields(kind: pa.DataType) -> bool:
    """Whether values are objects of known names, each name once."""
    return bool(pa.types.is_struct(kind)) and len({field.name for field in kind}) == kind.num_fields > 0


def as_rows(names: Sequence[str], cells: Sequence[list[Json]], count: int) -> Iterator[dict[str, Json]]:
    """One object a row; a null cell is a member that the row has not."""
    if not cells:
        return ({} for _ in range(count))
    if any(None in column for column in cells):
        return (
            {name: value for name, value in zip(names, values, strict=True) if value is not None}
            for values in zip(*cells, strict=True)
        )
    return (dict(zip(names, values, strict=True)) for values in zip(*cells, strict=True))


def json_values(column: pa.Array, name: str, faults: Faults) -> list[Json]:
    """A column as JSON values; one that cannot be a JSON value is null and its row has a fault."""
    column = decoded(column)
    kind = column.type
    if pa.types.is_struct(kind) and kind.num_fields:
        return _objects(column, name, faults)
    values = _values(column, name, faults)
    if is_text(kind):
        return _convert(values, name, _parsed, faults) if name in PARSED else values
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values
    return _convert(values, name, plain, faults)


def _objects(column: pa.Array, name: str, faults: Faults) -> list[Json]:
    """A struct column field by field, which is much faster than value by value."""
    names = [field.name for field in column.type]
    cells = [json_values(child, each, faults) for each, child in zip(names, column.flatten(), strict=True)]
    values: list[Json] = list(as_rows(names, cells, len(column)))
    if column.null_count:
        for at in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[at] = None
    return values


def _values(column: pa.Array, name: str, faults: Faults) -> list[Any]:
    """Python's values; read one by one where the column holds some that Python cannot have."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":  # finer than Python's dates
        column = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
    try:
        if is_text(column.type) or (pa.types.is_integer(column.type) and not column.null_count):
            # The same values as from to_pylist, made in a tenth of its time.
            return list(column.to_numpy(zero_copy_only=False).tolist())
        return list(column.to_pylist(maps_as_pydicts="lossy"))
    except (ValueError, OverflowError, pa.ArrowException):
        return [_value(column, at, name, faults) for at in range(len(column))]


def _value(column: pa.Array, at: int, name: str, faults: Faults) -> Any:
    try:
        return column[at].as_py(maps_as_pydicts="lossy")
    except UnicodeDecodeError:
        faults[at] = f"{name} is not UTF-8"
    except (ValueError, OverflowError, pa.ArrowException):
        faults[at] = f"{name} has a value out of range"
    return None


def _convert(values: list[Any], name: str, convert: Callable[[Any, str], Json], faults: Faults) -> list[Json]:
    converted: list[Json] = []
    for at, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value, name))
        except InvalidDocument as error:
            faults[at] = error.message
            converted.append(None)
    return converted


def _parsed(value: str, name: str) -> Json:
    """Metadata and payload may be a string of JSON; a payload may as well be a string that is none."""
    if name == "semantic_payload" and not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return read_json(value.encode("utf-8", "surrogatepass"))
    except InvalidDocument as error:
        if error.details.get("large"):
            raise InvalidDocument(f"{name} {error.message}") from None
        if name == "semantic_payload":
            return value
        raise InvalidDocument(f"{name} is neither a struct nor JSON: {error.message}") from None


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
