"""Tables of data in an HTML page as tables of Markdown, in which every cell is under the name of its column."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from selectolax.lexbor import LexborNode

from aidre.ingest.formats.pages.markdown_table import Cell, write_cells

ReadCell: TypeAlias = Callable[[LexborNode], tuple[str, int]]
"""The text of an element, in one line, and how many of its characters are links."""

MAX_CELLS = 100_000
"""Cells of a table with those that spans add."""

_MAX_SPAN = 1000


@dataclass(frozen=True, slots=True)
class Grid:
    """`text` is the table, `linked_characters` as many as have the same share of it as links have of the cells."""

    text: str
    linked_characters: int
    caption: str


def read_grid(table: LexborNode, read: ReadCell, left_out: Collection[int]) -> Grid:
    """The table of an element; an empty text for one without words. Elements `left_out` (`mem_id`) are not read."""
    caption = next((read(node)[0] for node in _children(table) if node.tag == "caption"), "")
    rows, heads, words, linked = list[list[Cell]](), 0, 0, 0
    for row in _rows(table, left_out):
        cells = list[Cell]()
        for node in _children(row):
            if node.tag in ("td", "th") and node.mem_id not in left_out:
                text, links = read(node)
                words, linked = words + len(text), linked + links
                cells.append(Cell(text, _span(node, "colspan"), _span(node, "rowspan"), node.tag == "th"))
        is_head = row.parent is not None and row.parent.tag == "thead"
        heads += is_head and heads == len(rows)
        rows.append(cells)
    above, text = write_cells(rows, heads)
    return Grid(text, len(text) * linked // max(1, words), " ".join(filter(None, (caption, above))))


def count_cells(table: LexborNode) -> int:
    """The cells of a table with those that its spans add, at least; stops beyond MAX_CELLS."""
    count = 0
    for row in _rows(table, ()):
        for node in _children(row):
            count += _span(node, "colspan") * _span(node, "rowspan") if node.tag in ("td", "th") else 0
        if count > MAX_CELLS:
            break
    return count


def _rows(table: LexborNode, left_out: Collection[int]) -> Iterator[LexborNode]:
    for child in _children(table):
        if child.mem_id in left_out:
            continue
        if child.tag == "tr":
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from _rows(child, left_out)


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.child
    while child is not None:
        yield child
        child = child.next


def _span(cell: LexborNode, name: str) -> int:
    value = (cell.attributes.get(name) or "").strip()
    return min(max(1, int(value)), _MAX_SPAN) if value.isascii() and value.isdecimal() and len(value) < 6 else 1
