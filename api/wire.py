"""What all protocols share of HTTP: reading JSON with limits, media types, conditional GET, the wrapper of endpoints.

It knows no protocol: each hands in how it refuses.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Scope

from aidre.api.refusals import BadRequest, PayloadTooLarge, ServerFault, TooSlow, UnsupportedMediaType
from aidre.engine.errors import AidreError
from aidre.engine.filters import parse_instant

logger = logging.getLogger("aidre")

Endpoint = Callable[[Request], Awaitable[Response]]
Refuse = Callable[[Request, AidreError], Response]

AIDRE_JSON = "application/aidre+json"
JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
TARGET = "target"
"""In the state of a request: path and query as its connection received them."""
BODY_SECONDS = 20.0
"""In which a body has to come: less than a server that ends waits for its last requests."""

ACCEPT_CHARS = 2_048
"""Of Accept; browsers send a tenth. Whatever is remembered of it is small then."""

ETAG = re.compile(r'(?:W/)?"([^"]*)"')
DIGEST = re.compile(r"(?:^|,)[ \t]*(sha-256|sha-512)=:([^:]*):")
"""A member of Content-Digest (RFC 9530); other algorithms are no proof of anything."""
BEYOND_INTEGERS = 2.0**64
"""From where on the JSON parser reads integers as floats."""


def speaks(refuse: Refuse) -> Callable[[Endpoint], Endpoint]:
    """Makes an endpoint answer errors in the envelope of its protocol."""

    def wrap(endpoint: Endpoint) -> Endpoint:
        @functools.wraps(endpoint)
        async def speaking(request: Request) -> Response:
            try:
                return await endpoint(request)
            except AidreError as error:
                return refuse(request, error)
            except ClientDisconnect:
                raise
            except Exception:  # the outermost handler: whatever went wrong, the answer is the protocol's
                logger.exception("%s %s failed", request.method, request.scope["route"].path)
                return refuse(request, ServerFault("the server failed: try again, or tell the operator the request_id"))

        return speaking

    return wrap


class Prepared(Response):
    """An answer 200 whose header fields, but for its length, were made before."""

    def __init__(self, body: bytes, fields: Sequence[tuple[bytes, bytes]]) -> None:
        self.status_code = 200
        self.background = None
        self.body = body
        self.raw_headers = [*fields, (b"content-length", b"%d" % len(body))]


def prepared(**headers: str) -> tuple[tuple[bytes, bytes], ...]:
    """Header fields as they go out; an underscore stands for a hyphen."""
    return tuple((name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items())


def note_refusal(request: Request, code: str) -> None:
    """Has the metrics and the log say why a request was refused, in the words of its protocol."""
    request.scope["state"]["code"] = code


def request_id(request: Request) -> str:
    found: str = request.scope["state"]["request_id"]
    return found


async def read_object(request: Request, types: frozenset[str], limit: int) -> dict[str, Any]:
    """The JSON object in the body of a request, which must be of one of `types` and have at most `limit` bytes."""
    _check_type(request, types)
    try:
        value = orjson.loads(await read_body(request, limit))
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if type(value) is not dict:
        raise BadRequest("the body must be a JSON object")
    return value


def field(request: Request, name: bytes) -> str | None:
    """The first header field of that name, which is in lower case."""
    value = _fields(request).get(name)
    return None if value is None else value.decode("latin-1")


def _fields(request: Request) -> dict[bytes, bytes]:
    """Header fields by name; of those that come several times the first."""
    state = request.scope["state"]
    found: dict[bytes, bytes] | None = state.get("fields")
    if found is None:
        found = state["fields"] = dict(reversed(request.scope["headers"]))
    return found


def _check_type(request: Request, types: frozenset[str]) -> None:
    media_type, charset = content_type(field(request, b"content-type") or "")
    if media_type not in types or charset not in {"", "utf-8"}:
        offered = ", ".join(sorted(types))
        raise UnsupportedMediaType(f"Content-Type must be one of {offered}, in UTF-8", {"Accept": offered})
    coding = field(request, b"content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise UnsupportedMediaType("a body must be sent without Content-Encoding", {"Accept-Encoding": "identity"})


@lru_cache(maxsize=128)
def content_type(header: str) -> tuple[str, str]:
    """A media type and its charset, both in lower case; either may be empty."""
    media_type, *parameters = header.lower().split(";")
    pairs = (parameter.strip().partition("=") for parameter in parameters)
    charset = next((value.strip('"') for name, _, value in pairs if name == "charset"), "")
    return media_type.strip(), charset


async def read_body(request: Request, limit: int) -> bytes:
    """The body; raises PayloadTooLarge before it has read much more than `limit`, TooSlow where it does not come."""
    declared = field(request, b"content-length") or ""
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit:
        raise _too_large(limit)
    if "whole" in request.scope["state"]:  # it is here: it needs no deadline
        return await _all_parts(request, limit)
    deadline = _Deadline()
    try:
        return await _all_parts(request, limit)
    except asyncio.CancelledError as error:
        if not deadline.passed:
            raise
        raise TooSlow(f"the body did not come within {BODY_SECONDS:g} seconds: send it again") from error
    finally:
        deadline.timer.cancel()


class _Deadline:
    """asyncio.timeout in a few lines: it takes longer than all else that a body needs."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._due = False
        self.timer = asyncio.get_running_loop().call_later(BODY_SECONDS, self._end)

    def _end(self) -> None:
        if self._task is not None:
            self._due = True
            self._task.cancel()

    @property
    def passed(self) -> bool:
        """Whether it was this that cancelled the task, and nothing else did."""
        return self._due and self._task is not None and self._task.uncancel() == 0


