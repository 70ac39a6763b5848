"""The part of schema.org's type hierarchy that publishers use: normalizes the name of a type and lists its subtypes.

Only names are known here. A type that is not in the table has no subtypes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

_VOCABULARY_PREFIX: Final = re.compile(r"(?:(?:https?:)?(?://)?(?:www\.)?schema\.org/|schema:)", re.IGNORECASE)


@cache
def _subtypes() -> Mapping[str, tuple[str, ...]]:
    """The direct subtypes of each type that has any."""
    lines = Path(__file__).with_name("schema_types.txt").read_text("ascii").splitlines()
    return {parent: tuple(names.split()) for parent, names in (line.split(": ") for line in lines)}


@cache
def _names() -> Mapping[str, str]:
    """The name of each type by its lower case."""
    return {name.lower(): name for parent, names in _subtypes().items() for name in (parent, *names)}


def normalize_type(written: str) -> str:
    """The name of a type that is written as a URL, in any case or in the plural; an unknown name keeps its case."""
    bare = _VOCABULARY_PREFIX.sub("", written.strip(), count=1).strip("/#")
    lower = re.sub(r"[\s_-]+", "", bare).lower()
    names = _names()
    return names.get(lower) or names.get(lower.removesuffix("s")) or names.get(_singular(lower)) or bare


def _singular(lower: str) -> str:
    return lower.removesuffix("ies") + "y" if lower.endswith("ies") else lower.removesuffix("es")


def subtypes_of(name: str) -> frozenset[str]:
    """The type itself and all its direct and indirect subtypes."""
    return _descendants(name) if name in _subtypes() else frozenset({name})


@cache  # only names of the table reach it, so that callers cannot make it grow
def _descendants(name: str) -> frozenset[str]:
    visited: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        if current not in visited:
            visited.add(current)
            pending.extend(_subtypes().get(current, ()))
    return frozenset(visited)
