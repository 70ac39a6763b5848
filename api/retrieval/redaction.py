"""Objects and fields as callers may see them where texts are withheld or counted (`engine/schema_text.py`).

A collection without `return_text` reveals no text inside of stored objects either, and answers no filter about it.
"""

from __future__ import annotations

from typing import Any

import orjson

from aidre.api.config import CollectionSettings
from aidre.engine.errors import InvalidFilter, printable_name
from aidre.engine.index.fields import RESERVED, Compare, Filter, comparisons, filter_fields
from aidre.engine.model import Json
from aidre.engine.ports import Reader
from aidre.engine.schema_text import extract_text, has_words, is_label, is_text_field, without_text
from aidre.engine.types import RetrievedChunk, own_text


def visible_payload(chunk: RetrievedChunk, settings: CollectionSettings) -> bytes | None:
    """The semantic payload as JSON, without text where it is withheld; None if there is none, or nothing is left."""
    stored = chunk.json_payload
    if stored is None or settings.return_text:
        return stored
    shown = visible_object(orjson.loads(stored), chunk, settings, is_object=stored == chunk.schema_object)
    return None if shown is None else orjson.dumps(shown)


def visible_object(stored: Json, chunk: RetrievedChunk, settings: CollectionSettings, *, is_object: bool = True) -> Any:
    """An object of the chunk's document without its text, if texts are withheld; None if nothing is left.

    `is_object` says that it is the document's schema.org object, which the text may have been taken from.
    """
    if settings.return_text:
        return stored
    text = _text_of(stored, chunk) if is_object and not settings.maps_texts else None
    return without_text(stored, text, settings.text_columns)


def _text_of(schema_object: Json, chunk: RetrievedChunk) -> str | None:
    """The text of an object, if the chunk is a piece of it; that of a page or of a mapping comes from elsewhere."""
    text = extract_text(schema_object)
    start, end = chunk.span
    return text if text[start:end] == own_text(chunk) else None


def tells_text(field: str, reader: Reader, settings: CollectionSettings) -> bool:
    """Whether the values of a field are texts of objects, or parts of such.

    Metadata of the same name are not, since they are returned anyway, where the engine can tell the two apart
    (vocabulary).
    """
    is_text = is_text_field(field) or not settings.text_columns.isdisjoint(field.split("."))
    return is_text and _is_of_objects(field, reader)


def check_tests_no_text(
    filter: Filter, reader: Reader, settings: CollectionSettings, why: str = "which this collection does not return"
) -> None:
    """Raises InvalidFilter for a filter on a text, or one that looks for words in what may repeat a text: answer by
    answer it would reveal the words. `why` says in the message why that must not be."""
    for name in sorted(filter_fields(filter)):
        if tells_text(name, reader, settings):
            raise InvalidFilter(f"filter.{printable_name(name)} is a text, {why}: leave it out")
    for comparison in comparisons(filter):
        if comparison.field in RESERVED or is_label(comparison.field) or not _tries_words(comparison):
            continue
        if _is_of_objects(comparison.field, reader):
            raise InvalidFilter(
                f"filter.{printable_name(comparison.field)}.{comparison.op} may tell a text, {why}: "
                "compare whole values with eq or in"
            )


def _tries_words(comparison: Compare) -> bool:
    """Whether a comparison would let the caller test guesses of words in a string."""
    is_partial = comparison.op in ("contains", "gt", "gte", "lt", "lte")
    return is_partial and isinstance(comparison.value, str) and has_words(comparison.value)


def _is_of_objects(field: str, reader: Reader) -> bool:
    """Whether objects have the field, or may have it where the engine cannot tell (vocabulary)."""
    return not reader.can.vocabulary or reader.is_object_field(field)
