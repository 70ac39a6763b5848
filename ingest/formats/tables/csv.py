"""CSV and TSV: a row names the columns, and every row below it is a document.

An empty cell is a missing member. A cell of a metadata column is a number, true or false if its whole text is one in
JSON or as spreadsheets write it, else text.
"""

from __future__ import annotations

import csv
import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats.tables.json_lines import bounded_lines, has_url_lines, read_json_lines
from aidre.ingest.formats.tables.layout import SAMPLE_ROWS, TableLayout, find_layout, name_columns
from aidre.ingest.formats.tables.row_documents import read_json_row
from aidre.ingest.formats.tables.unmapped import Unmapped
from aidre.ingest.records import (
    ColumnMapping,
    File,
    Item,
    Rejected,
    RowDecoder,
    VectorRules,
    note,
    open_rows,
    parse_json,
)

MAX_ROW_BYTES = 16 << 20
"""Bytes of a row: without a limit a quote that is never closed would swallow the rest of a file."""

_TEXT_COLUMNS = frozenset({"id", "title", "text", "url", "updated_at", "section", "type", "@type", "@id"})
_JSON_COLUMNS = frozenset({"metadata", "semantic_payload", "vectors"})
_SAMPLE_BYTES = 1 << 18
"""The beginning of a file that shows its layout."""

_MAX_UNQUOTED = 20
"""Quotes of a file that are never closed; each costs to read what is below it again."""

_BUFFER_BYTES = 1 << 20
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"-?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:\.[0-9]{3})+),[0-9]+")
_LITERALS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def read_csv(file: File, rules: VectorRules) -> Iterator[Item]:
    """The items of a table; a bad row is rejected and the next one read. Raises InvalidDocument, OSError."""
    if has_url_lines(file):
        yield from read_json_lines(file, rules)
        return
    with open_rows(file, _BUFFER_BYTES) as stream:
        table = _CsvTable(stream, file)
        names = table.read_header()
        if names is None:
            return
        types = CellTypes.of(file.mapping, table.layout)
        unmapped = Unmapped(file, names)
        caption = {} if table.layout.caption is None else {"section": table.layout.caption}
        is_plain = file.mapping is None and "text" not in names
        for number, cells in table.rows():
            where = f"{file.origin}:{number}"
            if is_plain and not isinstance(cells, InvalidDocument) and any(cells[len(names) :]):
                note(file, "a row has more cells than there are names: the others are column N", f"line {number}")
                names = [*names, *(f"column {n}" for n in range(len(names) + 1, len(cells) + 1))]
            try:
                row = _parse_row(names, cells, types)
            except InvalidDocument as error:
                yield Rejected(where, error.message, file.source, file.origin)
            else:
                if row:
                    yield from read_json_row(
                        caption | row, where, file, rules, unmapped=unmapped, written=_as_written(names, cells)
                    )


def find_csv_columns(file: File) -> list[dict[str, Json]]:
    """One row with every column of a table; raises InvalidDocument, OSError."""
    if has_url_lines(file):
        return []
    with open_rows(file) as stream:
        return [dict.fromkeys(_CsvTable(stream, file).read_header() or (), True)]


def find_csv_spaces(file: File) -> set[str]:
    """The embedding spaces of the vectors in a table's first rows; raises InvalidDocument, OSError."""
    names: set[str] = set()
    if not has_url_lines(file):
        with open_rows(file) as stream:
            table = _CsvTable(stream, file)
            columns = table.read_header() or []
            for _, cells in islice(table.rows(), SAMPLE_ROWS) if "vectors" in columns else ():
                with suppress(InvalidDocument):
                    vectors = _parse_row(columns, cells, CellTypes.of(None, table.layout)).get("vectors")
                    names.update(vectors if type(vectors) is dict else ())
    return names


