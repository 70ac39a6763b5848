"""Documents as filters see them, and the rows of them that a filter finds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from aidre.engine.index.fields import field_index
from aidre.engine.index.fields.builder import ReservedColumns, SparseStrings
from aidre.engine.index.fields.field_index import FieldIndex
from aidre.engine.index.fields.filters import Filter, parse_filter, with_dates
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.storage import binary_array


class FieldRow(NamedTuple):
    """The values of one document that filters can compare."""

    document_id: str
    url: str | None
    type: str | None
    updated_at: str
    metadata: Mapping[str, Any]
    schema_object: Mapping[str, Any] | None = None


def row(metadata: dict[str, Any], number: int = 0, **reserved: Any) -> FieldRow:
    given: dict[str, Any] = {"url": None, "type": None, "updated_at": "2026-04-01T10:00:00Z"} | reserved
    return FieldRow(document_id=f"d{number}", metadata=metadata, **given)


def build_fields(rows: Iterable[FieldRow], dates: Collection[str] = ()) -> pa.RecordBatch:
    """The field index of documents that are given one by one."""
    rows = list(rows)
    reserved = ReservedColumns(
        binary_array([one.document_id for one in rows]),
        binary_array([one.updated_at for one in rows]),
        sparse([one.url for one in rows]),
        sparse([one.type for one in rows]),
    )
    return field_index.build_fields(reserved, [(one.metadata, one.schema_object) for one in rows], dates)


def sparse(values: Sequence[str | None]) -> SparseStrings:
    rows = [row for row, value in enumerate(values) if value is not None]
    return np.array(rows, np.int32), binary_array([value for value in values if value is not None])


def stored_rows(segment: SegmentReader) -> Iterator[FieldRow]:
    """The documents of a segment, parsed from their stored JSON."""
    for batch in segment.documents.file.batches:
        for stored in batch.select(["id", "url", "type", "updated_at", "metadata", "schema_object"]).to_pylist():
            metadata, schema_object = stored["metadata"], stored["schema_object"]
            yield FieldRow(
                stored["id"],
                stored["url"],
                stored["type"],
                stored["updated_at"],
                orjson.loads(metadata) if metadata else {},
                orjson.loads(schema_object) if schema_object else None,
            )


def dated(written: Any, dates: Sequence[str]) -> Filter:
    """A filter whose comparisons with the fields `dates` are of instants."""
    return with_dates(parse_filter(written), dates)


def matches(rows: Sequence[FieldRow], written: Any, dates: Sequence[str] = ()) -> list[int]:
    mask = FieldIndex(build_fields(rows, dates)).mask(dated(written, dates))
    return np.flatnonzero(mask).tolist()
