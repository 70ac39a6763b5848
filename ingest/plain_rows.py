"""Rows of a table that hold nothing unusual, column by column: what a bulk load stores without an object a row.

Whatever else a batch holds goes row by row (rows.py), which says what is wrong with it; both make the same documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aidre.engine.errors import InvalidDocument
from aidre.engine.field_rows import names_of
from aidre.engine.filters import metadata_name
from aidre.engine.json_columns import Column, fixed, joined
from aidre.engine.model import Document
from aidre.engine.records import Chunks, Records
from aidre.engine.schema import FINGERPRINT_BYTES
from aidre.ingest.cells import (
    PARSED,
    Faults,
    Written,
    decoded,
    has_fields,
    is_text,
    json_values,
    json_written,
    objects_written,
    sound_strings,
    values_written,
)
from aidre.ingest.found import File
from aidre.ingest.members import LONGEST_ID, RESERVED, instant

Columns = Mapping[str, "pa.Array"]

_STRINGS = ("text", "title", "url", "type", "section", "updated_at")
_UNUSUAL = frozenset(["@type", "@id", "@graph", "canonical", "semantic_payload", "vectors"])
_MEMBERS = frozenset([*_STRINGS, "id", "metadata"])
_WORDS = frozenset([str, type(None)])
_OBJECTS = frozenset([dict])
_EMPTY = b"{}"
_FIRST: Final[Any] = pa.scalar(b"#chunk_1", pa.large_binary())


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Documents of one chunk each, all of one file, each with a vector in every space of `vectors`.

    `places` are the numbers of the rows in their file; row n of each matrix belongs to document n. Columns are large
    strings; `metadata` is JSON, null where it is empty, and `ordered` the same with the names of objects in order.
    `fields` are names of which the metadata hold no others, None where they have to be read for them.
    """

    file: File
    places: Sequence[int]
    ids: Sequence[str]
    texts: Column
    titles: Column
    urls: Column
    types: Column
    updated_at: Column
    sections: Column
    metadata: Column
    ordered: Column
    vectors: Mapping[str, NDArray[np.float32]]
    fields: frozenset[str] | None

    def __len__(self) -> int:
        return len(self.ids)

    def chosen(self, rows: Sequence[int]) -> PlainRows:
        """Some of the rows, in the given order."""
        if len(rows) == len(self):
            return self
        taken = pa.array(rows, pa.int64())
        columns = ("texts", "titles", "urls", "types", "updated_at", "sections", "metadata", "ordered")
        return replace(
            self,
            places=[self.places[row] for row in rows],
            ids=[self.ids[row] for row in rows],
            vectors={space: matrix[taken.to_numpy()] for space, matrix in self.vectors.items()},
            **{name: getattr(self, name).take(taken) for name in columns},
        )

    def dated(self, rows: Sequence[int], dates: Sequence[str | None]) -> PlainRows:
        """The same with other dates for some rows."""
        updated_at = self.updated_at.to_pylist()
        for row, date in zip(rows, dates, strict=True):
            updated_at[row] = date
        return replace(self, updated_at=pa.array(updated_at, pa.large_string()))

    def field_names(self) -> Set[str]:
        """At least those of all fields of the metadata."""
        if self.fields is not None:
            return self.fields
        return set().union(*(names_of((orjson.loads(each), None)) for each in self.metadata.drop_null().to_pylist()))

    def documents(self) -> Iterator[tuple[str, Document]]:
        """The same as objects, each with its place for messages."""
        file = self.file
        cells = (self.texts, self.titles, self.urls, self.updated_at, self.types, self.sections, self.metadata)
        columns = zip(self.places, self.ids, *(column.to_pylist() for column in cells), strict=True)
        for row, (place, identity, text, title, url, updated_at, type_, section, metadata) in enumerate(columns):
            document = Document(
                identity,
                text,
                title,
                url,
                updated_at,
                type_,
                section,
                metadata={} if metadata is None else orjson.loads(metadata),
                vectors={space: matrix[row] for space, matrix in self.vectors.items()},
                source=file.source,
                origin=file.origin,
            )
            yield f"{file.origin}:{place}", document

    def records(self, fingerprints: Sequence[bytes]) -> Records:
        """What the writer stores of them."""
        size = len(self)
        objects, numbers = pa.nulls(size, pa.large_binary()), np.zeros(size, np.int64)
        ids = pa.array(self.ids, pa.large_string())
        return Records(
            self.ids,
            self.urls,
            self.titles,
            self.types,
            self.updated_at,
            pa.repeat(True, size),
            self.metadata,
            objects,
            objects,
            pa.repeat(pa.scalar(self.file.source, pa.large_string()), size),
            pa.repeat(pa.scalar(self.file.origin, pa.large_string()), size),
            objects,
            fixed(b"".join(fingerprints), FINGERPRINT_BYTES),
            Chunks(
                [1] * size,
                joined([ids.cast(pa.large_binary()), _FIRST]).cast(pa.large_string()),
                self.texts,
                pa.array(numbers),
                pc.utf8_length(self.texts),
                self.sections,
                pa.nulls(size, pa.int32()),
            ),
        )


def plain_rows(
    file: File, first: int, columns: Columns, vectors: Mapping[str, NDArray[np.float32]]
) -> PlainRows | None:
    """The rows of a batch, the first numbered `first`, from its columns; None where any of them is unusual."""
    faults: Faults = {}
    try:
        rows = _read(file, first, columns, vectors, faults)
    except (_Unusual, InvalidDocument, orjson.JSONEncodeError):
        return None
    return None if faults else rows


