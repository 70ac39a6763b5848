"""Tables as text, CSV and TSV, as Documents: the first line names the columns, every further row is a document.

An empty cell is a member that the row has not. Cells of columns that are metadata are numbers, true or false where
their whole text is one in JSON, and text otherwise.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.found import File, Found, Rejected, opened
from aidre.ingest.json_text import read_json
from aidre.ingest.mapping import ColumnMapping
from aidre.ingest.rows import bounded_lines, from_json, has_url_lines, json_lines
from aidre.ingest.vectors import VectorRules

DELIMITERS = (",", ";", "\t", "|")
LONGEST_ROW = 16 << 20
"""Bytes of a row; a quote that is never closed would swallow the rest of a file."""

TEXTS = frozenset({"id", "title", "text", "url", "updated_at", "section", "type", "@type", "@id"})
JSONS = frozenset({"metadata", "semantic_payload", "vectors"})
WORDED = frozenset({"text", "vectors", "@type"})
"""A table without any of these columns says nothing that could be found."""

_SAMPLE_LINES = 50
_SAMPLE_BYTES = 1 << 18
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS = {"true": True, "false": False}


def delimited(file: File, rules: VectorRules) -> Iterator[Found]:
    """The rows of a table, a bad one as what is wrong with it; raises InvalidDocument, OSError."""
    if has_url_lines(file):
        yield from json_lines(file, rules)
        return
    with opened(file, 1 << 20) as stream:
        table = _Table(stream)
        names = table.header()
        if names is None:
            return
        if file.mapping is None and WORDED.isdisjoint(names):
            raise InvalidDocument(
                "no column is named text: name it in the first line, or map columns in [collections.NAME.mapping]"
            )
        kinds = _Kinds.of(file.mapping)
        for number, cells in table.rows():
            where = f"{file.origin}:{number}"
            try:
                row = _row(names, cells, kinds)
            except InvalidDocument as error:
                yield Rejected(where, error.message, file.source, file.origin)
            else:
                if row:
                    yield from from_json(row, where, file, rules)


def columns_of(file: File) -> list[dict[str, Json]]:
    """One row that has every column of a table; raises InvalidDocument, OSError."""
    if has_url_lines(file):
        return []
    with opened(file) as stream:
        return [dict.fromkeys(_Table(stream).header() or (), True)]


def spaces_of(file: File) -> set[str]:
    """The embedding spaces that the first rows of a table bring vectors for."""
    names: set[str] = set()
    if not has_url_lines(file):
        with opened(file) as stream:
            table = _Table(stream)
            columns = table.header() or []
            for _, cells in islice(table.rows(), _SAMPLE_LINES) if "vectors" in columns else ():
                with suppress(InvalidDocument):
                    vectors = _row(columns, cells, _Kinds.of(None)).get("vectors")
                    names.update(vectors if type(vectors) is dict else ())
    return names


class _Table:
    """Reads rows with the number of the line that each begins in."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines = _Lines(stream)
        self._delimiter = _delimiter(stream)
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))
        self._reader = csv.reader(self._lines, delimiter=self._delimiter)

    def header(self) -> list[str] | None:
        """The names of the columns, None for an empty file; raises InvalidDocument."""
        for number, cells in self.rows():
            if isinstance(cells, InvalidDocument):
                raise InvalidDocument(f"line {number}, which names the columns, {cells.message}")
            names = [cell.strip() for cell in cells]
            if not any(names):
                continue
            repeated = {name for name, count in Counter(names).items() if name and count > 1}
            if repeated:
                raise InvalidDocument(f"line {number} names the column {min(repeated)!r} twice: rename one")
            return names
        return None

    def rows(self) -> Iterator[tuple[int, Sequence[str] | InvalidDocument]]:
        lines = self._lines
        while not lines.is_cut:
            number = lines.begin()
            cells: Sequence[str] | InvalidDocument
            try:
                cells = next(self._reader)
            except StopIteration:
                if not lines.is_cut:
                    return
                cells = ()
            except InvalidDocument as error:
                cells = error
            except csv.Error:
                cells = InvalidDocument("has a carriage return inside a line: end lines with line feeds")
            if lines.is_cut:
                cells = InvalidDocument("does not end, as if a quote were never closed: nothing after it is read")
            elif lines.fault is not None:
                cells = InvalidDocument(lines.fault)
            if cells:
                yield number, cells


