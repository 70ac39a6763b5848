"""Templates with `{name}` in them, filled from an intake's data and from what was found.

A name is a path of members joined by dots. Nothing else of Python's formatting is understood: what an agent sends must
reach no attribute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z0-9_$-][A-Za-z0-9_.$-]*)\}")
HITS = ("hits.count", "hits.titles", "hits.first.title", "hits.first.url", "hits.first.text", "hits.first.id")
"""The names of what was found; where data have a member `hits`, these win."""


def names_in(template: str) -> list[str]:
    """The names that a template asks for, in order."""
    return [found[1] for found in PLACE.finditer(template) if found[1] is not None]


def filled(template: str, data: Mapping[str, Any], hits: Mapping[str, str] | None = None) -> str:
    """The template with its names replaced; what is not there leaves nothing. `{{` and `}}` are braces."""

    def replaced(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0][0]
        if hits is not None and name in hits:
            return hits[name]
        return _spoken(_member(data, name))

    return " ".join(PLACE.sub(replaced, template).split())


def filled_all(value: Any, data: Mapping[str, Any], hits: Mapping[str, str]) -> Any:
    """A JSON value with every string in it filled."""
    if isinstance(value, str):
        return filled(value, data, hits)
    if isinstance(value, Mapping):
        return {name: filled_all(item, data, hits) for name, item in value.items()}
    return [filled_all(item, data, hits) for item in value] if isinstance(value, list) else value


def facts_of(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What HITS stand for, of the items of an offer."""
    first = items[0]
    return {
        "hits.count": str(len(items)),
        "hits.titles": "; ".join(dict.fromkeys(_title(item) for item in items)),
        "hits.first.title": _title(first),
        "hits.first.url": str(first.get("url", "")),
        "hits.first.text": str(first.get("text", "")),
        "hits.first.id": str(first["id"]),
    }


def _title(item: Mapping[str, Any]) -> str:
    return str(item.get("title") or item.get("url") or item["id"])


def _member(data: Mapping[str, Any], path: str) -> Any:
    value: Any = data
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _spoken(value: Any) -> str:
    """A value as words: a list is its items, a truth or an object none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(filter(None, map(_spoken, value)))
    return str(value) if type(value) in {int, float} else ""
