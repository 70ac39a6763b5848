"""The Model Context Protocol (Appendix A, C) by the official SDK: POST /mcp, and standard input and output.

The SDK takes most of a second to load, so the first request loads it, in a thread. Requests are independent of each
other (stateless), answers are JSON; nothing is ever sent unasked, so there is no stream to GET.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Scope

from aidre.api.access import ANONYMOUS, Caller, caller_of
from aidre.api.guard.guard import Guard
from aidre.api.guard.refusals import Unauthorized
from aidre.api.nlweb.answering import Service
from aidre.api.nlweb.envelope import refuse
from aidre.api.nlweb.stream import while_there
from aidre.api.nlweb.tools import Called, Tool, call, tools_for
from aidre.api.refusals import UnsupportedMediaType
from aidre.api.retrieve import Retrieval
from aidre.api.settings import Settings
from aidre.api.wire import JSON, content_type, read_body, speaks

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel.server import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.shared.message import SessionMessage
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

logger = logging.getLogger("aidre")

IDS = (str, int, type(None))
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32_700, -32_600, -32_602
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
BOTH = b"application/json, text/event-stream"
ENDING_SECONDS = 10.0
"""What requests may still take when standard input has ended."""
NO_CLIENT = {"name": "unknown", "version": "0"}
REFUSED: Mapping[int, str] = {
    403: "this Origin may not ask here: server.cors_origins must list it",
    406: "Accept must admit application/json",
    421: "this Host is not served here: use the address in server.base_url",
}
"""What the SDK says in no message of the protocol."""


class McpEndpoint:
    """The protocol over one service; holds nothing until it is first used."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._running: asyncio.Task[None] | None = None
        self._manager: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._ended = asyncio.Event()

    async def respond(self, request: Request) -> Response:
        """The answer to one message, which is none (202) where a notification came."""
        settings = self._service.settings
        if content_type(request.headers.get("content-type", ""))[0] != JSON:
            raise UnsupportedMediaType(f"Content-Type must be {JSON}", {"Accept": JSON})
        body = await read_body(request, settings.limits.body_bytes)
        refused = _malformed(body)
        if refused is not None:
            return refused
        manager = await self._started()
        scope = _scope(request, settings.server.cors_origins)
        return await while_there(request.receive, _exchange(manager, scope, body))

    async def over_stdio(self) -> None:
        """Speaks with the one client on standard input and output, until that closes."""
        import anyio
        from mcp.server.stdio import stdio_server

        server = _server(self._service)
        passing, passed = anyio.create_memory_object_stream[Any](0)
        answering, answers = anyio.create_memory_object_stream[Any](0)
        asked = _Asked()
        try:
            async with stdio_server() as (reading, writing), anyio.create_task_group() as coming:
                coming.start_soon(_pass_on, reading, passing, writing, asked)
                async with anyio.create_task_group() as going:
                    going.start_soon(_pass_back, answers, writing, asked)
                    async with answering:
                        await server.run(passed, answering, server.create_initialization_options())
                coming.cancel_scope.cancel()
        except* (BrokenPipeError, anyio.BrokenResourceError):
            logger.info("the client has gone")

    async def close(self) -> None:
        self._ended.set()
        if self._running is not None:
            with suppress(Exception):  # said already, to the request that began it
                await self._running

    async def _started(self) -> StreamableHTTPSessionManager:
        if self._manager is None or (self._running is not None and self._running.done()):
            self._manager = asyncio.get_running_loop().create_future()
            self._running = asyncio.create_task(self._run(self._manager))
        return await asyncio.shield(self._manager)

    async def _run(self, manager: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """Stands around all requests: what the manager opens must be closed by the same task."""
        try:
            made = await asyncio.to_thread(_session_manager, self._service)
            async with made.run():
                manager.set_result(made)
                await self._ended.wait()
        except Exception as error:
            if manager.done():
                raise
            manager.set_exception(error)


def _malformed(body: bytes) -> Response | None:
    """What is no message at all is refused before the SDK reads it."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _error(400, PARSE_ERROR, f"the body is not JSON: {error}")
    if type(message) is not dict:
        return _error(400, INVALID_REQUEST, "the body must be one JSON-RPC message: batches are not supported")
    fault = _fault(message)
    if fault is None:
        return None
    identifier = message.get("id")
    return _error(400, *fault, identifier if type(identifier) in IDS else None)


def _fault(message: Mapping[str, Any]) -> tuple[int, str] | None:
    """What is wrong with a message, in one line: the SDK would tell of its own models."""
    asks = "method" in message
    if message.get("jsonrpc") != "2.0":
        return INVALID_REQUEST, 'jsonrpc must be "2.0"'
    if asks and type(message["method"]) is not str:
        return INVALID_REQUEST, "method must be a string"
    if not asks and type(message.get("result", message.get("error"))) is not dict:
        return INVALID_REQUEST, "method is missing: say what is asked"
    # The SDK takes a request with any other id for a notification: its caller would wait.
    if "id" in message and type(message["id"]) not in (IDS[:2] if asks else IDS):
        return INVALID_REQUEST, "id must be a string or a whole number"
    if type(message.get("params")) not in {dict, type(None)}:
        return INVALID_PARAMS, "params must be an object"
    return None


def _error(status: int, code: int, message: str, identifier: str | int | None = None) -> Response:
    whole = {"jsonrpc": "2.0", "id": identifier, "error": {"code": code, "message": message}}
    return Response(orjson.dumps(whole), status, media_type=JSON)


def _scope(request: Request, origins: Sequence[str]) -> Scope:
    """The request as the SDK can take it: a caller that accepts anything by saying nothing, names in small letters.

    Where any origin may read the answers, none is refused: the Host keeps foreign names from being pointed here.
    """
    ours = {b"accept", b"content-type", b"host", b"origin"}
    headers = [(name, value) for name, value in request.scope["headers"] if name not in ours]
    headers.append((b"content-type", JSON.encode()))  # which it is, however it was written
    headers.append((b"accept", ", ".join(request.headers.getlist("accept")).encode("latin-1").strip() or BOTH))
    headers.append((b"host", request.headers.get("host", "").lower().encode("latin-1")))
    if "origin" in request.headers and "*" not in origins:
        headers.append((b"origin", request.headers["origin"].encode("latin-1")))
    return {**request.scope, "headers": headers}


async def _exchange(manager: StreamableHTTPSessionManager, scope: Scope, body: bytes) -> Response:
    coming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        if coming:
            return coming.pop()
        never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        return await never

    async def send(message: Message) -> None:
        sent.append(message)

    await manager.handle_request(scope, receive, send)
    status: int = sent[0]["status"]
    content = b"".join(message.get("body", b"") for message in sent[1:])
    if status >= 400 and not content.startswith(b"{"):
        return _error(status, INVALID_REQUEST, REFUSED.get(status) or content.decode())
    return Response(content, status, media_type=JSON if content else None)


class _Asked:
    """The requests that have not been answered, by id."""

    def __init__(self) -> None:
        self._ids: set[Any] = set()
        self._changed = asyncio.Event()

    def ask(self, message: Any) -> None:
        if message.method == "notifications/cancelled":
            self.answer((message.params or {}).get("requestId"))
        elif hasattr(message, "id"):
            self._ids.add(message.id)

    def answer(self, identifier: Any) -> None:
        if type(identifier) in {str, int}:  # of a cancellation it may be anything
            self._ids.discard(identifier)
            self._changed.set()

    async def none(self) -> None:
        """Until all are answered, or it takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_SECONDS):
                while self._ids:
                    self._changed.clear()
                    await self._changed.wait()


