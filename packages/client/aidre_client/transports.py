"""Input and output of the client, over httpx: how steps are carried out, by threads and by an event loop.

The two transports stand side by side here, and are all that is written twice: the classes that use the one for threads
are `client.py`, from which those that use the other are generated (`asynchronous.py`).
"""

from __future__ import annotations

import asyncio
import math
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import httpx

from aidre_client.errors import Closed, InvalidInput, RequestFailed
from aidre_client.exchange import NoAnswer, Request, Response, Retry, Sleep, Steps
from aidre_client.session import EVENT_STREAM, ClientSession
from aidre_client.verification import Verifier, check_policy, origin_of

T = TypeVar("T")

MAX_AT_ONCE = 8
"""Operations of one call that are under way together."""
TIMEOUT_SECONDS = 30.0
ATTEMPTS, PATIENCE_SECONDS = 6, 60.0
MAX_ANSWER_BYTES = 256 << 20
"""Of an answer, before and after its Content-Encoding is removed."""
CODINGS = frozenset({"gzip", "x-gzip", "deflate"})


def open_session(
    url: str, key: str | None, *, verify: str, trust: str | None, attempts: int, patience: float, timeout: float
) -> ClientSession:
    """What both shells are made of. InvalidInput."""
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 < timeout < math.inf:
        raise InvalidInput("timeout must be a number of seconds above 0")
    retry = Retry(attempts, patience)
    verifier = Verifier(check_policy(verify), origin_of(url if trust is None else trust), retry)
    return ClientSession(url, key, retry, verifier)


def read_response(request: Request, response: httpx.Response, encoded: bytes) -> Response:
    """An answer as the operations read it. RequestFailed for a Content-Encoding that nobody asked for."""
    fields = tuple((name.lower(), value) for name, value in response.headers.multi_items())
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    body = encoded
    if encoded and coding not in {"identity", ""}:
        body = _decoded(request.url, coding, encoded)
    return Response(response.status_code, fields, body, sent_as(request, response), encoded)


def sent_as(request: Request, response: httpx.Response) -> Request:
    """The request with the URL as httpx sent it: the signature of an answer covers that form."""
    return Request(request.method, str(response.request.url), request.fields, request.body, request.stream)


def _decoded(url: str, coding: str, encoded: bytes) -> bytes:
    if coding in CODINGS:
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            body = decoder.decompress(encoded, MAX_ANSWER_BYTES)
        except zlib.error:
            body = None
        if body is not None and decoder.eof:
            return body
    raise RequestFailed(f"{url}: the answer has an encoding that cannot be read", url=url, error="invalid_answer")


def is_stream(request: Request, response: httpx.Response) -> bool:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return request.stream and response.status_code == 200 and kind == EVENT_STREAM


def to_no_answer(error: httpx.TransportError) -> NoAnswer:
    """Why there is no answer, and whether the request may have reached the server."""
    unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return NoAnswer(f"{type(error).__name__} {error}".strip(), sent=not unsent)


class Transport:
    """Carries out steps over an httpx client. Safe to use from several threads."""

    def __init__(self, http: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self._http = http
        self._sleep = sleep
        self.is_open = True

    def run(self, steps: Steps[T]) -> T:
        """The result of an operation; raises what it raises."""
        if not self.is_open:
            raise Closed("the client is closed: connect again by connect")
        try:
            step = next(steps)
            while True:
                if isinstance(step, Sleep):
                    self._sleep(step.seconds)
                    step = next(steps)
                else:
                    step = steps.send(self._send(step))
        except StopIteration as stop:
            result: T = stop.value
            return result

    def run_all(self, operations: Sequence[Steps[T]]) -> list[T]:
        """The results of operations, one after the other."""
        return [self.run(steps) for steps in operations]

    def each(self, begin: Callable[[], Steps[T | None]]) -> Iterator[T]:
        """The results of an operation that is begun again and again, until it has none."""
        while (found := self.run(begin())) is not None:
            yield found

    def _send(self, request: Request) -> Response | NoAnswer:
        try:
            built = self._http.build_request(
                request.method, request.url, headers=list(request.fields), content=request.body or None
            )
            response = self._http.send(built, stream=True)
            if is_stream(request, response):
                fields = tuple((name.lower(), value) for name, value in response.headers.multi_items())
                return Response(response.status_code, fields, b"", sent_as(request, response), stream=response)
            try:
                return read_response(request, response, b"".join(self._parts(request.url, response)))
            finally:
                response.close()
        except httpx.TransportError as error:
            return to_no_answer(error)
        except httpx.InvalidURL as error:
            raise RequestFailed(f"{request.url!r} is not a URL: {error}", url=request.url, error="no_answer") from error

    @staticmethod
    def _parts(url: str, response: httpx.Response) -> Iterator[bytes]:
        size = 0
        for part in response.iter_raw():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise RequestFailed(f"{url}: the answer is too long", url=url, error="invalid_answer")
            yield part

    def close(self) -> None:
        self.is_open = False
        self._http.close()


class AsyncTransport:
    """Carries out steps over an asynchronous httpx client."""

    def __init__(self, http: httpx.AsyncClient, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._http = http
        self._sleep = sleep
        self.is_open = True

    async def run(self, steps: Steps[T]) -> T:
        """The result of an operation; raises what it raises."""
        if not self.is_open:
            raise Closed("the client is closed: connect again by connect_async")
        try:
            step = next(steps)
            while True:
                if isinstance(step, Sleep):
                    await self._sleep(step.seconds)
                    step = next(steps)
                else:
                    step = steps.send(await self._send(step))
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def run_all(self, operations: Sequence[Steps[T]]) -> list[T]:
        """The results of operations, some of which are under way together."""
        places = asyncio.Semaphore(MAX_AT_ONCE)

        async def run_one(steps: Steps[T]) -> T:
            async with places:
                return await self.run(steps)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_one(steps)) for steps in operations]
        return [task.result() for task in tasks]

    async def each(self, begin: Callable[[], Steps[T | None]]) -> AsyncIterator[T]:
        """The results of an operation that is begun again and again, until it has none."""
        while (found := await self.run(begin())) is not None:
            yield found

    async def _send(self, request: Request) -> Response | NoAnswer:
        try:
            built = self._http.build_request(
                request.method, request.url, headers=list(request.fields), content=request.body or None
            )
            response = await self._http.send(built, stream=True)
            if is_stream(request, response):
                fields = tuple((name.lower(), value) for name, value in response.headers.multi_items())
                return Response(response.status_code, fields, b"", sent_as(request, response), stream=response)
            try:
                return read_response(request, response, await self._whole(request.url, response))
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            return to_no_answer(error)
        except httpx.InvalidURL as error:
            raise RequestFailed(f"{request.url!r} is not a URL: {error}", url=request.url, error="no_answer") from error

    @staticmethod
    async def _whole(url: str, response: httpx.Response) -> bytes:
        parts, size = list[bytes](), 0
        async for part in response.aiter_raw():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise RequestFailed(f"{url}: the answer is too long", url=url, error="invalid_answer")
            parts.append(part)
        return b"".join(parts)

    async def close(self) -> None:
        self.is_open = False
        await self._http.aclose()
