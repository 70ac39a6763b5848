"""Documents as programs hand them over: texts, mappings, tables and `Document`s become `Document`s."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.engine.errors import InvalidDocument, InvalidInput
from aidre.engine.listing import stored_document
from aidre.engine.model import Document, Json
from aidre.engine.types import RetrievedChunk
from aidre.ingest.records import RESERVED_METADATA, File, RowBatch, normalize_timestamp, to_document, to_document_id
from aidre.library.row_batches import is_table, table_rows, to_batches
from aidre.library.values import to_json
from aidre_client.values import check_misplaced_vector, not_a_row

Row: TypeAlias = str | Mapping[str, Any] | Document
"""A text, a mapping with the members of a document and metadata, or a document."""

Rows: TypeAlias = Any
"""A Row, an iterable of them, or a table: Arrow, pandas, polars or whatever else exports Arrow's stream interface."""

Matrix: TypeAlias = NDArray[np.float32]

_ID_BYTES = 16
_MEMBERS = frozenset({"title", "url", "updated_at", "type"})
_STRINGS = ("title", "url", "updated_at", "type", "section", "source", "origin")
_NO_FILE = File(Path(), "", "")


def to_documents(rows: Rows, matrices: Mapping[str, Matrix]) -> Iterator[Document]:
    """The documents of some rows. `matrices` holds by space a vector for each row, shape (rows, dimensions).

    InvalidDocument names the row, from 0; InvalidInput where rows and vectors differ in number.
    """
    listed = list(_rows(rows)) if matrices else _rows(rows)
    for space, matrix in matrices.items():
        if isinstance(listed, list) and len(matrix) != len(listed):
            raise InvalidInput(f"space {space!r} has {len(matrix)} vectors for {len(listed)} documents: bring one each")
    for number, row in enumerate(listed):
        brought = {space: matrix[number] for space, matrix in matrices.items()}
        document = _to_document(row, number, brought)
        yield replace(document, vectors={**(document.vectors or {}), **brought}) if brought else document


def to_columns(rows: Rows, matrices: Mapping[str, Matrix]) -> list[RowBatch] | None:
    """The same documents by columns; None where they have to be made one by one."""
    return to_batches(rows, matrices, _id_of, _NO_FILE)


def to_changes(changes: Any) -> dict[str, dict[str, Any]]:
    """Changes of documents by id, as values that can be stored. InvalidInput, InvalidDocument."""
    if not isinstance(changes, Mapping) or not all(isinstance(members, Mapping) for members in changes.values()):
        raise InvalidInput("patch takes a mapping of ids to mappings of changed members")
    return {
        to_document_id(key): {str(name): _to_change(str(name), value) for name, value in members.items()}
        for key, members in changes.items()
    }


def _to_change(name: str, value: Any) -> Any:
    if name == "vectors":
        return _vectors_of({"vectors": value})
    return None if value is None else to_json(value, name)


def to_matrices(vectors: Any, spaces: Sequence[str]) -> dict[str, Matrix]:
    """A matrix, which is for the only one of `spaces`, or a mapping of them; InvalidInput."""
    if vectors is None:
        return {}
    if not isinstance(vectors, Mapping):
        if len(spaces) != 1:
            raise InvalidInput(f"the collection has {len(spaces)} spaces: send vectors as a mapping, one matrix each")
        vectors = {spaces[0]: vectors}
    return {space: _array(matrix, space, axes=2) for space, matrix in vectors.items()}


def to_vector(value: Any, space: str | None) -> Matrix:
    """A vector of numbers, shape (dimensions,), of a space or of a search; InvalidInput."""
    return _array(value, space, axes=1)


def select_members(chunks: Sequence[RetrievedChunk], names: Sequence[str]) -> dict[str, Any]:
    """The id of a document, and the named ones of its members and metadata that it has."""
    first = chunks[0]
    found: dict[str, Any] = {"id": first.document_id}
    for name in names:
        if name == "text":
            found[name] = stored_document(chunks).text
        elif name in _MEMBERS:
            found[name] = getattr(first, name)
        elif name in first.metadata:
            found[name] = first.metadata[name]
    return {name: value for name, value in found.items() if value is not None}


def _rows(rows: Rows) -> Iterable[Row]:
    if isinstance(rows, str | Mapping | Document):
        return [rows]
    if is_table(rows):
        return table_rows(rows)
    if not isinstance(rows, Iterable) or isinstance(rows, bytes | bytearray):
        raise InvalidInput(f"documents are texts, mappings, Documents or a table, not {type(rows).__name__}")
    return rows


