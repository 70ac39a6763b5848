"""JSON Schemas (draft 2020-12): those of the protocol's requests, and how data are checked against them.

Patterns run in linear time, no reference leaves the schema, and what is wrong inside of a choice is looked for only as
far as that is quick: so a schema can neither hang nor call. Complaints name the member and the keyword, never the
value: what agents send is not repeated, here or in a log.
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import jsonschema_rs
import orjson

Schema: TypeAlias = Mapping[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
PATTERN_BYTES = 1_048_576
BRANCHING = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "patternProperties"})
ERRORS_MOST = 10_000
"""That may be made to find the one that is told of."""
SCOPES = ["intake", "offer", "bind", "account_creation", "payment"]
TEXT: Schema = {"type": "string"}
NAMED: Schema = {"type": "string", "minLength": 1}
UUID: Schema = {"type": "string", "format": "uuid"}
TIME: Schema = {"type": "string", "format": "date-time"}
CONSENT: Schema = {"type": "array", "items": {"enum": SCOPES}, "minItems": 1, "uniqueItems": True}


def _object(required: Sequence[str], properties: Mapping[str, Any], *, open: bool = False) -> dict[str, Any]:
    schema = {"type": "object", "required": list(required), "properties": dict(properties)}
    return schema if open else {**schema, "additionalProperties": False}


INTAKE_REQUEST = _object(
    ["aip_version", "agent", "intake_data", "session_id"],
    {
        "aip_version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "agent": _object(
            ["id", "consent_scope"], {"id": NAMED, "platform": TEXT, "name": TEXT, "consent_scope": CONSENT}
        ),
        "intake_data": {"type": "object"},
        "session_id": UUID,
        "metadata": _object(
            [],
            {"timestamp": TIME, "locale": {"type": "string", "pattern": "^[a-z]{2}(-[A-Z]{2})?$"}, "timezone": TEXT},
            open=True,
        ),
    },
)
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
BIND_REQUEST = _object(
    ["offer_id", "session_id", "bind_data", "agent"],
    {
        "offer_id": NAMED,
        "session_id": UUID,
        "bind_data": {"type": "object"},
        "agent": _object(["id", "consent_scope"], {"id": NAMED, "consent_scope": CONSENT}),
        "metadata": _object([], {"timestamp": TIME, "user_confirmed_at": TIME}, open=True),
    },
)


def schema_fault(schema: Schema) -> str | None:
    """Why a schema cannot be used, in one line; None where it can."""
    declared = str(schema.get("$schema", DIALECT)).rstrip("#")
    if declared != DIALECT:
        return f"$schema must be left out or be {DIALECT}"
    try:
        compiled(schema)
    except ValueError as error:  # jsonschema-rs derives its errors from it; what follows the first line is the schema
        return " ".join(str(error).partition("\n\n")[0].split())
    return None


def compiled(schema: Schema) -> jsonschema_rs.Draft202012Validator:
    """A validator, kept for the next time; raises ValueError where the schema cannot be used."""
    return _validator(orjson.dumps(schema))


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        orjson.loads(schema),
        validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES),
        offline=True,
    )


def complaint(schema: Schema, value: Any, root: str) -> str | None:
    """What is wrong with a value, naming the member at fault; None where nothing is. `root` names the value itself."""
    validator = compiled(schema)
    if validator.is_valid(value):
        return None
    if _errors_most(schema, value) > ERRORS_MOST:
        return f"{root or 'the body'} does not fit its schema"
    try:
        validator.validate(value)
        return None
    except jsonschema_rs.ValidationError as caught:
        error = caught
    place = _path(root, error.instance_path)
    kind = error.kind
    match kind:
        case jsonschema_rs.ValidationErrorKind.Required():
            missing = _path(root, [*error.instance_path, str(kind.property).strip('"')])
            return f"missing required field: {missing}"
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties() | (
            jsonschema_rs.ValidationErrorKind.UnevaluatedProperties()
        ):
            return f"{place or 'the body'} has members that are not declared"
        case _:
            return f"{place or 'the body'} does not fit its schema: {kind.name}{_wanted(kind)}"


def _errors_most(schema: Schema, value: Any) -> int:
    """How many errors the validator may make of a value: for every branch one of everything in it that is wrong, and
    again for its own branches, where a reference may lead back even as often as the value has levels."""
    branches, recursive = _branches(orjson.dumps(schema))
    if branches == 0:
        return 1
    count, levels, level = 0, 0, [value]
    while level and count <= ERRORS_MOST:
        count += len(level)
        held = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [item for one in held for item in one]
        levels += bool(held)
    most: int = count * branches ** (levels if recursive else 1)
    return most


@lru_cache(maxsize=256)
def _branches(schema: bytes) -> tuple[int, bool]:
    """In how many places a value may be asked about once more, and whether a reference may lead back to one."""
    parsed = orjson.loads(schema)
    return _branches_in(parsed), b'"$id"' in schema or _may_lead_back(parsed)


def _may_lead_back(schema: Any) -> bool:
    """Not where all references are to definitions, and those refer to each other in one direction."""
    leads: dict[str, set[str]] = {}
    for place, target in _references(schema, ""):
        name = target.removeprefix("#/$defs/").partition("/")[0]
        if name == target or not name.isidentifier():
            return True
        leads.setdefault(place, set()).add(name)
    try:
        graphlib.TopologicalSorter(leads).prepare()
    except graphlib.CycleError:
        return True
    return False


def _references(node: Any, place: str) -> Iterator[tuple[str, str]]:
    """In which definition they stand, if in one, and where they lead."""
    if isinstance(node, list):
        for one in node:
            yield from _references(one, place)
    elif isinstance(node, dict):
        yield from ((place, node[name]) for name in ("$ref", "$dynamicRef") if isinstance(node.get(name), str))
        for name, inner in node.items():
            defined = inner if name == "$defs" and not place and isinstance(inner, dict) else {}
            for key, one in defined.items():
                yield from _references(one, key)
            if not defined:
                yield from _references(inner, place)


def _branches_in(node: Any) -> int:
    if isinstance(node, list):
        return sum(map(_branches_in, node))
    if not isinstance(node, dict):
        return 0
    own = sum(len(node[name]) if isinstance(node[name], list | dict) else 1 for name in BRANCHING & node.keys())
    return own + sum(map(_branches_in, node.values()))


def _path(root: str, path: Sequence[str | int]) -> str:
    """The member at a path; names that no schema would hold are not repeated."""
    shown = root
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            known = part if re.fullmatch(r"[\w $@./-]{1,64}", part) else "(a member)"
            shown += f".{known}" if shown else known
    return shown


def _wanted(kind: jsonschema_rs.ValidationErrorKind) -> str:
    """What a keyword demands, where it is short: a type, a limit, a format."""
    value = kind.value
    if kind.name in {"enum", "type"} and isinstance(value, list) and len(value) <= 20:
        return f" ({', '.join(map(str, value))})"
    return f" ({value})" if isinstance(value, str | int | float) and len(str(value)) <= 100 else ""
