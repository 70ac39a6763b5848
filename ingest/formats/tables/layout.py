"""The layout of a table of text: its delimiter, the lines above the one that names the columns, and these names.

A file may begin with `sep=;`, as Excel writes it, with comments (`# ...`) and with a title. A table of numbers may have
no line of names at all.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

DELIMITERS: Final = (",", ";", "\t", "|")
SAMPLE_ROWS: Final = 50
_SAMPLE_LINES: Final = 20 * SAMPLE_ROWS
_NO_DELIMITER: Final = "\x1f"
"""The delimiter of a table with one column: no text has it."""

_ROWS_ABOVE: Final = 20
"""Rows that may be above the names of the columns."""

_MIN_MATCHING: Final = 0.8
"""Share of the rows below a title that must have as many cells as there are names."""

_CAPTION_CHARACTERS: Final = 200
_SEPARATOR: Final = re.compile(r'"?sep=(.)"?[ \t]*(?:\r?\n|\r|$)', re.IGNORECASE)
_NUMBER: Final = re.compile(r"[-+]?[$€£]? ?\d[\d., ]*(?:[eE][+-]?\d+)?%?")
_YEAR: Final = re.compile(r"(?:1[89]|20|21)\d\d")


@dataclass(frozen=True, slots=True)
class TableLayout:
    """`above` rows with any text are not rows of the table; `caption` is what they say. `has_names` is false where the
    next row is the first of the table already."""

    delimiter: str = ","
    above: int = 0
    has_names: bool = True
    caption: str | None = None

    @property
    def has_decimal_commas(self) -> bool:
        """Programs separate columns by semicolons where the comma separates decimals."""
        return self.delimiter == ";"


def find_layout(sample: str) -> TableLayout:
    """The layout of a table that begins so."""
    declared = _SEPARATOR.match(sample)
    lines = sample[declared.end() if declared else 0 :].splitlines(keepends=True)[:_SAMPLE_LINES]
    delimiters = (declared[1],) if declared else DELIMITERS
    tables = {delimiter: _read(lines, delimiter) for delimiter in delimiters}
    best = max(tables, key=lambda delimiter: _score(tables[delimiter]))
    if not declared and _score(tables[best]) == (0.0, 0):
        best = _NO_DELIMITER
        tables[best] = _read(lines, best)
    rows = tables[best]
    names = find_names(rows)
    return TableLayout(best, names + bool(declared), has_names(rows[names:]), read_caption(rows[:names]))


def find_names(rows: Sequence[Sequence[str]]) -> int:
    """The number of the row that names the columns, among rows with any text: the first but titles and comments."""
    widths = [_width(row) for row in rows]
    usual = Counter(width for width in widths if width > 1).most_common(1)
    if not usual:
        return next((n for n, row in enumerate(rows[:_ROWS_ABOVE]) if not row[0].lstrip().startswith("#")), 0)
    width = usual[0][0]
    for number, row in enumerate(rows[:_ROWS_ABOVE]):
        filled = sum(bool(cell.strip()) for cell in row)
        is_comment = row[0].lstrip().startswith("#") and widths[number] < width
        is_title = (filled == 1 and bool(row[0].strip())) or 2 * filled < width
        if not is_comment and not is_title:
            return number if _is_above(rows, number) else 0
    return 0


def has_names(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns: it has no number, but for years, above a column of numbers."""
    if len(rows) < 2:
        return True
    numbers = [n for n, cell in enumerate(rows[0]) if _is_number(cell) and not _YEAR.fullmatch(cell.strip())]
    if len(numbers) > 1 and len(numbers) >= len(rows[0]) - 1 and _counts(rows[0][n] for n in numbers):
        return True
    below = [[row[n] for row in rows[1:] if n < len(row) and row[n].strip()] for n in numbers]
    return not any(cells and all(map(_is_number, cells)) for cells in below)


def name_columns(cells: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names of columns, a repeated one with its number ("price 2"), and those that are repeated."""
    written = Counter[str]()
    names, repeated = list[str](), list[str]()
    taken = {cell.strip() for cell in cells}
    for cell in cells:
        name = " ".join(cell.split())
        written[name] += 1
        if name and written[name] > 1:
            repeated.append(name)
            while (numbered := f"{name} {written[name]}") in taken:
                written[name] += 1
            taken.add(numbered)
            name = numbered
        names.append(name)
    return names, repeated


def read_caption(rows: Sequence[Sequence[str]]) -> str | None:
    """What the rows above a table say, without comments."""
    lines = (" ".join(" ".join(cells).split()) for cells in rows)
    return " ".join(line for line in lines if line and not line.startswith("#"))[:_CAPTION_CHARACTERS].strip() or None


def _read(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The first rows with any text."""
    rows: list[list[str]] = []
    try:
        for row in islice(csv.reader(lines, delimiter=delimiter), SAMPLE_ROWS + _ROWS_ABOVE):
            if any(map(str.strip, row)):
                rows.append(row)
    except csv.Error:
        pass
    return rows


def _score(rows: Sequence[Sequence[str]]) -> tuple[float, int]:
    """The part of rows with as many cells as there are names, in fifths, and the number of these cells.

    A title above the names is a row, too: another delimiter may make names of it.
    """
    names = find_names(rows)
    titles = sum(not row[0].lstrip().startswith("#") for row in rows[:names])
    rows = rows[names:][:SAMPLE_ROWS]
    if not rows or len(rows[0]) < 2:
        return 0.0, 0
    return round(_matching(rows) * len(rows) / (len(rows) + titles) * 5) / 5, len(rows[0])


def _matching(rows: Sequence[Sequence[str]]) -> float:
    return sum(len(row) == len(rows[0]) for row in rows) / len(rows)


def _is_above(rows: Sequence[Sequence[str]], number: int) -> bool:
    """Whether a row that is not the first can be the heading of the rows below it."""
    if number == 0:
        return True
    names = [cell for cell in rows[number] if cell.strip()]
    return all(not _is_number(cell) or _YEAR.fullmatch(cell.strip()) for cell in names) and (
        _matching([rows[number], *rows[number + 1 :]]) >= _MIN_MATCHING
    )


def _width(row: Sequence[str]) -> int:
    return next((n for n in range(len(row), 0, -1) if row[n - 1].strip()), 0)


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell.strip()) is not None


def _counts(cells: Iterable[str]) -> bool:
    """Whether numbers count up by one, as the heads of a cross table do."""
    numbers = [int(cell) if cell.strip().isdecimal() else -1 for cell in cells]
    return all(other - number == 1 for number, other in pairwise(numbers))
