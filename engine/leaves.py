"""The values that nested JSON offers to filters, by dotted name: of members of the metadata, of schema.org objects.

Every element of a list is a value of its field. An object itself is only there (PRESENT), as is whatever compares
with nothing. Null is nothing. Nesting costs no stack.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from aidre.engine.filters import MAX_CHARACTERS
from aidre.engine.model import Json

Leaf: TypeAlias = tuple[str, Any]
"""A name and a str, int, float or bool, or PRESENT."""

PRESENT: Final = object()
SCALARS: Final = frozenset({str, int, float, bool})

MAX_OBJECT_VALUES: Final = 10_000
MAX_OBJECT_NAMES: Final = 1_000
MAX_OBJECT_CHARACTERS: Final = 256
"""Of a name, and of a string that is kept as a value: a body or a description is text to search, not to filter by."""

_LEFT_OUT: Final = frozenset({"@context", "metadata"})
_CONTAINERS: Final = frozenset({"@value", "@list", "@set"})
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<broken>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_ADDRESS: Final = re.compile(r"https?://schema\.org/([A-Za-z0-9]+)")


def member_leaves(name: str, value: Json) -> Iterator[Leaf]:
    """What lies in a member of the metadata; names that no filter can be long enough to ask for are left out."""
    waiting = [(name, value)]
    while waiting:
        path, one = waiting.pop()
        kind = type(one)
        if kind is dict:
            yield path, PRESENT
            if len(path) <= MAX_CHARACTERS:
                waiting.extend([(f"{path}.{key}", member) for key, member in one.items()])
        elif kind is list or kind is tuple:
            waiting.extend([(path, member) for member in one])
        elif one is not None:
            yield path, one if kind in SCALARS else PRESENT


def object_leaves(schema_object: Mapping[str, Json]) -> Iterator[Leaf]:
    """What lies in a schema.org object, whose publishers often write everything as strings.

    A string that is wholly a JSON number counts as that number too, the address of a schema.org term
    ("https://schema.org/InStock") as the term too; one of more than MAX_OBJECT_CHARACTERS is only there. `@value`,
    `@list` and `@set` are the value of what holds them. `@context` says nothing of the thing, and a row's `metadata`
    are known already. Members that lie nearest come first, and what is beyond MAX_OBJECT_VALUES values or
    MAX_OBJECT_NAMES names is left out.
    """
    waiting = deque((key, value) for key, value in schema_object.items() if key not in _LEFT_OUT)
    names: set[str] = set()
    room = MAX_OBJECT_VALUES - len(waiting)
    for _ in range(MAX_OBJECT_VALUES):
        if not waiting:
            return
        path, one = waiting.popleft()
        if one is None or len(path) > MAX_OBJECT_CHARACTERS:
            continue
        if path not in names:
            if len(names) >= MAX_OBJECT_NAMES:
                continue
            names.add(path)
        kind = type(one)
        if kind is dict or kind is list or kind is tuple:
            members = _members(path, one) if kind is dict else ((path, member) for member in one)
            before = len(waiting)
            waiting.extend(islice(members, max(0, room)))
            room -= len(waiting) - before
            if kind is dict and _CONTAINERS.isdisjoint(one):
                yield path, PRESENT
        elif kind is str:
            yield from _string(path, one)
        else:
            yield path, one if kind in SCALARS else PRESENT


def _members(path: str, value: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    return (
        (path if key in _CONTAINERS else f"{path}.{key}", member) for key, member in value.items() if key != "@context"
    )


def _string(path: str, text: str) -> Iterator[Leaf]:
    if len(text) > MAX_OBJECT_CHARACTERS:
        yield path, PRESENT
        return
    yield path, text
    number = _NUMBER.fullmatch(text)
    if number is not None:
        yield path, float(text) if number["broken"] else int(text)
    elif text.startswith("http"):
        address = _ADDRESS.fullmatch(text)
        if address is not None:
            yield path, address[1]
