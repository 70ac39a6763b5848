"""Reads the tables of a TOML file into structs, by their type hints.

Every error is one line that names the key by its path, and the cure. The structs define which keys exist; the comment
`#:` of a member is its meaning in docs/configuration.md, and an example of its type is shown there.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, dataclass_transform, get_args, get_origin

import msgspec
from msgspec import Meta

from aidre.engine.errors import ConfigurationError

T = TypeVar("T")
Table: TypeAlias = Mapping[str, Any]


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file. `__post_init__` raises ValueError, whose text continues the path of the table."""


class Duration(float):
    """Seconds, written as "90s", "5m", "1h" or "7d"."""


class Interval(Duration):
    """A duration of at least a second."""


class Secret(str):
    """A string that no message repeats; "env:NAME" reads it from the environment."""

    def __repr__(self) -> str:
        return "Secret(...)"


class Day(date):
    """A date of TOML, or an ISO 8601 string."""


class Rate:
    """`count` requests in `seconds`; a count of 0 means no limit. Not a dataclass: those are read from tables."""

    __slots__ = ("count", "seconds")

    def __init__(self, count: int, seconds: int) -> None:
        self.count, self.seconds = count, seconds

    def __repr__(self) -> str:
        return f"Rate({self.count}, {self.seconds})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rate) and (self.count, self.seconds) == (other.count, other.seconds)

    def __hash__(self) -> int:
        return hash((self.count, self.seconds))


def matching(pattern: str, must: str, *examples: str, hidden: bool = False) -> Meta:
    """The constraint of a string; `must` ends the sentence "the key must ...". A `hidden` value is not repeated."""
    return Meta(pattern=rf"\A(?:{pattern})\Z", extra={"must": must, "hidden": hidden}, examples=list(examples))


def like(*examples: Any) -> Meta:
    """Examples of a value, for the reference."""
    return Meta(examples=list(examples))


INTEGERS = range(-(2**63), 2**63)
"""TOML guarantees 64 bits, and published documents could not hold more."""
MIN_SECRET_CHARS = 16
"""Characters; a shorter secret can be guessed from one signature or digest."""
Whole: TypeAlias = Annotated[int, Meta(ge=0, le=INTEGERS[-1])]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=INTEGERS[-1])]
Relevance: TypeAlias = Annotated[float, Meta(ge=0, le=1, examples=[0.4])]
Text: TypeAlias = Annotated[str, matching(r"(?s:\s*\S.*)", "not be blank", hidden=True)]
CollectionName: TypeAlias = Annotated[
    str,
    matching("[a-z0-9][a-z0-9._-]{0,63}", "be 1 to 64 of a-z 0-9 . _ - and begin with a-z or 0-9", "docs"),
]
KINDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Duration: 'a duration such as "90s", "5m", "1h" or "7d"',
    Interval: 'a duration of at least 1s, such as "90s", "5m", "1h" or "7d"',
    Rate: 'a rate such as "10/second", "600/minute" or "1000/hour", or "none"',
    Secret: 'a string or "env:NAME"',
    Day: "a date such as 2027-01-31",
    list: "a list",
    dict: "a table",
}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "second": 1, "minute": 60, "hour": 3600}


def read(kind: type[T], value: Any, where: str = "") -> T:
    """`value` as `kind`; raises ConfigurationError that names the key, whose path begins with `where`."""
    try:
        return msgspec.convert(value, kind, dec_hook=_read_custom)
    except msgspec.ValidationError as error:
        raise _explain(kind, value, where, error) from error


def unknown_key(key: str, known: Iterable[str], where: str) -> ConfigurationError:
    """The error for an unknown key; it names the nearest valid one."""
    known = sorted(known)
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    cure = f"did you mean {nearest[0]!r}?" if nearest else f"valid keys are {', '.join(known)}"
    return ConfigurationError(f"{path(where, key)} is not a key of aidre.toml: {cure}")


def path(where: str, key: str) -> str:
    """The path of a key in a table, written as TOML does."""
    shown = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else '"' + ascii(key)[1:-1] + '"'
    return f"{where}.{shown}" if where else shown


def check_secret(secret: str, where: str) -> None:
    """Raises ValueError for a secret that could be guessed."""
    if len(secret) < MIN_SECRET_CHARS:
        raise ValueError(f"{where} must have at least {MIN_SECRET_CHARS} characters: `openssl rand -hex 32` makes one")


def check_unique(names: Iterable[str], where: str, member: str) -> None:
    """Raises ValueError for a name that two tables of a list have."""
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            raise ValueError(f"{where}[{number}].{member} {name!r} is there twice: choose another")
        seen.add(name)


