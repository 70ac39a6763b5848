"""schema.org objects as rows: finds the properties that are a document's title, text, url and date.

What is text of them `engine/schema_text.py` says. Does not change the object, which callers store beside the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.engine.schema_text import by_property, extract_text, extract_title
from aidre.ingest.records import read_date

_DATES = ("dateModified", "datePublished", "dateCreated", "uploadDate", "datePosted")
_SHARED_MEMBERS = ("id", "section", "canonical", "metadata", "semantic_payload", "updated_at", "@id")
"""Members of a row with the same meaning in a schema.org object."""

_PREFIXES = ("https://schema.org/", "http://schema.org/", "schema:")


def strip_engine_members(row: Mapping[str, Json]) -> dict[str, Json]:
    """The object without the members that a row adds for the engine."""
    return {name: value for name, value in row.items() if name not in ("vectors", "semantic_payload")}


def to_row(item: Mapping[str, Any]) -> dict[str, Json]:
    """The members of a row, read from the properties of an object; raises InvalidDocument for a wrong type."""
    row = {name: item[name] for name in _SHARED_MEMBERS if name in item}
    row["title"] = extract_title(item)
    row["text"] = extract_text(item)
    item = by_property(item)
    row["url"] = _read_url(item.get("url")) or _read_url(item.get("mainEntityOfPage"))
    row["type"] = read_main_type(item)
    if row.get("updated_at") is None:
        row["updated_at"] = first_date(item.get(name) for name in _DATES)
    return row


def read_main_type(item: Mapping[str, Any]) -> str | None:
    """The first type, without the prefix of the vocabulary; raises InvalidDocument."""
    kind = item.get("type") or item.get("@type")
    if type(kind) is list and kind:
        kind = kind[0]
    if type(kind) is not str:
        raise InvalidDocument("@type must be a string or a list of strings")
    return _strip_prefix(kind) or None


def list_types(item: Mapping[str, Any]) -> list[str]:
    """All types of an object, without the prefix of the vocabulary; values that are not types are skipped."""
    kinds = item.get("@type")
    return [_strip_prefix(kind) for kind in (kinds if type(kinds) is list else [kinds]) if type(kind) is str]


def _strip_prefix(type_name: str) -> str:
    for prefix in _PREFIXES:
        type_name = type_name.removeprefix(prefix)
    return type_name


def _read_url(value: Json) -> str | None:
    if type(value) is list and value:
        value = value[0]
    if type(value) is dict:
        value = value.get("@id") or value.get("url")
    return value if type(value) is str and value else None


def first_date(values: Iterable[Json]) -> str | None:
    """The first date in UTC; malformed dates are skipped: pages often have them, and it is not their fault."""
    return next((date for value in values if (date := read_date(value)) is not None), None)
