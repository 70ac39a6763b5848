"""The sandbox's Excel parser: the rows of the visible sheets of a workbook, part by part.

Read are values as they were saved, not formulas. A number with the format of a date is that date; a cell that is merged
with others below it is in each of their rows. Inflated bytes are counted, and entities are refused.
"""

from __future__ import annotations

import os
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, BinaryIO, NamedTuple
from xml.parsers import expat

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats import strict_parser
from aidre.ingest.records import MAX_DOCUMENT_BYTES

MAX_INFLATED_BYTES = 1 << 30
MAX_STRINGS_BYTES = 256 << 20
MAX_SMALL_BYTES = 16 << 20
"""Inflated bytes of all sheets, of the shared texts, and of any other part."""

MAX_MERGED_CELLS = 100_000
MAX_FORMAT_CHARACTERS = 255
"""Longest number format, as in Excel."""

MAX_DEPTH = 64
ROWS_OF_PART = 1000

_BLOCK_BYTES = 1 << 16
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0"
_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\s[^<>]{0,200}?ref=[\"']([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})[\"']")
_NOT_FORMAT = re.compile(r'"[^"]*"|\\.|\[(?!h|m|s)[^\]]*\]|_.|\*.', re.IGNORECASE)
_DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_LETTERS = re.compile(r"[A-Z]{1,3}")
_MAX_SERIAL = 2_958_466
"""The day after the last that Excel knows."""

_MAX_EXACT = 1 << 53


class _Book(NamedTuple):
    """The visible sheets with their parts, and the day that dates are counted from."""

    sheets: tuple[tuple[str, str], ...]
    epoch: datetime
    parts: Mapping[str, str]
    """Parts by the last word of their relationship's type."""


class _Formats(NamedTuple):
    """The styles that are dates, and those among them that are durations."""

    dates: frozenset[int]
    durations: frozenset[int]


def read_rows(content: bytes, options: Mapping[str, Any]) -> Iterator[bytes]:
    """Parts of JSON: `sheet`, and `rows`, each with its number and pairs of a column (from 0) and its value.

    Of at most `options["rows"]` rows of each sheet, if that is not null. Raises InvalidDocument.
    """
    with _open_archive(options["descriptor"]) as archive:
        try:
            book = _read_book(archive)
            strings = _read_strings(archive, book.parts.get("sharedStrings", ""))
            formats = _read_formats(archive, book.parts.get("styles", ""))
            budget = [MAX_INFLATED_BYTES]
            for name, part in book.sheets:
                sheet = _Sheet(strings, formats, book.epoch, _find_merged(archive, part))
                yield from _to_parts(name, sheet.rows(_blocks(archive, part, budget)), options["rows"])
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise InvalidDocument(f"is a damaged workbook: {error}") from None
        except expat.ExpatError as error:
            raise InvalidDocument(f"is a damaged workbook: {expat.ErrorString(error.code)}") from None


def _to_parts(name: str, rows: Iterator[tuple[int, list[tuple[int, Json]]]], most: int | None) -> Iterator[bytes]:
    waiting: list[tuple[int, list[tuple[int, Json]]]] = []
    for count, row in enumerate(rows, 1):
        waiting.append(row)
        if len(waiting) == ROWS_OF_PART or count == most:
            yield orjson.dumps({"sheet": name, "rows": waiting})
            waiting = []
        if count == most:
            return
    if waiting:
        yield orjson.dumps({"sheet": name, "rows": waiting})


# -- the archive -----------------------------------------------------------------------------------------------


@contextmanager
def _open_archive(descriptor: int) -> Iterator[zipfile.ZipFile]:
    with open(descriptor, "rb", closefd=False) as stream:
        if os.fstat(stream.fileno()).st_size > MAX_DOCUMENT_BYTES:
            raise InvalidDocument(f"larger than {MAX_DOCUMENT_BYTES >> 20} MiB: save it as CSV")
        if stream.read(4) == _OLE_SIGNATURE:
            raise InvalidDocument("is encrypted or of the older Excel format: save it as .xlsx without a password")
        try:
            archive = zipfile.ZipFile(stream)
        except (zipfile.BadZipFile, UnicodeDecodeError):
            raise InvalidDocument("is not an XLSX file, or a damaged one: its archive cannot be read") from None
        with archive:
            yield archive


def _blocks(archive: zipfile.ZipFile, part: str, budget: list[int]) -> Iterator[bytes]:
    """The inflated blocks of a part; raises InvalidDocument for more than the bytes of the budget, which is lowered."""
    try:
        member: BinaryIO = archive.open(part)  # type: ignore[assignment]
    except KeyError:
        raise InvalidDocument(f"is a damaged workbook: {part or 'a part'} is missing") from None
    except RuntimeError:
        raise InvalidDocument("is encrypted: ingest a copy without a password") from None
    with member:
        while block := member.read(_BLOCK_BYTES):
            budget[0] -= len(block)
            if budget[0] < 0:
                raise InvalidDocument("inflates to more bytes than are read: split it, or save it as CSV")
            yield block