async def _pass_on(reading: Any, passing: Any, writing: Any, asked: _Asked) -> None:
    """Messages from standard input to the server. The SDK says nothing to one it cannot read: its caller would wait.
    Where the input ends it would break off what was asked before."""
    async with passing:
        async for message in reading:
            refused = _unreadable(message) if isinstance(message, Exception) else None
            if refused is not None:
                await writing.send(refused)
                continue
            if hasattr(getattr(message, "message", None), "method"):
                asked.ask(message.message)
            await passing.send(message)
        await asked.none()


async def _pass_back(answers: Any, writing: Any, asked: _Asked) -> None:
    async with writing:
        async for message in answers:
            await writing.send(message)
            asked.answer(getattr(message.message, "id", None))


def _unreadable(error: Exception) -> SessionMessage | None:
    """The refusal of a request that is JSON but not Unicode, or no request; None where nobody can be told."""
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError
    from pydantic import ValidationError

    found = error.errors() if isinstance(error, ValidationError) else []
    # What was read lies in the complaint that it has no result: it is looked at as a request and as an answer.
    message = next((one["input"] for one in found if one["type"] == "missing" and type(one["input"]) is dict), None)
    if message is not None:
        code, said = _fault(message) or (INVALID_REQUEST, "this is no message of JSON-RPC")
    else:
        code, said = PARSE_ERROR, "the message is not JSON in Unicode, or nested too deep"
        line = found[0]["input"] if found else None
        try:
            message = json.loads(line) if type(line) is str else None
        except (ValueError, RecursionError):
            return None
    identifier = message.get("id") if type(message) is dict else None
    if type(identifier) not in {int, str}:
        return None
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=identifier, error=ErrorData(code=code, message=said)))


