"""Documents as a program hands them over, as the rows of JSON that servers take: the library's rules, without numpy.

A text, a mapping, a Document, an iterable of them, or a table. InvalidDocument names the row, from 0.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from aidre_client.errors import ConfigurationError, InvalidDocument, InvalidInput
from aidre_client.values import Document, Json, check_misplaced_vector, not_a_row, to_json, to_rows, to_vector

ONLY = ""
"""Stands for the id of the only space of a collection."""
_ID_BYTES = 16
_STRINGS = ("title", "url", "type", "section", "updated_at")


def read_rows(rows: Any, vectors: Any) -> Iterator[tuple[str, bytes]]:
    """The id and the JSON of each row, with its vector of a matrix, or of each matrix by space. InvalidInput where rows
    and vectors differ in number."""
    matrices = {} if vectors is None else _matrices(vectors)
    count = 0
    for count, row in enumerate(_rows(rows), 1):
        try:
            brought = {space: matrix[count - 1] for space, matrix in matrices.items() if count <= len(matrix)}
            members = _members(row, brought)
            yield members["id"], msgspec.json.encode(members)
        except (InvalidInput, UnicodeEncodeError) as error:
            fault = (
                error.message if isinstance(error, InvalidInput) else "has half of a surrogate pair, which is not text"
            )
            raise InvalidDocument(f"document {count - 1}: {fault}", row=count - 1) from None
    for space, matrix in matrices.items():
        if len(matrix) != count:
            where = f"space {space!r}" if space != ONLY else "the matrix"
            raise InvalidInput(f"{where} has {len(matrix)} vectors for {count} documents: bring one each")


def _matrices(vectors: Any) -> Mapping[str, list[Any]]:
    """A matrix, which is for the only space of the collection, or a mapping of them. InvalidInput."""
    found: dict[str, list[Any]] = {}
    for space, matrix in vectors.items() if isinstance(vectors, Mapping) else [(ONLY, vectors)]:
        listed = to_rows(matrix)
        if listed is None or any(to_rows(row) is None for row in listed):
            raise InvalidInput(f"the vectors of space {space!r} are not numbers in rows of one length")
        found[str(space)] = list(listed)
    return found


def to_row_changes(changes: Any) -> dict[str, dict[str, Json]]:
    """Changes of documents by id, as JSON. InvalidInput, InvalidDocument."""
    if not isinstance(changes, Mapping) or not all(isinstance(members, Mapping) for members in changes.values()):
        raise InvalidInput("patch takes a mapping of ids to mappings of changed members")
    return {
        _to_id(key): {str(name): _to_change(str(name), value) for name, value in members.items()}
        for key, members in changes.items()
    }


def _to_change(name: str, value: Any) -> Json:
    if name != "vectors" or value is None:
        return to_json(value, name)
    return {str(space): to_vector(vector).tolist() for space, vector in _vectors_of(value).items()}


def _vectors_of(vectors: Any) -> Mapping[Any, Any]:
    if not isinstance(vectors, Mapping):
        raise InvalidDocument('vectors must be a mapping of spaces to vectors, as in {"mine": [0.1, 0.2]}')
    return vectors


def _rows(rows: Any) -> Iterable[Any]:
    if isinstance(rows, str | Mapping | Document):
        return [rows]
    if hasattr(rows, "__arrow_c_stream__"):
        return _table_rows(rows)
    if not isinstance(rows, Iterable) or isinstance(rows, bytes | bytearray):
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


def _members(row: Any, brought: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a row, with an id, and its vectors as lists."""
    members: dict[str, Any]
    stated: Any
    if isinstance(row, str):
        members, stated = {"id": _id_of(row.encode("utf-8", "surrogatepass")), "text": row}, None
    elif isinstance(row, Document):
        members, stated = _of_document(row), row.vectors
    elif isinstance(row, Mapping):
        if not all(type(name) is str for name in row):
            raise InvalidDocument("the names of its members must be strings")
        members = {name: to_json(content, name) for name, content in row.items() if name != "vectors"}
        stated = row.get("vectors")
    else:
        raise InvalidDocument(not_a_row(row))
    every = {**({} if stated is None else _vectors_of(stated)), **brought}
    vectors = {str(space): to_vector(vector) for space, vector in every.items()}
    check_misplaced_vector(members, has_vectors=bool(vectors))
    if isinstance(row, Mapping):
        members["id"] = _content_id(members, vectors) if members.get("id") is None else _to_id(members["id"])
    if vectors:
        lists = {space: vector.tolist() for space, vector in vectors.items()}
        members["vectors"] = lists[ONLY] if lists.keys() == {ONLY} else lists
    return members


def _content_id(members: dict[str, Any], vectors: Mapping[str, array[float]]) -> str:
    """An id of the content, which of a row without a text are its vectors, too: the same row is the same document."""
    text = members.get("text")
    has_text = isinstance(text, str) and bool(text.strip())
    brought = b"" if has_text else b"".join(vectors[name].tobytes() for name in sorted(vectors))
    return _id_of(msgspec.json.encode(_plain_floats(members), order="sorted") + brought)


def _plain_floats(value: Any) -> Any:
    """Floats are written as the library's JSON has them, which puts a sign before every exponent."""
    if isinstance(value, dict):
        return {name: _plain_floats(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(_plain_floats, value))
    if type(value) is float and abs(value) >= 1e16:
        return msgspec.Raw(msgspec.json.encode(value).replace(b"e", b"e+"))
    return value


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
    return {
        "id": _to_id(document.id),
        "text": document.text,
        **{name: value for name, value in optional.items() if value is not None},
        **({} if document.canonical else {"canonical": False}),
        "metadata": metadata,
        **({} if payload is None else {"semantic_payload": to_json(payload, "semantic_payload")}),
    }


def _to_id(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if type(value) is not str or not value.strip():
        raise InvalidDocument("id must be a non-empty string")
    return value


def _id_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_ID_BYTES).hexdigest()
