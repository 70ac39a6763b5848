"""Arrow columns as JSON: as Python values, or as JSON text without a Python object for each value.

A value that Python or JSON cannot express is a fault of its row. Knows no document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.engine.storage import Column, add_braces, encode_scalars, encode_strings, join_members
from aidre.ingest.records import parse_json, to_json_value

Faults = dict[int, str]
"""The faults of a batch, by row."""

PARSED_COLUMNS = ("metadata", "semantic_payload")
"""Columns whose strings may be JSON."""


class JsonColumn(NamedTuple):
    """The JSON text of each row, null for a missing value; in `sorted_json` the names of all objects are sorted."""

    json: Column
    sorted_json: Column


def write_json(column: pa.Array, name: str, faults: Faults) -> JsonColumn:
    """The JSON text of the values that `to_json_values` gives."""
    column = decode_dictionary(column)
    kind = column.type
    if has_named_fields(kind):
        return _write_structs(column, faults)
    if is_string_type(kind) and name not in PARSED_COLUMNS and (strings := to_valid_strings(column)) is not None:
        text = encode_strings(strings)
        return JsonColumn(text, text)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        text = encode_scalars(column)
        return JsonColumn(text, text)
    return write_values(to_json_values(column, name, faults))


def _write_structs(column: pa.Array, faults: Faults) -> JsonColumn:
    children = zip(column.type, column.flatten(), strict=True)  # unlike field(), flatten() has the nulls of the struct
    objects = write_objects({field.name: write_json(child, field.name, faults) for field, child in children})
    if not column.null_count:
        return objects
    valid = column.is_valid()
    return JsonColumn(*(pc.if_else(valid, text, pa.scalar(None, text.type)) for text in objects))


def write_objects(columns: Mapping[str, JsonColumn]) -> JsonColumn:
    """One object a row with these members; a null is a missing member."""
    json = add_braces(join_members({name: column.json for name, column in columns.items()}))
    if list(columns) == sorted(columns) and all(column.json is column.sorted_json for column in columns.values()):
        return JsonColumn(json, json)
    return JsonColumn(json, add_braces(join_members({name: columns[name].sorted_json for name in sorted(columns)})))


def write_values(values: Sequence[Json]) -> JsonColumn:
    """Raises orjson.JSONEncodeError."""

    def dump(option: int) -> Column:
        texts = [None if value is None else orjson.dumps(value, option=option) for value in values]
        return pa.array(texts, pa.large_binary())

    return JsonColumn(dump(0), dump(orjson.OPT_SORT_KEYS))


def decode_dictionary(column: pa.Array) -> pa.Array:
    """A dictionary-encoded column as its values; any other column unchanged."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def to_valid_strings(column: pa.Array) -> Column | None:
    """A column of strings as large strings; None if any of them is not UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return column.cast(pa.large_string())


def has_named_fields(kind: pa.DataType) -> bool:
    """Whether the type is a struct with fields, each of another name."""
    return bool(pa.types.is_struct(kind)) and len({field.name for field in kind}) == kind.num_fields > 0


def is_string_type(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def to_rows(names: Sequence[str], columns: Sequence[list[Json]], count: int) -> Iterator[dict[str, Json]]:
    """One object for each of `count` rows; a null is a missing member."""
    if not columns:
        return ({} for _ in range(count))
    if any(None in column for column in columns):
        return (
            {name: value for name, value in zip(names, values, strict=True) if value is not None}
            for values in zip(*columns, strict=True)
        )
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def to_json_values(column: pa.Array, name: str, faults: Faults) -> list[Json]:
    """A column as JSON values; a value that JSON cannot express is None, and a fault of its row."""
    column = decode_dictionary(column)
    kind = column.type
    if pa.types.is_struct(kind) and kind.num_fields:
        return _to_objects(column, faults)
    values = _to_python(column, name, faults)
    if is_string_type(kind):
        return _convert(values, name, _parse_text, faults) if name in PARSED_COLUMNS else values
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values
    return _convert(values, name, to_json_value, faults)


def _to_objects(column: pa.Array, faults: Faults) -> list[Json]:
    """The values of a struct column, read field by field: much faster than value by value."""
    names = [field.name for field in column.type]
    fields = [to_json_values(child, name, faults) for name, child in zip(names, column.flatten(), strict=True)]
    values: list[Json] = list(to_rows(names, fields, len(column)))
    if column.null_count:
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[row] = None
    return values


def _to_python(column: pa.Array, name: str, faults: Faults) -> list[Any]:
    """Python values; converted one by one if Python cannot express some of them."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":  # finer than Python's datetime
        column = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
    try:
        if is_string_type(column.type) or (pa.types.is_integer(column.type) and not column.null_count):
            # The same values as from to_pylist(), in a tenth of the time.
            return list(column.to_numpy(zero_copy_only=False).tolist())
        return list(column.to_pylist(maps_as_pydicts="lossy"))
    except (ValueError, OverflowError, pa.ArrowException):
        return [_to_python_value(column, row, name, faults) for row in range(len(column))]


def _to_python_value(column: pa.Array, row: int, name: str, faults: Faults) -> Any:
    try:
        return column[row].as_py(maps_as_pydicts="lossy")
    except UnicodeDecodeError:
        faults[row] = f"{name} is not UTF-8"
    except (ValueError, OverflowError, pa.ArrowException):
        faults[row] = f"{name} has a value out of range"
    return None


def _convert(values: list[Any], name: str, convert: Callable[[Any, str], Json], faults: Faults) -> list[Json]:
    converted: list[Json] = []
    for row, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value, name))
        except InvalidDocument as error:
            faults[row] = error.message
            converted.append(None)
    return converted


def _parse_text(value: str, name: str) -> Json:
    """The JSON in a string; a semantic payload may also be a string that is not JSON."""
    if name == "semantic_payload" and not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return parse_json(value.encode("utf-8", "surrogatepass"))
    except InvalidDocument as error:
        if error.details.get("large"):
            raise InvalidDocument(f"{name} {error.message}") from None
        if name == "semantic_payload":
            return value
        raise InvalidDocument(f"{name} is neither a struct nor JSON: {error.message}") from None