class _CsvTable:
    """Reads rows, each with the number of its first line."""

    def __init__(self, stream: BinaryIO, file: File) -> None:
        self._file = file
        self._lines = _CsvLines(stream, RowDecoder(file))
        self.layout = find_layout(_read_sample(stream))
        csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
        self._reader = csv.reader(self._lines, delimiter=self.layout.delimiter)
        self._first: tuple[int, Sequence[str]] | None = None
        self._unquoted = 0

    def read_header(self) -> list[str] | None:
        """The names of the columns, None for an empty file; raises InvalidDocument."""
        above = self.layout.above
        for number, cells in self.rows():
            if isinstance(cells, InvalidDocument):
                raise InvalidDocument(f"line {number}, which names the columns, {cells.message}")
            if not any(map(str.strip, cells)):
                continue
            if above:
                above -= 1
                continue
            if not self.layout.has_names and self._file.mapping is None:
                note(self._file, "no line names the columns: they are called column 1, column 2 and so on")
                self._first = number, cells
                return [f"column {n}" for n in range(1, len(cells) + 1)]
            names, repeated = name_columns(cells)
            note(self._file, "several columns have one name: a number is added" if repeated else None, *repeated[:1])
            return names
        return None

    def rows(self) -> Iterator[tuple[int, Sequence[str] | InvalidDocument]]:
        """Line number and cells of each row that is not empty; of a bad row the number and its fault."""
        lines = self._lines
        if self._first is not None:
            yield self._first
        while not lines.is_cut_off:
            number = lines.begin_row()
            cells: Sequence[str] | InvalidDocument
            try:
                cells = next(self._reader)
            except StopIteration:
                if not lines.is_cut_off:
                    return
                cells = ()
            except InvalidDocument as error:
                cells = error
            except csv.Error:
                cells = InvalidDocument("has a carriage return inside a line: end lines with line feeds")
            if lines.is_cut_off:
                cells = self._read_unquoted(number)
            if lines.is_cut_off:
                cells = InvalidDocument("does not end, as if a quote were never closed: nothing after it is read")
            if cells:
                yield number, cells

    def _read_unquoted(self, number: int) -> Sequence[str]:
        """The cells of the line where a quote was opened that the file does not close; the lines below are read again.

        Nothing if there are too many such quotes, or the row is too long.
        """
        line = self._lines.take_back() if self._unquoted < _MAX_UNQUOTED else None
        if line is None:
            return ()
        self._unquoted += 1
        note(self._file, "a quote is never closed: it is read as a character", f"line {number}")
        self._reader = csv.reader(self._lines, delimiter=self.layout.delimiter)
        return next(csv.reader([line], delimiter=self.layout.delimiter, quoting=csv.QUOTE_NONE), ())


class _CsvLines:
    """Lines of text for `csv.reader`, which asks for further lines of a row while a quote is open.

    `is_cut_off` is set if a row has no end within MAX_ROW_BYTES or in the file.
    """

    def __init__(self, stream: BinaryIO, decoder: RowDecoder) -> None:
        self._lines = bounded_lines(stream)
        self._decoder = decoder
        self._number = 0
        self._row_bytes = 0
        self._in_row = False
        self._row: list[str] = []
        self._again: deque[str] = deque()
        self._is_at_end = False
        self.is_cut_off = False

    def begin_row(self) -> int:
        """The number of the next line, with which a row begins."""
        self._row_bytes, self._in_row = 0, False
        self._row.clear()
        return self._number + 1

    def take_back(self) -> str | None:
        """The first line of a row that the file does not end, whose other lines are read once more; None for a row
        that is too long."""
        if not (self._is_at_end and self._row):
            return None
        first, *others = self._row
        self._again.extend(others)
        self._number -= len(others)
        self.is_cut_off = self._is_at_end = False
        return first

    def __iter__(self) -> _CsvLines:
        return self

    def __next__(self) -> str:
        if self._again:
            self._number, self._in_row = self._number + 1, True
        text = self._again.popleft() if self._again else self._read()
        self._row.append(text)
        return text

    def _read(self) -> str:
        try:
            line = next(self._lines)
        except StopIteration:
            self.is_cut_off = self._is_at_end = self._in_row
            raise
        self._number += 1
        if line is None or (len(line) > MAX_ROW_BYTES and (self._in_row or line.count(b'"') % 2)):
            self.is_cut_off = True
            raise StopIteration
        if len(line) > MAX_ROW_BYTES:
            raise InvalidDocument(f"is longer than {MAX_ROW_BYTES >> 20} MiB")
        self._in_row = True
        self._row_bytes += len(line)
        if self._row_bytes > MAX_ROW_BYTES:
            self.is_cut_off = True
            raise StopIteration
        return self._decoder.decode(line)


