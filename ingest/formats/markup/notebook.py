"""Jupyter notebooks as Markdown: their Markdown, their code, and what it printed. Other outputs are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from aidre.engine.errors import InvalidDocument
from aidre.engine.index.text import strip_layout
from aidre.engine.model import Json
from aidre.ingest.formats import read_body
from aidre.ingest.records import MAX_FILE_VALUES, File, Item, VectorRules, parse_json, read_text_file

MAX_OUTPUT_CHARACTERS = 10_000
"""Characters of one output; what a program prints beyond them is rarely read."""

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]")
_OBJECT = re.compile(r"\s{0,99}<[\w.]{1,99}[^<>\n]{0,300}>\s{0,99}")
"""How Python shows an object that has no text of its own: `<Figure size 640x480 with 1 Axes>`."""

_HIDDEN_CELL = frozenset({"remove-cell", "remove_cell", "hide-cell"})
_HIDDEN_INPUT = frozenset({"remove-input", "remove_input"})
_HIDDEN_OUTPUT = frozenset({"remove-output", "remove_output"})
_FENCE = re.compile(r"`{3,}")


def read_notebook(file: File, rules: VectorRules) -> Iterator[Item]:
    """The one document of a notebook; raises InvalidDocument, OSError."""
    content = read_text_file(file).encode("utf-8", "replace")
    value = parse_json(content, MAX_FILE_VALUES, "clear its outputs") if content.strip() else {"cells": []}
    if type(value) is not dict or type(cells := _find_cells(value)) is not list:
        raise InvalidDocument("is not a notebook: it has no cells")
    metadata = value.get("metadata")
    metadata = metadata if type(metadata) is dict else {}
    language = _find_language(metadata)
    body = "\n\n".join(part for cell in cells if type(cell) is dict for part in _read_cell(cell, language) if part)
    members: dict[str, Json] = {"metadata": {"programming_language": language} if language else {}}
    if type(metadata.get("title")) is str:
        members["title"] = metadata["title"]
    yield from read_body(members, strip_layout(body), file)


def _find_cells(value: dict[str, Json]) -> Json:
    """The cells; before version 4 of the format they are in the first worksheet."""
    sheets = value.get("worksheets")
    if "cells" not in value and type(sheets) is list and sheets and type(sheets[0]) is dict:
        return sheets[0].get("cells")
    return value.get("cells")


def _find_language(metadata: dict[str, Json]) -> str:
    for name, member in (("language_info", "name"), ("kernelspec", "language")):
        found = metadata.get(name)
        if type(found) is dict and type(found.get(member)) is str:
            return str(found[member])[:40]
    return ""


def _read_cell(cell: dict[str, Json], language: str) -> Iterator[str]:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if type(metadata) is dict else None
    tags = {tag for tag in tags if type(tag) is str} if type(tags) is list else set()
    if tags & _HIDDEN_CELL:
        return
    source = _join(cell.get("source", cell.get("input")))
    if cell.get("cell_type") in ("markdown", "heading"):
        level = cell.get("level")
        yield f"{'#' * level} {source}" if type(level) is int and 0 < level < 7 else source
    elif cell.get("cell_type") == "code":
        if not tags & _HIDDEN_INPUT:
            yield _fence(source, language)
        outputs = cell.get("outputs")
        if type(outputs) is list and not tags & _HIDDEN_OUTPUT:
            yield from (_read_output(each) for each in outputs if type(each) is dict)


def _read_output(output: dict[str, Json]) -> str:
    if output.get("output_type") in ("error", "pyerr"):
        return _fence(f"{output.get('ename', '')}: {_join(output.get('evalue'))}")
    data = output.get("data", output)
    if type(data) is dict and "text/markdown" in data:
        return _join(data["text/markdown"])[:MAX_OUTPUT_CHARACTERS]
    text = _join(data.get("text/plain", output.get("text"))) if type(data) is dict else ""
    return "" if _OBJECT.fullmatch(text) else _fence(text)


def _fence(text: str, language: str = "") -> str:
    """A block of code, whose fence is longer than all inside."""
    text = _ANSI.sub("", text).strip("\n")[:MAX_OUTPUT_CHARACTERS] if not language else text.strip("\n")
    if not text.strip():
        return ""
    fence = "`" * (max((len(found) for found in _FENCE.findall(text)), default=2) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _join(source: Json) -> str:
    """A text, which notebooks keep as a list of lines."""
    if type(source) is list:
        return "".join(_strings(source))
    return source if type(source) is str else ""


def _strings(lines: Sequence[Json]) -> Iterator[str]:
    return (line for line in lines if type(line) is str)
