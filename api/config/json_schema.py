"""JSON Schemas (draft 2020-12): that of the data of a bind, and the validation of data against schemas.

Patterns run in linear time, no reference leaves the schema, and the search for errors inside branches is bounded, so a
schema can neither hang the server nor fetch anything. Messages name the member and the keyword, never the value: data
of agents are not repeated, neither here nor in a log.
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

if TYPE_CHECKING:  # a search on the command line reads settings without schemas, and the library takes a while to load
    import jsonschema_rs

Schema: TypeAlias = Mapping[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
PATTERN_BYTES = 1_048_576
"""Compiled size of a pattern."""
BRANCHING_KEYWORDS = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "patternProperties"}
)
MAX_ERRORS = 10_000
"""Errors that validation may create to find the one that is reported."""
TEXT: Schema = {"type": "string"}
NAMED: Schema = {"type": "string", "minLength": 1}


def _object(required: Sequence[str], properties: Mapping[str, Any], *, open: bool = False) -> dict[str, Any]:
    schema = {"type": "object", "required": list(required), "properties": dict(properties)}
    return schema if open else {**schema, "additionalProperties": False}


BIND_DATA = _object(
    [],
    {
        "email": {"type": "string", "format": "email"},
        "full_name": NAMED,
        "phone": TEXT,
        "company": TEXT,
        "address": _object([], dict.fromkeys(("street", "city", "state", "postal_code", "country"), TEXT), open=True),
    },
    open=True,
)


def schema_fault(schema: Schema) -> str | None:
    """The reason why a schema cannot be used, in one line; None if it can."""
    declared = str(schema.get("$schema", DIALECT)).rstrip("#")
    if declared != DIALECT:
        return f"$schema must be left out or be {DIALECT}"
    try:
        compile_schema(schema)
    except ValueError as error:  # base class of jsonschema-rs errors; the schema follows after their first line
        return " ".join(str(error).partition("\n\n")[0].split())
    return None


def compile_schema(schema: Schema) -> jsonschema_rs.Draft202012Validator:
    """A cached validator; raises ValueError for a schema that cannot be used."""
    return _validator(orjson.dumps(schema))


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(
        orjson.loads(schema),
        validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES),
        offline=True,
    )


def schema_violation(schema: Schema, value: Any, root: str) -> str | None:
    """The first violation of a schema, by member; None for a valid value. `root` is the name of the value itself."""
    import jsonschema_rs

    validator = compile_schema(schema)
    if validator.is_valid(value):
        return None
    if _max_errors(schema, value) > MAX_ERRORS:
        return f"{root or 'the body'} does not fit its schema"
    try:
        validator.validate(value)
        return None
    except jsonschema_rs.ValidationError as caught:
        error = caught
    member = _path(root, error.instance_path)
    kind = error.kind
    match kind:
        case jsonschema_rs.ValidationErrorKind.Required():
            missing = _path(root, [*error.instance_path, str(kind.property).strip('"')])
            return f"missing required field: {missing}"
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties() | (
            jsonschema_rs.ValidationErrorKind.UnevaluatedProperties()
        ):
            return f"{member or 'the body'} has members that are not declared"
        case _:
            return f"{member or 'the body'} does not fit its schema: {kind.name}{_demand(kind)}"


def _max_errors(schema: Schema, value: Any) -> int:
    """Upper bound on the errors that the validator may create for a value: each branch may report every part of it, and
    with a recursive reference each level of the value multiplies them."""
    branches, recursive = _branches(orjson.dumps(schema))
    if branches == 0:
        return 1
    count, levels, level = 0, 0, [value]
    while level and count <= MAX_ERRORS:
        count += len(level)
        containers = [
            item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)
        ]
        level = [item for container in containers for item in container]
        levels += bool(containers)
    bound: int = count * branches ** (levels if recursive else 1)
    return bound


@lru_cache(maxsize=256)
def _branches(schema: bytes) -> tuple[int, bool]:
    """The number of branches of a schema, and whether a reference may be recursive."""
    parsed = orjson.loads(schema)
    return _branches_in(parsed), b'"$id"' in schema or _may_recurse(parsed)


def _may_recurse(schema: Any) -> bool:
    """False only if all references are to definitions, and these form no cycle."""
    edges: dict[str, set[str]] = {}
    for definition, target in _references(schema, ""):
        name = target.removeprefix("#/$defs/").partition("/")[0]
        if name == target or not name.isidentifier():
            return True
        edges.setdefault(definition, set()).add(name)
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError:
        return True
    return False


def _references(node: Any, definition: str) -> Iterator[tuple[str, str]]:
    """Pairs of the definition that contains a reference ("" for none) and its target."""
    if isinstance(node, list):
        for item in node:
            yield from _references(item, definition)
    elif isinstance(node, dict):
        yield from ((definition, node[name]) for name in ("$ref", "$dynamicRef") if isinstance(node.get(name), str))
        for name, inner in node.items():
            defined = inner if name == "$defs" and not definition and isinstance(inner, dict) else {}
            for key, item in defined.items():
                yield from _references(item, key)
            if not defined:
                yield from _references(inner, definition)


def _branches_in(node: Any) -> int:
    if isinstance(node, list):
        return sum(map(_branches_in, node))
    if not isinstance(node, dict):
        return 0
    own = sum(
        len(node[name]) if isinstance(node[name], list | dict) else 1 for name in BRANCHING_KEYWORDS & node.keys()
    )
    return own + sum(map(_branches_in, node.values()))


def _path(root: str, path: Sequence[str | int]) -> str:
    """The member at a path; unusual names are not repeated, since an agent chose them."""
    shown = root
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            name = part if re.fullmatch(r"[\w $@./-]{1,64}", part) else "(a member)"
            shown += f".{name}" if shown else name
    return shown


def _demand(kind: jsonschema_rs.ValidationErrorKind) -> str:
    """The demand of a keyword if it is short: a type, a limit, a format."""
    value = kind.value
    if kind.name in {"enum", "type"} and isinstance(value, list) and len(value) <= 20:
        return f" ({', '.join(map(str, value))})"
    return f" ({value})" if isinstance(value, str | int | float) and len(str(value)) <= 100 else ""
