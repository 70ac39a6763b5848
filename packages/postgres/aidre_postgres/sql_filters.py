"""Filters as conditions of SQL. Names and values of a filter are parameters, never text of a statement.

A condition asks the table of fields, one row a value, which types keep apart as the columns of local segments do.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import sql

from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields import TITLE, And, Compare, Filter, Instant, Not, Or, Scalar, Wording
from aidre.engine.storage import adjacent_floats, adjacent_integers, to_utf8
from aidre_rows import digest

PREFIX_BYTES: Final = 64
"""Of a string that the index of values holds: an entry of an index has at most 2,704 bytes."""

_ORDERS: Final = {"gt": sql.SQL(">"), "gte": sql.SQL(">="), "lt": sql.SQL("<"), "lte": sql.SQL("<=")}
_TITLES: Final = sql.SQL(
    "(select document, 's'::\"char\" kind, title s, null::int8 i, null::float8 r from {} where title is not null) f"
)
_NEVER: Final = sql.SQL("false")


@dataclass(slots=True)
class Conditions:
    """Translates filters; `parameters` are those of all conditions that it has made. `fields` is the table of values,
    `documents` that of documents, which has the titles.

    A condition refers to the number of a document by the expression `document` that is given to `of`.
    """

    fields: sql.Composable
    documents: sql.Composable
    parameters: dict[str, Any] = field(default_factory=dict)

    def of(self, filter_: Filter, document: sql.Composable) -> sql.Composable:
        match filter_:
            case Compare(name, "ne", value):
                return _not(self._any_value(name, self._compared("eq", value), document))
            case Compare(name, "exists", value):
                exists = self._any_value(name, sql.SQL("true"), document)
                return exists if value else _not(exists)
            case Compare(name, op, value):
                return self._any_value(name, self._compared(op, value), document)
            case Wording():
                raise InvalidFilter("this engine compares no wording")
            case Not(operand):
                return _not(self.of(operand, document))
            case And(operands):
                return self._joined(operands, " and ", "true", document)
            case Or(operands):
                return self._joined(operands, " or ", "false", document)

    def parameter(self, value: Any, type_: str) -> sql.Composable:
        """A place for a value, which is sent beside the statement."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return sql.SQL("{}::{}").format(sql.Placeholder(name), sql.SQL(type_))

    def _joined(self, operands: Sequence[Filter], word: str, neutral: str, document: sql.Composable) -> sql.Composable:
        if not operands:
            return sql.SQL(neutral)
        inner = sql.SQL(word).join(self.of(operand, document) for operand in operands)
        return sql.SQL("({})").format(inner)

    def _any_value(self, name: str, condition: sql.Composable, document: sql.Composable) -> sql.Composable:
        of_document = sql.SQL("f.document = {}").format(document)
        return sql.SQL("exists (select from {} where {} and ({}))").format(self.values(name), of_document, condition)

    def values(self, name: str) -> sql.Composable:
        """The values of a field, as a table f."""
        if name == TITLE:
            return _TITLES.format(self.documents)
        key = self.parameter(uuid.UUID(bytes=digest(to_utf8(name))), "uuid")
        return sql.SQL("(select * from {} where name = {}) f").format(self.fields, key)

    def _compared(self, op: str, value: Scalar | tuple[Scalar, ...]) -> sql.Composable:
        values = value if isinstance(value, tuple) else (value,)
        strings = [to_utf8(one) for one in values if isinstance(one, str)]
        instants = [one.microseconds for one in values if isinstance(one, Instant)]
        numbers = [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
        truths = [int(one) for one in values if isinstance(one, bool)]
        conditions = [
            *self._strings(op, strings),
            *self._whole(op, instants, "f.kind in ('s', 'd')"),
            *self._whole(op, numbers, "f.kind = 'i'"),
            *self._reals(op, numbers),
            *self._whole(op, truths, "f.kind = 'b'"),
        ]
        return sql.SQL(" or ").join(conditions) if conditions else _NEVER

    def _strings(self, op: str, values: Sequence[bytes]) -> list[sql.Composable]:
        if not values:
            return []
        if op == "contains":
            return [
                sql.SQL("f.kind = 's' and position({} in f.s) > 0").format(self.parameter(value, "bytea"))
                for value in values
            ]
        if op in _ORDERS:
            compared = sql.SQL("f.kind = 's' and f.s {} {}")
            return [compared.format(_ORDERS[op], self.parameter(value, "bytea")) for value in values]
        prefixes = self.parameter(sorted({value[:PREFIX_BYTES] for value in values}), "bytea[]")
        condition = sql.SQL("f.kind = 's' and substring(f.s, 1, {}) = any ({}) and f.s = any ({})")
        return [condition.format(sql.Literal(PREFIX_BYTES), prefixes, self.parameter(list(values), "bytea[]"))]

    def _whole(self, op: str, values: Sequence[int | float], kind: str) -> list[sql.Composable]:
        intervals = [adjacent_integers(value).interval(op) for value in values]
        return self._within(intervals, f"{kind} and f.i", "int8", int)

    def _reals(self, op: str, values: Sequence[int | float]) -> list[sql.Composable]:
        intervals = [adjacent_floats(value).interval(op) for value in values]
        return self._within(intervals, "f.kind = 'f' and f.r", "float8", float)

    def _within(
        self, intervals: Sequence[tuple[float, float]], compared: str, type_: str, convert: Any
    ) -> list[sql.Composable]:
        points = [convert(low) for low, high in intervals if low == high]
        ranges = [(low, high) for low, high in intervals if low < high]
        start = sql.SQL(compared)
        made: list[sql.Composable] = []
        if points:
            made.append(sql.SQL("{} = any ({})").format(start, self.parameter(points, f"{type_}[]")))
        for low, high in ranges:
            bounds = self.parameter(convert(low), type_), self.parameter(convert(high), type_)
            made.append(sql.SQL("{} between {} and {}").format(start, *bounds))
        return made


def _not(condition: sql.Composable) -> sql.Composable:
    return sql.SQL("not {}").format(condition)
