"""Documents as a program hands them over, as the rows of JSON that servers take: the library's rules, without numpy.

A text, a mapping, a Document, an iterable of them, or a table. InvalidDocument names the row, from 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from aidre_client.errors import ConfigurationError, InvalidDocument, InvalidInput
from aidre_client.values import Document, Json, to_json, to_rows, to_vector

Matrices: TypeAlias = Mapping[str, list[Any]]
"""By space a vector for each row."""

_ID_BYTES = 16
_STRINGS = ("title", "url", "type", "section", "updated_at")


def read_rows(rows: Any, matrices: Matrices) -> Iterator[tuple[str, bytes]]:
    """The id and the JSON of each row. InvalidInput where rows and vectors differ in number."""
    count = 0
    for count, row in enumerate(_rows(rows), 1):
        try:
            members = _members(row)
            brought = {space: vectors[count - 1] for space, vectors in matrices.items() if count <= len(vectors)}
            every = {**(members.pop("vectors", None) or {}), **brought}
            if every:
                members["vectors"] = {space: to_vector(one).tolist() for space, one in every.items()}
            yield members["id"], msgspec.json.encode(members)
        except (InvalidInput, UnicodeEncodeError) as error:
            fault = (
                error.message if isinstance(error, InvalidInput) else "has half of a surrogate pair, which is no text"
            )
            raise InvalidDocument(f"document {count - 1}: {fault}", row=count - 1) from None
    for space, vectors in matrices.items():
        if len(vectors) != count:
            raise InvalidInput(f"space {space!r} has {len(vectors)} vectors for {count} documents: bring one each")


def read_matrices(vectors: Any, spaces: list[str] | None) -> Matrices:
    """A matrix, which is for the only one of `spaces`, or a mapping of them. InvalidInput."""
    if not isinstance(vectors, Mapping):
        if spaces is None or len(spaces) != 1:
            known = "no known space" if spaces is None else f"{len(spaces)} spaces"
            raise InvalidInput(f"the collection has {known}: send vectors as a mapping, one matrix each")
        vectors = {spaces[0]: vectors}
    found: dict[str, list[Any]] = {}
    for space, matrix in vectors.items():
        listed = to_rows(matrix)
        if listed is None or any(to_rows(one) is None for one in listed):
            raise InvalidInput(f"the vectors of space {space!r} are not numbers in rows of one length")
        found[str(space)] = list(listed)
    return found


def to_row_changes(changes: Any) -> dict[str, dict[str, Json]]:
    """Changes of documents by id, as JSON. InvalidInput, InvalidDocument."""
    if not isinstance(changes, Mapping) or not all(isinstance(one, Mapping) for one in changes.values()):
        raise InvalidInput("patch takes a mapping of ids to mappings of changed members")
    return {
        _to_id(key): {str(name): to_json(value, str(name)) for name, value in one.items()}
        for key, one in changes.items()
    }


def _rows(rows: Any) -> Iterable[Any]:
    if isinstance(rows, str | Mapping | Document):
        return [rows]
    if hasattr(rows, "__arrow_c_stream__"):
        return _table_rows(rows)
    if not isinstance(rows, Iterable) or isinstance(rows, bytes):
        raise InvalidInput(f"documents are texts, mappings, Documents or a table, not {type(rows).__name__}")
    return rows


def _table_rows(table: Any) -> Iterator[dict[str, Any]]:
    """A null is a missing member."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ConfigurationError("a table is read by Arrow: pip install pyarrow, or send mappings") from None
    for batch in pa.table(table).to_batches():
        for row in batch.to_pylist():
            yield {name: value for name, value in row.items() if value is not None}


def _members(row: Any) -> dict[str, Any]:
    """The members of a row, with an id, and vectors as they were given."""
    if isinstance(row, str):
        return {"id": _id_of(row.encode("utf-8", "surrogatepass")), "text": row}
    if isinstance(row, Document):
        return _of_document(row)
    if not isinstance(row, Mapping):
        raise InvalidDocument(f"is {type(row).__name__}: a document is a text, a mapping or a Document")
    if not all(type(name) is str for name in row):
        raise InvalidDocument("the names of its members must be strings")
    members = {name: to_json(value, name) for name, value in row.items() if name != "vectors"}
    if members.get("id") is None:
        members["id"] = _id_of(msgspec.json.encode(members, order="sorted"))
    else:
        members["id"] = _to_id(members["id"])
    vectors = row.get("vectors")
    if vectors is not None and not isinstance(vectors, Mapping):
        raise InvalidDocument("vectors must be a mapping of spaces to vectors")
    return {**members, **({} if vectors is None else {"vectors": dict(vectors)})}


def _of_document(document: Document) -> dict[str, Any]:
    for name in _STRINGS:
        if not isinstance(getattr(document, name), str | None):
            raise InvalidDocument(f"{name} must be a string")
    if not isinstance(document.metadata, Mapping):
        raise InvalidDocument("metadata must be a mapping")
    payload = document.semantic_payload if document.schema_object is None else document.schema_object
    if document.semantic_payload not in (None, payload):
        raise InvalidDocument("has a schema.org object and another semantic payload: send one of them")
    optional = {name: getattr(document, name) for name in _STRINGS}
    metadata = {name: to_json(value, f"metadata.{name}") for name, value in document.metadata.items()}
    members = {
        "id": _to_id(document.id),
        "text": document.text,
        **{name: value for name, value in optional.items() if value is not None},
        **({} if document.canonical else {"canonical": False}),
        "metadata": metadata,
        **({} if payload is None else {"semantic_payload": to_json(payload, "semantic_payload")}),
    }
    return members if document.vectors is None else {**members, "vectors": dict(document.vectors)}


def _to_id(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if type(value) is not str or not value.strip():
        raise InvalidDocument("id must be a non-empty string")
    return value


def _id_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_ID_BYTES).hexdigest()
