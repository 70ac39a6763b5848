"""Faults, and the middleware that injects one: it gives a whole request to the fault, which asks the application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.support.intent_platform import signature_of
from tests.wrong_servers.faults.fixtures import FIXTURES

Protocol: TypeAlias = Literal["aidre", "nlweb", "intent", "intake"]
Level: TypeAlias = Literal["MUST", "SHOULD", "definition"]
"""`definition`: a table, a schema or a description of the text says so without a key word."""
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
SECRETS = {FIXTURES.intent_key_id: FIXTURES.intent_secret}
"""Of Agentic Intent, by key id."""


@dataclass(frozen=True, slots=True)
class Request:
    """`target` is the path as it was sent, without the query string."""

    method: str
    target: bytes
    headers: Headers
    body: bytes

    @property
    def path(self) -> str:
        return unquote(self.target.decode("ascii"))

    def is_for(self, method: str, path: str) -> bool:
        """Whether it asks this; a path that ends in a slash is that of all below it."""
        return self.method == method and (self.path == path or (path.endswith("/") and self.path.startswith(path)))

    def header(self, name: str) -> str | None:
        return _header(self.headers, name)

    @property
    def json(self) -> Any:
        """None where the body is not JSON."""
        return _parsed(self.body)

    def with_header(self, name: str, value: str) -> Request:
        return replace(self, headers=_with_header(self.headers, name, value))

    def with_body(self, body: bytes) -> Request:
        """With a signature that holds for it, where the request is signed and its own signature holds."""
        changed = replace(self.with_header("content-length", str(len(body))), body=body)
        if not self.is_signed():
            return changed
        return changed.with_header("x-aip-signature", changed._signature())

    def with_json(self, value: Any) -> Request:
        return self.with_body(_dumped(value))

    def is_signed(self) -> bool:
        """Whether it carries a signature of Agentic Intent that holds."""
        sent = self.header("x-aip-signature")
        return sent is not None and self.header("x-aip-key-id") in SECRETS and sent == self._signature()

    def resigned(self) -> Request:
        """Signed by the key that it names; by the first one where it names none."""
        known = self.header("x-aip-key-id")
        named = self.with_header("x-aip-key-id", known if known in SECRETS else FIXTURES.intent_key_id)
        return named.with_header("x-aip-signature", named._signature())

    def _signature(self) -> str:
        secret = SECRETS[self.header("x-aip-key-id") or ""]
        at, nonce = self.header("x-aip-timestamp") or "", self.header("x-aip-nonce") or ""
        return signature_of(secret, self.method, self.target.decode("ascii"), self.body, at, nonce)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response to a request."""

    request: Request
    status: int
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        return _header(self.headers, name)

    @property
    def json(self) -> Any:
        """None where the body is not JSON."""
        return _parsed(self.body)

    def with_header(self, name: str, value: str | None) -> Answer:
        return replace(self, headers=_with_header(self.headers, name, value))

    def with_status(self, status: int) -> Answer:
        return replace(self, status=status)._signed()

    def with_body(self, body: bytes) -> Answer:
        length = str(len(body))
        return replace(self, body=body).with_header("content-length", length)._signed()

    def with_json(self, value: Any) -> Answer:
        return self.with_body(_dumped(value))

    def signed_over(self, subject: bytes) -> Answer:
        """With a signature of Agentic Intent over `subject` in place of the body; unchanged where it has none."""
        key = self.header("x-aip-key-id")
        if key is None:
            return self
        at, nonce = self.header("x-aip-timestamp") or "", self.header("x-aip-nonce") or ""
        path = self.request.target.decode("ascii")
        signed = signature_of(SECRETS[key], str(self.status), path, subject, at, nonce)
        return self.with_header("x-aip-signature", signed)

    def _signed(self) -> Answer:
        return self.signed_over(self.body)


App: TypeAlias = Callable[[Request], Awaitable[Answer]]
Transformation: TypeAlias = Callable[[Request, App], Awaitable[Answer]]
"""What the faulty server answers to a request; it may ask the sound application any number of times."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One sentence of a text that a server breaks. `section` is where the sentence stands."""

    name: str
    protocol: Protocol
    level: Level
    sentence: str
    section: str
    transform: Transformation = field(repr=False)

    def described(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in ("name", "protocol", "level", "sentence", "section")}


