"""Templates with `{name}` placeholders, filled from an intake's data and from its hits.

A name is a path of members joined by dots. Python's format language is not supported, because data of an agent must
not reach attributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z0-9_$-][A-Za-z0-9_.$-]*)\}")
HIT_NAMES = ("hits.count", "hits.titles", "hits.first.title", "hits.first.url", "hits.first.text", "hits.first.id")
"""The names of values of the hits; they take precedence over a member `hits` of the data."""


def names_in(template: str) -> list[str]:
    """The names of a template's placeholders, in order."""
    return [match[1] for match in PLACEHOLDER.finditer(template) if match[1] is not None]


def fill_template(template: str, data: Mapping[str, Any], hits: Mapping[str, str] | None = None) -> str:
    """The template with its placeholders replaced; a missing member becomes empty. `{{` and `}}` are literal braces."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if hits is not None and name in hits:
            return hits[name]
        return _as_words(_member(data, name))

    return " ".join(PLACEHOLDER.sub(replacement, template).split())


def fill_all_templates(value: Any, data: Mapping[str, Any], hits: Mapping[str, str]) -> Any:
    """A JSON value with every string in it filled as a template."""
    if isinstance(value, str):
        return fill_template(value, data, hits)
    if isinstance(value, Mapping):
        return {name: fill_all_templates(item, data, hits) for name, item in value.items()}
    return [fill_all_templates(item, data, hits) for item in value] if isinstance(value, list) else value


def hit_values(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The values of HIT_NAMES for the items of an offer."""
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


def _as_words(value: Any) -> str:
    """A value as text: a list as its items; booleans and objects as nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(filter(None, map(_as_words, value)))
    return str(value) if type(value) in {int, float} else ""
