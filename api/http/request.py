"""One request: its identifier, its target, its header fields, notes about it for the middleware, and its body.

Among the fields are media types: Content-Type, and the quality values of Accept (RFC 9110, 12.5.1).

A body is read within limits of bytes and time, checked against Content-Digest (RFC 9530), and parsed as JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from aidre.api.http.http_errors import BadRequest, PayloadTooLarge, RequestTimeout, UnsupportedMediaType

AIDRE_JSON = "application/aidre+json"
JSON = "application/json"
PROBLEM_JSON = "application/problem+json"

TARGET = "target"
"""Key in `scope["state"]`: path and query as the connection received them."""

BELOW_BASE = "below_base"
"""Key in `scope["state"]`: set where a trusted proxy says that the client asked below the path of `base_url`."""

MAX_ACCEPT_CHARS = 2_048
"""Characters of Accept that are read; browsers send a tenth. It bounds the keys of the caches of media types."""

BODY_SECONDS = 20.0
"""Time-out for a whole body; shorter than the time a stopping server waits for its last requests."""

DIGEST = re.compile(r"(?:^|,)[ \t]*(sha-256|sha-512)=:([^:]*):")
"""A member of Content-Digest (RFC 9530); weaker algorithms are ignored because they prove nothing."""


def request_id(request: Request) -> str:
    identifier: str = request.scope["state"]["request_id"]
    return identifier


def note_error_code(request: Request, code: str) -> None:
    """Passes the protocol's error code to the metrics and the access log."""
    request.scope["state"]["code"] = code


def request_target(scope: Scope) -> bytes:
    """Path and query as received. If the connection has not noted the target, the "?" of an empty query is missing."""
    target: bytes | None = scope.get("state", {}).get(TARGET)
    if target is None:
        target = scope.get("raw_path") or scope["path"].encode()
        query: bytes = scope.get("query_string", b"")
        return target + b"?" + query if query else target
    return target


def header_field(request: Request, name: bytes) -> str | None:
    """The first field of a lower-case name."""
    value = _first_fields(request).get(name)
    return None if value is None else value.decode("latin-1")


def accept_header(request: Request) -> str:
    """All Accept fields joined and cut after a whole member to `MAX_ACCEPT_CHARS`; empty if there is none."""
    if b"accept" not in _first_fields(request):
        return ""
    accept = b", ".join([value for key, value in request.scope["headers"] if key == b"accept"]).decode("latin-1")
    return accept if len(accept) <= MAX_ACCEPT_CHARS else accept[:MAX_ACCEPT_CHARS].rpartition(",")[0]


def _first_fields(request: Request) -> dict[bytes, bytes]:
    """Header fields by name, the first of a repeated one; computed once per request."""
    state = request.scope["state"]
    fields: dict[bytes, bytes] | None = state.get("fields")
    if fields is None:
        fields = state["fields"] = dict(reversed(request.scope["headers"]))
    return fields


# -- media types -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def parse_content_type(header: str) -> tuple[str, str]:
    """Media type and charset in lower case; either may be empty."""
    media_type, *parameters = header.lower().split(";")
    pairs = (parameter.strip().partition("=") for parameter in parameters)
    charset = next((value.strip('"') for name, _, value in pairs if name == "charset"), "")
    return media_type.strip(), charset


@lru_cache(maxsize=128)
def quality(accept: str, media_type: str) -> float:
    """The weight of a media type in an Accept field, 0 to 1, from the most specific range that matches it."""
    if not accept.strip():
        return 1.0
    weights = _weights(accept)
    kind = media_type.partition("/")[0]
    for media_range in (media_type, f"{kind}/*", "*/*"):
        if media_range in weights:
            return weights[media_range]
    return 0.0


def exact_quality(accept: str, media_type: str) -> float:
    """The weight of a media type that an Accept field lists by name; 0 if only a wildcard matches it."""
    return _weights(accept).get(media_type, 0.0)


@lru_cache(maxsize=32)
def _weights(accept: str) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    for item in accept.lower().split(","):
        media_range, *parameters = item.split(";")
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.strip().partition("=")
            if name == "q":
                weight = float(value) if re.fullmatch(r"0(\.\d{0,3})?|1(\.0{0,3})?", value) else 0.0
        weights[media_range.strip()] = max(weight, weights.get(media_range.strip(), 0.0))
    return weights


# -- the body --------------------------------------------------------------------------------------------------------


async def read_object(request: Request, types: frozenset[str], limit: int) -> dict[str, Any]:
    """The body as a JSON object. `types` are the accepted media types, `limit` is in bytes.

    Raises the errors of `read_content` and of `parse_object`.
    """
    return parse_object(await read_content(request, types, limit))


async def read_content(request: Request, types: frozenset[str], limit: int) -> bytes:
    """The body of an accepted media type. Raises UnsupportedMediaType and the errors of `read_body`."""
    _check_content_type(request, types)
    return await read_body(request, limit)


def parse_object(content: bytes) -> dict[str, Any]:
    """A JSON object. Raises BadRequest."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if type(value) is not dict:
        raise BadRequest("the body must be a JSON object")
    return value


async def read_body(request: Request, limit: int) -> bytes:
    """The body. Raises PayloadTooLarge before much more than `limit` bytes are read, RequestTimeout after
    `BODY_SECONDS`, BadRequest for a wrong Content-Digest."""
    declared = header_field(request, b"content-length") or ""
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit:
        raise _too_large(limit)
    if "whole" in request.scope["state"]:  # the connection has received all of it: no time-out is needed
        return await _receive_all(request, limit)
    deadline = _TaskTimeout()
    try:
        return await _receive_all(request, limit)
    except asyncio.CancelledError as error:
        if not deadline.expired:
            raise
        raise RequestTimeout(f"the body did not come within {BODY_SECONDS:g} seconds: send it again") from error
    finally:
        deadline.timer.cancel()


class _TaskTimeout:
    """A time-out for the current task. `asyncio.timeout` costs more than everything else that a body needs."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._fired = False
        self.timer = asyncio.get_running_loop().call_later(BODY_SECONDS, self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._fired = True
            self._task.cancel()

    @property
    def expired(self) -> bool:
        """Whether this deadline cancelled the task, and nothing else did."""
        return self._fired and self._task is not None and self._task.uncancel() == 0


async def _receive_all(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            content = b"".join(parts)
            if header_field(request, b"content-digest") is not None:
                _check_digest(request, content)
            return content


def _check_content_type(request: Request, types: frozenset[str]) -> None:
    media_type, charset = parse_content_type(header_field(request, b"content-type") or "")
    if media_type not in types or charset not in {"", "utf-8"}:
        accepted = ", ".join(sorted(types))
        raise UnsupportedMediaType(f"Content-Type must be one of {accepted}, in UTF-8", {"Accept": accepted})
    coding = header_field(request, b"content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise UnsupportedMediaType("a body must be sent without Content-Encoding", {"Accept-Encoding": "identity"})


def _check_digest(request: Request, content: bytes) -> None:
    listed = dict(DIGEST.findall(", ".join(request.headers.getlist("content-digest"))))  # each algorithm runs once
    for algorithm, expected in listed.items():
        actual = b64encode(hashlib.new(algorithm.replace("-", ""), content).digest()).decode()
        if expected.rstrip("=") != actual.rstrip("="):
            raise BadRequest(f"Content-Digest is not the {algorithm} of the body that came: send both again")


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {limit} bytes: send less", limit=limit)
