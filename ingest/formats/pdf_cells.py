"""Tables of a PDF page whose cells are between ruled lines, as tables of Markdown.

Runs in the sandbox's child. Only what is surely a table is one: lines that cross each other, rectangular cells, and
several rows with text in several of them. The text of all else stays as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from ctypes import byref, c_double, c_float, c_int
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from aidre.ingest.formats.pages.markdown_table import Cell, write_cells
from aidre.ingest.formats.pdf_lines import UNSPACED

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

_THICKNESS, _NEAR = 3.0, 2.5
"""Points: the most of a line that is a filled rectangle, and the most between lines that are one, or ends that meet."""

_MIN_LENGTH = 4.0
_MAX_OBJECTS, _MAX_SEGMENTS, _MAX_LINES, _MAX_SLOTS = 5000, 10_000, 300, 10_000
"""Bounds of a page: beyond them it is a drawing, and has no tables."""

_MAX_DEPTH = 3
_MAX_CELL_CHARACTERS = 1500
"""A longer text is in a frame, and not in a cell."""

_WIDE = 20.0
"""Points between the middles of two characters from which they belong to two columns."""

_LEADING = 7.0
"""Points between the middles of two characters from which they are on two lines; superscripts differ by less."""

_MAX_CUT = 0.05
"""Words that lines cut, by the cells with a text: lines that cut more are not those of a table."""

_MIN_FILLED = 0.3
"""Share of the cells that must have text; the squares of a chart are empty."""

_MIN_STACK, _WRAPPED = 3, 0.6
"""Lines of a cell that may be rows, and the share of the width of a cell that a wrapped line has."""

_MAX_ABOVE, _MAX_BELOW = 200, 600
"""Characters beside a table on a page that it begins or ends: running heads, and notes on the table."""

_HYPHENS = "\x02\ufffe"
_WRAPPED_WORD = re.compile(rf"(?<=[{_HYPHENS}])\s+|(?<={UNSPACED})\n(?={UNSPACED})")
"""White space within a word."""

Matrix: TypeAlias = tuple[float, float, float, float, float, float]
Point: TypeAlias = tuple[float, float]


class Rule(NamedTuple):
    """A line at `at`, from `start` to `end`; upright ones are at their x."""

    at: float
    start: float
    end: float

    def reaches(self, position: float) -> bool:
        return self.start - _NEAR <= position <= self.end + _NEAR


class TableFrame(NamedTuple):
    """The places of the lines of a table, from left to right and from above to below, and its cells."""

    columns: tuple[float, ...]
    rows: tuple[float, ...]
    cells: tuple[tuple[int, ...], ...]
    """The cell number at each row and column of the grid."""

    def find(self, x: float, y: float) -> int | None:
        """The number of the cell at a point."""
        column = bisect_right(self.columns, x) - 1
        row = bisect_right(self.rows, -y, key=lambda place: -place) - 1
        inside = 0 <= column < len(self.columns) - 1 and 0 <= row < len(self.rows) - 1
        return self.cells[row][column] if inside else None


class LastTable(NamedTuple):
    """The table that a page ends with: it may go on at the beginning of the next page."""

    columns: tuple[float, ...]
    names: str


class Tabled(NamedTuple):
    """A text in which the tables are written, and the last one if the page ends with it."""

    text: str
    last: LastTable | None = None


def write_tables(text: str, page: PdfPage, characters: PdfTextPage, last: LastTable | None) -> Tabled:
    """The text of a page with its ruled tables; `last` is the table at the end of the page before."""
    frames = find_frames(*read_rules(page))
    if not frames:
        return Tabled(text)
    found = _PageCharacters.read(characters)
    places = [place for place, character in enumerate(text) if _is_written(character)]
    if _plain(text) != _plain(found.text):  # PDFium tells the text of this page in two ways
        return Tabled(text)
    pieces, position = list[str](), 0
    filled = [filling for frame in frames if (filling := _Filling(frame, found)).is_table()]
    tables = [_PageTable(each.frame, each.texts, each.numbers) for each in filled]
    tables.sort(key=lambda table: table.numbers[0])
    total, ends = len(places), None
    owners = {number: table for table in tables for number in table.numbers}
    for table, group in groupby(range(total), owners.get):
        numbers = list(group)
        stop = places[numbers[-1] + 1] if numbers[-1] + 1 < total else len(text)
        if table is None:
            pieces.append(text[position:stop])
        elif numbers[0] == table.numbers[0]:
            caption, written = table.write(last if numbers[0] <= _MAX_ABOVE else None)
            pieces += [f"\r\n\r\n{part}\r\n\r\n".replace("\n|", "\r\n|") for part in (caption, written) if part]
            if total - table.numbers[-1] <= _MAX_BELOW:
                ends = LastTable(table.frame.columns, written.partition("\n")[0])
        position = stop
    return Tabled("".join(pieces), ends)


class _PageTable(NamedTuple):
    """A frame with the texts of its cells, and the numbers of the page's written characters in them."""

    frame: TableFrame
    texts: dict[int, str]
    numbers: list[int]

    def write(self, last: LastTable | None) -> tuple[str, str]:
        """The caption and the table; what goes on from `last` has the names of its columns."""
        caption, text = write_cells(list(self._read_rows()))
        names, rule, *rows = text.split("\n")
        if last is None or names == last.names or not _are_near(last.columns, self.frame.columns):
            return caption, text
        above = ([f"| {caption} |"] if caption else []) + ([names] if names.strip("| ") else [])
        return "", "\n".join([last.names, rule, *above, *rows])

    def _read_rows(self) -> Iterator[list[Cell]]:
        """The cells that begin in each row."""
        seen = set[int]()
        heights = Counter(number for row in self.frame.cells for number in dict.fromkeys(row))
        for row in self.frame.cells:
            widths = Counter(row)
            fresh = [number for number in dict.fromkeys(row) if number not in seen]
            seen.update(fresh)
            yield [Cell(self.texts.get(number, ""), widths[number], heights[number]) for number in fresh]


