"""How a check judges: by raising that the server failed it, or that it cannot be made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, NoReturn

import orjson

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
MAX_MESSAGE_CHARS = 300


class Failed(Exception):
    """The server does not do what the sentence says."""


class NotTestable(Exception):
    """The check cannot be made with this server and these fixtures; that is not a failure."""


def fail(message: str) -> NoReturn:
    raise Failed(message)


def expect(condition: object, message: str) -> None:
    """Failed with the message unless the condition holds."""
    if not condition:
        raise Failed(message)


def require(condition: object, reason: str) -> None:
    """NotTestable with the reason unless the condition holds."""
    if not condition:
        raise NotTestable(reason)


def expect_shape(value: Any, schema: Mapping[str, Any], name: str) -> None:
    """Failed, naming the first member of `value` that is not as the JSON Schema says."""
    problem = shape_problem(value, schema)
    expect(problem is None, f"{name}{problem}")


def shape_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Where and how a value contradicts a JSON Schema; None where it does not."""
    error = next(_validator(orjson.dumps(schema)).iter_errors(value), None)
    if error is None:
        return None
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return f"{path}: {shortened(error.message)}"


@cache
def _validator(schema: bytes) -> Any:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(orjson.loads(schema), validate_formats=True)


def is_timestamp(value: Any) -> bool:
    """Whether a value is a date and time of RFC 3339, with its offset."""
    if not isinstance(value, str) or _TIMESTAMP.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value.upper())
    except ValueError:
        return False
    return True


def shown(value: Any) -> str:
    """A value as JSON, cut to what a message may hold."""
    try:
        return shortened(orjson.dumps(value).decode())
    except TypeError:
        return shortened(repr(value))


def shortened(text: str) -> str:
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return plain if len(plain) <= MAX_MESSAGE_CHARS else f"{plain[:MAX_MESSAGE_CHARS]}…"
