"""Rows of a table that hold nothing unusual, column by column: what a bulk load stores without an object a row.

Whatever else a batch holds goes row by row (rows.py), which says what is wrong with it; both make the same documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.found import File, PlainRows
from aidre.ingest.members import LONGEST_ID, RESERVED, instant

_STRINGS = ("title", "url", "type", "section", "updated_at")
_UNUSUAL = frozenset(["@type", "@id", "@graph", "canonical", "semantic_payload", "vectors"])
_WORDS = frozenset([str, type(None)])
_OBJECTS = frozenset([dict])


def plain_rows(
    file: File, first: int, cells: Mapping[str, list[Json]], vectors: Mapping[str, NDArray[np.float32]]
) -> PlainRows | None:
    """The rows of a batch from its columns as JSON values, the first numbered `first`; None where any is unusual."""
    size = len(cells.get("id", ()))
    ids = _ids(cells.get("id", []))
    if ids is None or not vectors or not _UNUSUAL.isdisjoint(cells):
        return None
    absent: list[Json] = [None] * size
    strings = [cells.get(name, absent) for name in (*_STRINGS, "text")]
    metadata = _metadata(cells, size)
    if metadata is None or not all(_WORDS.issuperset(map(type, column)) for column in strings):
        return None
    titles, urls, types, sections, moments, texts = strings
    try:
        known = {moment: moment and instant(moment) for moment in set(moments) if moment is not None}
    except InvalidDocument:
        return None
    return PlainRows(
        file,
        range(first, first + size),
        ids,
        [text or "" for text in texts] if None in texts else texts,
        titles,
        urls,
        types,
        [known.get(moment) for moment in moments] if known else moments,
        sections,
        metadata,
        vectors,
    )


def _ids(values: list[Json]) -> list[str] | None:
    """Ids as they are stored, None where one of them is missing or wrong."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return list(map(str, values))
    if kinds != {str} or max(map(len, values)) > LONGEST_ID:
        return None
    return values if all(map(str.isprintable, values)) and all(map(str.strip, values)) else None


def _metadata(cells: Mapping[str, list[Json]], size: int) -> Sequence[Mapping[str, Json]] | None:
    """The metadata of each row, with the columns that have no other place; None where it is not for sure in order."""
    own = cells.get("metadata")
    metadata: list[Any] = [{} for _ in repeat(None, size)] if own is None else own
    if None in metadata:
        metadata = [{} if each is None else each for each in metadata]
    if not _OBJECTS.issuperset(map(type, metadata)):
        return None
    others = {name: column for name, column in cells.items() if name not in _MEMBERS}
    if others:
        names = tuple(others)
        metadata = [
            {name: value for name, value in zip(names, values, strict=True) if value is not None} | each
            for *values, each in zip(*others.values(), metadata, strict=True)
        ]
    return metadata if all(map(RESERVED.isdisjoint, metadata)) else None


_MEMBERS = frozenset([*_STRINGS, "id", "text", "metadata"])
