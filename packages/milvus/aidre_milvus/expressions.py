"""Filters as expressions of Milvus, over what each row has of the values of its document.

Milvus compares numbers of several types, lists and substrings otherwise than local segments, and its strings would have
to be escaped. So a row has digests: `tokens` lists one for each value of each field with its type, and one for each
field. Equality is that a token is there. For comparisons `bounds` has the least and the greatest value of each field
and type, as hexadecimal text that sorts as the values do. Text of a filter never comes into an expression: only
digests, hexadecimal digits and integers do, and `literal` writes all of them.

What that cannot decide (titles, substrings, texts that differ after 32 bytes, documents of thousands of values) has two
expressions: `sure` selects rows that pass for certain, `possible` all that may pass. The reader looks at the
difference.
"""

from __future__ import annotations

import hashlib
import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields import TITLE, And, Compare, Filter, Instant, Not, Or, Scalar, Wording
from aidre.engine.storage import adjacent_floats, adjacent_integers, to_utf8
from aidre_rows import FieldRow, digest

TOKEN_CHARACTERS: Final = 16
MOST_TOKENS: Final = 4_096
MOST_BOUNDS_BYTES: Final = 60_000
"""Of one row: a document with more has the token WIDE alone, and is looked at for every filter."""
WIDE: Final = "*"
ALL: Final = "row >= 0"
NONE: Final = "row < 0"
_PREFIX_BYTES: Final = 32
_ORDERS: Final = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def literal(value: int | str | Iterable[int | str]) -> str:
    """An integer, a text or a list of them in an expression."""
    if isinstance(value, str):
        return orjson.dumps(value).decode()  # as in JSON, which escapes quotes and backslashes
    if isinstance(value, int):
        return str(int(value))
    return f"[{','.join(map(literal, value))}]"


def listed_values(fields: Sequence[FieldRow]) -> dict[str, Any]:
    """What a row has of the values of its document."""
    tokens: set[str] = set()
    found: dict[str, list[str]] = {}

    def add(name: bytes, kind: str, value: Any) -> None:
        tokens.add(_token(name, kind, value))
        if kind != "b":
            found.setdefault(_token(name, kind, "bounds"), []).append(_sortable(kind, value))

    for name, code, text, integer, real in fields:
        tokens.add(_token(name, "exists"))
        if code == "s":
            add(name, "s", text)
        if code == "f":
            add(name, "f", real)
        elif code in "sd" and integer is not None:
            add(name, "t", integer)
        elif code in "ib":
            add(name, code, integer)
    bounds = {key: [min(values), max(values)] for key, values in found.items()}
    if len(tokens) > MOST_TOKENS or len(orjson.dumps(bounds)) > MOST_BOUNDS_BYTES:
        return {"tokens": [WIDE], "bounds": {}}
    return {"tokens": sorted(tokens), "bounds": bounds}


class Expression(NamedTuple):
    """What rows pass for certain, and what rows may pass; where the two are equal, both are exact."""

    sure: str
    possible: str


_OF_TITLES: Final = Expression(NONE, ALL)
"""Rows have no token of a title."""