class _Lines:
    """Lines of text for the reader of rows, which asks for more while a quote is open."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines = bounded_lines(stream)
        self._number = 0
        self._bytes = 0
        self._in_row = False
        self.is_cut = False
        self.fault: str | None = None

    def begin(self) -> int:
        """A new row begins: the number of its line."""
        self._bytes, self._in_row, self.fault = 0, False, None
        return self._number + 1

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        try:
            line = next(self._lines)
        except StopIteration:
            self.is_cut = self._in_row
            raise
        self._number += 1
        if line is None or (len(line) > LONGEST_ROW and (self._in_row or line.count(b'"') % 2)):
            self.is_cut = True
            raise StopIteration
        if len(line) > LONGEST_ROW:
            raise InvalidDocument(f"is longer than {LONGEST_ROW >> 20} MiB")
        self._in_row = True
        self._bytes += len(line)
        if self._bytes > LONGEST_ROW:
            self.is_cut = True
            raise StopIteration
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            self.fault = f"is not UTF-8 in line {self._number} at byte {error.start}: convert the file to UTF-8"
            return line.decode("utf-8", "replace")


def _delimiter(stream: BinaryIO) -> str:
    """The character by which most of the first rows have as many cells as the header, and the most of them."""
    start = stream.tell()
    sample = stream.read(_SAMPLE_BYTES)
    stream.seek(start)
    lines = sample.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").splitlines(keepends=True)
    return max(DELIMITERS, key=lambda delimiter: _fit(lines[: _SAMPLE_LINES * 20], delimiter))


def _fit(lines: Sequence[str], delimiter: str) -> tuple[float, int]:
    rows = []
    try:
        for row in islice(csv.reader(lines, delimiter=delimiter), _SAMPLE_LINES):
            rows.append(len(row))
    except csv.Error:
        pass
    counts = [count for count in rows if count]
    if not counts or counts[0] < 2:
        return 0.0, 0
    # What the header is cut into must be what the rows are cut into; one row in five may be odd.
    alike = sum(count == counts[0] for count in counts) / len(counts)
    return round(alike * 5) / 5, counts[0]


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Columns whose cells stay text whatever they look like, and those that may hold JSON."""

    texts: frozenset[str]
    jsons: frozenset[str]

    @classmethod
    def of(cls, mapping: ColumnMapping | None) -> _Kinds:
        if mapping is None:
            return cls(TEXTS, JSONS)
        used = {column for member in TEXTS for column in mapping.columns_of(member)}
        jsons = JSONS | {*mapping.vectors.values(), *mapping.columns_of("semantic_payload")}
        return cls((TEXTS | used) - frozenset(mapping.metadata or ()) - jsons, jsons)


def _row(names: Sequence[str], cells: Sequence[str] | InvalidDocument, kinds: _Kinds) -> dict[str, Json]:
    if isinstance(cells, InvalidDocument):
        raise cells
    if any(cells[len(names) :]):
        raise InvalidDocument(f"{len(cells)} cells, but the first line names {len(names)} columns: quote the delimiter")
    return {
        name: cell if name in kinds.texts else _value(name, cell, kinds)
        for name, cell in zip(names, cells, strict=False)
        if name and cell and not cell.isspace()
    }


def _value(name: str, cell: str, kinds: _Kinds) -> Json:
    text = cell.strip()
    if name in kinds.jsons and text[0] in "{[":
        try:
            return read_json(text.encode("utf-8", "surrogatepass"))
        except InvalidDocument as error:
            raise InvalidDocument(f"{name}: {error.message}") from None
    if text in _LITERALS:
        return _LITERALS[text]
    if text[0] in "-0123456789" and _NUMBER.fullmatch(text):
        return _number(text, cell)
    return cell


def _number(text: str, cell: str) -> Json:
    """A number, or the cell as it is where a number would not be what it says."""
    is_whole = text.lstrip("-").isdigit()
    number = int(text) if is_whole and len(text) < 20 else float(text)
    if is_whole:
        return number if isinstance(number, int) and -(1 << 63) <= number < 1 << 63 else cell
    return number if math.isfinite(number) else cell