def _session_manager(service: Service) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    logging.getLogger("mcp").setLevel(logging.ERROR)  # its warnings repeat what callers sent
    return StreamableHTTPSessionManager(
        app=_server(service),
        json_response=True,
        stateless=True,
        security_settings=_security(service.settings),
        max_request_body_size=service.settings.limits.body_bytes,
    )


def _security(settings: Settings) -> TransportSecuritySettings:
    from mcp.server.transport_security import TransportSecuritySettings

    base = urlsplit(str(settings.server.base_url))
    own = base.netloc.lower()
    default_port = f"{own}:{443 if base.scheme == 'https' else 80}" if base.port is None else own
    return TransportSecuritySettings(
        allowed_hosts=[own, default_port, *LOOPBACK, *(f"{host}:*" for host in LOOPBACK)],
        allowed_origins=[
            f"{base.scheme}://{own}",
            *(f"http://{host}{port}" for host in LOOPBACK for port in ("", ":*")),
            *settings.server.cors_origins,
        ],
    )


def _server(service: Service) -> Server[Any]:
    from mcp.server.lowlevel.server import Server
    from mcp.shared.exceptions import MCPError
    from mcp_types import ListToolsResult

    async def on_list_tools(
        context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[_described(tool, service) for tool in tools_for(_caller(context), service)])

    async def on_call_tool(context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        called = await call(params.name, params.arguments, _caller(context), service)
        if called is None:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {params.name[:64]!r}")
        return _result(called)

    organization = service.settings.server.organization
    server: Server[Any] = Server(
        "aidre",
        version=version("aidre"),
        title=organization or None,
        instructions="Ask in natural language with the tool ask; search and fetch give plain documents.",
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )
    server.middleware[:] = [_fill_in]  # in place of a tracer that nothing here listens to
    return server


async def _fill_in(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Clients in use leave out members of `initialize` that the SDK requires; it reads them from this same object."""
    if ctx.method == "initialize" and type(ctx.params) is dict:
        for name, value in (("capabilities", {}), ("clientInfo", NO_CLIENT)):
            if ctx.params.get(name) is None:
                ctx.params[name] = value
    return await call_next(ctx)


def _caller(context: ServerRequestContext[Any, Any]) -> Caller:
    """Who sent the request; on standard input it is anyone's."""
    return ANONYMOUS if context.request is None else caller_of(context.request)


def _described(tool: Tool, service: Service) -> Any:
    from mcp_types import Tool as McpTool
    from mcp_types import ToolAnnotations

    template = service.settings.nlweb.template
    shows = tool.name == "ask" and template is not None
    return McpTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.schema),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
        _meta={
            "openai/outputTemplate": template.uri,
            "openai/widgetAccessible": template.widget_accessible,
        }
        if shows and template is not None
        else None,
    )


def _result(called: Called) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    return CallToolResult(
        content=[TextContent(type="text", text=text) for text in called.texts],
        structured_content=dict(called.structured),
        is_error=called.is_error,
        _meta=None if called.meta is None else dict(called.meta),
    )


async def _post(request: Request) -> Response:
    endpoint: McpEndpoint = request.app.state.mcp
    guard: Guard = request.app.state.guard
    retrieval: Retrieval = request.app.state.retrieval
    caller = caller_of(request)
    if not caller.name and retrieval.settings.oauth is not None and not retrieval.names(caller, "nlweb"):
        # Clients begin to ask for a token only when they are told that they need one.
        raise Unauthorized("there is nothing here without a token", {"WWW-Authenticate": guard.challenge("/mcp")})
    return await endpoint.respond(request)


routes = [Route("/mcp", speaks(refuse)(_post), methods=["POST"])]
