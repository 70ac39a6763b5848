"""The filter grammar: filters over documents as typed nodes, parsed from JSON.

Knows names, operators and limits, and no columns, rows or segments (see field_index.py). Strings with lone surrogates
are accepted: they compare by code point, as all strings do.

In a field that is declared a date every value is an instant. In a field that schema.org gives to dates
(`is_schema_date`), a string that reads as a date is an instant, compared with all values that read as dates; any other
string is compared with the strings.

`contains` holds where a string, or a string in a list, has the text as a part, by code point; a number, true and false
are looked for in lists, as `eq` does.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from aidre.engine.errors import InvalidFilter, printable_name
from aidre.engine.model import Json

Operator: TypeAlias = Literal["eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "contains", "exists"]

RESERVED: Final = frozenset({"type", "site", "url", "updated_at", "document_id"})
MEMBERS: Final = frozenset({"id", "title", "text", "section"})
"""Members of a row whose names metadata may have, too: members.py decides for a collection which of the two is meant.
`metadata.NAME` always means the stored field."""

MAX_DEPTH: Final = 32
"""Levels of nested `and`, `or` and `not`."""

MAX_NODES: Final = 1_000
"""Comparisons and connectives of one filter."""

MAX_VALUES: Final = 10_000
"""Values of one `in` or `nin`."""

MAX_CHARACTERS: Final = 8_192
"""Characters of a name, and of a string to compare with."""

DATE_MEMBERS: Final = frozenset(
    {
        "applicationDeadline", "arrivalTime", "auditDate", "availabilityEnds", "availabilityStarts",
        "availableFrom", "availableThrough", "birthDate", "bookingTime", "checkinTime", "checkoutTime",
        "commentTime", "contentReferenceTime", "coverageEndTime", "coverageStartTime", "dateCreated",
        "dateDeleted", "dateIssued", "dateModified", "datePosted", "datePublished", "dateRead", "dateReceived",
        "dateSent", "dateVehicleFirstRegistered", "deathDate", "departureTime", "dissolutionDate", "doorTime",
        "dropoffTime", "endDate", "endTime", "exceptDate", "expectedArrivalFrom", "expectedArrivalUntil",
        "expires", "foundingDate", "guidelineDate", "jobStartDate", "lastReviewed", "legislationDate",
        "legislationDateOfApplicability", "legislationDateVersion", "modelDate", "modifiedTime",
        "observationDate", "orderDate", "ownedFrom", "ownedThrough", "paymentDue", "paymentDueDate",
        "pickupTime", "previousStartDate", "priceValidUntil", "productionDate", "purchaseDate", "releaseDate",
        "scheduledPaymentDate", "scheduledTime", "sdDatePublished", "startDate", "startTime", "uploadDate",
        "validFrom", "validThrough", "validUntil", "vehicleModelDate", "webCheckinTime",
    }
)  # fmt: skip
"""The schema.org properties whose range is Date or DateTime."""

_OPERATORS: Final[tuple[Operator, ...]] = (
    "eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "contains", "exists",
)  # fmt: skip
_ORDERING: Final = frozenset({"gt", "gte", "lt", "lte"})
_METADATA: Final = "metadata."


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A point in time, in microseconds since 1970 in UTC; finer fractions are truncated."""

    microseconds: int


Scalar: TypeAlias = str | int | float | bool | Instant


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    operand: Filter


@dataclass(frozen=True, slots=True)
class Compare:
    """`field` is a name as `field_name` returns it; `value` is a tuple for "in" and a bool for "exists". A `nin` is
    parsed as the negation of an "in"."""

    field: str
    op: Operator
    value: Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Wording:
    """The chunks that have every phrase as it is written, and none of the excluded words.

    It is asked of chunks, not of documents: `SegmentView.row_mask` finds them, in a filter that is a Wording or an And
    with one among its operands. No JSON is parsed as one.
    """

    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


