"""Title, authors and dates of a document of Office, from its core properties (Dublin Core)."""

from __future__ import annotations

import re
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.markup import to_line
from aidre.ingest.formats.office.package import Element, Package

_PLACEHOLDER = re.compile(r"(?:powerpoint presentation|presentation\d*|untitled\d*|slide \d+|title)?", re.IGNORECASE)
"""Titles that programs give."""


def read_core_properties(package: Package) -> dict[str, Any]:
    """The members of an answer; none for a document whose properties are missing or damaged."""
    name = next((name for kind, name in package.relations("").values() if kind == "core-properties"), "")
    if name not in package:
        return {}
    try:
        return read_dublin_core(package.parse(name))
    except InvalidDocument:
        return {}


def read_dublin_core(root: Element) -> dict[str, Any]:
    """The members of an answer by the elements below `root`, whatever their namespaces."""
    found: dict[str, str] = {}
    keywords: list[str] = []
    for element in root.iter():
        name = element.tag.rpartition("}")[2] if type(element.tag) is str else ""
        text = to_line("".join(element.itertext())) if not len(element) else ""
        if name in ("keyword", "keywords") and text:
            keywords += [word for part in re.split("[,;]", text) if (word := part.strip())]
        elif name == "meta" and element.get("property") == "dcterms:modified":
            found.setdefault("modified", text)
        elif text:
            found.setdefault(name, text)
    title = found.get("title", "")
    created = found.get("created") or found.get("creation-date")
    metadata = {
        "author": found.get("creator") or found.get("initial-creator"),
        "subject": found.get("subject"),
        "category": found.get("category"),
        "description": found.get("description"),
        "publisher": found.get("publisher"),
        "keywords": keywords,
        "created": created,
    }
    return {
        "title": None if _PLACEHOLDER.fullmatch(title) else title,
        "language": found.get("language"),
        "updated_at": found.get("modified") or found.get("date") or created,
        "metadata": {name: value for name, value in metadata.items() if value},
    }
