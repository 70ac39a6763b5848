"""Whole documents of one state, in the order of storage or of fields: what programs read back, by library and HTTP."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

import orjson

from aidre.engine.errors import InvalidInput
from aidre.engine.index.fields import Filter, parse_instant
from aidre.engine.model import Document
from aidre.engine.ports import Reader
from aidre.engine.types import RetrievedChunk, own_text
from aidre_client.values import check_range, shown

MAX_LIMIT: Final = (1 << 31) - 1
"""More documents than a collection has."""

Chunks = Sequence[RetrievedChunk]
"""All chunks of a document, in order."""

_MEMBERS: Final = frozenset({"title", "url", "type", "updated_at"})


class ListingOrder(NamedTuple):
    """The name of a member or of a metadata field, and whether the greatest value comes first."""

    name: str
    descending: bool


def to_order(order_by: Any) -> tuple[ListingOrder, ...]:
    """InvalidInput."""
    names = [order_by] if isinstance(order_by, str) else order_by
    if names is None:
        return ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name.strip("-") for name in names):
        raise InvalidInput(
            f'order_by is the name of a field, "-price" for the greatest first, or a list, not {shown(order_by)}'
        )
    return tuple(ListingOrder(name.removeprefix("-"), name.startswith("-")) for name in names)


def check_limits(limit: Any, offset: Any) -> None:
    if limit is not None:
        check_range("limit", limit, 1, MAX_LIMIT)
    check_range("offset", offset, 0, MAX_LIMIT)


def documents(reader: Reader, filter: Filter | None = None, *, start: int = 0) -> Iterator[list[RetrievedChunk]]:
    """The chunks of each document that passes a filter, in the order of storage, without the first `start` chunks.
    InvalidFilter."""
    found = reader.scan(filter, start=start)
    return (list(group) for _, group in groupby(found, attrgetter("document_key")))


def some_of(
    documents: Iterator[Chunks],
    order: Sequence[ListingOrder],
    *,
    limit: int | None,
    offset: int,
    document: Callable[[str], Chunks],
) -> Iterator[Chunks]:
    """`limit` documents after `offset` ones, in an order or in that of storage; `document` reads one again by its id.

    Documents that lack a field come last in its order, and those with equal values by id. Without an order no document
    is read that comes after the last one.
    """
    end = None if limit is None else offset + limit
    if not order:
        return islice(documents, offset, end)
    keyed: Iterator[tuple[Any, ...]] = (
        (*(_key(chunks[0], criterion) for criterion in order), chunks[0].document_id) for chunks in documents
    )
    chosen = sorted(keyed) if end is None else heapq.nsmallest(end, keyed)
    return (document(key[-1]) for key in chosen[offset:])


def _key(chunk: RetrievedChunk, order: ListingOrder) -> tuple[bool, Any]:
    """Orders as asked; a missing value last."""
    kind, comparable = _comparable(_value(chunk, order.name))
    if comparable is None:
        return True, 0
    pair = kind, comparable
    return False, _Reversed(pair) if order.descending else pair


def _comparable(value: Any) -> tuple[int, Any]:
    """Numbers come before dates, and these before other strings; of a list the first value counts; other values have no
    order."""
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, bool):
        return 0, value
    if isinstance(value, int | float):
        return 1, value
    if not isinstance(value, str):
        return 3, None
    instant = parse_instant(value)
    return (3, value) if instant is None else (2, instant)


def _value(chunk: RetrievedChunk, name: str) -> Any:
    """The value of a member, or of metadata at a dotted path."""
    if name in {"id", "document_id"}:
        return chunk.document_id
    if name in _MEMBERS:
        return getattr(chunk, name)
    path = name.removeprefix("metadata.")
    value: Any = chunk.metadata
    if path in value:
        return value[path]
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


class _Reversed:
    """A key in the opposite order."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.key == other.key)

    __hash__ = None  # type: ignore[assignment]


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