class _CellLine(NamedTuple):
    """A line of a cell, from the middle of its first character to that of its last; `breaks` are wide gaps."""

    y: float
    start: float
    end: float
    breaks: int = 0

    def goes_on(self, x: float) -> _CellLine:
        return self._replace(end=x, breaks=self.breaks + (x - self.end > _WIDE))


class _Filling:
    """What the cells of a frame hold, by their numbers."""

    def __init__(self, frame: TableFrame, found: _PageCharacters) -> None:
        self.frame = frame
        self.lines: dict[int, list[_CellLine]] = {}
        self.numbers = list[int]()
        self.cut_words = 0
        parts: dict[int, list[str]] = {}
        before = None
        for number, (index, x, y) in enumerate(found.written):
            cell = frame.find(x, y)
            if cell is not None:
                gap = found.gap(index) if cell == before else "\n"
                parts.setdefault(cell, []).append(gap + found.text[index])
                self.numbers.append(number)
                self._add(self.lines.setdefault(cell, []), x, y)
            self.cut_words += cell != before and found.is_within_word(index)
            before = cell
        self.texts = {cell: _join(text) for cell, text in parts.items()}

    def _add(self, lines: list[_CellLine], x: float, y: float) -> None:
        if lines and x >= lines[-1].end and abs(y - lines[-1].y) < _LEADING:
            lines[-1] = lines[-1].goes_on(x)
        else:
            lines.append(_CellLine(y, x, x))

    def is_table(self) -> bool:
        """Whether rows have texts in several cells, and no cell holds what is a table or a page of its own."""
        texts, rows = self.texts, self.frame.cells
        filled = [len({cell for cell in row if texts.get(cell)}) for row in rows]
        return (
            sum(count > 1 for count in filled) > 1
            and len(texts) >= _MIN_FILLED * len({cell for row in rows for cell in row})
            and self.cut_words <= _MAX_CUT * len(texts)
            and max(map(len, texts.values())) <= _MAX_CELL_CHARACTERS
            and not any(sum(line.breaks > 0 for line in lines) >= _MIN_STACK for lines in self.lines.values())
            and not any(map(self._holds_rows, rows))
        )

    def _holds_rows(self, row: Sequence[int]) -> bool:
        """Whether what is between two lines is several rows: its cells have short texts below each other."""
        stacks = 0
        for number in dict.fromkeys(row):
            lines = self.lines.get(number, ())
            columns = [column for column, other in enumerate(row) if other == number]
            width = self.frame.columns[columns[-1] + 1] - self.frame.columns[columns[0]]
            short = sum(line.end - line.start < _WRAPPED * width for line in lines[:-1])
            stacks += len(lines) >= _MIN_STACK and 2 * short > len(lines)
        return stacks > 1