class _Unusual(Exception):
    """Something that only row by row can be told what it is."""


def _read(
    file: File, first: int, columns: Columns, vectors: Mapping[str, NDArray[np.float32]], faults: Faults
) -> PlainRows:
    if "id" not in columns or not vectors or not _UNUSUAL.isdisjoint(columns):
        raise _Unusual
    ids = _ids(columns["id"])
    size = len(ids)
    texts, titles, urls, types, sections, moments = (
        _strings(columns.get(name), name, size, faults) for name in _STRINGS
    )
    stored, ordered = _metadata(columns, size, faults)
    return PlainRows(
        file, range(first, first + size), ids, texts.fill_null(""), titles, urls, types, _dates(moments), sections,
        stored, ordered, vectors, _fields(columns),
    )  # fmt: skip


def _ids(column: pa.Array) -> list[str]:
    """Ids as they are stored; none of them may be missing or wrong."""
    column = decoded(column)
    if column.null_count or not len(column):
        raise _Unusual
    if pa.types.is_integer(column.type):
        return _list(column.cast(pa.large_string()))
    strings = _texts(column)
    ids = _list(strings)
    is_fit = pc.max(pc.utf8_length(strings)).as_py() <= LONGEST_ID
    if not is_fit or not all(map(str.isprintable, ids)) or not all(map(str.strip, ids)):
        raise _Unusual
    return ids


def _texts(column: pa.Array) -> Column:
    strings = sound_strings(column) if is_text(column.type) else None
    if strings is None:
        raise _Unusual
    return strings


def _list(strings: Column) -> list[str]:
    return list(strings.to_numpy(zero_copy_only=False).tolist())


def _strings(column: pa.Array | None, name: str, size: int, faults: Faults) -> Column:
    """A member that is a string or missing in every row."""
    if column is None or pa.types.is_null(column.type):
        return pa.nulls(size, pa.large_string())
    column = decoded(column)
    if is_text(column.type):
        return _texts(column)
    values: list[Any] = json_values(column, name, faults)
    if not _WORDS.issuperset(map(type, values)):
        raise _Unusual
    return pa.array(values, pa.large_string())


def _dates(moments: Column) -> Column:
    """The dates as they are stored; raises InvalidDocument."""
    if moments.null_count == len(moments):
        return moments
    known = moments.dictionary_encode()
    read = [moment if moment is None else instant(moment) for moment in known.dictionary.to_pylist()]
    return pa.array(read, pa.large_string()).take(known.indices)


def _metadata(columns: Columns, size: int, faults: Faults) -> Written:
    """The metadata of each row, with the columns that have no other place. What is stored is null where it is empty.

    Raises orjson.JSONEncodeError.
    """
    others = {name: column for name, column in columns.items() if name not in _MEMBERS}
    own = columns.get("metadata")
    if own is not None and not has_fields(own.type):
        return _metadata_of_rows(own, others, faults)
    fields = {} if own is None else {field.name: each for field, each in zip(own.type, own.flatten(), strict=True)}
    if not others.keys().isdisjoint(fields) or not RESERVED.isdisjoint([*others, *fields]):
        return _metadata_of_rows(own, others, faults)
    both = {**others, **fields}
    if not both:
        return Written(pa.nulls(size, pa.large_binary()), pa.repeat(pa.scalar(_EMPTY, pa.large_binary()), size))
    return _without_empty(objects_written({name: json_written(each, name, faults) for name, each in both.items()}))


def _fields(columns: Columns) -> frozenset[str] | None:
    """The names of the fields of the metadata where each is a column of simple values."""
    own = columns.get("metadata")
    if own is not None and not has_fields(own.type):
        return None
    kinds = {name: column.type for name, column in columns.items() if name not in _MEMBERS}
    kinds |= {} if own is None else {field.name: field.type for field in own.type}
    are_simple = all(pa.types.is_primitive(kind) or is_text(kind) for kind in kinds.values())
    return frozenset(map(metadata_name, kinds)) if are_simple and kinds.keys().isdisjoint(PARSED) else None


def _without_empty(objects: Written) -> Written:
    """What is stored of objects: nothing of empty ones."""
    stored, ordered = objects
    empty = pc.equal(stored, pa.scalar(_EMPTY, stored.type))
    if not pc.any(empty).as_py():
        return objects
    return Written(pc.if_else(empty, pa.scalar(None, stored.type), stored), ordered)


def _metadata_of_rows(own: pa.Array | None, others: Columns, faults: Faults) -> Written:
    """The same by an object a row."""
    cells = {name: json_values(column, name, faults) for name, column in others.items()}
    size = len(next(iter(others.values()))) if own is None else len(own)
    metadata: list[Any] = [None] * size if own is None else json_values(own, "metadata", faults)
    metadata = [{} if each is None else each for each in metadata]
    if not _OBJECTS.issuperset(map(type, metadata)):
        raise _Unusual
    if cells:
        metadata = [
            {name: value for name, value in zip(cells, values, strict=True) if value is not None} | each
            for *values, each in zip(*cells.values(), metadata, strict=True)
        ]
    if not all(map(RESERVED.isdisjoint, metadata)):
        raise _Unusual
    return _without_empty(values_written(metadata))
