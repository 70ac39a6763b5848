"""Rows of any table format as documents: plain rows, schema.org objects, and JSON-LD graphs of several objects.

Decides the id of a row's document. Knows no file format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats import jsonld, schemaorg
from aidre.ingest.records import (
    File,
    Item,
    Rejected,
    RowVectors,
    VectorRules,
    escape_unprintable,
    read_string,
    to_document,
    to_document_id,
)

_ID_MEMBERS = ("id", "@id", "url")
"""The first of these that a row has is the id of its document."""

_MAX_NAMED = 12
_MAX_NAMED_CHARACTERS = 300
"""Of the columns that a message names."""

_SEARCHABLE_COLUMNS = frozenset({"text", "vectors", "@type", "@graph"})


def require_searchable(names: Collection[str], file: File, place: str) -> None:
    """Raises InvalidDocument for a table whose columns hold nothing that a search could find, unless a mapping says
    where its text is. `place` is where its columns are named."""
    if file.mapping is None and _SEARCHABLE_COLUMNS.isdisjoint(names):
        known = escape_unprintable(", ".join(islice(names, _MAX_NAMED))[:_MAX_NAMED_CHARACTERS]) or "none"
        raise InvalidDocument(
            f"no column is named text (columns: {known}): name it in {place}, or say which hold the text, with text = "
            "[COLUMN, ...] below [collections.NAME.mapping] in aidre.toml"
        )


def read_json_row(row: Json, where: str, file: File, rules: VectorRules) -> Iterator[Item]:
    """The items of a row of JSON, after the file's mapping is applied and its vectors are checked."""
    if type(row) is not dict:
        yield Rejected(where, "not a JSON object", file.source, file.origin)
        return
    try:
        mapped = row if file.mapping is None or is_graph(row) else file.mapping.apply(row)
        vectors = rules.parse_lists(mapped.get("vectors"))
    except InvalidDocument as error:
        yield reject_row(row, where, file, error.message)
        return
    if "@type" in mapped or "@graph" in mapped:
        yield from read_linked_row(mapped, where, file, vectors, row)
    else:
        yield read_row(mapped, where, file, vectors)


def is_graph(row: Mapping[str, Json]) -> bool:
    return "@graph" in row and "@type" not in row


def read_linked_row(
    row: dict[str, Json], where: str, file: File, vectors: RowVectors | None, original: dict[str, Json] | None = None
) -> Iterator[Item]:
    """The items of a row with @type or @graph: one document, or one for each object of a graph.

    `original` is the row before a mapping: the stored schema.org object is made of it.
    """
    if is_graph(row):
        yield from read_graph(row, where, file)
    elif "@type" in row and jsonld.has_links(row):
        expanded = next(item for _, item in jsonld.find_documents(original or row) if isinstance(item, dict))
        yield read_row(row if original is not row else expanded, where, file, vectors, expanded)
    else:
        yield read_row(row, where, file, vectors, original)


def read_graph(value: Json, where: str, file: File, *, numbered: bool = False) -> Iterator[Item]:
    """The documents of a JSON-LD text; `numbered` adds the index of the outermost node to each location."""
    for index, item in jsonld.find_documents(value):
        location = f"{where}[{index}]" if numbered else where
        try:
            if isinstance(item, InvalidDocument):
                raise item
            row = item if file.mapping is None else file.mapping.apply(item)
            yield read_row(row, location, file, None, item)
        except InvalidDocument as error:
            yield Rejected(location, error.message, file.source, file.origin)


def read_row(
    row: dict[str, Json], where: str, file: File, vectors: RowVectors | None, original: dict[str, Json] | None = None
) -> Item:
    """The document of one row, whose vectors are checked; `original` is a schema.org object before a mapping."""
    identity = None
    try:
        identity = _read_id(row) or _derive_id(row, file, vectors)
        if "@type" not in row:
            return where, to_document(row, file, identity, vectors=vectors)
        members = schemaorg.to_row(row)
        schema_object = schemaorg.strip_engine_members(original or row)
        return where, to_document(members, file, identity, vectors=vectors, schema_object=schema_object)
    except InvalidDocument as error:
        return Rejected(where, error.message, file.source, file.origin, identity)


def reject_row(row: Mapping[str, Json], where: str, file: File, reason: str) -> Rejected:
    """A row that fails for `reason`, with its id if it has one."""
    try:
        identity = _read_id(row)
    except InvalidDocument:
        identity = None
    return Rejected(where, reason, file.source, file.origin, identity)


def _read_id(row: Mapping[str, Any]) -> str | None:
    for name in _ID_MEMBERS:
        if row.get(name) is not None and not (name == "@id" and jsonld.is_local_id(row[name])):
            value = row[name]
            if name == "url" and type(value) is not str:
                value = schemaorg.to_row(row)["url"] if "@type" in row else read_string(row, "url")
            return to_document_id(value, name)
    return None


def _derive_id(row: dict[str, Json], file: File, vectors: RowVectors | None) -> str:
    """An id from a hash of the row's content, so that it does not change when lines move."""
    digest = hashlib.blake2b(_to_bytes({name: row[name] for name in row if name != "vectors"}), digest_size=12)
    for name, vector in sorted((vectors or {}).items()):
        digest.update(name.encode())
        digest.update(vector.tobytes())
    return to_document_id(f"{file.id}:{digest.hexdigest()}", "the path")


def _to_bytes(value: Json) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise InvalidDocument(f"cannot be written as JSON: {error}") from None
