"""Whole texts in stored objects: where a collection returns no text these stay, and no filter asks about them."""

from __future__ import annotations

import re
from typing import Final

import orjson

from aidre.engine.errors import InvalidFilter, in_one_line
from aidre.engine.filters import Filter, fields_of
from aidre.engine.model import Json
from aidre.engine.segment import StoredChunk
from aidre.engine.snapshot import Snapshot

_BODY: Final = re.compile(
    r"(?:^|\.)(?:schema:|https?://schema\.org/)?(?:articleBody|reviewBody|text|transcript)(?:\.|$)"
)
"""A member of schema.org that holds a whole text, in a dotted name."""


def holds_body(field: str) -> bool:
    """Whether a field, by its dotted name, is such a member or lies in one, also where the name is written in full."""
    return _BODY.search(field) is not None


def without_bodies(value: Json) -> Json:
    """The same without whole texts, at any depth."""
    if type(value) is dict:
        return {name: without_bodies(inner) for name, inner in value.items() if not holds_body(name)}
    return [without_bodies(inner) for inner in value] if type(value) is list else value


def payload_of(chunk: StoredChunk, return_text: bool) -> bytes | None:
    """The semantic payload of a chunk as JSON, as far as its collection lets it out; None where it has none."""
    stored = chunk.json_payload
    return stored if stored is None or return_text else orjson.dumps(without_bodies(orjson.loads(stored)))


def ask_no_bodies(filter: Filter, snapshot: Snapshot) -> None:
    """InvalidFilter for one that would tell, answer by answer, what stands in a text that may not leave.

    Such texts are members of schema.org objects; metadata of the same name leave with every answer.
    """
    for name in sorted(fields_of(filter)):
        if holds_body(name) and snapshot.may_be_of_objects(name):
            raise InvalidFilter(
                f"filter.{in_one_line(name)} is a text, which this collection does not return: leave it out"
            )