def _join(parts: Sequence[str]) -> str:
    """The text of a cell. A word that the end of a line parts has a hyphen of PDFium; some scripts have no spaces."""
    text = _WRAPPED_WORD.sub("", "".join(parts))
    return " ".join(text.split())


class _PageCharacters(NamedTuple):
    """The characters of a page, and of those that are written the number and the middle."""

    text: str
    written: list[tuple[int, float, float]]

    @classmethod
    def read(cls, page: PdfTextPage) -> _PageCharacters:
        from pypdfium2 import raw

        text = "".join(chr(raw.FPDFText_GetUnicode(page, index)) for index in range(page.count_chars()))
        left, right, bottom, top = sides = [c_double() for _ in range(4)]
        references = [byref(side) for side in sides]
        written = list[tuple[int, float, float]]()
        for index, character in enumerate(text):
            if _is_written(character):
                raw.FPDFText_GetCharBox(page, index, *references)
                written.append((index, (left.value + right.value) / 2, (bottom.value + top.value) / 2))
        return cls(text, written)

    def gap(self, index: int) -> str:
        """The white space before a character: the end of a line, a space or nothing."""
        before = self.text[index - 1] if index else ""
        return "\n" if before == "\n" else " " if before.isspace() else ""

    def is_within_word(self, index: int) -> bool:
        """Whether a letter follows another one."""
        return index > 0 and self.text[index].isalpha() and self.text[index - 1].isalpha()


def _is_written(character: str) -> bool:
    return character in _HYPHENS or (character > " " and not character.isspace() and character != "\x7f")


def _plain(text: str) -> str:
    return "".join(filter(_is_written, text)).replace(_HYPHENS[1], _HYPHENS[0])


# -- frames ----------------------------------------------------------------------------------------------------


def find_frames(level: Sequence[Rule], upright: Sequence[Rule]) -> list[TableFrame]:
    """The tables that horizontal and vertical lines make, in no order."""
    level, upright = _merge(level), _merge(upright)
    if not level or not upright or max(len(level), len(upright)) > _MAX_LINES:
        return []
    groups = _connect(level, upright)
    return [frame for group in groups if (frame := _build(*group)) is not None]


def _merge(rules: Sequence[Rule]) -> list[Rule]:
    """Lines at one place become one where they meet."""
    merged = list[Rule]()
    for places in _cluster(sorted(rules)):
        at = sum(rule.at for rule in places) / len(places)
        open_ = None
        for rule in sorted(places, key=lambda rule: rule.start):
            if open_ is not None and rule.start <= open_.end + _NEAR:
                open_ = open_._replace(end=max(open_.end, rule.end))
                continue
            merged += [open_] if open_ is not None else []
            open_ = rule._replace(at=at)
        merged += [open_] if open_ is not None else []
    return [rule for rule in merged if rule.end - rule.start >= _MIN_LENGTH]


def _cluster(rules: Sequence[Rule]) -> Iterator[list[Rule]]:
    group = list[Rule]()
    for rule in rules:
        if group and rule.at - group[0].at > _NEAR:
            yield group
            group = []
        group.append(rule)
    if group:
        yield group