def bare(kind: Any) -> tuple[Any, dict[str, Any]]:
    """A type hint without None and annotations, and the constraints that these state."""
    if get_origin(kind) in {Union, UnionType}:
        kind = next(argument for argument in get_args(kind) if argument is not NoneType)
    if get_origin(kind) is not Annotated:
        return kind, {}
    kind, *metas = get_args(kind)
    stated = [(name, getattr(meta, name)) for meta in metas for name in ("gt", "ge", "le", "examples")]
    stated += [fact for meta in metas for fact in (meta.extra or {}).items()]
    return kind, {name: value for name, value in stated if value is not None}


def is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def members(kind: Any) -> dict[str, msgspec.structs.FieldInfo]:
    """The members of a section by their keys."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def bounds(stated: Mapping[str, Any]) -> str:
    """The range of a number in words."""
    if "gt" in stated:
        return f"above {stated['gt']} and at most {stated['le']}"
    if stated["le"] in INTEGERS[-1:]:
        return f"at least {stated['ge']}"
    return f"from {stated['ge']:,} to {stated['le']:,}"


def _explain(kind: Any, value: Any, where: str, error: msgspec.ValidationError) -> ConfigurationError:
    """The error of msgspec in our words. Reads the parts again: msgspec leaves out the keys of mappings in its path."""
    kind, stated = bare(kind)
    if isinstance(value, dict) and is_section(kind):
        known = members(kind)
        for key, item in value.items():
            if key not in known:
                return unknown_key(key, known, where)
            read(known[key].type, item, path(where, key))
        for name in (name for name, field in known.items() if field.required and name not in value):
            return ConfigurationError(f"{path(where, name)} is missing: give it a value")
    elif isinstance(value, dict) and get_origin(kind) is Mapping:
        keys, items = get_args(kind)
        for key, item in value.items():
            read(keys, key, path(where, key))
            read(items, item, path(where, key))
    elif isinstance(value, list) and get_origin(kind) is tuple:
        for number, item in enumerate(value):
            read(get_args(kind)[0], item, f"{where}[{number}]")
    message = str(error)
    if error.__cause__ is not None and message:
        return ConfigurationError(where + (message if message.startswith(".") else f" {message}"))
    return _wrong(kind, stated, value, where)


def _wrong(kind: Any, stated: Mapping[str, Any], value: Any, where: str) -> ConfigurationError:
    kind = {tuple: list, Mapping: dict}.get(get_origin(kind), dict if is_section(kind) else kind)
    must = f"be {KINDS[kind]}" if kind in KINDS else f"be one of {', '.join(map(repr, get_args(kind)))}"
    is_secret = kind is Secret or stated.get("hidden")
    if isinstance(value, list | dict) or (kind in {list, dict} and isinstance(value, str)):
        shown = KINDS[type(value)]
    else:
        shown = repr(value) if isinstance(value, str) else str(value)
    if type(value) is int and value not in INTEGERS:
        must, shown = "be a number of 64 bits", f"one of {value.bit_length()}"
    elif type(value) is kind or (kind is float and type(value) is int):
        must = stated.get("must") or f"be {bounds(stated)}"
    return ConfigurationError(f"{where} must {must}{'' if is_secret else f', not {shown}'}")


def _read_custom(kind: type, value: Any) -> Any:
    """The hook of msgspec for types that are not its own. A ValueError without words is given those of the kind."""
    pattern, make = READERS[kind]
    text = value.isoformat()[:10] if isinstance(value, date) and kind is Day else value
    match = pattern.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError
    return make(*match.groups())


def _secret(variable: str | None, text: str) -> Secret:
    secret = os.environ.get(text) if variable else text
    if not secret:
        raise ValueError(f"names the environment variable {text!r}, which is not set: set it")
    return Secret(secret)


def _day(text: str) -> Day:
    with suppress(ValueError):
        return Day.fromisoformat(text)
    raise ValueError


READERS: Mapping[type, tuple[re.Pattern[str], Callable[..., Any]]] = {
    Duration: (re.compile("([0-9]{1,9})([smhd])"), lambda count, unit: Duration(int(count) * SECONDS[unit])),
    Interval: (
        re.compile(r"(?!0{1,9}\D)([0-9]{1,9})([smhd])"),
        lambda count, unit: Interval(int(count) * SECONDS[unit]),
    ),
    Rate: (
        re.compile("none|([1-9][0-9]{0,8})/(second|minute|hour)"),
        lambda count, unit: Rate(int(count), SECONDS[unit]) if unit else Rate(0, 1),
    ),
    Secret: (re.compile("(?s)(?=.)(env:)?(.*)"), _secret),
    Day: (re.compile("([0-9W-]+)"), _day),
}
"""The pattern of a text, and what its groups make."""
