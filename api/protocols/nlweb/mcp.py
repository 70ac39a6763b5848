"""The Model Context Protocol (Appendix A, C) with the official SDK: POST /mcp, and standard input and output.

The SDK takes most of a second to load, so the first request loads it in a thread. Requests are stateless and answered
with JSON; the server never sends a message on its own, so GET offers no stream.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Scope

from aidre.api.access import Guard, caller_of
from aidre.api.http import (
    JSON,
    Unauthorized,
    UnsupportedMediaType,
    note_error_code,
    parse_content_type,
    read_body,
    renders_errors_with,
)
from aidre.api.protocols.nlweb.answer.answering import AskService
from aidre.api.protocols.nlweb.mcp_server import INVALID_PARAMS, create_server
from aidre.api.protocols.nlweb.nlweb_envelope import to_failure
from aidre.api.protocols.nlweb.stream import cancel_on_disconnect
from aidre.api.retrieval import Retrieval
from aidre.engine.errors import AidreError

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.shared.message import SessionMessage

logger = logging.getLogger("aidre")

REQUEST_ID_TYPES = (str, int)
RESPONSE_ID_TYPES = (str, int, type(None))
PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32_700, -32_600, -32_603
SERVER_ERROR = -32_000
"""Refused for another reason than the message: the rate, a missing token."""
HEADER_MISMATCH = -32_020
VERSION_HEADER, VERSION_MEMBER = "mcp-protocol-version", "io.modelcontextprotocol/protocolVersion"
"""Since 2026-07-28 a request names its version twice, so that proxies can read it without the body."""
DEFAULT_ACCEPT = b"application/json, text/event-stream"
"""Sent to the SDK for a request without Accept."""
DRAIN_SECONDS = 10.0
"""Time for pending requests after the end of standard input."""


class McpEndpoint:
    """Serves the protocol over one `AskService`; loads the SDK on first use."""

    def __init__(self, service: AskService) -> None:
        self._service = service
        self._running: asyncio.Task[None] | None = None
        self._manager: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._closed = asyncio.Event()

    async def respond(self, request: Request) -> Response:
        """The response to one message; 202 without a body for a notification."""
        settings = self._service.retrieval.settings
        if parse_content_type(request.headers.get("content-type", ""))[0] != JSON:
            raise UnsupportedMediaType(f"Content-Type must be {JSON}", {"Accept": JSON})
        body = await read_body(request, settings.limits.body_bytes)
        rejection = _reject_malformed(body, request.headers.get(VERSION_HEADER))
        if rejection is not None:
            return rejection
        manager = await self._start()
        scope = _sdk_scope(request)
        return await cancel_on_disconnect(request.receive, _exchange(manager, scope, body))

    async def serve_stdio(self, *, cites_chunks: bool = True) -> None:
        """Serves one client on standard input and output until the input ends. `cites_chunks` as in `AskService`.

        Models are loaded after the first answer, that to `initialize`, which clients wait for at their start.
        """
        import anyio
        from mcp.server.stdio import stdio_server

        server = create_server(replace(self._service, cites_chunks=cites_chunks))
        to_server, server_input = anyio.create_memory_object_stream[Any](0)
        server_output, from_server = anyio.create_memory_object_stream[Any](0)
        pending = _PendingRequests()
        try:
            async with stdio_server() as (stdin, stdout), anyio.create_task_group() as readers:
                readers.start_soon(_forward_requests, stdin, to_server, stdout, pending)
                async with anyio.create_task_group() as writers:
                    writers.start_soon(_forward_responses, from_server, stdout, pending, self._preload)
                    async with server_input, server_output:
                        await server.run(server_input, server_output, server.create_initialization_options())
                readers.cancel_scope.cancel()
        except* (BrokenPipeError, anyio.BrokenResourceError):
            logger.info("the client has disconnected")

    def _preload(self) -> None:
        self._service.retrieval.preloads = True
        self._service.retrieval.warm()

    async def close(self) -> None:
        self._closed.set()
        if self._running is not None:
            with suppress(Exception):  # the request that started it has reported the error
                await self._running

    async def _start(self) -> StreamableHTTPSessionManager:
        """The session manager, started by the first request or after a failed start."""
        if self._manager is None or (self._running is not None and self._running.done()):
            self._manager = asyncio.get_running_loop().create_future()
            self._running = asyncio.create_task(self._run(self._manager))
        return await asyncio.shield(self._manager)

    async def _run(self, started: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """Runs the session manager until `close`: the task that enters its context must also leave it."""
        try:
            manager = await asyncio.to_thread(_create_session_manager, self._service)
            async with manager.run():
                started.set_result(manager)
                await self._closed.wait()
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)


def _create_session_manager(service: AskService) -> StreamableHTTPSessionManager:
    """Without security settings: Host and Origin were checked before every route."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    logging.getLogger("mcp").setLevel(logging.ERROR)  # its warnings quote requests
    return StreamableHTTPSessionManager(
        app=create_server(service),
        json_response=True,
        stateless=True,
        max_request_body_size=service.retrieval.settings.limits.body_bytes,
    )


