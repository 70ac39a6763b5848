"""Messages: JSON objects read into msgspec structs, and what is said of one that does not fit.

A protocol describes its requests and answers as structs, one module a protocol. The struct checks a request, and the
OpenAPI document is made from it. `orjson` parses the body, so that a member of a wrong type can be named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from inspect import cleandoc
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar, dataclass_transform

import msgspec
from msgspec import inspect

from aidre.api.http.http_errors import BadRequest
from aidre.engine.errors import AidreError, printable_name

T = TypeVar("T")
Schema = dict[str, Any]
Refusal = Callable[..., AidreError]
"""Makes the error of a protocol from a message and details: `member`, or `missing` with a list of names; `supported`
are the choices."""

BEFORE_PATH = " - at `$"
"""Stands before the path in the message of a ValidationError. A fault of the body itself has no path."""
MISSING = re.compile(r"Object missing required field `(.*)`")
UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
STATED = "must "
"""Faults that begin so are stated by our own types, the others by msgspec."""
NOT_BLANK = r"[^\s\u001c-\u001f\u0085]"
"""Pattern of a text that is not blank; \\s alone omits some white space of Unicode."""
STEP = re.compile(r"\[[^\[\]]*\]|([^.\[]+)")
"""An index, or the name of a member."""
RFC3339_PATTERN = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
NULL = {"type": "null"}
MIN_FLOAT_INTEGER = 2.0**64
"""orjson reads integers from this value on as floats."""

FORM = "x-form"
AS_TEXT, AS_LIST = {FORM: "string"}, {FORM: "array"}
"""The one form that is described of a member that takes a text or a list or an object, too: generators for Java and
others make code of such a union that does not compile. `extra_json_schema` takes it."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
AtLeastOne: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
DateTime: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
Link: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri"})]
NotBlank: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": NOT_BLANK})]
"""A string whose reader must check that it is not blank: here the pattern would cost a search three percent."""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Message(msgspec.Struct, frozen=True, gc=False):
    """A JSON object. Members of a request that are not declared are ignored; a member that is UNSET is not sent."""


class ClosedMessage(Message, forbid_unknown_fields=True):
    """A JSON object without further members."""


class OpenMessage(Message):
    """A JSON object that may have further members."""


class Text(str):
    """A string of a certain form, declared by the arguments of the class.

    `rule` completes "must be", `pattern` and `format` are those of JSON Schema, `check` is what these cannot say.
    """

    rule: ClassVar[str]
    schema: ClassVar[Mapping[str, Any]]
    _pattern: ClassVar[re.Pattern[str]]
    _check: ClassVar[Callable[[str], object] | None]

    def __init_subclass__(
        cls,
        *,
        rule: str,
        pattern: str = "",
        max_chars: int | None = None,
        format: str | None = None,
        check: Callable[[str], object] | None = None,
    ) -> None:
        stated = {"pattern": pattern, "maxLength": max_chars, "format": format}
        cls.rule, cls.schema = rule, {"type": "string", **{name: value for name, value in stated.items() if value}}
        cls._pattern = re.compile(re.sub(r"\$$", r"\\Z", pattern))  # in Python `$` also matches before a newline
        cls._check = check

    @classmethod
    def admits(cls, text: str) -> bool:
        is_short = len(text) <= cls.schema.get("maxLength", len(text))
        check = cls._check
        return is_short and cls._pattern.search(text) is not None and (check is None or bool(check(text)))


def parse_rfc3339(text: str) -> float | None:
    """Unix time of an RFC 3339 date and time; None for any other text."""
    match = RFC3339_PATTERN.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    leap = clock.endswith(":60")  # datetime has no leap seconds: parse second 59 and add one
    try:
        moment = datetime.fromisoformat(f"{day}T{clock[:-2] + '59' if leap else clock}{zone.upper()}")
        return moment.timestamp() + leap + (float(f"0.{fraction}") if fraction else 0.0)
    except (ValueError, OverflowError):
        return None