def _parse(
    blocks: Iterator[bytes],
    start: Callable[[str, dict[str, str]], None],
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Calls back for each element, by its name without a prefix, and yields after each block."""
    depth = 0

    def handle_start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidDocument("is not a workbook: its elements are nested too deep")
        start(name.rpartition(":")[2], attributes)

    def handle_end(name: str) -> None:
        nonlocal depth
        depth -= 1
        if end is not None:
            end(name.rpartition(":")[2])

    parser = strict_parser("declares entities of its own, which no workbook does")
    parser.StartElementHandler, parser.EndElementHandler = handle_start, handle_end
    parser.CharacterDataHandler = text
    for block in blocks:
        parser.Parse(block, False)
        yield
    parser.Parse(b"", True)
    yield


def _parse_part(archive: zipfile.ZipFile, part: str, start: Callable[[str, dict[str, str]], None]) -> None:
    for _ in _parse(_blocks(archive, part, [MAX_SMALL_BYTES]), start):
        pass


# -- what the sheets refer to ----------------------------------------------------------------------------------


def _read_book(archive: zipfile.ZipFile) -> _Book:
    targets = _read_relations(archive, "")
    path = next((target for kind, target in targets.values() if kind == "officeDocument"), "xl/workbook.xml")
    targets = _read_relations(archive, path)
    sheets: list[tuple[str, str]] = []
    epoch = datetime(1899, 12, 30)

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal epoch
        if name == "workbookPr" and attributes.get("date1904", "0") in ("1", "true"):
            epoch = datetime(1904, 1, 1)
        elif name == "sheet" and attributes.get("state", "visible") == "visible":
            relation = next((value for key, value in attributes.items() if key.rpartition(":")[2] == "id"), "")
            kind, target = targets.get(relation, ("", ""))
            if kind == "worksheet":
                sheets.append((attributes.get("name", ""), target))

    _parse_part(archive, path, start)
    return _Book(tuple(sheets), epoch, {kind: target for kind, target in targets.values() if kind != "worksheet"})


def _read_relations(archive: zipfile.ZipFile, path: str) -> dict[str, tuple[str, str]]:
    """By its id, the kind of each relation of a part and the path of its target."""
    folder, name = posixpath.split(path)
    found: dict[str, tuple[str, str]] = {}

    def start(element: str, attributes: dict[str, str]) -> None:
        if element == "Relationship" and attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", ""))).lstrip("/")
            found[attributes.get("Id", "")] = attributes.get("Type", "").rpartition("/")[2], target

    _parse_part(archive, posixpath.join(folder, "_rels", f"{name}.rels"), start)
    return found


def _read_strings(archive: zipfile.ZipFile, part: str) -> list[str]:
    """The shared texts, without readings."""
    strings: list[str] = []
    reader = _TextReader()

    def end(name: str) -> None:
        reader.end(name)
        if name == "si":
            strings.append(reader.take())

    if part:
        blocks = _blocks(archive, part, [MAX_STRINGS_BYTES])
        for _ in _parse(blocks, lambda name, _: reader.start(name), end, reader.add):
            pass
    return strings


class _TextReader:
    """Joins the texts (`t`) of an element, but for those of readings (`rPh`)."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._is_text = self._is_reading = False

    def start(self, name: str) -> None:
        self._is_reading = self._is_reading or name == "rPh"
        self._is_text = name == "t" and not self._is_reading

    def end(self, name: str) -> None:
        self._is_reading = self._is_reading and name != "rPh"
        self._is_text = False

    def add(self, text: str) -> None:
        if self._is_text:
            self._parts.append(text)

    def take(self) -> str:
        text, self._parts = "".join(self._parts), []
        return text


def _read_formats(archive: zipfile.ZipFile, part: str) -> _Formats:
    codes: dict[int, str] = {}
    styles: list[int] = []
    inside: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name in ("cellXfs", "cellStyleXfs", "numFmts"):
            inside[:] = [name]
        elif name == "numFmt":
            codes[int(attributes.get("numFmtId", -1))] = attributes.get("formatCode", "")[:MAX_FORMAT_CHARACTERS]
        elif name == "xf" and inside == ["cellXfs"]:
            styles.append(int(attributes.get("numFmtId", 0)))

    if part:
        _parse_part(archive, part, start)
    plain = {number: _NOT_FORMAT.sub("", code.partition(";")[0]).lower() for number, code in codes.items()}
    dates = {number for number, code in plain.items() if set("ymdhs") & set(code) and "general" not in code}
    durations = {number for number in dates if "[" in plain[number]} | {46}
    return _Formats(
        frozenset(style for style, number in enumerate(styles) if number in dates or number in _DATE_FORMATS),
        frozenset(style for style, number in enumerate(styles) if number in durations),
    )


def _find_merged(archive: zipfile.ZipFile, part: str) -> dict[tuple[int, int], tuple[int, int]]:
    """For the cells (row, column) that are merged with one above them: that cell."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    tail = b""
    for block in _blocks(archive, part, [MAX_INFLATED_BYTES]):
        text = tail + block
        for first, top, last, bottom in _MERGED.findall(text):
            column, row = _column_of(first.decode()), int(top)
            if column == _column_of(last.decode()) and len(found) + int(bottom) - row <= MAX_MERGED_CELLS:
                found.update({(below, column): (row, column) for below in range(row + 1, int(bottom) + 1)})
        tail = text[-400:] if b"mergeCell" in text[-400:] else b""
    return found


def _column_of(letters: str) -> int:
    column = 0
    for letter in letters:
        column = 26 * column + ord(letter) - ord("A") + 1
    return column - 1


# -- sheets ----------------------------------------------------------------------------------------------------


class _Sheet:
    """Reads the cells of one sheet."""

    def __init__(
        self,
        strings: list[str],
        formats: _Formats,
        epoch: datetime,
        merged: Mapping[tuple[int, int], tuple[int, int]],
    ) -> None:
        self._strings, self._formats, self._epoch, self._merged = strings, formats, epoch, merged
        self._above = dict.fromkeys(merged.values(), None)
        self._columns: dict[int, list[int]] = {}
        for row, column in merged:
            self._columns.setdefault(row, []).append(column)
        self._done: list[tuple[int, list[tuple[int, Json]]]] = []
        self._cells: dict[int, Json] = {}
        self._row = self._column = 0
        self._type, self._style = "n", 0
        self._value: list[str] = []
        self._is_value = False
        self._inline = _TextReader()

    def rows(self, blocks: Iterator[bytes]) -> Iterator[tuple[int, list[tuple[int, Json]]]]:
        for _ in _parse(blocks, self._start, self._end, self._add):
            yield from self._done
            self._done.clear()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "row":
            self._row = int(attributes.get("r", self._row + 1))
            self._column, self._cells = -1, {}
        elif name == "c":
            letters = _LETTERS.match(attributes.get("r", ""))
            self._column = _column_of(letters[0]) if letters else self._column + 1
            self._type, self._style = attributes.get("t", "n"), int(attributes.get("s", 0))
            self._value = []
        else:
            self._is_value = name == "v"
            self._inline.start(name)

    def _add(self, text: str) -> None:
        if self._is_value:
            self._value.append(text)
        self._inline.add(text)

    def _end(self, name: str) -> None:
        self._is_value = False
        self._inline.end(name)
        if name == "c":
            inline = self._inline.take()
            value = self._read_cell("".join(self._value), inline)
            if value is not None and value != "":
                self._cells[self._column] = value
        elif name == "row":
            self._end_row()

    def _end_row(self) -> None:
        for column in self._columns.pop(self._row, ()):  # once: a row may be there again
            value = self._above[self._merged[self._row, column]]
            if value is not None:
                self._cells.setdefault(column, value)
        for column, value in self._cells.items():
            if (self._row, column) in self._above:
                self._above[self._row, column] = value
        if self._cells:
            self._done.append((self._row, sorted(self._cells.items())))

    def _read_cell(self, value: str, inline: str) -> Json:
        if self._type == "inlineStr":
            return inline
        if self._type == "s":
            return self._strings[int(value)] if value and int(value) < len(self._strings) else None
        if self._type == "b":
            return value in ("1", "true")
        if self._type in ("str", "d"):
            return value
        return self._read_number(value) if self._type == "n" and value else None

    def _read_number(self, value: str) -> Json:
        try:
            number = float(value)
        except ValueError:
            return value
        if self._style in self._formats.durations and 0 <= number < _MAX_SERIAL:
            seconds = round(number * 86_400)
            return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        if self._style in self._formats.dates and 0 <= number < _MAX_SERIAL:
            moment = self._epoch + timedelta(seconds=round(number * 86_400))
            return moment.time().isoformat() if number < 1 else _to_iso(moment)
        return int(number) if number.is_integer() and abs(number) < _MAX_EXACT else number


def _to_iso(moment: datetime) -> str:
    """A date, with its time unless that is midnight."""
    return moment.isoformat() if moment.time() != datetime.min.time() else moment.date().isoformat()
