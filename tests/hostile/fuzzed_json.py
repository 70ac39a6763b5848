"""Bytes as JSON, for fuzzers: text as it stands, or a little language in which every byte string is a value.

Mutated text is rarely JSON any more and says nothing of what reads the JSON; in the language every mutation is a
value, and one that differs in one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

SPELLED = 128
"""A first byte of so much says that the rest is of the language: no JSON text begins so."""
DEEPEST = 40
NOTHING = 96
"""What stands for every byte behind the last one: null, so that an object may end anywhere."""
LITERALS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    0.5,
    -0.0,
    1e308,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    "",
    " ",
    [],
    {},
)


def value_of(content: bytes, words: Sequence[str]) -> Any:
    """The value; ValueError where it is text and no JSON. `words` are what its names and strings are taken from."""
    if content[:1] < bytes([SPELLED]):
        return orjson.loads(content)
    return _value(iter(content[1:]), words, 0)


def spelled(content: bytes) -> bytes:
    """The same bytes as a text of the language."""
    return bytes([SPELLED]) + content


def spellings() -> list[bytes]:
    """Beginnings in the language of values: an object, a list of objects, many members."""
    return [spelled(bytes([kind, 1, 20, 2, 40, 3, 200, 65, 66, 100, 7, 90])) for kind in (0, 3, 35, 66, 130, 170)]


def _value(rest: Iterator[int], words: Sequence[str], depth: int) -> Any:
    kind = next(rest, NOTHING)
    match kind >> 5:
        case 0 | 1 if depth < DEEPEST:
            return {_text(rest, words): _value(rest, words, depth + 1) for _ in range(1 + kind % 4)}
        case 2 if depth < DEEPEST:
            return [_value(rest, words, depth + 1) for _ in range(kind % 5)]
        case 3:
            return LITERALS[kind % len(LITERALS)]
        case 4:
            return int.from_bytes(bytes(next(rest, 0) for _ in range(kind % 8)), "little", signed=True)
        case 5:
            return int.from_bytes(bytes(next(rest, 0) for _ in range(4)), "little", signed=True) / (1 << kind % 32)
        case _:
            return _text(rest, words)


def _text(rest: Iterator[int], words: Sequence[str]) -> str:
    """A word, two of them joined, or any characters."""
    kind = next(rest, 0)
    if kind < 160:
        return words[kind % len(words)]
    if kind < 192:
        return "".join(words[next(rest, 0) % len(words)] + chr(next(rest, 32)) for _ in range(1 + kind % 3))
    return bytes(next(rest, 0) for _ in range(kind % 24)).decode("utf-8", "replace")
