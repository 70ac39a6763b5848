"""Tables of data in an HTML page as tables of Markdown, in which every cell is under the name of its column.

A cell that spans rows is in each of them; so is, of names, one that spans columns. Other columns of a span are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from selectolax.lexbor import LexborNode

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


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    columns: int
    rows: int
    is_name: bool


def read_grid(table: LexborNode, read: ReadCell, left_out: Collection[int]) -> Grid:
    """The table of an element; an empty text for one without words. Elements `left_out` (`mem_id`) are not read."""
    caption = next((node for node in _children(table) if node.tag == "caption"), None)
    rows, words, linked = list[list[_Cell]](), 0, 0
    for row in _rows(table, left_out):
        cells = list[_Cell]()
        for node in _children(row):
            if node.tag in ("td", "th") and node.mem_id not in left_out:
                text, links = read(node)
                words, linked = words + len(text), linked + links
                is_name = node.tag == "th"
                cells.append(_Cell(text.replace("|", "\\|"), _span(node, "colspan"), _span(node, "rowspan"), is_name))
        rows.append(cells)
    lines = [row for row in _lay_out(rows) if any(row)]
    width = max(map(len, lines), default=0)
    written = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in lines]
    written[1:1] = ["|" + "---|" * width] if written else []
    text = "\n".join(written)
    return Grid(text, len(text) * linked // max(1, words), read(caption)[0] if caption is not None else "")


def count_cells(table: LexborNode) -> int:
    """The cells of a table with those that its spans add, at least; stops beyond MAX_CELLS."""
    count = 0
    for row in _rows(table, ()):
        for node in _children(row):
            count += _span(node, "colspan") * _span(node, "rowspan") if node.tag in ("td", "th") else 0
        if count > MAX_CELLS:
            break
    return count


def _lay_out(rows: Sequence[Sequence[_Cell]]) -> Iterator[list[str]]:
    """The texts of each row by column."""
    width = max((sum(cell.columns for cell in cells) for cells in rows), default=0)
    below: dict[int, tuple[str, int]] = {}
    for cells in rows:
        row, waiting = list[str](), list(cells)
        carried, below = below, {}
        while waiting or any(column >= len(row) for column in carried):
            if len(row) in carried:
                text, left = carried[len(row)]
                if left > 1:
                    below[len(row)] = text, left - 1
                row.append(text)
            elif waiting:
                cell = waiting.pop(0)
                repeats = cell.is_name and cell.columns < width
                for number in range(cell.columns):
                    text = cell.text if number == 0 or repeats else ""
                    if cell.rows > 1:
                        below[len(row)] = text, cell.rows - 1
                    row.append(text)
            else:
                row.append("")
        yield row


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