async def _all_parts(request: Request, limit: int) -> bytes:
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
            if field(request, b"content-digest") is not None:
                _check_digest(request, content)
            return content


def _check_digest(request: Request, content: bytes) -> None:
    """Raises BadRequest where the body is not the one whose digest was sent along (RFC 9530)."""
    listed = dict(DIGEST.findall(", ".join(request.headers.getlist("content-digest"))))  # each is computed once
    for algorithm, said in listed.items():
        found = b64encode(hashlib.new(algorithm.replace("-", ""), content).digest()).decode()
        if said.rstrip("=") != found.rstrip("="):
            raise BadRequest(f"Content-Digest is not the {algorithm} of the body that came: send both again")


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {limit} bytes: send less", limit=limit)


def text_member(body: Mapping[str, Any], name: str) -> str | None:
    """A string or None; null counts as absent."""
    value = body.get(name)
    if value is not None and type(value) is not str:
        raise BadRequest(f"{name} must be a string", member=name)
    return value


def object_member(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object, empty where it is absent; null counts as absent."""
    value = body.get(name)
    if value is None:
        return {}
    if type(value) is not dict:
        raise BadRequest(f"{name} must be an object", member=name)
    return value


def flag_member(body: Mapping[str, Any], name: str, default: bool, where: str) -> bool:
    """True or false; null counts as absent."""
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not bool:
        raise BadRequest(f"{where}.{name} must be true or false", member=f"{where}.{name}")
    return value


def positive_member(body: Mapping[str, Any], name: str) -> int | None:
    """A whole number of at least 1, however large; null counts as absent."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) is float and abs(value) >= BEYOND_INTEGERS:
        value = int(value)  # 5.0 is refused, as "5" is
    if type(value) is not int or value < 1:
        raise BadRequest(f"{name} must be a whole number of at least 1", member=name)
    return value


def target_of(scope: Scope) -> bytes:
    """Path and query as they were received: an empty query, too, where the connection has noted it."""
    target: bytes | None = scope.get("state", {}).get(TARGET)
    if target is None:
        target = scope.get("raw_path") or scope["path"].encode()
        query: bytes = scope.get("query_string", b"")
        return target + b"?" + query if query else target
    return target


def accept_of(request: Request) -> str:
    """All Accept fields as one, as far as they are looked at; empty where there is none."""
    if b"accept" not in _fields(request):
        return ""
    accept = b", ".join([value for key, value in request.scope["headers"] if key == b"accept"]).decode("latin-1")
    return accept if len(accept) <= ACCEPT_CHARS else accept[:ACCEPT_CHARS].rpartition(",")[0]


@lru_cache(maxsize=128)
def quality(accept: str, media_type: str) -> float:
    """The weight that an Accept field gives to a media type: the most specific range that admits it decides."""
    if not accept.strip():
        return 1.0
    weights = _ranges(accept)
    kind = media_type.partition("/")[0]
    for admitted in (media_type, f"{kind}/*", "*/*"):
        if admitted in weights:
            return weights[admitted]
    return 0.0


def listed_quality(accept: str, media_type: str) -> float:
    """The weight that an Accept field gives to a media type by its own name; 0 where it does not name it."""
    return _ranges(accept).get(media_type, 0.0)


@lru_cache(maxsize=32)
def _ranges(accept: str) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    for item in accept.lower().split(","):
        admitted, *parameters = item.split(";")
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.strip().partition("=")
            if name == "q":
                weight = float(value) if re.fullmatch(r"[01](\.\d{0,3})?", value) else 0.0
        weights[admitted.strip()] = max(weight, weights.get(admitted.strip(), 0.0))
    return weights


def not_modified(request: Request, etag: str, modified: float | None) -> bool:
    """Whether the caller has this representation already (RFC 9110, 13.2.2). `etag` is quoted, `modified` Unix time."""
    wanted = request.headers.getlist("if-none-match")
    if wanted:
        listed = ", ".join(wanted)
        opaque = ETAG.fullmatch(etag)
        return listed.strip() == "*" or (opaque is not None and opaque[1] in ETAG.findall(listed))
    since = request.headers.get("if-modified-since")
    if since is None or modified is None:
        return False
    try:
        return modified <= parsedate_to_datetime(since).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False


def http_date(timestamp: str) -> tuple[str, float] | None:
    """An RFC 3339 time as an HTTP-date and as whole seconds of Unix time; None if it is none."""
    instant = parse_instant(timestamp)
    if instant is None:
        return None
    seconds = instant // 1_000_000
    return formatdate(seconds, usegmt=True), float(seconds)


def digest(content: bytes) -> str:
    """16 hex digits over a representation, for its ETag."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()
