"""Filters as conditions of SQL. Names and values of a filter are parameters, never text of a statement.

Fields with columns (`columns`) are compared there, on the row that is looked at; the values of all others in the table
of fields, one row a value. Types are kept apart, as the columns of local segments do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString, TypeAlias

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
    "s": sql.SQL("f.kind = 's' and f.s"),
    "t": sql.SQL("f.kind in ('s', 'd') and f.i"),
    "i": sql.SQL("f.kind = 'i' and f.i"),
    "f": sql.SQL("f.kind = 'f' and f.r"),
    "b": sql.SQL("f.kind = 'b' and f.i"),
}
"""What is compared in a row of a value, by kind; `t` are instants, of dates and of strings that denote one."""

Test: TypeAlias = tuple[str, Callable[[sql.Composable], sql.Composable]]
"""A kind of values, and the condition on one of them."""


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
        """The condition that a value f of `values` is in a range."""
        bounds = [(op, value) for op, value in (("gte", wanted.low), ("lt", wanted.high)) if value is not None]
        sides = [dict(self._tests(op, value)) for op, value in bounds]
        kinds = [kind for kind in sides[0] if all(kind in side for side in sides)]
        both = [_joined([side[kind](_IN_ROWS[kind]) for side in sides], " and ", "true") for kind in kinds]
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
            kind_tests = [(kind, _test("{column} is not null")) for kind in columns.kinds] if tests is None else tests
            for kind, test in kind_tests:
                stored = ("t", "d") if kind == "t" and tests is not None else (kind,)
                own += [test(_of_row(row, column_name(columns, kind))) for kind in stored if kind in columns.kinds]
            if columns.is_whole:
                return _joined(own, " or ", "false")
        passes = sql.SQL("true")
        if tests is not None:
            passes = _joined([test(_IN_ROWS[kind]) for kind, test in tests], " or ", "false")
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
                form = "({column} is not null and position({} in {text}) > 0)"
                yield "s", _test(form, self.parameter(value, "bytea"))
        elif op in _ORDERS:
            for value in values:
                yield "s", _test("({column} {} {})", _ORDERS[op], self.parameter(value, "bytea"))
        elif values:
            prefixes = self.parameter(sorted({value[:PREFIX_BYTES] for value in values}), "bytea[]")
            wanted = self.parameter(list(values), "bytea[]")

            def equals(column: sql.Composable) -> sql.Composable:
                if column is not _IN_ROWS["s"]:
                    return sql.SQL("({} = any ({}))").format(column, wanted)
                narrow = sql.SQL("substring(f.s, 1, {}) = any ({})").format(sql.Literal(PREFIX_BYTES), prefixes)
                return sql.SQL("({} = any ({}) and {})").format(column, wanted, narrow)

            yield "s", equals

    def _within(self, kind: str, intervals: Sequence[tuple[float, float]], type_: str, convert: Any) -> Iterator[Test]:
        points = [convert(low) for low, high in intervals if low == high]
        if points:
            yield kind, _test("({column} = any ({}))", self.parameter(points, f"{type_}[]"))
        for low, high in intervals:
            if low < high:
                bounds = self.parameter(convert(low), type_), self.parameter(convert(high), type_)
                yield kind, _test("({column} between {} and {})", *bounds)


def _test(form: LiteralString, *parts: sql.Composable) -> Callable[[sql.Composable], sql.Composable]:
    """A condition on a column, or on what `_IN_ROWS` has instead: its last part is the column of a row."""

    def test(column: sql.Composable) -> sql.Composable:
        text = sql.SQL("f.s") if column is _IN_ROWS["s"] else column
        return sql.SQL(form).format(*parts, column=column, text=text)

    return test


def _of_row(row: LiteralString, column: sql.Composable) -> sql.Composable:
    return sql.SQL("{}.{}").format(sql.SQL(row), column)


def _joined(parts: Sequence[sql.Composable], word: LiteralString, neutral: LiteralString) -> sql.Composable:
    return sql.SQL("({})").format(sql.SQL(word).join(parts)) if parts else sql.SQL(neutral)


def _not(condition: sql.Composable) -> sql.Composable:
    """A column without a value makes a comparison null, which passes no more than false does."""
    return sql.SQL("({}) is not true").format(condition)
