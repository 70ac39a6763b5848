"""XLSX: in each visible sheet a row names the columns, and every row below it is a document.

The sandbox's child reads the workbook (xlsx_child.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import TypeAlias

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats.tables.csv import CellTypes
from aidre.ingest.formats.tables.layout import (
    SAMPLE_ROWS,
    TableLayout,
    find_names,
    has_names,
    name_columns,
    read_caption,
)
from aidre.ingest.formats.tables.row_documents import read_json_row
from aidre.ingest.formats.tables.unmapped import Unmapped
from aidre.ingest.records import File, Item, VectorRules, note
from aidre.ingest.sandbox import TABLES, stream_file

_Row: TypeAlias = tuple[str, int, dict[int, Json]]
"""Sheet, number and cells, by column from 0."""


def read_xlsx(file: File, rules: VectorRules) -> Iterator[Item]:
    """The items of a workbook; raises InvalidDocument, OSError."""
    for name, rows in groupby(_stream_rows(file), itemgetter(0)):
        yield from _read_sheet(name, rows, file, rules)


def find_xlsx_columns(file: File) -> Iterator[dict[str, Json]]:
    """For each sheet, one row with every column; raises InvalidDocument, OSError."""
    for _, rows in groupby(_stream_rows(file, SAMPLE_ROWS), itemgetter(0)):
        names, _, _ = _read_names(list(rows), file)
        yield dict.fromkeys(names.values(), True)


def find_xlsx_spaces(file: File) -> set[str]:
    """No cell holds a vector."""
    return set()


def _read_sheet(sheet: str, rows: Iterator[_Row], file: File, rules: VectorRules) -> Iterator[Item]:
    head = list(islice(rows, SAMPLE_ROWS))
    names, above, caption = _read_names(head, file)
    types = CellTypes.of(file.mapping, TableLayout())
    unmapped = Unmapped(file, [*names.values()])
    section = {"section": " > ".join(filter(None, (sheet, caption)))}
    for _, number, cells in chain(head[above:], rows):
        written = {names.get(column, f"column {column + 1}"): value for column, value in cells.items()}
        row = {name: _to_text(value) if name in types.texts else value for name, value in written.items()}
        where = f"{file.origin}:{sheet}:{number}"
        yield from read_json_row(section | row, where, file, rules, unmapped=unmapped, written=written)


def _read_names(head: Sequence[_Row], file: File) -> tuple[dict[int, str], int, str | None]:
    """The names of the columns, how many of the first rows are not rows of the table, and what the rows above say."""
    columns = sorted({column for _, _, cells in head for column in cells})
    table = [[_to_text(cells.get(column, "")) for column in columns] for _, _, cells in head]
    number = find_names(table)
    caption = read_caption(table[:number])
    if file.mapping is None and not has_names(table[number:]):
        note(file, "no row names the columns: they are called column 1, column 2 and so on")
        return {column: f"column {column + 1}" for column in columns}, number, caption
    names, _ = name_columns(table[number])
    named = {column: name for column, name in zip(columns, names, strict=True) if name}
    return named, number + 1, caption


def _to_text(value: Json) -> str:
    return value if type(value) is str else orjson.dumps(value).decode()


def _stream_rows(file: File, most: int | None = None) -> Iterator[_Row]:
    for part in stream_file(TABLES, "xlsx", file, {"rows": most}):
        try:
            answer = orjson.loads(part)
            for number, cells in answer["rows"]:
                yield str(answer["sheet"]), int(number), {int(column): value for column, value in cells}
        except (ValueError, TypeError, KeyError):
            raise InvalidDocument("cannot be read: its parser gave an invalid answer") from None