def rfc3339(seconds: float) -> str:
    """A Unix time as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Timestamp(
    Text,
    rule="a date and time of RFC 3339, such as 2026-04-01T10:00:00Z",
    format="date-time",
    check=lambda text: parse_rfc3339(text) is not None,
):
    pass


class Error(Message):
    """What is wrong with a request, and the cure: the envelope of AIDRE, and of each path that belongs to no protocol.

    The members from `type` on are those of application/problem+json (RFC 9457).
    """

    error: Annotated[str, msgspec.Meta(description="A stable code")]
    message: str
    details: dict[str, Any]
    request_id: str
    type: str | msgspec.UnsetType = msgspec.UNSET
    title: str | msgspec.UnsetType = msgspec.UNSET
    status: int | msgspec.UnsetType = msgspec.UNSET
    detail: str | msgspec.UnsetType = msgspec.UNSET
    instance: str | msgspec.UnsetType = msgspec.UNSET


def present(value: T | None) -> T | msgspec.UnsetType:
    """A member of an answer that is left out if there is no value."""
    return msgspec.UNSET if value is None else value


def read_message(body: Mapping[str, Any], kind: type[T], refuse: Refusal = BadRequest) -> T:
    """The struct for a parsed body. Types are strict: true is not a number, 5.0 and "5" are not integers.

    Raises the error that `refuse` makes, which names the first member that does not fit and what it must be.
    """
    try:
        return msgspec.convert(body, kind, strict=True, dec_hook=_read_text)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), body, kind, refuse) from None


def read_integers(members: dict[str, Any], *names: str, least: float = 0.0) -> None:
    """Replaces integers that orjson read as floats: those of 64 bits on, and 5.0, which JSON Schema counts as one.

    Those below `least` stay what they are.
    """
    for name in names:
        value = members.get(name)
        if type(value) is float and value.is_integer() and value >= least:
            members[name] = int(value)


def _read_text(kind: type[Text], value: Any) -> Text:
    """Decodes a member whose type is a `Text`."""
    if type(value) is not str or not kind.admits(value):
        raise ValueError(f"must be {kind.rule}")
    return kind(value)


def _refusal(fault: str, body: Mapping[str, Any], kind: type, refuse: Refusal) -> AidreError:
    what, path = _split_fault(fault, body)
    prefix = f"{path}." if path else ""
    if missing := MISSING.fullmatch(what):
        return refuse(f"{prefix}{missing[1]} is missing", missing=[prefix + missing[1]])
    if unknown := UNKNOWN.fullmatch(what):
        shown = prefix + printable_name(unknown[1])
        return refuse(f"{shown} is not a member of this message: leave it out", member=shown)
    type_ = _type_at(kind, path)
    if not what.startswith(STATED):
        what = f"must be {_describe(type_)}"
    choices = [
        value for option in _options(type_) if isinstance(option, inspect.LiteralType) for value in option.values
    ]
    return refuse(f"{path or 'the body'} {what}", member=path, **({"supported": choices} if choices else {}))


def _split_fault(fault: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """What is wrong, and the path of the value.

    msgspec quotes names and values of the body, which may look like a path: the path is what comes last.
    """
    unknown = UNKNOWN.fullmatch(fault)
    if unknown is not None and unknown[1] in body:
        return fault, ""
    what, found, path = fault.rpartition(BEFORE_PATH)
    return (what, path.removesuffix("`").removeprefix(".")) if found else (fault, "")


def _type_at(kind: type, path: str) -> inspect.Type:
    """The type of the member at a path such as `citation.chunk_ids[0]`."""
    found: inspect.Type = _type_of(kind)
    for step in STEP.finditer(path):
        inner = (_inside(option, step[1]) for option in _options(found))
        found = next((candidate for candidate in inner if candidate is not None), inspect.AnyType())
    return found


@cache
def _type_of(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def _inside(outer: inspect.Type, name: str | None) -> inspect.Type | None:
    """The type of a member, of an item if `name` is None."""
    if isinstance(outer, inspect.StructType):
        return next((field.type for field in outer.fields if field.encode_name == name), None)
    if isinstance(outer, inspect.DictType):
        return outer.value_type
    return outer.item_type if name is None and isinstance(outer, inspect.ListType) else None


def _options(type_: inspect.Type) -> list[inspect.Type]:
    """The types of a union without null, and without the metadata around them."""
    if isinstance(type_, inspect.Metadata):
        return _options(type_.type)
    if isinstance(type_, inspect.UnionType):
        return [option for member in type_.types for option in _options(member)]
    return [] if isinstance(type_, inspect.NoneType) else [type_]


def _describe(type_: inspect.Type) -> str:
    """What a value must be, in words."""
    return " or ".join(dict.fromkeys(_describe_one(option) for option in _options(type_))) or "absent"


def _describe_one(type_: inspect.Type) -> str:
    match type_:
        case inspect.StrType():
            described = "a string" + _sized(type_.min_length, type_.max_length, "characters")
        case inspect.BoolType():
            described = "true or false"
        case inspect.IntType():
            described = "a whole number" + _bounds(type_.ge, type_.le)
        case inspect.FloatType():
            above = "" if type_.gt is None else f" above {type_.gt:g}"
            described = "a number" + " and".join(filter(None, (above, _bounds(type_.ge, type_.le))))
        case inspect.LiteralType(values=values):
            described = f"one of {', '.join(map(str, values))}" if len(values) > 1 else str(values[0])
        case inspect.ListType():
            items = _plural(type_.item_type)
            described = "a list" + (_sized(type_.min_length, type_.max_length, items) or f" of {items}")
        case _:
            described = "an object"
    return described


def _plural(type_: inspect.Type) -> str:
    names = {inspect.StructType: "objects", inspect.DictType: "objects", inspect.AnyType: "values"}
    names |= {inspect.IntType: "whole numbers", inspect.FloatType: "numbers"}
    return " or ".join(dict.fromkeys(names.get(type(option), "strings") for option in _options(type_)))


def _bounds(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {_number(least)} to {_number(most)}"
    if least is not None:
        return f" of at least {_number(least)}"
    return "" if most is None else f" of at most {_number(most)}"


def _number(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def _sized(least: int | None, most: int | None, units: str) -> str:
    if least is not None and most is not None:
        return f" of {least} to {most} {units}"
    size = least if most is None else most
    if size is None:
        return ""
    return f" of at {'least' if most is None else 'most'} {size} {units if size != 1 else units.removesuffix('s')}"


# -- JSON Schema -----------------------------------------------------------------------------------------------------


def schema_components(kinds: Iterable[type], prefix: str = "#/components/schemas/") -> Schema:
    """The JSON Schemas of structs by name, in the plain form that generators of clients handle well."""
    _, components = msgspec.json.schema_components(list(kinds), schema_hook=_schema_of, ref_template=prefix + "{name}")
    simple = {name: _simplify(schema) for name, schema in components.items()}
    for kind in OpenMessage.__subclasses__():
        if kind.__name__ in simple:
            simple[kind.__name__]["additionalProperties"] = True
    return simple


def _schema_of(kind: type[Text]) -> Schema:
    return dict(kind.schema)


def _simplify(schema: Schema) -> Schema:
    """Removes titles, and defaults, which generators take for required members; gives enums a type, free objects any
    member."""
    dropped = {"default", "title"}
    made = {name: value for name, value in schema.items() if name not in dropped and (name, value) != ("required", [])}
    if "description" in made:
        made["description"] = cleandoc(made["description"])
    if "properties" in made:
        made["properties"] = {name: _simplify(member) for name, member in made["properties"].items()}
    elif made.get("type") == "object":
        made.setdefault("additionalProperties", True)
    for name in ("items", "additionalProperties"):
        if isinstance(made.get(name), dict):
            made[name] = _simplify(made[name])
    if "enum" in made:
        made["type"] = "string"
    form = made.pop(FORM, None)
    if "anyOf" in made:
        options = list(map(_simplify, made.pop("anyOf")))
        made |= _simplify_union([option for option in options if option == NULL or form in {None, option.get("type")}])
    return made


def _simplify_union(options: list[Schema]) -> Schema:
    """A plain type that may be null is a list of two types."""
    rest = [option for option in options if option != NULL]
    is_plain = len(rest) == 1 < len(options) and "type" in rest[0] and "enum" not in rest[0]
    if is_plain:
        return {**rest[0], "type": [rest[0]["type"], "null"]}
    return rest[0] if len(options) == 1 else {"anyOf": options}
