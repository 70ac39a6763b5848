"""Every answer of an application under test, held against the struct that describes it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import httpx

from aidre.api.http.http_errors import BadRequest
from aidre.api.http.messages import read_message
from aidre.api.http.operation import Operation
from aidre.api.operations.operations import OPERATIONS, PROVENANCE
from aidre.api.protocols.aidre.aidre_routes import OPERATIONS as AIDRE
from aidre.api.protocols.intake.intake_routes import OPERATIONS as INTAKE
from aidre.api.protocols.intent.intent_routes import OPERATIONS as INTENT
from aidre.api.protocols.nlweb.nlweb_routes import OPERATIONS as NLWEB

ALL: tuple[Operation, ...] = (*AIDRE, *NLWEB, *INTAKE, *INTENT, *PROVENANCE, *OPERATIONS)
EARLIER = {"0.54", "Answer", "Failure", "Promise", "Elicitation"}
"""Marks of NLWeb's answers to requests of earlier versions, which the structs of 0.55 do not describe."""


@cache
def operations_at(method: str, path: str) -> list[Operation]:
    """The operations of a path, those without parameters first."""
    found = [one for one in ALL if one.method == method and _pattern(one.path).fullmatch(path)]
    return sorted(found, key=lambda one: "{" in one.path)


def check_described(response: httpx.Response) -> None:
    """Fails if a JSON answer of a described operation has a status or a shape that is not described."""
    found = operations_at(response.request.method.lower(), response.request.url.path)
    if not found or "json" not in response.headers.get("content-type", "") or not response.content:
        return
    operation, body = found[0], response.json()
    if not isinstance(body, dict) or is_earlier(body) or is_unserved(response, body):
        return
    kind: Any = operation.answers[response.status_code].kind if response.status_code in operation.answers else None
    if kind is None and operation.error is not None:
        kind = operation.error.kind
    assert isinstance(kind, type), f"{operation.name} does not describe status {response.status_code}"
    try:
        read_message(body, kind)
    except BadRequest as error:
        raise AssertionError(f"{operation.name} {response.status_code} is not as described: {error}: {body}") from error


def is_unserved(response: httpx.Response, body: dict[str, Any]) -> bool:
    """Whether the configuration does not serve the route: then its answer is that of a path of no protocol."""
    return response.status_code == 404 and isinstance(body.get("error"), str)


def is_earlier(body: dict[str, Any]) -> bool:
    meta = body.get("_meta")
    return isinstance(meta, dict) and not EARLIER.isdisjoint({meta.get("version"), meta.get("response_type")})


@cache
def _pattern(path: str) -> re.Pattern[str]:
    any_part = ".+" if path == "/chunks/{id}" else "[^/]+"
    return re.compile(
        "".join(any_part if part.startswith("{") else re.escape(part) for part in re.split(r"({\w+})", path))
    )
