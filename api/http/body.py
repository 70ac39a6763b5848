"""Request bodies: read within limits of bytes and time, checked against Content-Digest (RFC 9530), parsed as JSON."""

from __future__ import annotations

import asyncio
import hashlib
import re
from base64 import b64encode
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from aidre.api.http.errors import BadRequest, PayloadTooLarge, RequestTimeout, UnsupportedMediaType
from aidre.api.http.media_types import parse_content_type
from aidre.api.http.request import header_field

BODY_SECONDS = 20.0
"""Time-out for a whole body; shorter than the time a stopping server waits for its last requests."""

DIGEST = re.compile(r"(?:^|,)[ \t]*(sha-256|sha-512)=:([^:]*):")
"""A member of Content-Digest (RFC 9530); weaker algorithms are ignored because they prove nothing."""


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
    deadline = _Deadline()
    try:
        return await _receive_all(request, limit)
    except asyncio.CancelledError as error:
        if not deadline.expired:
            raise
        raise RequestTimeout(f"the body did not come within {BODY_SECONDS:g} seconds: send it again") from error
    finally:
        deadline.timer.cancel()


class _Deadline:
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