def _read_sample(stream: BinaryIO) -> str:
    """The beginning of a table, whose bytes beyond ASCII do not matter here."""
    start = stream.tell()
    sample = stream.read(_SAMPLE_BYTES)
    stream.seek(start)
    return sample.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class CellTypes:
    """Columns whose cells are always text, and columns whose cells may be JSON."""

    texts: frozenset[str]
    jsons: frozenset[str]
    has_decimal_commas: bool

    @classmethod
    def of(cls, mapping: ColumnMapping | None, layout: TableLayout) -> CellTypes:
        if mapping is None:
            return cls(_TEXT_COLUMNS, _JSON_COLUMNS, layout.has_decimal_commas)
        mapped = {column for member in _TEXT_COLUMNS for column in mapping.columns_of(member)}
        jsons = _JSON_COLUMNS | {*mapping.vectors.values(), *mapping.columns_of("semantic_payload")}
        texts = (_TEXT_COLUMNS | mapped) - frozenset(mapping.metadata or ()) - jsons
        return cls(texts, jsons, layout.has_decimal_commas)


def _parse_row(names: Sequence[str], cells: Sequence[str] | InvalidDocument, types: CellTypes) -> dict[str, Json]:
    if isinstance(cells, InvalidDocument):
        raise cells
    if any(cells[len(names) :]):
        raise InvalidDocument(f"{len(cells)} cells, but the first line names {len(names)} columns: quote the delimiter")
    return {
        name: cell if name in types.texts else _parse_cell(name, cell, types)
        for name, cell in zip(names, cells, strict=False)
        if name and cell and not cell.isspace()
    }


def _as_written(names: Sequence[str], cells: Sequence[str] | InvalidDocument) -> dict[str, Json]:
    """The cells by their columns, also those without a name but for a number of the row in front."""
    pairs = zip(names, () if isinstance(cells, InvalidDocument) else cells, strict=False)
    return {
        name or f"column {number}": cell
        for number, (name, cell) in enumerate(pairs, 1)
        if cell and not (number == 1 and not name and cell.isdecimal())
    }


def _parse_cell(name: str, cell: str, types: CellTypes) -> Json:
    text = cell.strip()
    if name in types.jsons and text[0] in "{[":
        try:
            return parse_json(text.encode("utf-8", "surrogatepass"))
        except InvalidDocument as error:
            raise InvalidDocument(f"{name}: {error.message}") from None
    if text in _LITERALS:
        return _LITERALS[text]
    if text[0] in "-0123456789" and _NUMBER.fullmatch(text):
        return _parse_number(text, cell)
    if types.has_decimal_commas and _DECIMAL_COMMA.fullmatch(text):
        return _parse_number(text.replace(".", "").replace(",", "."), cell)
    return cell


def _parse_number(text: str, cell: str) -> Json:
    """A number, or the cell unchanged if a number would be inexact: an integer beyond 64 bits, or an infinity."""
    is_integer = text.lstrip("-").isdigit()
    number = int(text) if is_integer and len(text) < 20 else float(text)
    if is_integer:
        return number if isinstance(number, int) and -(1 << 63) <= number < 1 << 63 else cell
    return number if math.isfinite(number) else cell
