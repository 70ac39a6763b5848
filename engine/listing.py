"""Whole documents of one state, in the order of storage or of a field: what programs read back, by library and HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Final

import orjson

from aidre.engine.errors import InvalidInput
from aidre.engine.index.fields import Filter
from aidre.engine.model import Document, Json
from aidre.engine.ports import Reader
from aidre.engine.types import RetrievedChunk, own_text

_MEMBERS: Final[Mapping[str, str]] = {
    "id": "document_id",
    "document_id": "document_id",
    "title": "title",
    "url": "url",
    "type": "type",
    "updated_at": "updated_at",
}


def documents(
    reader: Reader, filter: Filter | None = None, *, order_by: str | None = None, start: int = 0
) -> Iterator[list[RetrievedChunk]]:
    """The chunks of each document that passes a filter, in the order of storage; `start` leaves out so many chunks.

    With `order_by` they come by the values of a field, `-field` from the greatest down; documents without one are the
    last, equal ones by id, and `start` leaves out documents. InvalidFilter.
    """
    groups = (
        list(group)
        for _, group in groupby(reader.scan(filter, start=0 if order_by else start), attrgetter("document_key"))
    )
    return groups if order_by is None else _ordered(groups, order_by, start)


def _ordered(groups: Iterator[list[RetrievedChunk]], order_by: str, start: int) -> Iterator[list[RetrievedChunk]]:
    field, is_descending = order_by.removeprefix("-"), order_by.startswith("-")
    with_value, without = list[tuple[tuple[int, Any], list[RetrievedChunk]]](), list[list[RetrievedChunk]]()
    for chunks in groups:
        key = _key(chunks[0], field)
        if key is None:
            without.append(chunks)
        else:
            with_value.append((key, chunks))
    with_value.sort(key=lambda pair: pair[1][0].document_id)
    with_value.sort(key=lambda pair: pair[0], reverse=is_descending)
    without.sort(key=lambda chunks: chunks[0].document_id)
    return islice((*(chunks for _, chunks in with_value), *without).__iter__(), start, None)


def _key(chunk: RetrievedChunk, field: str) -> tuple[int, Any] | None:
    """Numbers before texts; None for a value that has no place in an order."""
    value: Json = chunk.metadata.get(field.removeprefix("metadata."))
    if value is None and field in _MEMBERS:
        value = getattr(chunk, _MEMBERS[field])
    if isinstance(value, bool | int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else None


def check_order(order_by: Any) -> None:
    """InvalidInput."""
    if order_by is not None and (not isinstance(order_by, str) or not order_by.removeprefix("-").strip()):
        raise InvalidInput("order_by is the name of a field, or -name for the greatest first")


def stored_document(chunks: Sequence[RetrievedChunk], *, vectors: bool = False) -> Document:
    """The stored document of some chunks, all of them in order. White space between chunks is not stored: a line break
    stands for each of its characters, so that spans remain right. With `vectors` a document of one chunk has its own.
    """
    first = chunks[0]
    parts, end = list[str](), 0
    for chunk in chunks:
        start, text = chunk.span[0], own_text(chunk)
        parts += ["\n" * (start - end), text]
        end = start + len(text)
    schema_object = first.schema_object
    return Document(
        first.document_id,
        "".join(parts),
        title=first.title,
        url=first.url,
        updated_at=first.updated_at,
        type=first.type,
        metadata=first.metadata,
        schema_object=None if schema_object is None else orjson.loads(schema_object),
        vectors=dict(first.vectors()) if vectors and len(chunks) == 1 else None,
    )
