"""Endpoints: a decorator that renders their errors, and responses whose header fields are made once.

It knows no protocol: each passes its own renderer. Conditional requests (RFC 9110, 13): ETags, HTTP dates, and
whether to answer 304.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from email.utils import formatdate, parsedate_to_datetime
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from aidre.api.http.http_errors import ServerFault
from aidre.api.http.request import JSON
from aidre.engine.errors import AidreError
from aidre.engine.index.fields import parse_instant

logger = logging.getLogger("aidre")

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]
ErrorRenderer = Callable[[Request, AidreError], Response]
"""Renders an error in the envelope of one protocol."""


def renders_errors_with(render: ErrorRenderer) -> Callable[[Endpoint], Endpoint]:
    """Decorates an endpoint: what it raises becomes a response of its protocol, an unexpected error a logged 500."""

    def decorate(endpoint: Endpoint) -> Endpoint:
        @functools.wraps(endpoint)
        async def rendering(request: Request) -> Response:
            try:
                return await endpoint(request)
            except AidreError as error:
                return render(request, error)
            except ClientDisconnect:
                raise
            except Exception:  # the outermost handler of an endpoint
                logger.exception("%s %s failed", request.method, request.scope["route"].path)
                return render(request, ServerFault("the server failed: try again, or tell the operator the request_id"))

        return rendering

    return decorate


class PreparedResponse(Response):
    """A 200 whose header fields, except Content-Length, come from `prepare_headers`."""

    def __init__(self, body: bytes, fields: Sequence[tuple[bytes, bytes]]) -> None:
        self.status_code = 200
        self.background = None
        self.body = body
        self.raw_headers = [*fields, (b"content-length", b"%d" % len(body))]


def prepare_headers(**fields: str) -> tuple[tuple[bytes, bytes], ...]:
    """Raw header fields; an underscore in a name becomes a hyphen."""
    return tuple((name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in fields.items())


class Rejection:
    """The answer, as an ASGI application, to a request that was rejected before routing, where errors echo its body.

    `read` reads the body and enters the members to echo in the state of the request; its errors are ignored.
    """

    def __init__(self, error: AidreError, read: Callable[[Request], Awaitable[object]], refuse: ErrorRenderer) -> None:
        self._error = error
        self._read = read
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with suppress(AidreError):
            await self._read(request)
        await self._refuse(request, self._error)(scope, receive, send)


ETAG = re.compile(r'(?:W/)?"([^"]*)"')


def etag_digest(content: bytes) -> str:
    """16 hex digits over a representation."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def not_modified(request: Request, etag: str, modified: float | None) -> bool:
    """Whether to answer 304 (RFC 9110, 13.2.2). `etag` is quoted, `modified` is Unix time."""
    fields = request.headers.getlist("if-none-match")
    if fields:
        listed = ", ".join(fields)
        opaque = ETAG.fullmatch(etag)
        return listed.strip() == "*" or (opaque is not None and opaque[1] in ETAG.findall(listed))
    since = request.headers.get("if-modified-since")
    if since is None or modified is None:
        return False
    try:
        return modified <= parsedate_to_datetime(since).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False


def answer_unless_known(
    request: Request, body: bytes, headers: Mapping[str, str], media_type: str = JSON, modified: float | None = None
) -> Response:
    """A 200, or a 304 if the caller's copy is current; `headers` hold the ETag."""
    if not_modified(request, headers["ETag"], modified):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, media_type)


def cacheable_response(
    request: Request, body: bytes, cache_control: str, media_type: str = JSON, *, mark: str = "", vary: str = ""
) -> Response:
    """The same with a strong ETag over the body. `mark` separates the ETags of variants."""
    headers = {"ETag": f'"{etag_digest(body)}{mark}"', "Cache-Control": cache_control} | (
        {"Vary": vary} if vary else {}
    )
    return answer_unless_known(request, body, headers, media_type)


def http_date(timestamp: str) -> tuple[str, float] | None:
    """An RFC 3339 time as HTTP-date and as whole seconds of Unix time; None if it cannot be parsed."""
    instant = parse_instant(timestamp)
    if instant is None:
        return None
    seconds = instant // 1_000_000
    return formatdate(seconds, usegmt=True), float(seconds)
