"""Fields with columns of their own: which ones get them, and where the values of a document go.

A column is typed: `f3_s` has the texts of field 3, `f3_i` its whole numbers, `f3_f` its floating-point numbers, `f3_b`
0 or 1, `f3_d` and `f3_t` the instants of dates and of texts that denote one, in microseconds since 1970. They are on
the rows of documents, of their vectors and of their words, so that a search compares them on the row that it looks at.
A document with lists, long texts or other kinds of values of a field has none of them in the columns and all of them in
the table of fields, which `r3` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from psycopg import sql

from aidre.engine.index.fields import stored_name
from aidre.engine.storage import to_utf8
from aidre_rows import CollectionState, FieldColumns, FieldRow, digest

MOST_FIELDS: Final = 24
"""Fields with columns of a collection: each makes every row longer."""
_LEAST_SHARE: Final = 0.1
"""Of the documents that have a field with columns."""
_LEAST_FITTING: Final = 0.9
"""Of these documents, how many have values that fit into the columns."""
_MOST_TEXT_BYTES: Final = 256
_WITHOUT: Final = frozenset(digest(name) for name in (b"document_id", b"url"))
"""Different in every document: these are looked up, and not compared row by row."""
_TYPES: Final = {"s": "bytea", "i": "int8", "f": "float8", "b": "int8", "d": "int8", "t": "int8"}


class Placed(NamedTuple):
    """The values of the columns of a document, the values that go to the table of fields, and the numbers of the fields
    of these that have columns."""

    columns: list[Any]
    rows: list[FieldRow]
    rest: set[int]


def column_name(columns: FieldColumns, kind: str) -> sql.Identifier:
    return sql.Identifier(f"f{columns.number}_{kind}")


def rest_name(columns: FieldColumns) -> sql.Identifier:
    return sql.Identifier(f"r{columns.number}")


def value_columns(columns: Sequence[FieldColumns]) -> dict[str, str]:
    """The names of the columns that have values, with their types."""
    return {f"f{column.number}_{kind}": _TYPES[kind] for column in columns for kind in column.kinds}


def types_of(columns: Sequence[FieldColumns]) -> dict[str, str]:
    """The names of all columns in the order of `place_values`, with their types."""
    return value_columns(columns) | {f"r{column.number}": "bool" for column in columns}


def definitions(columns: Sequence[FieldColumns]) -> list[sql.Composable]:
    """For `create table` and `alter table`; rows that are there have their values elsewhere."""
    made = {name: f"{name} {type_}" for name, type_ in types_of(columns).items()}
    made |= {f"r{column.number}": f"r{column.number} bool not null default true" for column in columns}
    return [sql.SQL(definition) for definition in made.values()]


def place_values(fields: Sequence[FieldRow], columns: Sequence[FieldColumns]) -> Placed:
    """Where the values of a document go."""
    by_name = _by_name(fields)
    values: list[Any] = []
    rest: set[int] = set()
    for column in columns:
        name = bytes.fromhex(column.name)
        values_by_kind = _fitting(by_name.get(name, ()))
        if values_by_kind is None or not values_by_kind.keys() <= set(column.kinds):
            values_by_kind = {}
            rest.add(column.number)
        else:
            by_name.pop(name, None)
        values += [values_by_kind.get(kind) for kind in column.kinds]
    values += [column.number in rest for column in columns]
    return Placed(values, [row for own in by_name.values() for row in own], rest)


def _by_name(fields: Iterable[FieldRow]) -> dict[bytes, list[FieldRow]]:
    found: dict[bytes, list[FieldRow]] = {}
    for row in fields:
        found.setdefault(row.name, []).append(row)
    return found


def _fitting(values: Sequence[FieldRow]) -> dict[str, Any] | None:
    """By kind, one value of each; None where there are others."""
    found: dict[str, Any] = {}
    for row in values:
        if row.code in found or row.code == "o" or len(row.text or b"") > _MOST_TEXT_BYTES:
            return None
        found[row.code] = {"s": row.text, "f": row.real}.get(row.code, row.integer)
        if row.code == "s" and row.integer is not None:
            found["t"] = row.integer
    return found


def with_new_columns(state: CollectionState, documents: Sequence[Sequence[FieldRow]]) -> tuple[FieldColumns, ...]:
    """The fields with columns, and those that get some by documents that are written: declared dates, and the fields
    that the most of all documents have."""
    known = {column.name for column in state.columns}
    present, fitting, kinds = Counter[bytes](), Counter[bytes](), dict[bytes, set[str]]()
    for fields in documents:
        by_name = _by_name(row for row in fields if row.name not in _WITHOUT and row.name.hex() not in known)
        present.update(by_name.keys())
        for name, values in by_name.items():
            values_by_kind = _fitting(values)
            if values_by_kind is not None:
                fitting[name] += 1
                kinds.setdefault(name, set()).update(values_by_kind)
    least = _LEAST_SHARE * (state.documents + len(documents))
    dates = {digest(to_utf8(stored_name(name))) for name in state.dates}
    chosen = [
        name
        for name, count in present.items()
        if (count >= least or name in dates) and fitting[name] >= _LEAST_FITTING * count
    ]
    chosen.sort(key=lambda name: (name not in dates, -present[name], name))
    free = max((column.number for column in state.columns), default=0) + 1
    made = [
        FieldColumns(number, name.hex(), "".join(sorted(kinds[name])), not state.documents, True)
        for number, name in enumerate(chosen[: MOST_FIELDS - len(state.columns)], free)
    ]
    return (*state.columns, *made)


def without_whole(columns: Sequence[FieldColumns], rest: set[int]) -> tuple[FieldColumns, ...]:
    """The same columns, marked as not whole: some documents have values in the table of rows."""
    return tuple(replace(column, is_whole=column.is_whole and column.number not in rest) for column in columns)