def _connect(level: Sequence[Rule], upright: Sequence[Rule]) -> list[tuple[list[Rule], list[Rule]]]:
    """Groups of lines that cross each other, directly or through others."""
    crossings = [[each.reaches(rule.at) and rule.reaches(each.at) for each in level] for rule in upright]
    groups, free = list[tuple[list[Rule], list[Rule]]](), set(range(len(upright)))
    while free:
        pending, columns, rows = [free.pop()], set[int](), set[int]()
        while pending:
            column = pending.pop()
            columns.add(column)
            fresh = {row for row, crosses in enumerate(crossings[column]) if crosses} - rows
            rows |= fresh
            reached = {other for other in free if any(crossings[other][row] for row in fresh)}
            free -= reached
            pending.extend(reached)
        groups.append(([level[row] for row in rows], [upright[column] for column in columns]))
    return groups


def _build(level: Sequence[Rule], upright: Sequence[Rule]) -> TableFrame | None:
    """The frame of lines that cross each other; None if they make no rectangular cells in rows and columns."""
    if not level:
        return None
    columns = tuple(_close({rule.at for rule in upright}, level))
    rows = tuple(reversed(_close({rule.at for rule in level}, upright)))
    if min(len(columns), len(rows)) < 3 or len(columns) * len(rows) > _MAX_SLOTS:
        return None
    cells, count = list[list[int]](), 0
    for row, (above, below) in enumerate(pairwise(rows)):
        numbers = list[int]()
        for column, (left, right) in enumerate(pairwise(columns)):
            middle, height = (left + right) / 2, (above + below) / 2
            is_open_left = column > 0 and not _has(upright, left, height)
            is_open_above = row > 0 and not _has(level, above, middle)
            if is_open_left and is_open_above and numbers[-1] != cells[-1][column]:
                return None
            if is_open_left or is_open_above:
                numbers.append(numbers[-1] if is_open_left else cells[-1][column])
            else:
                numbers.append(count)
                count += 1
        cells.append(numbers)
    frame = TableFrame(columns, rows, tuple(map(tuple, cells)))
    return frame if _are_rectangular(frame.cells) else None


def _close(places: Collection[float], across: Sequence[Rule]) -> list[float]:
    """The places of lines in order, with sides that are open but for the ends of those across."""
    closed = sorted(places)
    first, last = min(rule.start for rule in across), max(rule.end for rule in across)
    before = [first] if first < closed[0] - 2 * _NEAR else []
    return before + closed + ([last] if last > closed[-1] + 2 * _NEAR else [])


def _has(rules: Sequence[Rule], at: float, position: float) -> bool:
    """Whether a line is at a place where it passes a position."""
    return any(rule.at == at and rule.start <= position <= rule.end for rule in rules)


def _are_rectangular(cells: Sequence[Sequence[int]]) -> bool:
    slots: dict[int, list[tuple[int, int]]] = {}
    for row, numbers in enumerate(cells):
        for column, number in enumerate(numbers):
            slots.setdefault(number, []).append((row, column))
    return all(
        len(own) == len({row for row, _ in own}) * len({column for _, column in own}) for own in slots.values()
    ) and any(len(set(numbers)) > 1 for numbers in cells)


def _are_near(columns: Sequence[float], others: Sequence[float]) -> bool:
    return len(columns) == len(others) and all(
        abs(column - other) <= 2 * _NEAR for column, other in zip(columns, others, strict=True)
    )


# -- lines -----------------------------------------------------------------------------------------------------