# -- JSON-RPC messages -----------------------------------------------------------------------------------------


def _reject_malformed(body: bytes, version: str | None) -> Response | None:
    """A 400 response to a body that is not a JSON-RPC message, or of another version than the header field; None for
    one that the SDK can read."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _error_response(400, PARSE_ERROR, f"the body is not JSON: {error}")
    if type(message) is not dict:
        return _error_response(400, INVALID_REQUEST, "the body must be one JSON-RPC message: batches are not supported")
    fault = _find_fault(message) or _find_mismatch(message, version)
    if fault is None:
        return None
    code, text = fault
    message_id = message.get("id")
    return _error_response(400, code, text, message_id if type(message_id) in RESPONSE_ID_TYPES else None)


def _find_fault(message: Mapping[str, Any]) -> tuple[int, str] | None:
    """The JSON-RPC error code and a message for the first fault of an object; None for a valid JSON-RPC message.

    The SDK's own errors describe its models in many lines.
    """
    if message.get("jsonrpc") != "2.0":
        return INVALID_REQUEST, 'jsonrpc must be "2.0"'
    is_request = "method" in message
    if is_request and type(message["method"]) is not str:
        return INVALID_REQUEST, "method must be a string"
    if not is_request and type(message.get("result", message.get("error"))) is not dict:
        return INVALID_REQUEST, "method is missing: say what is asked"
    # The SDK treats a request with any other id as a notification, and its client would wait for the response.
    id_types = REQUEST_ID_TYPES if is_request else RESPONSE_ID_TYPES
    if "id" in message and type(message["id"]) not in id_types:
        return INVALID_REQUEST, "id must be a string or a whole number"
    if type(message.get("params")) not in {dict, type(None)}:
        return INVALID_PARAMS, "params must be an object"
    return None


def _find_mismatch(message: Mapping[str, Any], version: str | None) -> tuple[int, str] | None:
    """A fault where the header field and `_meta` name two versions. The SDK compares them in modern requests only, and
    takes the header's word for what is one."""
    meta = (message.get("params") or {}).get("_meta")
    named = meta.get(VERSION_MEMBER) if type(meta) is dict else None
    if version is None or type(named) is not str or named == version:
        return None
    return (
        HEADER_MISMATCH,
        f"{VERSION_HEADER} is {version[:64]!r}, params._meta has {named[:64]!r}: send one",
    )


def refuse_rpc(request: Request, error: AidreError) -> Response:
    """Renders every rejection on the route as an error of JSON-RPC. The body was not read, so it names no id."""
    failure = to_failure(error)
    note_error_code(request, failure.failure_code)
    code = SERVER_ERROR if failure.status in {401, 403, 429} else INVALID_REQUEST
    code = INTERNAL_ERROR if failure.status >= 500 else code
    rpc_error = {"code": code, "message": failure.message, "data": {"code": failure.failure_code}}
    content = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": rpc_error})
    return Response(content, failure.status, {"Cache-Control": "no-store", **failure.headers}, JSON)


def _error_response(status: int, code: int, text: str, message_id: str | int | None = None) -> Response:
    message = {"jsonrpc": "2.0", "id": message_id, "error": {"code": code, "message": text}}
    return Response(orjson.dumps(message), status, media_type=JSON)


# -- HTTP ------------------------------------------------------------------------------------------------------


def _sdk_scope(request: Request) -> Scope:
    """The ASGI scope for the SDK, which is stricter than HTTP: a default Accept and a plain media type."""
    headers = [item for item in request.scope["headers"] if item[0] not in {b"accept", b"content-type"}]
    accept = ", ".join(request.headers.getlist("accept")).encode("latin-1").strip()
    headers.append((b"content-type", JSON.encode()))  # checked before, in any spelling
    headers.append((b"accept", accept or DEFAULT_ACCEPT))
    return {**request.scope, "headers": headers}


