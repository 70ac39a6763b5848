"""A columnar batch of rows: one Arrow column for each member of a document, and no Python object for each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aidre.engine.index.fields import field_names
from aidre.engine.model import Document
from aidre.engine.segment import ChunkColumns, RecordColumns
from aidre.engine.storage import FINGERPRINT_BYTES, Column, fixed_binary, join_columns
from aidre.ingest.records.file import File

Columns = Mapping[str, "pa.Array"]

EMPTY_OBJECT = b"{}"

_FIRST_CHUNK: Final[Any] = pa.scalar(b"#chunk_1", pa.large_binary())
_ROW_COLUMNS: Final = ("texts", "titles", "urls", "types", "updated_at", "sections", "metadata", "sorted_metadata")


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Documents of one chunk each, all from one file, each with a vector in every space of `vectors`.

    `row_numbers` count the rows of the file from 1. Columns are large strings. `metadata` is JSON, null if empty;
    `sorted_metadata` is the same with sorted names, for fingerprints. Row n of each matrix, float32 of shape (rows,
    dimensions), belongs to document n. `field_names` is a superset of the metadata's field names, or None: then
    `metadata_fields` has to parse the metadata.
    """

    file: File
    row_numbers: Sequence[int]
    ids: Sequence[str]
    texts: Column
    titles: Column
    urls: Column
    types: Column
    updated_at: Column
    sections: Column
    metadata: Column
    sorted_metadata: Column
    vectors: Mapping[str, NDArray[np.float32]]
    field_names: frozenset[str] | None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int]) -> RowBatch:
        """The given rows, in the given order."""
        if len(rows) == len(self):
            return self
        indices = pa.array(rows, pa.int64())
        return replace(
            self,
            row_numbers=[self.row_numbers[row] for row in rows],
            ids=[self.ids[row] for row in rows],
            vectors={space: matrix[indices.to_numpy()] for space, matrix in self.vectors.items()},
            **{name: getattr(self, name).take(indices) for name in _ROW_COLUMNS},
        )

    def with_dates(self, rows: Sequence[int], dates: Sequence[str | None]) -> RowBatch:
        """The same batch with other values of `updated_at` in the given rows."""
        updated_at = self.updated_at.to_pylist()
        for row, date in zip(rows, dates, strict=True):
            updated_at[row] = date
        return replace(self, updated_at=pa.array(updated_at, pa.large_string()))

    def metadata_fields(self) -> Set[str]:
        """A superset of the names of all metadata fields."""
        if self.field_names is not None:
            return self.field_names
        return set().union(*(field_names((orjson.loads(text), None)) for text in self.metadata.drop_null().to_pylist()))

    def documents(self) -> Iterator[tuple[str, Document]]:
        """The rows as Documents, each with its location "file:row" for messages."""
        file = self.file
        columns = (self.texts, self.titles, self.urls, self.updated_at, self.types, self.sections, self.metadata)
        rows = zip(self.row_numbers, self.ids, *(column.to_pylist() for column in columns), strict=True)
        for row, (number, identity, text, title, url, updated_at, type_, section, metadata) in enumerate(rows):
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
            yield f"{file.origin}:{number}", document

    def to_records(self, fingerprints: Sequence[bytes]) -> RecordColumns:
        """The columns that the writer stores, with one fingerprint a row."""
        size = len(self)
        no_json, starts = pa.nulls(size, pa.large_binary()), np.zeros(size, np.int64)
        ids = pa.array(self.ids, pa.large_string())
        return RecordColumns(
            self.ids,
            self.urls,
            self.titles,
            self.types,
            self.updated_at,
            pa.repeat(True, size),
            self.metadata,
            no_json,
            no_json,
            pa.repeat(pa.scalar(self.file.source, pa.large_string()), size),
            pa.repeat(pa.scalar(self.file.origin, pa.large_string()), size),
            no_json,
            fixed_binary(b"".join(fingerprints), FINGERPRINT_BYTES),
            ChunkColumns(
                [1] * size,
                join_columns([ids.cast(pa.large_binary()), _FIRST_CHUNK]).cast(pa.large_string()),
                self.texts,
                pa.array(starts),
                pc.utf8_length(self.texts),
                self.sections,
                pa.nulls(size, pa.int32()),
            ),
        )
