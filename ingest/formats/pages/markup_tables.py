"""Tables of HTML in a Markdown text as tables of Markdown; runs in the sandbox's child."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from aidre.ingest.formats.pages.main_text import extract_fragment_text

MAX_TABLES = 1000
"""Tables converted in one text; further ones stay HTML."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_TABLE = re.compile(r"<(/?)table(?=[\s>])[^<>]*>", re.IGNORECASE)
_MAX_BEFORE = 200
"""Characters of tags before a table in its line."""

_LINE_ENDS = re.compile(r"[\r\n]*")
_TAG = re.compile(r"<[^<>]*>")


def has_tables(text: str) -> bool:
    return _TABLE.search(text) is not None


def parse(content: bytes, options: Mapping[str, Any]) -> str:
    """For the sandbox: the text with its tables of HTML written in Markdown."""
    return convert_tables(content.decode())


def convert_tables(text: str) -> str:
    parts, position = list[str](), 0
    for start, end in _find_tables(text):
        table = extract_fragment_text(text[start:end]).strip()
        parts += [text[position:start].rstrip(), "\n\n", table, "\n\n" if table else ""]
        below = _LINE_ENDS.match(text, end)
        position = end if below is None else below.end()
    return "".join([*parts, text[position:]]) if parts else text


def _find_tables(text: str) -> Iterator[tuple[int, int]]:
    """The spans of outermost tables that begin a line outside blocks of code, and are closed."""
    fences = deque(_find_fences(text))
    start, depth, count = 0, 0, 0
    for tag in _TABLE.finditer(text):
        while fences and fences[0][1] <= tag.start():
            fences.popleft()
        is_code = bool(fences) and fences[0][0] <= tag.start()
        if is_code or (not depth and (tag[1] or not _begins_line(text, tag.start()))):
            continue
        start = start if depth else tag.start()
        depth += -1 if tag[1] else 1
        if not depth:
            yield start, tag.end()
            count += 1
            if count == MAX_TABLES:
                return


def _begins_line(text: str, position: int) -> bool:
    """Whether nothing but at most three spaces, or tags, are before a position in its line."""
    first = max(0, position - _MAX_BEFORE)
    line = text.rfind("\n", first, position) + 1
    before = text[line or first : position]
    is_near = line > 0 or first == 0
    return is_near and not before.startswith(("    ", "\t")) and not _TAG.sub("", before).strip()


def _find_fences(text: str) -> Iterator[tuple[int, int]]:
    """The spans of fenced blocks of code."""
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence[1].startswith(opening[1]):
            yield opening.start(), fence.end()
            opening = None
    if opening is not None:
        yield opening.start(), len(text)
