"""Filters as conditions of SQL. Names and values of a filter are parameters, never text of a statement.

Fields with columns (`columns`) are compared there, on the row that is looked at; the values of all others in the table
of fields, one row a value. Types are kept apart, as the columns of local segments do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString, NamedTuple

from psycopg import sql

from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields import TITLE, And, Compare, Filter, Instant, Not, Or, Scalar, ValueRange, Wording
from aidre.engine.storage import adjacent_floats, adjacent_integers, to_utf8
from aidre_postgres.columns import column_name, rest_name
from aidre_postgres.tables import PREFIX_BYTES, PostgresTables, to_uuid
from aidre_rows import FieldColumns, digest

_ORDERS: Final = {"gt": sql.SQL(">"), "gte": sql.SQL(">="), "lt": sql.SQL("<"), "lte": sql.SQL("<=")}
_FOUND_BY_INDEX: Final = {"eq", "in", *_ORDERS}
_TITLES: Final = (
    "(select document, 's'::\"char\" kind, title s, null::int8 i, null::float8 r "
    "from {documents} where title is not null) f"
)
_IN_ROWS: Final = {
    "s": ("f.kind = 's'", "f.s"),
    "t": ("f.kind in ('s', 'd')", "f.i"),
    "i": ("f.kind = 'i'", "f.i"),
    "f": ("f.kind = 'f'", "f.r"),
    "b": ("f.kind = 'b'", "f.i"),
}
"""Where a row of a value has those of a kind; `t` are instants, of dates and of strings that denote one."""


class Test(NamedTuple):
    """A condition on one value of a kind: `form` with `{value}` and its `arguments`. An index finds rows of values by
    `narrow`, which holds for all that pass."""

    kind: str
    form: LiteralString
    arguments: Sequence[sql.Composable]
    narrow: sql.Composable = sql.SQL("true")

    def of(self, value: sql.Composable) -> sql.Composable:
        return sql.SQL(f"({self.form})").format(*self.arguments, value=value)

    def in_rows(self) -> sql.Composable:
        """Of a row f of a value."""
        kinds, value = map(sql.SQL, _IN_ROWS[self.kind])
        return sql.SQL("({} and {} and {})").format(kinds, self.of(value), self.narrow)


@dataclass(slots=True)
class SqlConditions:
    """Translates filters; `parameters` are those of all conditions that it has made. A condition refers to the row of
    a document, of a chunk or of a vector by the alias that is given to `of`."""

    tables: PostgresTables
    columns: Mapping[str, FieldColumns]
    parameters: dict[str, Any] = field(default_factory=dict)

    def of(self, filter_: Filter, row: LiteralString) -> sql.Composable:
        match filter_:
            case Compare(name, "ne", value):
                return _not(self._any_value(name, list(self._tests("eq", value)), row))
            case Compare(name, "exists", value):
                exists = self._any_value(name, None, row)
                return exists if value else _not(exists)
            case Compare(name, op, value):
                return self._any_value(name, list(self._tests(op, value)), row)
            case Wording():
                raise InvalidFilter("this engine compares no wording")
            case Not(operand):
                return _not(self.of(operand, row))
            case And(operands):
                return _joined([self.of(operand, row) for operand in operands], " and ", "true")
            case Or(operands):
                return _joined([self.of(operand, row) for operand in operands], " or ", "false")

    def of_any(self, filter_: Filter | None, row: LiteralString) -> sql.Composable:
        return sql.SQL("true") if filter_ is None else self.of(filter_, row)

    def finds_vectors(self, filter_: Filter) -> bool:
        """Whether indexes of their own find the rows of vectors that pass, without those of documents."""
        match filter_:
            case Compare(name, op, _):
                columns = self._columns(name)
                return op in _FOUND_BY_INDEX and columns is not None and columns.is_whole and columns.is_indexed
            case And(operands):
                return any(map(self.finds_vectors, operands))
            case Or(operands):
                return all(map(self.finds_vectors, operands))
        return False

    def parameter(self, value: Any, type_: str) -> sql.Composable:
        """A place for a value, which is sent beside the statement."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return sql.SQL("{}::{}").format(sql.Placeholder(name), sql.SQL(type_))

    def within(self, wanted: ValueRange) -> sql.Composable:
        """The condition on a value f of `values` that it is in a range."""
        bounds = [(op, value) for op, value in (("gte", wanted.low), ("lt", wanted.high)) if value is not None]
        sides = [{test.kind: test for test in self._tests(op, value)} for op, value in bounds]
        kinds = [kind for kind in sides[0] if all(kind in side for side in sides)]
        both = [_joined([side[kind].in_rows() for side in sides], " and ", "true") for kind in kinds]
        return _joined(both, " or ", "false")

    def values(self, name: str) -> sql.Composable:
        """The values of a field, as a table f."""
        columns, rows = self._columns(name), self._rows(name)
        if columns is None:
            return rows
        return self.column_values(columns, [] if columns.is_whole else [sql.SQL("select * from {}").format(rows)])

    def column_values(self, columns: FieldColumns, more: Sequence[sql.Composable] = ()) -> sql.Composable:
        """The values in the columns of a field, and `more`, as a table f."""
        parts = [self._values_of_kind(columns, kind) for kind in columns.kinds if kind != "t"]
        return sql.SQL("({}) f").format(sql.SQL(" union all ").join([*parts, *more]))

    def _values_of_kind(self, columns: FieldColumns, kind: str) -> sql.Composable:
        own = column_name(columns, kind)
        places = {"s": sql.SQL("null::bytea"), "i": sql.SQL("null::int8"), "r": sql.SQL("null::float8")}
        places[{"s": "s", "f": "r"}.get(kind, "i")] = own
        if kind == "s" and "t" in columns.kinds:
            places["i"] = column_name(columns, "t")
        return self.tables.fill(
            'select document, {kind}::"char" kind, {s} s, {i} i, {r} r from {documents} where {own} is not null',
            kind=kind,
            own=own,
            **places,
        )

    def _any_value(self, name: str, tests: Sequence[Test] | None, row: LiteralString) -> sql.Composable:
        """Whether the document of a row has a value of a field that passes one of the tests; None passes any value."""
        columns, own = self._columns(name), list[sql.Composable]()
        if columns is not None:
            anything = [Test(kind, "{value} is not null", ()) for kind in columns.kinds]
            for test in anything if tests is None else tests:
                stored = ("t", "d") if test.kind == "t" else (test.kind,)
                own += [test.of(_of_row(row, column_name(columns, kind))) for kind in stored if kind in columns.kinds]
            if columns.is_whole:
                return _joined(own, " or ", "false")
        passes = _joined([test.in_rows() for test in tests], " or ", "false") if tests is not None else sql.SQL("true")
        in_rows = sql.SQL("exists (select from {} where f.document = {} and {})").format(
            self._rows(name), _of_row(row, sql.Identifier("document")), passes
        )
        if columns is None:
            return in_rows
        in_rest = sql.SQL("({} and {})").format(_of_row(row, rest_name(columns)), in_rows)
        return _joined([*own, in_rest], " or ", "false")

    def _columns(self, name: str) -> FieldColumns | None:
        return None if name == TITLE else self.columns.get(digest(to_utf8(name)).hex())

    def _rows(self, name: str) -> sql.Composable:
        """The values of a field that are in the table of fields, or titles, as a table f."""
        if name == TITLE:
            return self.tables.fill(_TITLES)
        key = self.parameter(to_uuid(to_utf8(name)), "uuid")
        return self.tables.fill("(select document, kind, s, i, r from {fields} where name = {key}) f", key=key)

    def _tests(self, op: str, value: Scalar | tuple[Scalar, ...]) -> Iterator[Test]:
        values = value if isinstance(value, tuple) else (value,)
        yield from self._strings(op, [to_utf8(value) for value in values if isinstance(value, str)])
        instants = [instant.microseconds for instant in values if isinstance(instant, Instant)]
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        truths = [int(value) for value in values if isinstance(value, bool)]
        for kind, wanted in (("t", instants), ("i", numbers), ("b", truths)):
            yield from self._within(kind, [adjacent_integers(number).interval(op) for number in wanted], "int8", int)
        yield from self._within("f", [adjacent_floats(number).interval(op) for number in numbers], "float8", float)

    def _strings(self, op: str, values: Sequence[bytes]) -> Iterator[Test]:
        if op == "contains":
            for value in values:
                yield Test("s", "{value} is not null and position({} in {value}) > 0", [self.parameter(value, "bytea")])
        elif op in _ORDERS:
            for value in values:
                yield Test("s", "{value} {} {}", [_ORDERS[op], self.parameter(value, "bytea")])
        elif values:
            prefixes = self.parameter(sorted({value[:PREFIX_BYTES] for value in values}), "bytea[]")
            narrow = sql.SQL("substring(f.s, 1, {}) = any ({})").format(PREFIX_BYTES, prefixes)
            yield Test("s", "{value} = any ({})", [self.parameter(list(values), "bytea[]")], narrow)

    def _within(self, kind: str, intervals: Sequence[tuple[float, float]], type_: str, convert: Any) -> Iterator[Test]:
        points = [convert(low) for low, high in intervals if low == high]
        if points:
            yield Test(kind, "{value} = any ({})", [self.parameter(points, f"{type_}[]")])
        for low, high in intervals:
            if low < high:
                bounds = [self.parameter(convert(low), type_), self.parameter(convert(high), type_)]
                yield Test(kind, "{value} between {} and {}", bounds)


def _of_row(row: LiteralString, column: sql.Composable) -> sql.Composable:
    return sql.SQL("{}.{}").format(sql.SQL(row), column)


def _joined(parts: Sequence[sql.Composable], word: LiteralString, neutral: LiteralString) -> sql.Composable:
    return sql.SQL("({})").format(sql.SQL(word).join(parts)) if parts else sql.SQL(neutral)


def _not(condition: sql.Composable) -> sql.Composable:
    """A column without a value makes a comparison null, which passes no more than false does."""
    return sql.SQL("({}) is not true").format(condition)
