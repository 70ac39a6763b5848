"""schema.org objects as rows: which of their properties is the title, the text, the url, the date.

The object itself is kept whole by whoever calls; nothing here knows how it is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.members import instant

BODIES = ("text", "articleBody", "reviewBody", "transcript", "description", "abstract")
"""The first of these that has words is the text; the last two are completed by the parts below."""

PARTS = (
    "recipeIngredient", "recipeInstructions", "step", "itemListElement", "mainEntity", "acceptedAnswer",
    "suggestedAnswer", "qualifications", "responsibilities", "skills",
)  # fmt: skip
TITLES = ("title", "name", "headline", "alternativeHeadline")
DATES = ("dateModified", "datePublished", "dateCreated", "uploadDate", "datePosted")
OWN = ("id", "section", "canonical", "metadata", "semantic_payload", "updated_at", "@id")
"""Members of a row that mean the same in a schema.org object."""

_DEEPEST = 8
_PREFIXES = ("https://schema.org/", "http://schema.org/", "schema:")


def whole(row: Mapping[str, Json]) -> dict[str, Json]:
    """The object without what the row adds to it for the engine."""
    return {name: value for name, value in row.items() if name not in ("vectors", "semantic_payload")}


def as_row(item: Mapping[str, Any]) -> dict[str, Json]:
    """The members of a plain row, read from the properties of an object."""
    row = {name: item[name] for name in OWN if name in item}
    row["title"] = next(filter(None, (_first_words(item.get(name)) for name in TITLES)), None)
    row["text"] = text_of(item)
    row["url"] = _address(item.get("url")) or _address(item.get("mainEntityOfPage"))
    row["type"] = type_of(item)
    if row.get("updated_at") is None:
        row["updated_at"] = next(filter(None, (_moment(item.get(name)) for name in DATES)), None)
    return row


def text_of(item: Mapping[str, Any]) -> str:
    """What an object says in words: its body, else its description and its parts, else its name."""
    for name in BODIES:
        body = "\n\n".join(_words(item.get(name)))
        if body.strip():
            break
    else:
        name, body = "", ""
    if name in BODIES[:4]:
        return body
    parts = [body] if body else []
    for member in PARTS:
        parts.extend(_words(item.get(member)))
    return "\n\n".join(parts) or next(filter(None, (_first_words(item.get(name)) for name in TITLES)), "")


def type_of(item: Mapping[str, Any]) -> str | None:
    """The first type, without the vocabulary's address."""
    kind = item.get("type") or item.get("@type")
    if type(kind) is list and kind:
        kind = kind[0]
    if type(kind) is not str:
        raise InvalidDocument("@type must be a string or a list of strings")
    return _bare(kind) or None


def types_of(item: Mapping[str, Any]) -> list[str]:
    """All types of an object, without the vocabulary's address; what is no type is passed over."""
    kinds = item.get("@type")
    return [_bare(kind) for kind in (kinds if type(kinds) is list else [kinds]) if type(kind) is str]


def _bare(kind: str) -> str:
    for prefix in _PREFIXES:
        kind = kind.removeprefix(prefix)
    return kind


def _words(value: Json, depth: int = _DEEPEST) -> Iterator[str]:
    """Passages of a value: strings, lists of them, and objects by their names and texts (steps, questions)."""
    if type(value) is str:
        if value.strip():
            yield value
    elif type(value) is list and depth:
        for item in value:
            yield from _words(item, depth - 1)
    elif type(value) is dict and depth:
        for name in ("@value", "name", "text", "description", *PARTS, "item"):
            yield from _words(value.get(name), depth - 1)


def _first_words(value: Json) -> str | None:
    return next(_words(value), None)


def _address(value: Json) -> str | None:
    if type(value) is list and value:
        value = value[0]
    if type(value) is dict:
        value = value.get("@id") or value.get("url")
    return value if type(value) is str and value else None


def _moment(value: Json) -> str | None:
    """A date of the object; one that is none, which pages often have, is no fault of the row."""
    try:
        return instant(value) if value else None
    except InvalidDocument:
        return None