@dataclass(frozen=True, slots=True)
class Expressions:
    """Translates filters; `has_wide` says that some documents have more values than their rows list."""

    has_wide: bool

    def of(self, filter_: Filter) -> Expression:
        match filter_:
            case Compare(name, "exists", value):
                return self._exists(name) if value else _not(self._exists(name))
            case Compare(name, "ne", value):
                return _not(self._compared(name, "eq", value))
            case Compare(name, op, value):
                return self._compared(name, op, value)
            case Wording():
                raise InvalidFilter("this engine compares no wording")
            case Not(operand):
                return _not(self.of(operand))
            case And(operands):
                return _joined("and", map(self.of, operands), ALL)
            case Or(operands):
                return _joined("or", map(self.of, operands), NONE)

    def _compared(self, field: str, op: str, value: Scalar | tuple[Scalar, ...]) -> Expression:
        if field == TITLE:
            return _OF_TITLES
        name, tokens, others = digest(to_utf8(field)), list[str](), list[Expression]()
        for operand in value if isinstance(value, tuple) else (value,):
            if isinstance(operand, str) and op == "contains":
                others.append(Expression(NONE, self._exists(field).possible))
            elif isinstance(operand, str) and op in _ORDERS:
                others.append(self._text(name, op, to_utf8(operand)))
            elif isinstance(operand, str):
                tokens.append(_token(name, "s", to_utf8(operand)))
            elif isinstance(operand, bool):
                tokens.append(_token(name, "b", int(operand)))
            else:
                number = operand.microseconds if isinstance(operand, Instant) else operand
                kinds = ("t",) if isinstance(operand, Instant) else ("i", "f")
                for kind in kinds:
                    low, high = (adjacent_floats if kind == "f" else adjacent_integers)(number).interval(op)
                    if low <= high and op in _ORDERS:
                        bound = low if op in {"gt", "gte"} else high
                        others.append(self._bound(name, kind, _inclusive(op), _sortable(kind, bound)))
                    elif low <= high:
                        tokens.append(_token(name, kind, low))
        if tokens:
            others.append(self._with(tokens))
        return _joined("or", others, NONE)

    def _exists(self, field: str) -> Expression:
        return _OF_TITLES if field == TITLE else self._with([_token(digest(to_utf8(field)), "exists")])

    def _text(self, name: bytes, op: str, value: bytes) -> Expression:
        """Texts are compared by their beginnings: exactly where the value is shorter than these."""
        bound = _sortable("s", value)
        if len(value) < _PREFIX_BYTES:
            return self._bound(name, "s", op, bound)
        possible = self._bound(name, "s", _inclusive(op), bound).possible
        return Expression(self._bound(name, "s", op.removesuffix("e"), bound).sure, possible)

    def _bound(self, name: bytes, kind: str, op: str, bound: str) -> Expression:
        place = 1 if op in {"gt", "gte"} else 0
        key = literal(_token(name, kind, "bounds"))
        return self._possibly_wide(f"bounds[{key}][{place}] {_ORDERS[op]} {literal(bound)}")

    def _with(self, tokens: Sequence[str]) -> Expression:
        return self._possibly_wide(f"array_contains_any(tokens, {literal(tokens)})")

    def _possibly_wide(self, exact: str) -> Expression:
        wide = f"({exact} or array_contains(tokens, {literal(WIDE)}))"
        return Expression(exact, wide if self.has_wide else exact)


def _inclusive(op: str) -> str:
    return op if op.endswith("e") else op + "e"


def _not(inner: Expression) -> Expression:
    return Expression(f"not ({inner.possible})", f"not ({inner.sure})")


def _joined(word: str, operands: Iterable[Expression], neutral: str) -> Expression:
    found = list(operands) or [Expression(neutral, neutral)]
    return Expression(*(f" {word} ".join(f"({condition})" for condition in side) for side in zip(*found, strict=True)))


def _token(name: bytes, kind: str, value: Any = b"") -> str:
    """The digest of a value of a field; -0.0 is 0.0."""
    if isinstance(value, bytes):
        shown = value
    else:
        shown = (repr(float(value) + 0.0) if kind == "f" and value != "bounds" else str(value)).encode()
    made = hashlib.blake2b(b"\0".join((name, kind.encode(), shown)), digest_size=TOKEN_CHARACTERS * 3 // 4)
    return urlsafe_b64encode(made.digest()).decode()


def _sortable(kind: str, value: Any) -> str:
    """Text that sorts as the values of a kind do."""
    if kind == "s":
        return bytes(value[:_PREFIX_BYTES]).hex()
    if kind != "f":
        return f"{int(value) + 2**63:016x}"
    (bits,) = struct.unpack(">Q", struct.pack(">d", float(value) + 0.0))
    return f"{bits ^ (2**64 - 1) if bits >> 63 else bits | 2**63:016x}"
