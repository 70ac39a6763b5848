"""What reading a source yields: a document with the place it stands at, or the reason why there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aidre.engine.errors import InvalidDocument
from aidre.engine.json_columns import Column, fixed, joined
from aidre.engine.model import Document
from aidre.engine.records import Chunks, Records
from aidre.engine.schema import FINGERPRINT_BYTES
from aidre.ingest.mapping import ColumnMapping

LARGEST = 64 << 20
"""Bytes of the longest line and of the largest file that is one document; a larger one fails by name."""

_FIRST: Final[Any] = pa.scalar(b"#chunk_1", pa.large_binary())


@dataclass(frozen=True, slots=True)
class File:
    """A file of a source: `origin` is its path inside the source, `url` what --url-base makes of that.

    Of one that was fetched `origin` is the address that was asked for, which is its id too, and `url` the one that
    answered. `mapping` is what the configuration says of the columns of rows.
    """

    path: Path
    source: str
    origin: str
    url: str | None = None
    fetched: bool = False
    mapping: ColumnMapping | None = None

    @property
    def id(self) -> str:
        return self.origin if self.fetched else f"{self.source}/{self.origin}"


@dataclass(frozen=True, slots=True)
class Rejected:
    """Something that gives no document. `where` is "file" or "file:line".

    What --mirror must not delete: the document `document_id`, or where that is not known everything that
    came from `origin`, or with `folder` from below it.
    """

    where: str
    reason: str
    source: str
    origin: str
    document_id: str | None = None
    folder: bool = False


@dataclass(frozen=True, slots=True)
class Unchanged:
    """What was fetched from `origin` before is as it was, or may be: its documents stay, and so many count as read."""

    where: str
    source: str
    origin: str
    documents: int = 1


@dataclass(frozen=True, slots=True)
class Listed:
    """All documents of a listing (a feed, a sitemap, rows) came before this. Unless one of them failed, `state` makes
    the next request of it conditional; of which `kind` it was is remembered in any case."""

    source: str
    origin: str
    kind: str
    state: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Documents of one chunk each, all of one file, each with a vector in every space of `vectors`.

    `places` are the numbers of the rows in their file; row n of each matrix belongs to document n. Columns are large
    strings; `metadata` is JSON, null where it is empty, and `ordered` the same with the names of objects in order.
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


Found: TypeAlias = tuple[str, Document] | PlainRows | Rejected | Unchanged | Listed
"""A document goes with its "file" or "file:line", for messages."""


def decoded(content: bytes, encoding: str = "utf-8") -> str:
    """Text from bytes, without a byte order mark; raises InvalidDocument where they are in another encoding."""
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidDocument(f"not {encoding.upper()} at byte {error.start}: convert the file to UTF-8") from None
    except (UnicodeError, LookupError):  # also codecs that are no text encodings, like zip
        raise InvalidDocument(f"declares the unknown encoding {encoding}: convert the file to UTF-8") from None


def content(file: File) -> bytes:
    """The bytes of a file that is one document; raises InvalidDocument for a huge one, OSError as it comes."""
    with file.path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        read = stream.read(min(size, LARGEST) + 1)  # so many bytes are allocated before any is read
        if len(read) > size:
            read += stream.read(LARGEST + 1)
    if len(read) > LARGEST:
        raise InvalidDocument(f"larger than {LARGEST >> 20} MiB: split it")
    return read
