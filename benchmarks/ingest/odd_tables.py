"""Twenty CSV files of odd shapes, as programs and people write them, with the cells that a reader must find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_ROWS: Final = (
    ("Kettle", "Copper, two litres", "49.50"),
    ("Pan", "Cast iron", "29.00"),
    ("Käsemesser", "Steel", "9.90"),
)
_NAMES: Final = ("name", "description", "price")


class Table(NamedTuple):
    content: bytes
    cells: Sequence[str]


def _write(rows: Sequence[Sequence[str]], delimiter: str = ",", end: str = "\n") -> str:
    def quoted(cell: str) -> str:
        doubled = cell.replace('"', '""')
        return f'"{doubled}"' if any(mark in cell for mark in (delimiter, '"', "\n", "\r")) else cell

    return "".join(delimiter.join(map(quoted, row)) + end for row in rows)


def _table(
    text: str, encoding: str = "utf-8", rows: Sequence[Sequence[str]] = _ROWS, more: Sequence[str] = ()
) -> Table:
    return Table(text.encode(encoding), [*(cell for row in rows for cell in row if cell), *more])


def odd_tables() -> Mapping[str, Table]:
    plain = [_NAMES, *_ROWS]
    decimals = [[name, words, price.replace(".", ",")] for name, words, price in _ROWS]
    lines = [("Kettle", "Copper,\ntwo litres", "49.50"), ("Pan", 'So-called "iron"', "29.00")]
    numbers = [("1", "4.5", "5.25"), ("2", "4.75", "6.5"), ("3", "5.0", "7.125")]
    ragged = [("Kettle", "Copper", "49.50"), ("Pan",), ("Knife", "Steel")]
    longer = [("Kettle", "Copper", "49.50"), ("Pan", "Cast iron", "29.00", "sold out"), ("Knife", "Steel", "9.90")]
    empty = [("Kettle", "", "49.50"), ("", "", ""), ("Pan", "Cast iron", "")]
    return {
        "plain.csv": _table(_write(plain)),
        "semicolons.csv": _table(_write([_NAMES, *decimals], ";"), rows=decimals),
        "tabs.csv": _table(_write(plain, "\t")),
        "pipes.csv": _table(_write(plain, "|")),
        "declared.csv": _table("sep=;\n" + _write(plain, ";")),
        "comment.csv": _table("# exported on 1 May 2024\n" + _write(plain)),
        "title.csv": _table("Price list of spring,,\n,,\n" + _write(plain), more=["Price list of spring"]),
        "utf-16.csv": _table(_write(plain), "utf-16"),
        "utf-16-tabs.csv": _table(_write(plain, "\t", "\r\n"), "utf-16"),
        "mark.csv": _table(_write(plain), "utf-8-sig"),
        "windows.csv": _table(_write(plain, ";", "\r\n"), "cp1252"),
        "no-names.csv": _table(_write(numbers), rows=numbers),
        "same-names.csv": _table(_write([("name", "price", "price"), *_ROWS])),
        "unnamed.csv": _table(_write([("", "", "price"), *_ROWS])),
        "lines-in-cells.csv": _table(_write([_NAMES, *lines], ",", "\r\n"), rows=lines),
        "short-rows.csv": _table(_write([_NAMES, *ragged]), rows=ragged),
        "long-rows.csv": _table(_write([_NAMES, *longer]), rows=longer),
        "empty-cells.csv": _table(_write([_NAMES, *empty], ",") + "\n\n", rows=empty),
        "one-column.csv": _table(_write([("name",), ("Kettle",), ("Pan",)]), rows=[("Kettle",), ("Pan",)]),
        "old-mac.csv": _table(_write(plain, ",", "\r")),
    }


def write_odd_tables(folder: Path) -> dict[Path, Table]:
    found = {folder / name: table for name, table in odd_tables().items()}
    for path, table in found.items():
        path.write_bytes(table.content)
    return found


def share_found(table: Table, text: str) -> float:
    """The share of the cells that are in a text, regardless of white space."""
    joined = "".join(text.split())
    return sum("".join(cell.split()) in joined for cell in table.cells) / len(table.cells)