class FaultMiddleware:
    """Puts one fault, or none, in front of an application."""

    def __init__(self, app: ASGIApp, fault: Fault | None) -> None:
        self._app = app
        self._fault = fault

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._fault is None:
            await self._app(scope, receive, send)
            return

        async def ask(request: Request) -> Answer:
            return await _answer(self._app, scope, request)

        headers = tuple((name.lower(), value) for name, value in scope["headers"])
        body = await _whole_body(receive)
        request = Request(scope["method"], scope["raw_path"].partition(b"?")[0], headers, body)
        answer = await self._fault.transform(request, ask)
        await send({"type": "http.response.start", "status": answer.status, "headers": list(answer.headers)})
        await send({"type": "http.response.body", "body": answer.body})


async def _whole_body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _answer(app: ASGIApp, scope: Scope, request: Request) -> Answer:
    """Asks the application; a stream is read to its end."""
    is_given, status, parts = False, 0, []
    headers: Headers = ()

    async def receive() -> Message:
        nonlocal is_given
        if is_given:  # the client stays: a disconnection would cancel what is still at work
            await asyncio.get_running_loop().create_future()
        is_given = True
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], tuple((name.lower(), value) for name, value in message["headers"])
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    changed = {"method": request.method, "path": request.path, "raw_path": request.target}
    asked = {**scope, **changed, "headers": list(request.headers), "state": dict(scope.get("state", {}))}
    await app(asked, receive, send)
    return Answer(request, status, headers, b"".join(parts))


def on_answer(method: str, path: str, change: Callable[[Answer], Answer], *statuses: int) -> Transformation:
    """Changes the answers to these requests, all or those of the given statuses."""

    async def transform(request: Request, app: App) -> Answer:
        answer = await app(request)
        concerned = request.is_for(method, path) and (not statuses or answer.status in statuses)
        return change(answer) if concerned else answer

    return transform


def on_json(method: str, path: str, change: Callable[[Any], Any], *statuses: int) -> Transformation:
    """Changes the JSON of these answers: `change` alters what it is given, or returns another value."""

    def changed(answer: Answer) -> Answer:
        value = answer.json
        if value is None:
            return answer
        before = _dumped(value)
        returned = change(value)
        after = value if returned is None else returned
        return answer if _dumped(after) == before else answer.with_json(after)

    return on_answer(method, path, changed, *statuses)


def on_request(method: str, path: str, change: Callable[[Request], Request]) -> Transformation:
    """Changes these requests before the application sees them."""

    async def transform(request: Request, app: App) -> Answer:
        return await app(change(request) if request.is_for(method, path) else request)

    return transform


def on_request_json(method: str, path: str, change: Callable[[Any], Any]) -> Transformation:
    """Changes the JSON object of these requests, as `on_json` does that of answers."""

    def changed(request: Request) -> Request:
        value = request.json
        if not isinstance(value, dict):
            return request
        before = _dumped(value)
        returned = change(value)
        after = value if returned is None else returned
        return request if _dumped(after) == before else request.with_json(after)

    return on_request(method, path, changed)


def in_turn(outer: Transformation, inner: Transformation) -> Transformation:
    """Both, where one fault shows in two places."""

    async def transform(request: Request, app: App) -> Answer:
        return await outer(request, lambda changed: inner(changed, app))

    return transform


def _header(headers: Headers, name: str) -> str | None:
    sought = name.lower().encode()
    return next((value.decode("latin-1") for key, value in headers if key == sought), None)


def _with_header(headers: Headers, name: str, value: str | None) -> Headers:
    """In the place of the header that it replaces; without it where the value is None."""
    sought = name.lower().encode()
    if value is None:
        return tuple(one for one in headers if one[0] != sought)
    new = (sought, value.encode("latin-1"))
    if all(key != sought for key, _ in headers):
        return (*headers, new)
    return tuple(new if key == sought else (key, old) for key, old in headers)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
