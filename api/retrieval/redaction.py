"""Whole texts inside of stored schema.org objects, which a collection without `return_text` must not reveal.

They are removed from payloads, and filters must not test them.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from aidre.engine.backend import Reader, RetrievedChunk
from aidre.engine.errors import InvalidFilter, printable_name
from aidre.engine.index.fields import Filter, filter_fields
from aidre.engine.model import Json

_BODY: Final = re.compile(
    r"(?:^|\.)(?:schema:|https?://schema\.org/)?(?:articleBody|reviewBody|text|transcript)(?:\.|$)"
)
"""A member of schema.org for a whole text, anywhere in a dotted name."""


def is_body_field(field: str) -> bool:
    """Whether a dotted name, also with prefix or IRI, is a whole text or lies inside of one."""
    return _BODY.search(field) is not None


def strip_bodies(value: Json) -> Json:
    """A copy without whole texts, at any depth."""
    if type(value) is dict:
        return {name: strip_bodies(member) for name, member in value.items() if not is_body_field(name)}
    return [strip_bodies(member) for member in value] if type(value) is list else value


def visible_payload(chunk: RetrievedChunk, return_text: bool) -> bytes | None:
    """The semantic payload as JSON, without whole texts unless `return_text`; None if the chunk has none."""
    stored = chunk.json_payload
    return stored if stored is None or return_text else orjson.dumps(strip_bodies(orjson.loads(stored)))


def check_tests_no_body(filter: Filter, reader: Reader) -> None:
    """Raises InvalidFilter for a filter on a whole text: answer by answer it would reveal the words.

    A metadata field of the same name is allowed, since metadata are returned anyway, where the engine can tell the two
    apart (vocabulary).
    """
    for name in sorted(filter_fields(filter)):
        if is_body_field(name) and (not reader.can.vocabulary or reader.is_object_field(name)):
            raise InvalidFilter(
                f"filter.{printable_name(name)} is a text, which this collection does not return: leave it out"
            )
