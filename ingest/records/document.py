"""Checks the members of a row or of front matter and makes them a Document. Knows no file format.

A wrong member raises InvalidDocument with its name in the message; where a file has `notes`, an optional one is left
out and noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, Heading, Json
from aidre.engine.schema_text import property_name
from aidre.ingest.records.dates import normalize_timestamp, read_date
from aidre.ingest.records.file import File, Notes

if TYPE_CHECKING:  # parsers in the sandbox read this module
    import numpy as np
    from numpy.typing import NDArray

_Member = TypeVar("_Member")

MAX_ID_CHARACTERS = 1024
ARTICLE = "Article"
"""The schema.org type of a file that is a text of its own and names no type: Markdown, plain text, PDF, DOCX."""
_MEMBERS = frozenset(
    {
        "id", "title", "text", "url", "updated_at", "section", "type", "canonical", "metadata",
        "semantic_payload", "vectors", "@type", "@id",
    }
)  # fmt: skip
RESERVED_METADATA = frozenset(["updated_at", "canonical", "visibility", "content_hash", "etag", "provenance"])
"""Metadata names of a search result that the engine sets. Of these a publisher's metadata may have only `updated_at`
and `canonical`, which become members of the document."""

_MAX_SHOWN = 40
"""Characters of a date that a note shows."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def to_document(
    row: Mapping[str, Any],
    file: File,
    identity: str,
    *,
    text: str | None = None,
    headings: tuple[Heading, ...] = (),
    verbatim: tuple[tuple[int, int], ...] = (),
    vectors: Mapping[str, NDArray[np.float32]] | None = None,
    schema_object: Mapping[str, Json] | None = None,
) -> Document:
    """The Document of a row; raises InvalidDocument.

    Other members than a document's own become metadata, unless the row was read from a `schema_object`. `text`
    replaces the member "text"; `vectors` are checked already. A semantic payload that is a
    schema.org object is the object of the document.
    """
    get = row.get
    reading = _MemberReading(file.notes)
    is_plain = schema_object is None
    metadata = reading.read("metadata", lambda: _read_metadata(row, with_others=is_plain)) or {}
    updated_at, canonical = get("updated_at"), get("canonical")
    if not RESERVED_METADATA.isdisjoint(metadata):
        metadata, updated_at, canonical = _move_reserved(metadata, updated_at, canonical)
    url = reading.read("url", lambda: read_string(row, "url"))
    if url is None and type(canonical) is str:
        url = canonical
    payload = get("semantic_payload")
    type_ = reading.read("type", lambda: _read_type(get("type")))
    if schema_object is None and is_schema_object(payload):
        schema_object = payload
        type_ = type_ or _read_type(payload["@type"])
    is_canonical = canonical is None or reading.read("canonical", lambda: _is_canonical(canonical, url))
    return Document(
        identity,
        text if text is not None else read_string(row, "text") or "",
        reading.read("title", lambda: read_string(row, "title")),
        url,
        None if updated_at is None else reading.date(updated_at),
        type_,
        reading.read("section", lambda: read_string(row, "section")),
        is_canonical is not False,
        metadata,
        schema_object if payload is None else payload,
        schema_object,
        vectors,
        headings,
        verbatim,
        file.source,
        file.origin,
    )


class _MemberReading(NamedTuple):
    """How optional members are read: one that cannot be is left out and noted, or fails where there are no `notes`."""

    notes: Notes | None

    def read(self, name: str, read: Callable[[], _Member]) -> _Member | None:
        try:
            return read()
        except InvalidDocument as error:
            if self.notes is None:
                raise
            self.notes.add(f"{name} is left out: {error.message}")
            return None

    def date(self, value: Json) -> str | None:
        try:
            return normalize_timestamp(value)
        except InvalidDocument:
            if self.notes is None:
                raise
        date = read_date(value)
        shown = escape_unprintable(str(value)[:_MAX_SHOWN])
        if date is not None:
            self.notes.add("a date in another form than RFC 3339 is read", f"{shown} as {date}")
        elif shown.strip():
            self.notes.add("a date is left out: it is none, or could be two", shown)
        return date


def _read_metadata(row: Mapping[str, Any], *, with_others: bool) -> dict[str, Json]:
    """The member "metadata", and `with_others` also all members that are not a document's own."""
    metadata = row.get("metadata")
    if metadata is None:
        metadata = {}
    elif type(metadata) is not dict:
        raise InvalidDocument("metadata must be an object")
    if with_others and not row.keys() <= _MEMBERS:
        return {name: row[name] for name in row if name not in _MEMBERS} | metadata
    return metadata


def read_string(row: Mapping[str, Any], name: str) -> str | None:
    """A member that must be a string or missing; a title may be a number."""
    value = row.get(name)
    if value is None or type(value) is str:
        return value
    if name == "title" and type(value) in (int, float):
        return str(value)
    raise InvalidDocument(f"{name} must be a string")


def to_document_id(value: Json, name: str = "id") -> str:
    """The stored form of a publisher's id (an integer becomes its digits); raises InvalidDocument."""
    if type(value) is int:
        return str(value)
    if type(value) is not str or not value.strip():
        raise InvalidDocument(f"{name} must be a non-empty string")
    if len(value) > MAX_ID_CHARACTERS:
        raise InvalidDocument(f"{name} has {len(value)} characters: at most {MAX_ID_CHARACTERS} are possible")
    if not value.isprintable() and _UNPRINTABLE.search(value):
        raise InvalidDocument(f"{name} contains a control character")
    return value


def escape_unprintable(text: str) -> str:
    """Text on one line, safe for terminals and JSON: control characters and surrogates as escape sequences."""
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def is_schema_object(payload: Json) -> TypeGuard[dict[str, Json]]:
    """Whether a payload is one object with a type of schema.org."""
    if type(payload) is not dict:
        return False
    kinds = payload.get("@type")
    names = kinds if type(kinds) is list else [kinds]
    return bool(names) and all(type(name) is str and name.strip() for name in names)


def _read_type(value: Json) -> str | None:
    """A type, without the prefix of schema.org."""
    if type(value) is list and value:
        value = value[0]
    if value is None:
        return None
    if type(value) is str:
        return property_name(value)
    raise InvalidDocument("type must be a string")


def _is_canonical(canonical: Json, url: str | None) -> bool:
    if type(canonical) is bool:
        return canonical
    if type(canonical) is str:
        return canonical == url
    raise InvalidDocument("canonical must be true, false or the canonical url")


def _move_reserved(metadata: dict[str, Json], updated_at: Json, canonical: Json) -> tuple[dict[str, Json], Json, Json]:
    """The metadata without reserved names, the date and the canonical flag, which metadata may set if the row does not.

    Raises InvalidDocument for any other reserved name.
    """
    rest = {name: value for name, value in metadata.items() if name not in RESERVED_METADATA}
    for name in RESERVED_METADATA & metadata.keys():
        if name == "updated_at":
            updated_at = metadata[name] if updated_at is None else updated_at
        elif name == "canonical" and type(metadata[name]) in (bool, str):
            canonical = metadata[name] if canonical is None else canonical
        else:
            raise InvalidDocument(f"metadata.{name} is a reserved name: rename the field")
    return rest, updated_at, canonical
