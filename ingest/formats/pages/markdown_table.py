"""A table of Markdown, made of rows of cells that may span columns and rows.

A cell that spans rows is in each of them; so is, of names, one that spans columns. Other columns of a span are empty.
Rows of names above each other are one row, and a cell above them that spans the table is its caption.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

_MAX_NAME_ROWS = 4
"""If more rows look like headings, only the first names the columns; the others are rows."""

_YEAR = re.compile(r"(?:1[89]|20|21)\d\d")


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    columns: int = 1
    rows: int = 1
    is_name: bool = False


def write_cells(rows: Sequence[Sequence[Cell]], heads: int = 0) -> tuple[str, str]:
    """The caption and the table of rows, each with the cells that begin in it; `heads` rows are marked as names."""
    rows = list(rows)
    width = max((sum(cell.columns for cell in row) for row in rows), default=0)
    captions = list[str]()
    while len(rows) > 2 and _is_caption(rows[0], width):
        captions.append(rows.pop(0)[0].text)
    names = _count_name_rows(rows, heads - len(captions))
    return " ".join(filter(None, captions)), write_table(list(_lay_out(rows, width, names)), names)


def write_table(rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """The rows with any text, each in a line; empty if there are none.

    The first `names` rows name the columns: names above each other become one ("Sales / 2024"). With 0 no row does, and
    the line for them is empty.
    """
    above = [row for row in rows[:names] if any(row)]
    below = [row for row in rows[names:] if any(row)]
    width = max(map(len, [*above, *below]), default=0)
    if not width:
        return ""
    named = [_join_names([row[column] for row in above if column < len(row)]) for column in range(width)]
    return "\n".join([_write(named, width), "|" + "---|" * width, *(_write(row, width) for row in below)])


def _join_names(names: Sequence[str]) -> str:
    """Names from above to below; one that stands in several rows is said once."""
    return " / ".join(dict.fromkeys(name for name in names if name))


def _write(cells: Sequence[str], width: int) -> str:
    escaped = [cell.replace("|", "\\|") for cell in cells] + [""] * (width - len(cells))
    return f"| {' | '.join(escaped)} |"


def _is_caption(row: Sequence[Cell], width: int) -> bool:
    """Whether a row is one cell as wide as the table."""
    return len(row) == 1 and 1 < width == row[0].columns and row[0].rows == 1


def _count_name_rows(rows: Sequence[Sequence[Cell]], heads: int) -> int:
    """How many of the first rows name the columns; 0 where the first column has the names of a single other one, and
    where the first row is numbers."""
    if rows and all(len(pair) == 2 and pair[0].is_name and not pair[1].is_name for pair in rows):
        return 0
    if rows and heads < 1 and _are_numbers([cell for cell in rows[0] if not cell.is_name]):
        return 0
    if not 0 < heads < len(rows):
        heads = sum(1 for _ in takewhile(_names_columns, rows))
    if not heads and rows and not any(cell.is_name for row in rows for cell in row):
        heads = _count_spanned(rows[0])
    return heads if 0 < heads < len(rows) and heads <= _MAX_NAME_ROWS else 1


def _are_numbers(row: Sequence[Cell]) -> bool:
    texts = [cell.text for cell in row]
    have_digits = all(any(map(str.isdigit, text)) and not any(map(str.isalpha, text)) for text in texts)
    return len(texts) > 1 and have_digits and not all(map(_YEAR.fullmatch, texts))


def _names_columns(row: Sequence[Cell]) -> bool:
    """Whether all cells are names, but for an empty one in the corner."""
    return len(row) > 1 and all(cell.is_name or (index == 0 and not cell.text) for index, cell in enumerate(row))


def _count_spanned(row: Sequence[Cell]) -> int:
    """The rows of names in a table that marks none: its first row has cells over several columns, beside others that go
    on below or behind an empty corner."""
    if not any(cell.columns > 1 for cell in row):
        return 0
    most = max(cell.rows for cell in row)
    return most if most > 1 or row[0].text else 2


def _lay_out(rows: Sequence[Sequence[Cell]], width: int, names: int) -> Iterator[list[str]]:
    """The texts of each row by column."""
    below: dict[int, tuple[str, int]] = {}
    for number, cells in enumerate(rows):
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
                repeats = number < names or (cell.is_name and cell.columns < width)
                for column in range(cell.columns):
                    text = cell.text if column == 0 or repeats else ""
                    if cell.rows > 1:
                        below[len(row)] = text, cell.rows - 1
                    row.append(text)
            else:
                row.append("")
        yield row
