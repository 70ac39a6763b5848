"""Rows of any table format as documents: plain rows, schema.org objects, and JSON-LD graphs of several objects.

Decides the id of a row's document. Knows no file format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats import jsonld, schemaorg
from aidre.ingest.formats.tables.unmapped import Unmapped
from aidre.ingest.records import File, Item, Rejected, RowVectors, VectorRules, read_string, to_document, to_document_id

_ID_MEMBERS = ("id", "@id", "url")
"""The first of these that a row has is the id of its document."""


def read_json_row(
    row: Json,
    where: str,
    file: File,
    rules: VectorRules,
    *,
    unmapped: Unmapped | None = None,
    written: Mapping[str, Json] | None = None,
) -> Iterator[Item]:
    """The items of a row of JSON, after the file's mapping is applied and its vectors are checked.

    `unmapped` completes rows, with a text of the columns as they are `written`; the rows of programs are documents as
    they are.
    """
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
    elif unmapped is not None and not vectors:
        yield read_plain_row(mapped, where, file, unmapped, row if written is None else written)
    else:
        yield read_row(mapped, where, file, vectors)


def read_plain_row(
    row: dict[str, Json], where: str, file: File, unmapped: Unmapped, original: Mapping[str, Json]
) -> Item:
    """The document of a row without vectors; `original` is the row before a mapping, as a text shows it."""
    find_id = unmapped.guess_id if unmapped.lacks_text(row) else _read_id
    try:
        identity = find_id(row) or _derive_id(row, file, None)
        completed = unmapped.complete(row, original)
    except InvalidDocument as error:
        return reject_row(row, where, file, error.message)
    return read_row(completed, where, file, None, identity=identity)


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
    row: dict[str, Json],
    where: str,
    file: File,
    vectors: RowVectors | None,
    original: dict[str, Json] | None = None,
    *,
    identity: str | None = None,
) -> Item:
    """The document of one row, whose vectors are checked; `original` is a schema.org object before a mapping.

    `identity` is its id, where the row itself does not say it.
    """
    try:
        identity = identity or _read_id(row) or _derive_id(row, file, vectors)
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
