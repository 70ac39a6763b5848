"""Tables of data in an HTML page as tables of Markdown, in which every cell is under the name of its column.

A cell that spans rows is in each of them; so is, of names, one that spans columns. Other columns of a span are empty.
Rows of names above each other are one row, and a cell above them that spans the table is its caption.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from selectolax.lexbor import LexborNode

from aidre.ingest.formats.pages.markdown_table import write_table

ReadCell: TypeAlias = Callable[[LexborNode], tuple[str, int]]
"""The text of an element, in one line, and how many of its characters are links."""

MAX_CELLS = 100_000
"""Cells of a table with those that spans add."""

_MAX_SPAN = 1000
_MAX_NAME_ROWS = 4
"""Of more rows the first alone names the columns: they are rows of the table."""


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


@dataclass(frozen=True, slots=True)
class _Row:
    cells: Sequence[_Cell]
    is_head: bool
    """Whether it is in a <thead>."""

    @property
    def names_columns(self) -> bool:
        """Whether all its cells are names, but for an empty one in the corner."""
        return len(self.cells) > 1 and all(
            cell.is_name or (index == 0 and not cell.text) for index, cell in enumerate(self.cells)
        )


def read_grid(table: LexborNode, read: ReadCell, left_out: Collection[int]) -> Grid:
    """The table of an element; an empty text for one without words. Elements `left_out` (`mem_id`) are not read."""
    captions = [read(node)[0] for node in _children(table) if node.tag == "caption"][:1]
    rows, words, linked = list[_Row](), 0, 0
    for row in _rows(table, left_out):
        cells = list[_Cell]()
        for node in _children(row):
            if node.tag in ("td", "th") and node.mem_id not in left_out:
                text, links = read(node)
                words, linked = words + len(text), linked + links
                cells.append(_Cell(text, _span(node, "colspan"), _span(node, "rowspan"), node.tag == "th"))
        if cells:
            rows.append(_Row(cells, row.parent is not None and row.parent.tag == "thead"))
    width = max((sum(cell.columns for cell in row.cells) for row in rows), default=0)
    while len(rows) > 2 and _is_caption(rows[0], width):
        captions.append(rows.pop(0).cells[0].text)
    names = _count_name_rows(rows)
    text = write_table(list(_lay_out(rows, width, names)), names)
    return Grid(text, len(text) * linked // max(1, words), " ".join(filter(None, captions)))


def _is_caption(row: _Row, width: int) -> bool:
    """Whether a row is one cell as wide as the table."""
    return len(row.cells) == 1 and 1 < width == row.cells[0].columns and row.cells[0].rows == 1


def _count_name_rows(rows: Sequence[_Row]) -> int:
    """How many of the first rows name the columns; 0 where the first column has the names, of a single other one."""
    pairs = [row.cells for row in rows]
    if pairs and all(len(pair) == 2 and pair[0].is_name and not pair[1].is_name for pair in pairs):
        return 0
    heads = sum(1 for _ in takewhile(lambda row: row.is_head and len(row.cells) > 1, rows))
    if not 0 < heads < len(rows):
        heads = sum(1 for _ in takewhile(lambda row: row.names_columns, rows))
    if not heads and rows and not any(cell.is_name for row in rows for cell in row.cells):
        heads = _count_spanned(rows[0])
    return heads if 0 < heads < len(rows) and heads <= _MAX_NAME_ROWS else 1


def _count_spanned(row: _Row) -> int:
    """The rows of names in a table that marks none: the first has cells over several columns beside such that go on
    below."""
    is_split = any(cell.columns > 1 for cell in row.cells) and any(cell.rows > 1 for cell in row.cells)
    return max(cell.rows for cell in row.cells) if is_split else 0


def count_cells(table: LexborNode) -> int:
    """The cells of a table with those that its spans add, at least; stops beyond MAX_CELLS."""
    count = 0
    for row in _rows(table, ()):
        for node in _children(row):
            count += _span(node, "colspan") * _span(node, "rowspan") if node.tag in ("td", "th") else 0
        if count > MAX_CELLS:
            break
    return count


def _lay_out(rows: Sequence[_Row], width: int, names: int) -> Iterator[list[str]]:
    """The texts of each row by column."""
    below: dict[int, tuple[str, int]] = {}
    for number, each in enumerate(rows):
        row, waiting = list[str](), list(each.cells)
        carried, below = below, {}
        while waiting or any(column >= len(row) for column in carried):
            if len(row) in carried:
                text, left = carried[len(row)]
                if left > 1:
                    below[len(row)] = text, left - 1
                row.append(text)
            elif waiting:
                cell = waiting.pop(0)
                repeats = number < names or (cell.is_name and cell.columns < width)
                for column in range(cell.columns):
                    text = cell.text if column == 0 or repeats else ""
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
