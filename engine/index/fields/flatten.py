"""Flattens nested JSON (metadata, schema.org objects) into the values that filters compare, by dotted name.

Every element of a list is a value of its field. An object is itself only PRESENT: it exists, and compares with nothing.
Null is no value. The traversal keeps its own stack, so no depth of nesting can exhaust Python's.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from aidre.engine.index.fields.filters import MAX_CHARACTERS
from aidre.engine.model import Json

Leaf: TypeAlias = tuple[str, Any]
"""A dotted name, and a str, int, float or bool, or PRESENT."""

PRESENT: Final = object()
SCALARS: Final = frozenset({str, int, float, bool})

MAX_OBJECT_VALUES: Final = 10_000
MAX_OBJECT_NAMES: Final = 1_000
"""Values, and distinct names, that are read of one schema.org object."""

MAX_OBJECT_CHARACTERS: Final = 256
"""Longest name, and longest string stored as a value. Longer strings are text to search (a body, a description)."""

_SKIPPED: Final = frozenset({"@context", "metadata"})
_CONTAINERS: Final = frozenset({"@value", "@list", "@set"})
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_TERM_URL: Final = re.compile(r"https?://schema\.org/([A-Za-z0-9]+)")


def flatten_member(name: str, value: Json) -> Iterator[Leaf]:
    """The values of one member of the metadata. Names longer than a filter may write are not descended into."""
    stack = [(name, value)]
    while stack:
        path, node = stack.pop()
        kind = type(node)
        if kind is dict:
            yield path, PRESENT
            if len(path) <= MAX_CHARACTERS:
                stack.extend([(f"{path}.{key}", member) for key, member in node.items()])
        elif kind is list or kind is tuple:
            stack.extend([(path, member) for member in node])
        elif node is not None:
            yield path, node if kind in SCALARS else PRESENT


def flatten_object(schema_object: Mapping[str, Json]) -> Iterator[Leaf]:
    """The values of a schema.org object. Publishers often write all of them as strings, so strings are interpreted.

    A string that is wholly a JSON number is that number too. The URL of a schema.org term
    ("https://schema.org/InStock") is the term too. A string of more than MAX_OBJECT_CHARACTERS is only PRESENT.
    `@value`, `@list` and `@set` are values of the member that holds them. `@context` is skipped, since it does not
    describe the thing, and `metadata`, since a row's metadata are flattened on their own. The traversal is breadth
    first, so of an object beyond MAX_OBJECT_VALUES values or MAX_OBJECT_NAMES names the deepest members are left out.
    """
    queue = deque((key, value) for key, value in schema_object.items() if key not in _SKIPPED)
    names: set[str] = set()
    room = MAX_OBJECT_VALUES - len(queue)
    for _ in range(MAX_OBJECT_VALUES):
        if not queue:
            return
        path, node = queue.popleft()
        if node is None or len(path) > MAX_OBJECT_CHARACTERS:
            continue
        if path not in names:
            if len(names) >= MAX_OBJECT_NAMES:
                continue
            names.add(path)
        kind = type(node)
        if kind is dict or kind is list or kind is tuple:
            children = _members(path, node) if kind is dict else ((path, member) for member in node)
            before = len(queue)
            queue.extend(islice(children, max(0, room)))
            room -= len(queue) - before
            if kind is dict and _CONTAINERS.isdisjoint(node):
                yield path, PRESENT
        elif kind is str:
            yield from _interpret_string(path, node)
        else:
            yield path, node if kind in SCALARS else PRESENT


def _members(path: str, value: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    return (
        (path if key in _CONTAINERS else f"{path}.{key}", member) for key, member in value.items() if key != "@context"
    )


def _interpret_string(path: str, text: str) -> Iterator[Leaf]:
    if len(text) > MAX_OBJECT_CHARACTERS:
        yield path, PRESENT
        return
    yield path, text
    number = _NUMBER.fullmatch(text)
    if number is not None:
        yield path, float(text) if number["fraction"] else int(text)
    elif text.startswith("http"):
        term_url = _TERM_URL.fullmatch(text)
        if term_url is not None:
            yield path, term_url[1]
