"""The reference of docs/configuration.md, generated from the sections of the configuration: `make reference`.

The docstring of a section introduces its table; the comment `#:` beside a key, or above it, is its meaning.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Literal, get_args, get_origin

import orjson
from msgspec.structs import FieldInfo

from aidre.api.config.settings import Settings
from aidre.api.config.toml import (
    KINDS,
    Day,
    Duration,
    Interval,
    Rate,
    Secret,
    Section,
    bare,
    bounds,
    is_section,
    members,
)
from tests import ROOT

PAGE = ROOT / "docs" / "configuration.md"
MARK = "<!-- Generated from api/config/ by `make reference`; what stands below is replaced. -->\n"
HEAD = "| key | type | default | example | meaning |\n|---|---|---|---|---|\n"
EXAMPLES: Mapping[Any, Any] = {
    Duration: "90s",
    Interval: "5m",
    Rate: "600/minute",
    Secret: "env:SECRET",
    Day: Day(2027, 1, 31),
    bool: True,
}


def tables(kind: type[Section] = Settings, heading: str = "{}") -> Iterator[tuple[str, type[Section]]]:
    """Each section below another one, with its heading as TOML writes it."""
    for key, field in members(kind).items():
        inner, _ = bare(field.type)
        found = [item for item in (inner, *get_args(inner)) if is_section(item)]
        names = {Mapping: f"{key}.NAME"}.get(get_origin(inner), key)
        for section in found:
            inside = heading.format(names if heading == "{}" else f".{names}")
            yield (f"[[{inside}]]" if get_origin(inner) is tuple else f"[{inside}]"), section
            yield from tables(section, inside.replace("{", "{{").replace("}", "}}") + "{}")


def meanings(section: type[Section]) -> dict[str, str]:
    """The comments `#:` of a section by its keys."""
    found, above = {}, ""
    for line in inspect.getsource(section).splitlines():
        if line.startswith("    #: "):
            above += line.removeprefix("    #: ") + " "
        elif match := re.match(r"    (\w+): .*?(?:  #: (.*))?$", line):
            found[match[1]], above = match[2] or above.strip(), ""
    return found


def example(field: FieldInfo) -> Any:
    """A value of a key: the one that its type names, one of its kind, or the default."""
    kind, stated = bare(field.type)
    if stated.get("examples"):
        return stated["examples"][0]
    inner = get_args(kind)[0] if get_origin(kind) is tuple else kind
    inner_kind, inner_stated = bare(inner)
    if get_origin(inner_kind) is Literal:
        other = [choice for choice in get_args(inner_kind) if choice != field.default]
        return [get_args(inner_kind)[0]] if inner is not kind else other[0]
    if inner is not kind:
        return inner_stated["examples"][:1]
    if kind is bool and isinstance(field.default, bool):
        return not field.default
    return field.default if field.default else EXAMPLES.get(kind, field.default)


def reference() -> str:
    """The tables of all sections, in Markdown."""
    text = ""
    for heading, section in tables():
        intro = " ".join(str(section.__doc__).split())
        rows = "".join(
            f"| `{key}` | {type_name(field.type)} | {default(field)} | `{toml(example(field))}` | {meaning} |\n"
            for key, field, meaning in described(section)
        )
        text += f"\n### `{heading}`\n\n{intro}\n\n{HEAD}{rows}"
    return text


def described(section: type[Section]) -> Iterator[tuple[str, FieldInfo, str]]:
    """The keys of a section that hold no sections."""
    texts = meanings(section)
    for key, field in members(section).items():
        inner, _ = bare(field.type)
        if not any(is_section(item) for item in (inner, *get_args(inner))):
            yield key, field, texts[field.name]


def type_name(kind: Any) -> str:
    kind, stated = bare(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{toml(choice)}`" for choice in arguments)
    if origin is tuple:
        return "list of " + re.sub("^a string$", "strings", type_name(arguments[0]))
    if kind is Any:
        return "a value"
    name = re.split(",? such as|, of at| of at", KINDS[dict if origin is Mapping else kind])[0]
    if kind not in {int, float}:
        return name
    must = stated.get("must", f"be {bounds(stated)}").removeprefix("be ")
    return must if must.startswith("a ") else f"{name}, {must}"


def default(field: FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if callable(field.default_factory) else field.default
    return "" if value is None else f"`{toml(value)}`"


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Duration):
        unit = next((unit for unit, seconds in UNITS.items() if value and value % seconds == 0), "s")
        return f'"{value / UNITS[unit]:.0f}{unit}"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, date):
        return value.isoformat()
    return orjson.dumps(value).decode() if isinstance(value, str | bool) else f"{value:_}"


UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def with_reference(page: str) -> str:
    """The page with its part below the mark generated anew."""
    return page[: page.index(MARK)] + MARK + reference()


if __name__ == "__main__":
    PAGE.write_text(with_reference(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
