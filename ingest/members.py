"""The members that a row or a front matter may carry, checked, as a Document. Knows no file format.

Every fault raises InvalidDocument with a message that names the member.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, Heading, Json
from aidre.ingest.found import File

LONGEST_ID = 1024
MEMBERS = frozenset(
    {
        "id", "title", "text", "url", "updated_at", "section", "type", "canonical", "metadata",
        "semantic_payload", "vectors", "@type", "@id",
    }
)  # fmt: skip
RESERVED = frozenset(["updated_at", "canonical", "visibility", "content_hash", "etag", "provenance"])
"""Names in the metadata of a result that are not the publisher's."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(\.[0-9]+)?([Zz]| ?[+-][0-9]{2}:?[0-9]{2})?)?"
)
"""RFC 3339, and the offsets of ISO 8601 and of Jekyll: "+0200", " +0200"."""


def document(
    row: Mapping[str, Any],
    file: File,
    identity: str,
    *,
    text: str | None = None,
    headings: tuple[Heading, ...] = (),
    vectors: Mapping[str, NDArray[np.float32]] | None = None,
    schema_object: Mapping[str, Json] | None = None,
) -> Document:
    """A Document of these members; those that are not among MEMBERS go into its metadata."""
    get = row.get
    metadata = _metadata(row, extended=schema_object is None)
    updated_at, canonical = get("updated_at"), get("canonical")
    if not RESERVED.isdisjoint(metadata):
        metadata, updated_at, canonical = _without_reserved(metadata, updated_at, canonical)
    url = string(row, "url")
    if url is None and type(canonical) is str:
        url = canonical
    payload = get("semantic_payload")
    return Document(
        identity,
        text if text is not None else string(row, "text") or "",
        string(row, "title"),
        url,
        None if updated_at is None else instant(updated_at),
        _type(get("type")),
        string(row, "section"),
        canonical is None or _is_canonical(canonical, url),
        metadata,
        schema_object if payload is None else payload,
        schema_object,
        vectors,
        headings,
        file.source,
        file.origin,
    )


def _metadata(row: Mapping[str, Any], *, extended: bool) -> dict[str, Json]:
    """The metadata of a row, with the members that have no other place unless the row is a schema.org object."""
    metadata = row.get("metadata")
    if metadata is None:
        metadata = {}
    elif type(metadata) is not dict:
        raise InvalidDocument("metadata must be an object")
    if extended and not row.keys() <= MEMBERS:
        return {name: row[name] for name in row if name not in MEMBERS} | metadata
    return metadata


def string(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is None or type(value) is str:
        return value
    if name == "title" and type(value) in (int, float):
        return str(value)
    raise InvalidDocument(f"{name} must be a string")


def document_id(value: Json, name: str = "id") -> str:
    """A publisher's id as it is stored: a number becomes its digits."""
    if type(value) is int:
        return str(value)
    if type(value) is not str or not value.strip():
        raise InvalidDocument(f"{name} must be a non-empty string")
    if len(value) > LONGEST_ID:
        raise InvalidDocument(f"{name} has {len(value)} characters: at most {LONGEST_ID} are possible")
    if not value.isprintable() and _UNPRINTABLE.search(value):
        raise InvalidDocument(f"{name} contains a control character")
    return value


def instant(value: Json, name: str = "updated_at") -> str:
    """An RFC 3339 date or time in UTC: a date is its midnight, a time without offset is UTC."""
    return _instant(value if type(value) is str else "", name)


@lru_cache(maxsize=1024)
def _instant(value: str, name: str) -> str:
    match = _INSTANT.fullmatch(value)
    if match is None:
        raise InvalidDocument(f'{name} must be an RFC 3339 date or time like "2026-04-01T10:00:00Z"')
    day, time, fraction, offset = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{time or '00:00'}{fraction or ''}")
        if offset not in (None, "Z", "z"):
            zone = datetime.fromisoformat(f"2000-01-01T00:00{offset.lstrip()}").tzinfo
            moment = moment.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise InvalidDocument(f"{name} is no date of the calendar: {value}") from None
    return moment.isoformat() + "Z"


def printable(text: str) -> str:
    """A file name or message as one line that any terminal and any JSON can carry."""
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def _type(value: Json) -> str | None:
    if type(value) is list and value:
        value = value[0]
    if value is None or type(value) is str:
        return value
    raise InvalidDocument("type must be a string")


def _is_canonical(canonical: Json, url: str | None) -> bool:
    if type(canonical) is bool:
        return canonical
    if type(canonical) is str:
        return canonical == url
    raise InvalidDocument("canonical must be true, false or the canonical url")


def _without_reserved(
    metadata: dict[str, Json], updated_at: Json, canonical: Json
) -> tuple[dict[str, Json], Json, Json]:
    """Reserved names out of the metadata: a date and a canonical flag in their own sense are the document's."""
    rest = {name: value for name, value in metadata.items() if name not in RESERVED}
    for name in RESERVED & metadata.keys():
        if name == "updated_at":
            own = instant(metadata[name], "metadata.updated_at")
            updated_at = own if updated_at is None else updated_at
        elif name == "canonical" and type(metadata[name]) in (bool, str):
            canonical = metadata[name] if canonical is None else canonical
        else:
            raise InvalidDocument(f"metadata.{name} is a reserved name: rename the field")
    return rest, updated_at, canonical