Filter: TypeAlias = And | Or | Not | Compare | Wording


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The values from `low` on and below `high`, compared as `gte` and `lt` do; None is no bound. Not both are None."""

    low: Scalar | None
    high: Scalar | None


def metadata_name(path: str) -> str:
    """The name of the metadata member `path` in a filter: prefixed if a reserved name hides it."""
    return _METADATA + path if path in RESERVED or path.startswith(_METADATA) else path


def field_name(written: str) -> str:
    """The canonical name of a field, which a filter may write with or without `metadata.`"""
    path = written.removeprefix(_METADATA)
    return written if path in MEMBERS else stored_name(written)


def stored_name(name: str) -> str:
    """The name under which a metadata field is stored, from its name as written or as `field_name` returns it."""
    return metadata_name(name[len(_METADATA) :]) if name.startswith(_METADATA) else name


def unmistakable_name(stored: str) -> str:
    """The name by which a filter means a stored field in every collection, also where it is a member of the row."""
    return _METADATA + stored if stored in MEMBERS else stored


def is_schema_date(name: str) -> bool:
    """Whether the last part of a dotted name is a schema.org property whose range is Date or DateTime."""
    return name.rpartition(".")[2] in DATE_MEMBERS


_DATE: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?\s?(?:[Zz]|([+-])([0-9]{2}):?([0-9]{2}))?)?"
)
_EPOCH: Final = datetime(1970, 1, 1)


def parse_instant(text: str) -> int | None:
    """Microseconds since 1970 of an RFC 3339 date or time; None if the text is neither.

    A time without an offset is UTC, a date is its midnight.
    """
    match_ = _DATE.fullmatch(text)
    if match_ is None:
        return None
    day, minute, second, fraction, sign, hours, minutes = match_.groups()
    try:
        start = datetime.fromisoformat(f"{day}T{minute or '00:00'}") - _EPOCH
    except ValueError:
        return None
    if int(second or 0) > 60 or int(hours or 0) > 23 or int(minutes or 0) > 59:
        return None
    seconds = start.days * 86_400 + start.seconds + int(second or 0)
    if sign is not None:
        offset = int(hours) * 3_600 + int(minutes) * 60
        seconds += offset if sign == "-" else -offset
    return seconds * 1_000_000 + (int((fraction + "00000")[:6]) if fraction else 0)


_HOST: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//(?:[^/?#@]*@)*(\[[^\]/?#]*\]|[^/?#:@\[\]]*)")


def site_of(url: str) -> str | None:
    """The host of a URL in lower case without `www.`; None if the URL has no host."""
    match_ = _HOST.match(url)
    if match_ is None or not match_[1]:
        return None
    return match_[1].strip("[]").lower().removeprefix("www.") or None


def parse_filter(value: Json) -> Filter:
    """Parse a filter, of which `with_dates` makes one for a collection. Raises InvalidFilter."""
    return _Parser().parse(value, "filter", 1)


def with_dates(filter_: Filter, dates: Collection[str]) -> Filter:
    """The same filter, in which strings compared with the fields `dates` are instants; its fields have their stored
    names. Raises InvalidFilter."""
    names = frozenset(map(stored_name, dates))
    return _convert_dates(filter_, names) if names else filter_


def _convert_dates(filter_: Filter, names: frozenset[str]) -> Filter:
    match filter_:
        case Compare(name, op, value) if name in names and op != "exists":
            path = f"filter.{printable_name(name)}.{op}"
            if op == "contains":
                raise _asked_of_date(path)
            if isinstance(value, tuple):
                return replace(filter_, value=_ordered(_instant(scalar, path) for scalar in value))
            return replace(filter_, value=_instant(value, path))
        case Compare() | Wording():
            return filter_
        case Not(operand):
            return Not(_convert_dates(operand, names))
        case And(operands):
            return And(tuple(_convert_dates(operand, names) for operand in operands))
        case Or(operands):
            return Or(tuple(_convert_dates(operand, names) for operand in operands))


def _asked_of_date(path: str) -> InvalidFilter:
    return InvalidFilter(f"{path} cannot be asked of a date; use eq, ne, gt, gte, lt or lte")


def parse_range(field: str, low: Json, high: Json, path: str) -> ValueRange:
    """The range of a field, by a name as `field_name` returns it; None is no bound. Raises InvalidFilter."""
    if low is None and high is None:
        raise InvalidFilter(f"{path} has neither from nor to: send one of them")
    return ValueRange(*(_bound(field, *bound) for bound in (("gte", low, f"{path}.from"), ("lt", high, f"{path}.to"))))


def _bound(field: str, op: Operator, value: Json, path: str) -> Scalar | None:
    if value is None:
        return None
    convert = _CONVERSIONS.get(field, _instant_if_date if is_schema_date(field) else _unchanged)
    return convert(_scalar(op, value, path), path)


def range_with_dates(field: str, wanted: ValueRange, dates: Collection[str]) -> ValueRange:
    """The same range, of instants if the field is declared a date. Raises InvalidFilter, also where the range has its
    ends exchanged or of two types, so that no value is in it."""
    path = f"facets.{printable_name(field)}.ranges"
    bounds = [wanted.low, wanted.high]
    if field in set(map(stored_name, dates)):
        bounds = [bound if bound is None else _instant(bound, path) for bound in bounds]
    low, high = bounds
    if low is not None and high is not None:
        is_ordered = isinstance(low, str) == isinstance(high, str) and isinstance(low, Instant) == isinstance(
            high, Instant
        )
        if not is_ordered or not low < high:  # type: ignore[operator]
            raise InvalidFilter(f"{path} has a range whose from is not less than its to: exchange them")
    return ValueRange(low, high)


def without_field(filter_: Filter, name: str) -> Filter | None:
    """The filter without its conditions on a field: those that stand for themselves, or joined by `and`; None if
    nothing is left. Conditions that also name another field stay."""
    if set(map(stored_name, filter_fields(filter_))) == {stored_name(name)}:
        return None
    if not isinstance(filter_, And):
        return filter_
    return And(tuple(rest for operand in filter_.operands if (rest := without_field(operand, name)) is not None))


def comparisons(filter_: Filter) -> Iterator[Compare]:
    """All comparisons of the filter."""
    match filter_:
        case Compare():
            yield filter_
        case Wording():
            return
        case Not(operand):
            yield from comparisons(operand)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from comparisons(operand)


def split_wording(filter_: Filter) -> tuple[Filter | None, Wording | None]:
    """The conditions on documents, and that on the words of their chunks."""
    operands = filter_.operands if isinstance(filter_, And) else (filter_,)
    wording = next((operand for operand in operands if isinstance(operand, Wording)), None)
    if wording is None:
        return filter_, None
    others = tuple(operand for operand in operands if operand is not wording)
    return (And(others) if others else None), wording


def filter_fields(filter_: Filter) -> frozenset[str]:
    """The names of all fields that the filter compares."""
    return frozenset(comparison.field for comparison in comparisons(filter_))


def filter_digest(filter_: Filter) -> bytes:
    """A key of 32 bytes, equal for filters that differ only in the order or the repetition of their operands."""
    # A search asks for the digest of one filter once a segment, so each thread keeps its latest.
    if getattr(_latest, "filter", None) is not filter_:
        _latest.digest, _latest.filter = _compute_digest(filter_), filter_
    digest: bytes = _latest.digest
    return digest


_latest = threading.local()


def _compute_digest(filter_: Filter) -> bytes:
    match filter_:
        case Compare(name, op, value):
            values = value if isinstance(value, tuple) else (value,)
            return _hash([op, name, *(f"{type(scalar).__name__}:{_text(scalar)}" for scalar in values)])
        case Wording(phrases, excluded):
            return _hash(["wording", str(len(phrases)), *phrases, *excluded])
        case Not(operand):
            return _hash(["not", _compute_digest(operand).hex()])
        case And((operand,)) | Or((operand,)):
            return _compute_digest(operand)
        case And(operands):
            return _hash(["and", *sorted({_compute_digest(operand).hex() for operand in operands})])
        case Or(operands):
            return _hash(["or", *sorted({_compute_digest(operand).hex() for operand in operands})])


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else repr(value)


def _hash(words: list[str]) -> bytes:
    return blake2b(json.dumps(words).encode("ascii"), digest_size=32).digest()


# -- parsing ---------------------------------------------------------------------------------------------------


def plain_number(value: int | float) -> int | float:
    """One form for numbers that compare equal: int for whole numbers of 64 bits, float for all others."""
    if -(2**63) <= value < 2**63 and (isinstance(value, int) or value.is_integer()):
        return int(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _instant(value: Scalar, path: str) -> Instant:
    if isinstance(value, Instant):
        return value
    microseconds = parse_instant(value) if isinstance(value, str) else None
    if microseconds is None:
        raise InvalidFilter(f'{path} must be a date; write it like "2026-04-01" or "2026-04-01T10:00:00Z"')
    return Instant(microseconds)


def _instant_if_date(value: Scalar, path: str) -> Scalar:
    microseconds = parse_instant(value) if isinstance(value, str) else None
    return value if microseconds is None else Instant(microseconds)


def _site(value: Scalar, path: str) -> Scalar:
    """A host may be written with `www.`, in capitals, with a port or as a whole URL."""
    if not isinstance(value, str):
        return value
    return site_of(value if "//" in value else f"//{value}") or value.lower()


def _unchanged(value: Scalar, path: str) -> Scalar:
    return value


_CONVERSIONS: Final[dict[str, Callable[[Scalar, str], Scalar]]] = {"site": _site, "updated_at": _instant}
"""By reserved field, the conversion of a value to the stored form; it takes the value and its path for messages."""


def _ordered(values: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """The distinct values in an order that does not depend on how they were written."""
    typed = {(type(value).__name__, value) for value in values}
    return tuple(value for _, value in sorted(typed, key=lambda pair: (pair[0], _text(pair[1]))))


@dataclass(slots=True)
class _Parser:
    """Parses one filter. Every method returns a node, or raises InvalidFilter with the JSON path and a remedy."""

    nodes: int = 0

    def parse(self, value: Json, path: str, depth: int) -> Filter:
        if not isinstance(value, dict):
            raise InvalidFilter(f'{path} must be an object; write it like {{"field": value}}')
        if depth > MAX_DEPTH:
            raise InvalidFilter(f"{path} is nested too deep; use at most {MAX_DEPTH} levels")
        if not all(isinstance(name, str) for name in value):
            raise InvalidFilter(f'{path} has a name that is not a string; write it like {{"field": value}}')
        operands = tuple(
            self._member(key, member, f"{path}.{printable_name(key)}", depth) for key, member in value.items()
        )
        return operands[0] if len(operands) == 1 else self._counted(And(operands))

    def _counted(self, node: Filter) -> Filter:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise InvalidFilter(f"filter has too many conditions; use at most {MAX_NODES:,}")
        return node

    def _member(self, key: str, value: Json, path: str, depth: int) -> Filter:
        if key == "not":
            return self._counted(Not(self.parse(value, path, depth + 1)))
        if key not in {"and", "or"}:
            _check_connective(key, value, path)
            return self._field(key, value, path)
        if not isinstance(value, list):
            raise InvalidFilter(f'{path} must be a list of filters; write it like {{"{key}": [{{"field": value}}]}}')
        operands = tuple(self.parse(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value))
        return self._counted(And(operands) if key == "and" else Or(operands))

    def _field(self, key: str, value: Json, path: str) -> Filter:
        if len(key) > MAX_CHARACTERS:
            raise InvalidFilter(f"{path} has too long a name; use at most {MAX_CHARACTERS:,} characters")
        name = field_name(key)
        if not isinstance(value, dict):
            return self._compare(name, "eq", value, path)
        if not value:
            raise InvalidFilter(f"{path} is empty; use one of {', '.join(_OPERATORS)}")
        operands = tuple(
            self._compare(name, op, operand, f"{path}.{printable_name(op)}") for op, operand in value.items()
        )
        return operands[0] if len(operands) == 1 else self._counted(And(operands))

    def _compare(self, name: str, op: str, value: Json, path: str) -> Filter:
        operator = next((operator for operator in _OPERATORS if operator == op), None)
        if operator is None:
            raise InvalidFilter(f"{path} is not an operator; use one of {', '.join(_OPERATORS)}{_foreign_cure(op)}")
        if operator == "exists":
            if not isinstance(value, bool):
                raise InvalidFilter(f"{path} must be true or false")
            return self._counted(Compare(name, operator, value))
        if operator == "contains":
            if name == "updated_at":
                raise _asked_of_date(path)
            return self._counted(Compare(name, operator, _scalar(operator, value, path)))
        convert = _CONVERSIONS.get(name, _instant_if_date if is_schema_date(name) else _unchanged)
        if operator not in {"in", "nin"}:
            return self._counted(Compare(name, operator, convert(_scalar(operator, value, path), path)))
        if not isinstance(value, list) or len(value) > MAX_VALUES:
            raise InvalidFilter(f"{path} must be a list of at most {MAX_VALUES:,} values")
        items = ((item, f"{path}[{i}]") for i, item in enumerate(value))
        values = _ordered(convert(_scalar(operator, item, item_path), item_path) for item, item_path in items)
        listed = self._counted(Compare(name, "in", values))
        return listed if operator == "in" else self._counted(Not(listed))


def _scalar(op: Operator, value: Json, path: str) -> Scalar:
    if isinstance(value, Instant):  # of a program: JSON has none
        if op == "contains":
            raise _asked_of_date(path)
        return value
    if isinstance(value, str):
        if len(value) > MAX_CHARACTERS:
            raise InvalidFilter(f"{path} is too long; use at most {MAX_CHARACTERS:,} characters")
        return value
    if isinstance(value, bool):
        if op in _ORDERING:
            raise InvalidFilter(f"{path} cannot order true and false; use eq, ne or in")
        return value
    if isinstance(value, int) or (isinstance(value, float) and not math.isnan(value)):
        return plain_number(value)
    raise InvalidFilter(f"{path} must be a string, a number, true or false; {_cure(value)}")


_FOREIGN_OPERATORS: Final = {
    "=": "eq", "==": "eq", "!=": "ne", "<>": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "match": "eq",
    "value": "eq", "any": "in", "except": "nin", "like": "contains", "ilike": "contains", "regex": "contains",
    "text": "contains", "range": "gte and lt", "between": "gte and lt", "is_null": 'exists, as {"exists": false}',
    "is_empty": 'exists, as {"exists": false}', "not_contains": 'not, as {"not": {"field": {"contains": value}}}',
}  # fmt: skip
"""By an operator of another engine, ours."""
_FOREIGN_CONNECTIVES: Final = {"must": "and", "should": "or", "must_not": 'not, as {"not": {"or": [..]}}'}


def _foreign_cure(op: str) -> str:
    bare = op.lower().removeprefix("$")
    operator = bare if bare in _OPERATORS else _FOREIGN_OPERATORS.get(bare)
    return "" if operator is None else f": here it is {operator}"


def _check_connective(key: str, value: Json, path: str) -> None:
    """Refuse a connective of another engine; a field may have its name, and is compared with one value."""
    if key in {"$and", "$or", "$not", "AND", "OR", "NOT"} and isinstance(value, list | dict):
        raise InvalidFilter(f"{path} is not a field; here it is {key.lower().removeprefix('$')}")
    if key in _FOREIGN_CONNECTIVES and isinstance(value, list):
        raise InvalidFilter(f"{path} is not a field; here it is {_FOREIGN_CONNECTIVES[key]}")


def _cure(value: Json) -> str:
    if value is None:
        return 'for a missing field use {"exists": false}'
    return 'for several values use {"in": [..]}' if isinstance(value, list) else "write one value"
