"""Tables of AsciiDoc: the cells of each row, of `|` tables and of those in CSV, TSV and with colons."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from aidre.ingest.formats.markup.text_writer import MAX_CELLS

_CELL = re.compile(r"(?<!\\)(?:(?:(\d{1,3})?(?:\.(\d{1,3}))?([+*]))?[<^>]?(?:\.[<^>])?[aehlmsd]?)?\|", re.ASCII)
_COLUMN = re.compile(r"(?:(\d{1,3})\*)?.*")
_MAX_SPAN = 100


def read_cells(
    lines: Sequence[str],
    mark: str,
    attributes: Mapping[str, str],
    words: Sequence[str],
    strip: Callable[[str], str],
) -> Iterator[list[str]]:
    """The rows; `mark` is the first character of the table's line, `attributes` and `words` are those above it."""
    form = attributes.get("format", "csv" if mark == "," else "dsv" if mark == ":" else "psv")
    if form in ("csv", "tsv", "dsv"):
        separator = attributes.get("separator") or {"csv": ",", "tsv": "\t", "dsv": ":"}[form]
        yield from _read_separated(lines, "\t" if separator == "\\t" else separator, strip)
        return
    count = _count_columns(attributes.get("cols", ""))
    cells: list[str] = []
    for line in lines:
        if line.startswith("//") and not line.startswith("///"):
            continue
        found = list(_split_line((line.replace("!", "|") if mark == "!" else line).removesuffix(" +")))
        if found and found[0][0] is None:
            if cells:
                cells[-1] += " " + found[0][1]
            found = found[1:]
        own: list[str] = []
        for repeat, text in found:
            own += [text] if repeat is None else repeat(text)
        if own and not count:
            count = len(own)
        cells += own
        if len(cells) > MAX_CELLS:
            break
    count = count or 1
    rows = (cells[start : start + count] for start in range(0, len(cells), count))
    yield from ([strip(cell.replace("\\|", "|").strip()) for cell in row] for row in rows)


def _split_line(line: str) -> Iterator[tuple[Callable[[str], list[str]] | None, str]]:
    """The texts of the cells that begin in a line, each with how it is repeated; first (None) what goes on with the
    cell above."""
    matches = list(_CELL.finditer(line))
    before = line[: matches[0].start()] if matches else line
    if before.strip() or not matches:
        yield None, before.strip()
    for index, match in enumerate(matches):
        end = matches[index + 1].start() if index + 1 < len(matches) else len(line)
        yield _repeat(match), line[match.end() : end].strip()


def _repeat(match: re.Match[str]) -> Callable[[str], list[str]]:
    """`3*|` is three cells, `2+|` one that spans two columns."""
    number = min(int(match[1] or 1), _MAX_SPAN)
    if match[3] == "*":
        return lambda text: [text] * number
    return lambda text: [text] + [""] * (number - 1)


def _count_columns(columns: str) -> int:
    """The columns of `cols="1,2"`, `cols="3*"` or `cols=3`."""
    columns = columns.strip().strip('"')
    if columns.isascii() and columns.isdecimal() and len(columns) < 4:
        return int(columns) if "," not in columns and int(columns) > 0 else 0
    total = 0
    for part in columns.replace(";", ",").split(",") if columns else ():
        match = _COLUMN.match(part.strip())
        total += int(match[1]) if match and match[1] else 1
    return total


def _read_separated(lines: Sequence[str], separator: str, strip: Callable[[str], str]) -> Iterator[list[str]]:
    if len(separator) == 1:
        try:
            for row in csv.reader((line for line in lines if line), delimiter=separator):
                yield [strip(cell.strip()) for cell in row]
        except csv.Error:
            return
