"""Builds a RowBatch from the columns of a record batch, without a Python object for each row.

Only for batches whose members have their usual types. Any other batch is read row by row (row_documents.py), which
finds the fault of each row; both paths make the same documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aidre.engine.errors import InvalidDocument
from aidre.engine.index.fields import metadata_name
from aidre.engine.storage import Column
from aidre.ingest.formats.tables.arrow_json import (
    PARSED_COLUMNS,
    Faults,
    JsonColumn,
    decode_dictionary,
    has_named_fields,
    is_string_type,
    to_json_values,
    to_valid_strings,
    write_json,
    write_objects,
    write_values,
)
from aidre.ingest.records import (
    EMPTY_OBJECT,
    MAX_ID_CHARACTERS,
    MAX_INTEGER,
    RESERVED_METADATA,
    Columns,
    File,
    RowBatch,
    normalize_timestamp,
)

_STRINGS = ("text", "title", "url", "type", "section", "updated_at")
_MEMBERS = frozenset([*_STRINGS, "id", "metadata"])
_UNSUPPORTED = frozenset(["@type", "@id", "@graph", "canonical", "semantic_payload", "vectors"])
"""Columns that only the row-by-row path reads."""

_STRING_OR_NONE = frozenset([str, type(None)])
_OBJECT = frozenset([dict])


class _NotColumnar(Exception):
    """The batch has to be read row by row."""


def build_row_batch(
    file: File, first: int, columns: Columns, vectors: Mapping[str, NDArray[np.float32]]
) -> RowBatch | None:
    """The rows of a batch, numbered from `first`; None if any of them has to be read on its own.

    `vectors` are float32 matrices of shape (rows, dimensions), by space.
    """
    faults: Faults = {}
    try:
        batch = _build(file, first, columns, vectors, faults)
    except (_NotColumnar, InvalidDocument, orjson.JSONEncodeError):
        return None
    return None if faults else batch


def _build(
    file: File, first: int, columns: Columns, vectors: Mapping[str, NDArray[np.float32]], faults: Faults
) -> RowBatch:
    if "id" not in columns or not vectors or not _UNSUPPORTED.isdisjoint(columns):
        raise _NotColumnar
    ids = _read_ids(columns["id"])
    size = len(ids)
    texts, titles, urls, types, sections, dates = (
        _read_strings(columns.get(name), name, size, faults) for name in _STRINGS
    )
    metadata = _write_metadata(columns, size, faults)
    return RowBatch(
        file=file,
        row_numbers=range(first, first + size),
        ids=ids,
        texts=texts.fill_null(""),
        titles=titles,
        urls=urls,
        types=types,
        updated_at=_normalize_dates(dates),
        sections=sections,
        metadata=metadata.json,
        sorted_metadata=metadata.sorted_json,
        vectors=vectors,
        field_names=_find_field_names(columns),
    )


# -- members ---------------------------------------------------------------------------------------------------


def _read_ids(column: pa.Array) -> list[str]:
    """Ids in their stored form, if every row has a valid one."""
    column = decode_dictionary(column)
    if column.null_count or not len(column):
        raise _NotColumnar
    if pa.types.is_integer(column.type):
        return _to_list(column.cast(pa.large_string()))
    strings = _require_strings(column)
    ids = _to_list(strings)
    are_short = pc.max(pc.utf8_length(strings)).as_py() <= MAX_ID_CHARACTERS
    if not are_short or not all(map(str.isprintable, ids)) or not all(map(str.strip, ids)):
        raise _NotColumnar
    return ids


def _read_strings(column: pa.Array | None, name: str, size: int, faults: Faults) -> Column:
    """A member that is a string or missing in every row."""
    if column is None or pa.types.is_null(column.type):
        return pa.nulls(size, pa.large_string())
    column = decode_dictionary(column)
    if is_string_type(column.type):
        return _require_strings(column)
    values: list[Any] = to_json_values(column, name, faults)
    if not _STRING_OR_NONE.issuperset(map(type, values)):
        raise _NotColumnar
    return pa.array(values, pa.large_string())


def _require_strings(column: pa.Array) -> Column:
    strings = to_valid_strings(column) if is_string_type(column.type) else None
    if strings is None:
        raise _NotColumnar
    return strings


def _to_list(strings: Column) -> list[str]:
    return list(strings.to_numpy(zero_copy_only=False).tolist())


def _normalize_dates(dates: Column) -> Column:
    """Each distinct date is normalized once; raises InvalidDocument."""
    if dates.null_count == len(dates):
        return dates
    encoded = dates.dictionary_encode()
    normalized = [date if date is None else normalize_timestamp(date) for date in encoded.dictionary.to_pylist()]
    return pa.array(normalized, pa.large_string()).take(encoded.indices)


# -- metadata --------------------------------------------------------------------------------------------------


def _write_metadata(columns: Columns, size: int, faults: Faults) -> JsonColumn:
    """The metadata of each row, with all columns that are not members; `json` is null if it is empty.

    Raises orjson.JSONEncodeError.
    """
    others = {name: column for name, column in columns.items() if name not in _MEMBERS}
    own = columns.get("metadata")
    if own is not None and not has_named_fields(own.type):
        return _write_metadata_by_row(own, others, faults)
    fields = {} if own is None else {field.name: child for field, child in zip(own.type, own.flatten(), strict=True)}
    if not others.keys().isdisjoint(fields) or not RESERVED_METADATA.isdisjoint([*others, *fields]):
        return _write_metadata_by_row(own, others, faults)
    both = {**others, **fields}
    if any(map(_may_be_too_large, both.values())):
        raise _NotColumnar
    if not both:
        empty = pa.repeat(pa.scalar(EMPTY_OBJECT, pa.large_binary()), size)
        return JsonColumn(pa.nulls(size, pa.large_binary()), empty)
    return _drop_empty(write_objects({name: write_json(column, name, faults) for name, column in both.items()}))


def _may_be_too_large(column: pa.Array) -> bool:
    """Whether a column has unsigned numbers beyond those of fields, whose rows are refused one by one."""
    if not pa.types.is_uint64(column.type):
        return False
    largest = pc.max(column).as_py()
    return largest is not None and largest > MAX_INTEGER


def _write_metadata_by_row(own: pa.Array | None, others: Columns, faults: Faults) -> JsonColumn:
    """The same with a Python object for each row: the fields are not known, or names occur twice or are reserved."""
    cells = {name: to_json_values(column, name, faults) for name, column in others.items()}
    size = len(next(iter(others.values()))) if own is None else len(own)
    metadata: list[Any] = [None] * size if own is None else to_json_values(own, "metadata", faults)
    metadata = [{} if fields is None else fields for fields in metadata]
    if not _OBJECT.issuperset(map(type, metadata)):
        raise _NotColumnar
    if cells:
        metadata = [
            {name: value for name, value in zip(cells, values, strict=True) if value is not None} | fields
            for *values, fields in zip(*cells.values(), metadata, strict=True)
        ]
    if not all(map(RESERVED_METADATA.isdisjoint, metadata)):
        raise _NotColumnar
    return _drop_empty(write_values(metadata))


def _drop_empty(objects: JsonColumn) -> JsonColumn:
    """Null in place of empty objects in `json`, which is stored; `sorted_json`, for fingerprints, keeps them."""
    empty = pc.equal(objects.json, pa.scalar(EMPTY_OBJECT, objects.json.type))
    if not pc.any(empty).as_py():
        return objects
    return JsonColumn(pc.if_else(empty, pa.scalar(None, objects.json.type), objects.json), objects.sorted_json)


def _find_field_names(columns: Columns) -> frozenset[str] | None:
    """The names of the metadata's fields if every field is a column of scalar values, else None."""
    own = columns.get("metadata")
    if own is not None and not has_named_fields(own.type):
        return None
    types = {name: column.type for name, column in columns.items() if name not in _MEMBERS}
    types |= {} if own is None else {field.name: field.type for field in own.type}
    are_scalar = all(pa.types.is_primitive(kind) or is_string_type(kind) for kind in types.values())
    return frozenset(map(metadata_name, types)) if are_scalar and types.keys().isdisjoint(PARSED_COLUMNS) else None