def _to_document(row: Row, number: int, brought: Mapping[str, Matrix]) -> Document:
    """A row without an id gets one of its content, which of a row without text are its vectors, too: the same row again
    is the same document."""
    try:
        if isinstance(row, str):
            return Document(_id_of(row.encode("utf-8", "surrogatepass")), row)
        if isinstance(row, Document):
            return _checked(row, has_vectors=bool(brought))
        if not isinstance(row, Mapping):
            raise InvalidDocument(not_a_row(row))
        members = {
            name: value if name == "id" and type(value) is int else to_json(value, str(name))  # an id is a string
            for name, value in row.items()
            if name != "vectors"
        }
        if not all(type(name) is str for name in members):
            raise InvalidDocument("the names of its members must be strings")
        vectors = _vectors_of(row)
        check_misplaced_vector(members, has_vectors=bool(vectors or brought))
        text = _text_of(members.get("text"), has_vectors=bool(vectors or brought))
        stated_id = members.get("id")
        if stated_id is None:
            content = _sorted_json(members) + (b"" if text else _vector_bytes({**(vectors or {}), **brought}))
        identity = _id_of(content) if stated_id is None else to_document_id(stated_id)
        return to_document(members, _NO_FILE, identity, text=text, vectors=vectors)
    except (InvalidDocument, InvalidInput) as error:
        raise InvalidDocument(f"document {number}: {error.message}", row=number) from None


def _text_of(text: Any, *, has_vectors: bool) -> str:
    """A row with vectors may have no text. InvalidDocument."""
    if has_vectors and (text is None or (type(text) is str and not text.strip())):
        return ""
    if not isinstance(text, str):
        raise InvalidDocument("has no text: the member text must be a string")
    return text


def _vector_bytes(vectors: Mapping[str, Matrix]) -> bytes:
    return b"".join(vectors[name].tobytes() for name in sorted(vectors))


def _sorted_json(members: Mapping[str, Json]) -> bytes:
    try:
        return orjson.dumps(members, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise InvalidDocument(f"cannot be written as JSON: {error}") from None


def _checked(document: Document, *, has_vectors: bool) -> Document:
    """A document as it is, with an id and metadata that can be stored. InvalidDocument."""
    for name in _STRINGS:
        if not isinstance(getattr(document, name), str | None):
            raise InvalidDocument(f"{name} must be a string")
    text = _text_of(document.text, has_vectors=has_vectors or bool(document.vectors))
    if not isinstance(document.metadata, Mapping):
        raise InvalidDocument("metadata must be a mapping")
    reserved = sorted(RESERVED_METADATA & document.metadata.keys())
    if reserved:
        raise InvalidDocument(f"metadata.{reserved[0]} is a reserved name: rename the field")
    metadata = {name: to_json(value, f"metadata.{name}") for name, value in document.metadata.items()}
    updated_at = None if document.updated_at is None else normalize_timestamp(document.updated_at)
    vectors = _vectors_of({"vectors": document.vectors})
    return replace(
        document,
        id=to_document_id(document.id),
        text=text,
        metadata=metadata,
        updated_at=updated_at,
        vectors=vectors,
    )


def _id_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_ID_BYTES).hexdigest()


def _vectors_of(row: Mapping[str, Any]) -> dict[str, Matrix] | None:
    vectors = row.get("vectors")
    if vectors is None:
        return None
    if not isinstance(vectors, Mapping):
        raise InvalidDocument('vectors must be a mapping of spaces to vectors, as in {"mine": [0.1, 0.2]}')
    return {str(space): to_vector(vector, str(space)) for space, vector in vectors.items()}


_SHAPES: Final = {
    1: "one is a list of numbers, shape (dimensions,)",
    2: "bring a row for each document, shape (rows, dimensions)",
}


def _array(value: Any, space: str | None, *, axes: int) -> Matrix:
    where = "the search" if space is None else f"space {space!r}"
    try:
        with np.errstate(over="ignore"):  # the engine refuses what is infinite
            plain = np.asarray(value)
            array = plain.astype(np.float32, copy=False) if plain.dtype.kind in "fiu" else plain
    except (TypeError, ValueError, OverflowError):
        plain = array = np.empty(0, np.str_)
    if plain.dtype.kind not in "fiu":
        raise InvalidInput(f"the vectors of {where} are not numbers in rows of one length: {_SHAPES[axes]}")
    if array.ndim != axes:
        raise InvalidInput(f"the vectors of {where} have {array.ndim} axes, not {axes}: {_SHAPES[axes]}")
    return array
