"""What a caller may ask of documents: the grammar of filters as typed nodes, read from JSON.

Knows names, operators and limits; knows nothing of columns, rows or segments (see fields.py).
Strings with lone surrogates are let through as they are: they compare by code point like any other.

In a field declared as a date every value is a date. In one that schema.org gives to dates (`holds_dates`), whoever
fills it, a string that reads as a date is compared as an instant with all that read as dates; any other string with
the strings.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from aidre.engine.errors import InvalidFilter, in_one_line
from aidre.engine.model import Json

Operator: TypeAlias = Literal["eq", "ne", "in", "gt", "gte", "lt", "lte", "exists"]

RESERVED: Final = frozenset({"type", "site", "url", "updated_at", "document_id"})
MAX_DEPTH: Final = 32
MAX_NODES: Final = 1_000
MAX_VALUES: Final = 10_000
MAX_CHARACTERS: Final = 8_192

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
"""The properties of schema.org whose range is Date or DateTime."""

_OPERATORS: Final[tuple[Operator, ...]] = ("eq", "ne", "in", "gt", "gte", "lt", "lte", "exists")
_ORDERING: Final = frozenset({"gt", "gte", "lt", "lte"})
_METADATA: Final = "metadata."


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A point in time, in microseconds since 1970 in UTC; finer fractions are cut off."""

    microseconds: int


Scalar: TypeAlias = str | int | float | bool | Instant


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Filter


@dataclass(frozen=True, slots=True)
class Compare:
    """`field` is a name as `field_name` gives it; `value` is a tuple for "in" and a bool for "exists"."""

    field: str
    op: Operator
    value: Scalar | tuple[Scalar, ...]


Filter: TypeAlias = And | Or | Not | Compare


def metadata_name(path: str) -> str:
    """The name by which a filter reaches the member `path` of the metadata: prefixed where a reserved name hides it."""
    return _METADATA + path if path in RESERVED or path.startswith(_METADATA) else path


def field_name(written: str) -> str:
    """The one name of a field that can be written with or without `metadata.`"""
    return metadata_name(written[len(_METADATA) :]) if written.startswith(_METADATA) else written


def holds_dates(name: str) -> bool:
    """Whether the last member of a dotted name is one that schema.org gives to dates."""
    return name.rpartition(".")[2] in DATE_MEMBERS


_DATE: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?\s?(?:[Zz]|([+-])([0-9]{2}):?([0-9]{2}))?)?"
)
_EPOCH: Final = datetime(1970, 1, 1)