def read_rules(page: PdfPage) -> tuple[list[Rule], list[Rule]]:
    """The horizontal and the vertical lines that are drawn on a page; none of a page with too many drawings."""
    from pypdfium2 import raw

    level, upright = list[Rule](), list[Rule]()
    segments = 0
    for path, matrix in _read_paths(raw, page):
        segments += max(1, raw.FPDFPath_CountSegments(path))
        if segments > _MAX_SEGMENTS:
            return [], []
        for (x, y), (x2, y2) in _read_strokes(raw, path, matrix):
            if abs(y2 - y) <= 1 <= abs(x2 - x):
                level.append(Rule((y + y2) / 2, min(x, x2), max(x, x2)))
            elif abs(x2 - x) <= 1 <= abs(y2 - y):
                upright.append(Rule((x + x2) / 2, min(y, y2), max(y, y2)))
    return level, upright


def _read_paths(raw: Any, page: PdfPage) -> Iterator[tuple[Any, Matrix]]:
    """The paths of a page with what turns their points into those of the page."""
    counts = raw.FPDFPage_CountObjects(page)
    first = ((raw.FPDFPage_GetObject(page, number), None, 0) for number in range(min(counts, _MAX_OBJECTS)))
    pending: list[Iterator[tuple[Any, Matrix | None, int]]] = [first]
    while pending:
        found = next(pending[-1], None)
        if found is None:
            pending.pop()
            continue
        item, outer, depth = found
        kind = raw.FPDFPageObj_GetType(item)
        if kind not in (raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_FORM):
            continue
        matrix = _read_matrix(raw, item, outer)
        if kind == raw.FPDF_PAGEOBJ_PATH:
            yield item, matrix
        elif depth < _MAX_DEPTH:
            pending.append(_read_form(raw, item, matrix, depth + 1))


def _read_form(raw: Any, form: Any, matrix: Matrix, depth: int) -> Iterator[tuple[Any, Matrix | None, int]]:
    for number in range(min(raw.FPDFFormObj_CountObjects(form), _MAX_OBJECTS)):
        yield raw.FPDFFormObj_GetObject(form, number), matrix, depth


def _read_matrix(raw: Any, item: Any, outer: Matrix | None) -> Matrix:
    own = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(item, byref(own))
    a, b, c, d, e, f = own.a, own.b, own.c, own.d, own.e, own.f
    if outer is None:
        return a, b, c, d, e, f
    a2, b2, c2, d2, e2, f2 = outer
    return (
        a * a2 + b * c2, a * b2 + b * d2, c * a2 + d * c2, c * b2 + d * d2, e * a2 + f * c2 + e2, e * b2 + f * d2 + f2,
    )  # fmt: skip


def _read_strokes(raw: Any, path: Any, matrix: Matrix) -> Iterator[tuple[Point, Point]]:
    """The straight strokes of a path; a thin rectangle that is filled is one."""
    fill, stroked = c_int(), c_int()
    if not raw.FPDFPath_GetDrawMode(path, byref(fill), byref(stroked)):
        return
    for points in _read_outlines(raw, path, matrix):
        if stroked.value:
            yield from pairwise(points)
        elif fill.value:
            (left, right), (bottom, top) = ((min(places), max(places)) for places in zip(*points, strict=True))
            if min(right - left, top - bottom) <= _THICKNESS:
                x, y = (left + right) / 2, (bottom + top) / 2
                yield ((left, y), (right, y)) if right - left > top - bottom else ((x, bottom), (x, top))


def _read_outlines(raw: Any, path: Any, matrix: Matrix) -> Iterator[list[Point]]:
    """The points of each part of a path that is drawn without a break; curves break it."""
    a, b, c, d, e, f = matrix
    x, y = c_float(), c_float()
    points = list[Point]()
    for number in range(raw.FPDFPath_CountSegments(path)):
        segment = raw.FPDFPath_GetPathSegment(path, number)
        raw.FPDFPathSegment_GetPoint(segment, byref(x), byref(y))
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind != raw.FPDF_SEGMENT_LINETO and points:
            yield points
            points = []
        points.append((a * x.value + c * y.value + e, b * x.value + d * y.value + f))
        if raw.FPDFPathSegment_GetClose(segment) and kind == raw.FPDF_SEGMENT_LINETO:
            points.append(points[0])
    if points:
        yield points