async def _exchange(manager: StreamableHTTPSessionManager, scope: Scope, body: bytes) -> Response:
    """Passes one request to the SDK's ASGI application and returns its response."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        if unread:
            return unread.pop()
        never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        return await never

    async def send(message: Message) -> None:
        sent.append(message)

    await manager.handle_request(scope, receive, send)
    status: int = sent[0]["status"]
    content = b"".join(message.get("body", b"") for message in sent[1:])
    if status == 406:  # of some versions of the protocol the SDK says nothing more
        return _error_response(status, INVALID_REQUEST, "Accept must admit application/json")
    return Response(content, status, media_type=JSON if content else None)


# -- standard input and output ---------------------------------------------------------------------------------


class _PendingRequests:
    """The ids of requests that have no response yet."""

    def __init__(self) -> None:
        self._ids: set[Any] = set()
        self._changed = asyncio.Event()

    def add(self, message: Any) -> None:
        """Registers a request; a cancellation removes the request that it names."""
        if message.method == "notifications/cancelled":
            self.remove((message.params or {}).get("requestId"))
        elif hasattr(message, "id"):
            self._ids.add(message.id)

    def remove(self, request_id: Any) -> None:
        if type(request_id) in REQUEST_ID_TYPES:  # a cancellation may hold any JSON value
            self._ids.discard(request_id)
            self._changed.set()

    async def drain(self) -> None:
        """Waits until no request is pending, at most `DRAIN_SECONDS`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._ids:
                    self._changed.clear()
                    await self._changed.wait()


async def _forward_requests(stdin: Any, to_server: Any, stdout: Any, pending: _PendingRequests) -> None:
    """Forwards messages from standard input to the server.

    Answers those that the SDK cannot read, because it would not and the client would wait. At the end of the input it
    waits for pending requests, because the SDK would abort them.
    """
    async with to_server:
        async for message in stdin:
            rejection = _reject_unreadable(message) if isinstance(message, Exception) else None
            if rejection is not None:
                await stdout.send(rejection)
                continue
            if hasattr(getattr(message, "message", None), "method"):
                pending.add(message.message)
            await to_server.send(message)
        await pending.drain()


async def _forward_responses(
    from_server: Any, stdout: Any, pending: _PendingRequests, after_first: Callable[[], None]
) -> None:
    is_first = True
    async with stdout, from_server:
        async for message in from_server:
            await stdout.send(message)
            pending.remove(getattr(message.message, "id", None))
            if is_first:
                after_first()
                is_first = False


def _reject_unreadable(error: Exception) -> SessionMessage | None:
    """The error response to a line that is not a JSON-RPC message, or JSON but not Unicode; None if it has no id."""
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError
    from pydantic import ValidationError

    details = error.errors() if isinstance(error, ValidationError) else []
    # The SDK tries to read an object as a request and as a response: the object is the input of a "missing" error.
    objects = (detail["input"] for detail in details if detail["type"] == "missing" and type(detail["input"]) is dict)
    message = next(objects, None)
    if message is not None:
        code, text = _find_fault(message) or (INVALID_REQUEST, "this is not a message of JSON-RPC")
    else:
        code, text = PARSE_ERROR, "the message is not JSON in Unicode, or nested too deep"
        message = _parse_leniently(details[0]["input"]) if details else None
    message_id = message.get("id") if type(message) is dict else None
    if type(message_id) not in REQUEST_ID_TYPES:
        return None
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message_id, error=ErrorData(code=code, message=text)))


def _parse_leniently(line: Any) -> Any:
    """The JSON value of a line, also with lone surrogates, which the SDK rejects; None if there is none."""
    try:
        return json.loads(line) if type(line) is str else None
    except (ValueError, RecursionError):
        return None


# -- route -------------------------------------------------------------------------------------------------------


async def _post(request: Request) -> Response:
    endpoint: McpEndpoint = request.app.state.mcp
    guard: Guard = request.app.state.guard
    retrieval: Retrieval = request.app.state.retrieval
    caller = caller_of(request)
    if not caller.name and retrieval.settings.oauth is not None and not retrieval.collections.names(caller, "nlweb"):
        # Clients request a token only after a 401.
        raise Unauthorized("there is nothing here without a token", {"WWW-Authenticate": guard.challenge("/mcp")})
    return await endpoint.respond(request)


_answer = renders_errors_with(refuse_rpc)(_post)
routes = [
    Route("/mcp", _answer, methods=["POST"]),
    # For a user who typed a slash behind the address: a redirection would lose the body.
    Route("/mcp/", _answer, methods=["POST"], include_in_schema=False),
]