def parse_instant(text: str) -> int | None:
    """Microseconds since 1970 of an RFC 3339 date or time, None if it is neither; naive is UTC, a date its midnight."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    day, minute, second, fraction, sign, hours, minutes = found.groups()
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
    """The host of a URL in lower case without `www.`; None where it has none."""
    found = _HOST.match(url)
    if found is None or not found[1]:
        return None
    return found[1].strip("[]").lower().removeprefix("www.") or None


def parse_filter(value: Json, dates: Collection[str] = ()) -> Filter:
    """Read a filter; `dates` names the metadata fields whose values are compared as instants. Raises InvalidFilter."""
    return _Reader(frozenset(map(field_name, dates))).read(value, "filter", 1)


def with_dates(filter: Filter, dates: Collection[str]) -> Filter:
    """The same filter with the strings that are compared with the fields `dates` read as instants."""
    names = frozenset(map(field_name, dates))
    return _redate(filter, names) if names else filter


def _redate(filter: Filter, names: frozenset[str]) -> Filter:
    match filter:
        case Compare(name, op, value) if name in names and op != "exists":
            place = f"filter.{in_one_line(name)}.{op}"
            if isinstance(value, tuple):
                return replace(filter, value=_ordered(_instant(one, place) for one in value))
            return replace(filter, value=_instant(value, place))
        case Compare():
            return filter
        case Not(part):
            return Not(_redate(part, names))
        case And(parts):
            return And(tuple(_redate(part, names) for part in parts))
        case Or(parts):
            return Or(tuple(_redate(part, names) for part in parts))


def fields_of(filter: Filter) -> frozenset[str]:
    """The names of all fields that the filter looks at."""
    match filter:
        case Compare(name):
            return frozenset({name})
        case Not(part):
            return fields_of(part)
        case And(parts) | Or(parts):
            return frozenset().union(*map(fields_of, parts))


def canonical(filter: Filter) -> bytes:
    """32 bytes that two filters share when they differ only in the order or the repetition of their parts."""
    # One search asks once for each of its segments.
    if getattr(_latest, "filter", None) is not filter:
        _latest.name, _latest.filter = _canonical(filter), filter
    name: bytes = _latest.name
    return name


_latest = threading.local()


def _canonical(filter: Filter) -> bytes:
    match filter:
        case Compare(name, op, value):
            values = value if isinstance(value, tuple) else (value,)
            return _digest([op, name, *(f"{type(one).__name__}:{_text(one)}" for one in values)])
        case Not(part):
            return _digest(["not", _canonical(part).hex()])
        case And((part,)) | Or((part,)):
            return _canonical(part)
        case And(parts):
            return _digest(["and", *sorted({_canonical(part).hex() for part in parts})])
        case Or(parts):
            return _digest(["or", *sorted({_canonical(part).hex() for part in parts})])


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else repr(value)


def _digest(words: list[str]) -> bytes:
    return blake2b(json.dumps(words).encode("ascii"), digest_size=32).digest()


def plain_number(value: int | float) -> int | float:
    """One number for what compares equal: whole numbers of 64 bits are int, all others float."""
    if -(2**63) <= value < 2**63 and (isinstance(value, int) or value.is_integer()):
        return int(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _instant(value: Scalar, place: str) -> Instant:
    if isinstance(value, Instant):
        return value
    microseconds = parse_instant(value) if isinstance(value, str) else None
    if microseconds is None:
        raise InvalidFilter(f'{place} must be a date; write it like "2026-04-01" or "2026-04-01T10:00:00Z"')
    return Instant(microseconds)


def _site(value: Scalar, place: str) -> Scalar:
    """A host may be written with `www.`, in capitals, with a port or as a whole URL."""
    if not isinstance(value, str):
        return value
    return site_of(value if "//" in value else f"//{value}") or value.lower()


def _instant_if_any(value: Scalar, place: str) -> Scalar:
    microseconds = parse_instant(value) if isinstance(value, str) else None
    return value if microseconds is None else Instant(microseconds)


def _as_it_is(value: Scalar, place: str) -> Scalar:
    return value


_READERS: Final[dict[str, Callable[[Scalar, str], Scalar]]] = {"site": _site, "updated_at": _instant}


def _ordered(values: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """The values without repetition, in an order that does not depend on how they were written."""
    typed = {(type(value).__name__, value) for value in values}
    return tuple(value for _, value in sorted(typed, key=lambda one: (one[0], _text(one[1]))))


@dataclass(slots=True)
class _Reader:
    """Reads one filter: every method answers a node or raises InvalidFilter with the place and the cure."""

    dates: frozenset[str]
    nodes: int = 0

    def read(self, value: Json, place: str, depth: int) -> Filter:
        if not isinstance(value, dict):
            raise InvalidFilter(f'{place} must be an object; write it like {{"field": value}}')
        if depth > MAX_DEPTH:
            raise InvalidFilter(f"{place} is nested too deep; use at most {MAX_DEPTH} levels")
        parts = tuple(self._member(key, part, f"{place}.{in_one_line(key)}", depth) for key, part in value.items())
        return parts[0] if len(parts) == 1 else self._counted(And(parts))

    def _counted(self, node: Filter) -> Filter:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise InvalidFilter(f"filter has too many conditions; use at most {MAX_NODES:,}")
        return node

    def _member(self, key: str, value: Json, place: str, depth: int) -> Filter:
        if key == "not":
            return self._counted(Not(self.read(value, place, depth + 1)))
        if key not in {"and", "or"}:
            return self._field(key, value, place)
        if not isinstance(value, list):
            raise InvalidFilter(f'{place} must be a list of filters; write it like {{"{key}": [{{"field": value}}]}}')
        parts = tuple(self.read(part, f"{place}[{i}]", depth + 1) for i, part in enumerate(value))
        return self._counted(And(parts) if key == "and" else Or(parts))

    def _field(self, key: str, value: Json, place: str) -> Filter:
        if len(key) > MAX_CHARACTERS:
            raise InvalidFilter(f"{place} has too long a name; use at most {MAX_CHARACTERS:,} characters")
        name = field_name(key)
        if not isinstance(value, dict):
            return self._compare(name, "eq", value, place)
        if not value:
            raise InvalidFilter(f"{place} is empty; use one of {', '.join(_OPERATORS)}")
        parts = tuple(self._compare(name, op, one, f"{place}.{in_one_line(op)}") for op, one in value.items())
        return parts[0] if len(parts) == 1 else self._counted(And(parts))

    def _compare(self, name: str, op: str, value: Json, place: str) -> Filter:
        known = next((one for one in _OPERATORS if one == op), None)
        if known is None:
            raise InvalidFilter(f"{place} is not an operator; use one of {', '.join(_OPERATORS)}")
        if known == "exists":
            if not isinstance(value, bool):
                raise InvalidFilter(f"{place} must be true or false")
            return self._counted(Compare(name, known, value))
        read = _READERS.get(name, _instant_if_any if holds_dates(name) else _as_it_is)
        if name in self.dates:
            read = _instant
        if known != "in":
            return self._counted(Compare(name, known, read(_scalar(known, value, place), place)))
        if not isinstance(value, list) or len(value) > MAX_VALUES:
            raise InvalidFilter(f"{place} must be a list of at most {MAX_VALUES:,} values")
        places = ((one, f"{place}[{i}]") for i, one in enumerate(value))
        return self._counted(Compare(name, known, _ordered(read(_scalar(known, one, at), at) for one, at in places)))


def _scalar(op: Operator, value: Json, place: str) -> Scalar:
    if isinstance(value, str):
        if len(value) > MAX_CHARACTERS:
            raise InvalidFilter(f"{place} is too long; use at most {MAX_CHARACTERS:,} characters")
        return value
    if isinstance(value, bool):
        if op in _ORDERING:
            raise InvalidFilter(f"{place} cannot order true and false; use eq, ne or in")
        return value
    if isinstance(value, int) or (isinstance(value, float) and not math.isnan(value)):
        return plain_number(value)
    raise InvalidFilter(f"{place} must be a string, a number, true or false; {_cure(value)}")


def _cure(value: Json) -> str:
    if value is None:
        return 'for a missing field use {"exists": false}'
    return 'for several values use {"in": [..]}' if isinstance(value, list) else "write one value"
